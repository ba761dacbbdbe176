"""What is wrong with pieces, rows and compressed gradients of ``lab13_parameter_server``, in words.

What came is not trusted: it may be any plain data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.drivers.lab13_parameter_server import start_of
from autograder.spec import Inputs
from autograder.specs._lab13_parameter_server_oracles import EPS
from autograder.specs._lab13_parameter_server_words import near, numbers
from autograder.specs._ranks import not_returned

# --- placement ------------------------------------------------------------------------------------


def placement(inputs: Inputs, got: Any, want: Any) -> list[str]:
    if got == want:
        return []
    sizes, servers, split = inputs["sizes"], inputs["servers"], inputs["split"]
    for name, server, start, stop in got:
        if name not in sizes:
            return [f"There is no parameter {name!r}; pieces are given by the names in `sizes`."]
        if not 0 <= server < servers:
            return [f"A piece of {name!r} is on server {server}; there are servers 0 to {servers - 1}."]
        if not 0 <= start <= stop <= sizes[name]:
            return [f"A piece of {name!r} goes from {start} to {stop}; it has {sizes[name]} numbers."]
    for name, size in sizes.items():
        mine, right = ([piece[1:] for piece in pieces if piece[0] == name] for pieces in (got, want))
        if mine == right:
            continue
        if not mine:
            return [f"{name!r} is on no server."]
        if sum(stop - start for _, start, stop in mine) != size or len(mine) != len(right):
            if size <= split and len(mine) > 1:
                return [f"{name!r} has {size} numbers, not more than split = {split}, and stays in one piece."]
            if size > split and len(mine) == 1 and servers > 1:
                return [
                    f"{name!r} has {size} numbers, more than split = {split}: it is cut over all {servers} servers."
                ]
            return [
                f"{name!r} has {size} numbers on {servers} servers; expected the pieces (server, start, stop) "
                f"{_pieces(right)}, and place gave {_pieces(mine)}. Pieces differ by one number at most, and empty "
                "ones "
                "are left out."
            ]
        if len(mine) == 1:
            return [
                f"{name!r} is on server {mine[0][0]}; expected {right[0][0]}, which is crc32 of the name modulo "
                f"{servers}. "
                "Every process has to come to the same answer; Python's hash() of a string differs from run to "
                "run, and "
                "the place in the list moves when a parameter is added."
            ]
        return [
            f"{name!r} is cut into the pieces (server, start, stop) {_pieces(mine)}; expected {_pieces(right)}: "
            "the first "
            "pieces are the larger ones, and piece i is on server i."
        ]
    return ["Some pieces come more than once."]


def _pieces(pieces: Any) -> str:
    return ", ".join(str(tuple(piece)) for piece in pieces[:6])


# --- sparse ---------------------------------------------------------------------------------------


def sparse(inputs: Inputs, got: Any, want: Any) -> list[str]:
    ranks = got["ranks"]
    if stopped := not_returned(ranks, len(inputs["scripts"]) + 1):
        return stopped
    start = start_of(inputs["seed"], inputs["dim"])
    touched: set[int] = set()
    for trainer, script in enumerate(inputs["scripts"]):
        pulled, rights = ranks[trainer + 1]["value"], want["pulled"][trainer]
        if len(pulled) != len(rights):
            return [f"Trainer {trainer} pulled {len(pulled)} times; expected {len(rights)}."]
        times = iter(zip(pulled, rights, strict=True))
        before: list[dict[str, Any]] = []
        for one in script:
            if one["do"] == "push":
                before.append(one)
                continue
            found, right = next(times)
            for at, row in enumerate(one["ids"]):
                if not near(found[at], right[at]):
                    return [
                        f"Trainer {trainer}, row {row}: " + _row(inputs, int(row), found[at], right[at], before, start)
                    ]
        touched |= {int(row) for one in script for row in one["ids"]}
    server = ranks[0]["value"]
    known = [int(row) for row in server["known"]]
    if extra := sorted(set(known) - touched):
        return [f"Row {extra[0]} exists, though nobody touched it: a row is made when it is first pulled or pushed."]
    if lacking := sorted(touched - set(known)):
        return [f"Row {lacking[0]} was touched, and known() does not have it."]
    if len(known) != len(set(known)):
        return ["known() names a row twice."]
    for at, row in enumerate(known):
        if not near(server["rows"][at], want["rows"][at]):
            pushes = [one for script in inputs["scripts"] for one in script if one["do"] == "push"]
            return [f"At the end, row {row}: " + _row(inputs, row, server["rows"][at], want["rows"][at], pushes, start)]
    return []


def _row(
    inputs: Inputs, row: int, found: np.ndarray, right: np.ndarray, pushes: list[dict[str, Any]], start: Any
) -> str:
    """What was done in place of Adagrad on the summed gradients of a row."""
    given = [
        [gradient for one, gradient in zip(push["ids"], push["gradients"], strict=True) if one == row]
        for push in pushes
    ]
    given = [gradients for gradients in given if gradients]
    if not given:
        return (
            f"it was not pushed to, and is {numbers(found)}; expected start({row}), {numbers(start(row))}, whoever "
            "asks "
            "first and in whatever order rows are made."
        )
    own = {
        "of several gradients for one row in a push, only the last was used; they are summed": _adagrad(
            inputs, start(row), [gradients[-1] for gradients in given]
        ),
        "of several gradients for one row in a push, only the first was used; they are summed": _adagrad(
            inputs, start(row), [gradients[0] for gradients in given]
        ),
        "several gradients for one row in a push were applied one after the other; they are summed first, and Adagrad "
        "makes one step": _adagrad(inputs, start(row), [gradient for gradients in given for gradient in gradients]),
        "the gradients of a row in a push were averaged; they are summed": _adagrad(
            inputs, start(row), [np.mean(gradients, axis=0) for gradients in given]
        ),
        "this is plain SGD; Adagrad divides by the root of the summed squares": start(row)
        - inputs["lr"] * np.sum([np.sum(gradients, axis=0) for gradients in given], axis=0),
        "the squares were not kept from push to push; each row has its sum": start(row)
        - inputs["lr"] * sum(np.sign(np.sum(gradients, axis=0)) for gradients in given),
        "the row was pushed to, and did not move": start(row),
        "it did not start from start(id), but from zeros": right - start(row),
        **{
            f"it began as start({other}), not as start({row}): a row starts by its id, whoever asks first and in "
            "whatever order rows are made": right - start(row) + start(other)
            for other in range(8)
            if other != row
        },
    }
    for words, other in own.items():
        if near(found, other):
            return f"{words}. It is {numbers(found)}; expected {numbers(right)}."
    return f"it is {numbers(found)}; expected {numbers(right)}."


def _adagrad(inputs: Inputs, row: np.ndarray, gradients: list[np.ndarray]) -> np.ndarray:
    squares, row = np.zeros_like(row), np.array(row)
    for gradient in gradients:
        squares = squares + gradient**2
        row = row - inputs["lr"] * gradient / (np.sqrt(squares) + EPS)
    return row


# --- compress -------------------------------------------------------------------------------------


def compress(inputs: Inputs, got: Any, want: Any) -> list[str]:
    gradients, k = inputs["gradients"], inputs["k"]
    if len(got) != len(gradients):
        return [f"{len(got)} gradients were encoded; expected {len(gradients)}."]
    rest = np.zeros_like(gradients[0])
    for number, (one, right) in enumerate(zip(got, want, strict=True)):
        rest = rest + gradients[number]
        indices, values = one["indices"], one["values"]
        lead = f"Gradient {number} of {len(gradients)}"
        if len(indices) != len(right["indices"]):
            return [
                f"{lead}: {len(indices)} entries were sent; expected {len(right['indices'])}, k = {k} or all there are."
            ]
        if len(set(indices.tolist())) != len(indices):
            return [f"{lead}: an index is sent twice."]
        if "given" in one and not np.array_equal(one["given"], gradients[number]):
            return [f"{lead}: the gradient that was given has been changed; work on a copy."]
        if indices.tolist() != right["indices"].tolist():
            return [f"{lead}: entries {indices.tolist()} were sent; expected {right['indices'].tolist()}. " + _chosen(
                gradients, number, rest, indices, k)]  # fmt: skip
        if values.dtype != gradients[0].dtype:
            return [f"{lead}: the values are {values.dtype}; expected {gradients[0].dtype}, as the gradient is."]
        if not near(values, right["values"]):
            return [
                f"{lead}: the values sent are {numbers(values)}; expected {numbers(right['values'])}: the gradient and "
                "what was left over from before, together, with their signs."
            ]
        rest = rest.copy()
        rest[right["indices"]] = 0
    return []


def _chosen(gradients: list[np.ndarray], number: int, rest: np.ndarray, indices: np.ndarray, k: int) -> str:
    def largest(values: np.ndarray) -> list[int]:
        return sorted(np.argsort(-values, kind="stable")[:k].tolist())

    chosen, found = indices.tolist(), []
    if chosen == largest(rest):
        found.append("These are the largest; what counts is the magnitude, and -3 is larger than 2.")
    if chosen == sorted(np.argsort(np.abs(rest), kind="stable")[:k].tolist()):
        found.append("These are the smallest.")
    if number and chosen == largest(np.abs(gradients[number])):
        found.append(
            "These are the largest of the gradient alone: what was not sent before stays, and is added to it before "
            "the largest are chosen."
        )
    if number and chosen == largest(np.abs(np.sum(gradients[: number + 1], axis=0))):
        found.append("What was sent before was sent again: it has to be taken out of what is kept.")
    # One case may fit several mistakes, and which of them it was can't be told from it.
    together = "They are the largest in magnitude of the gradient and what was left over from before, together."
    return " Or: ".join(found) or together
