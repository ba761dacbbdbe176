"""What is wrong with an answer of ``lab01_tensor``, in words.

What came is not trusted: it may be any plain data. Where the answer is wrong, the usual mistakes are played through on
the same input; if one of them gives what came, it is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from autograder.compare import compare
from autograder.spec import Inputs
from autograder.specs._lab01_tensor_cases import row_major
from autograder.specs._lab01_tensor_oracles import entries, positions

# --- layout ---------------------------------------------------------------------------------------


def layout(inputs: Inputs, got: Any, want: Any) -> list[str]:
    if not isinstance(got, dict) or got.keys() != want.keys():
        return ["strides_of and locate did not both give an answer."]
    wrong = []
    shape = inputs["shape"]
    if got["strides"] != want["strides"]:
        wrong.append(
            next(
                (words for words, strides in _strides_played(shape) if strides == got["strides"]),
                f"The strides of {tuple(shape)} are {tuple(want['strides'])}, not {_shown(got['strides'])}.",
            )
        )
    if got["place"] != want["place"]:
        wrong.append(
            next(
                (words for words, place in _places_played(inputs) if place == got["place"]),
                f"The entry {tuple(inputs['index'])} lies at {want['place']}, not at {got['place']!r}.",
            )
        )
    return wrong


def _strides_played(shape: list[int]) -> Iterator[tuple[str, list[int]]]:
    sizes = [max(size, 1) for size in shape]
    yield (
        "These are the strides of column-major order, in which the first axis is the fastest. In row-major order the "
        "last one is: its stride is 1.",
        [math.prod(sizes[:axis]) for axis in range(len(shape))],
    )
    yield (
        "A stride is the product of the sizes after its axis; here its own size is in it too.",
        [math.prod(sizes[axis:]) for axis in range(len(shape))],
    )
    yield "The strides are in reverse: the last axis has stride 1, the first the largest.", row_major(shape)[::-1]
    for size in (4, 8):
        yield f"These strides count bytes of {size} each; count entries.", [size * s for s in row_major(shape)]
    yield (
        "An axis of size 0 counts as 1 here, so that no stride is 0: a stride of 0 means that all entries along an "
        "axis are one.",
        [math.prod(shape[axis + 1 :]) for axis in range(len(shape))],
    )
    yield "A shape of several axes has one stride for each; the last one is missing.", row_major(shape)[:-1]
    yield "All strides are 1: a step along an axis then lands on the next entry of the last axis.", [1] * len(shape)


def _places_played(inputs: Inputs) -> Iterator[tuple[str, int]]:
    index, strides, offset = inputs["index"], inputs["strides"], inputs["offset"]
    steps = sum(i * s for i, s in zip(index, strides, strict=True))
    yield "The offset is left out: the first entry need not be the first of the storage.", steps
    yield "The offset is taken away where it should be added.", steps - offset
    yield (
        "The strides are met in reverse order with the index.",
        offset + sum(i * s for i, s in zip(index, strides[::-1], strict=True)),
    )
    yield (
        "The sizes of the strides are used without their signs.",
        offset + sum(i * abs(s) for i, s in zip(index, strides, strict=True)),
    )
    yield "The strides are ignored: the index is added up as it is.", offset + sum(index)
    yield (
        "The place is computed from the row-major strides of the shape; the strides that were given say where entries "
        "lie.",
        offset + sum(i * s for i, s in zip(index, row_major(inputs["shape"]), strict=True)),
    )


# --- broadcast ------------------------------------------------------------------------------------


def broadcast(inputs: Inputs, got: Any, want: Any) -> list[str]:
    shapes = inputs["shapes"]
    if got == want:
        return []
    if refused(want):
        return [
            f"{_together(shapes)} do not broadcast: an axis has two sizes, and neither is 1. Raise ValueError; "
            f"{_shown(_shape(got))} came back."
        ]
    if refused(got):
        return [f"ValueError was raised. {_together(shapes)} do broadcast, to {tuple(want['shape'])}."]
    for words, shape in _broadcasts_played(shapes):
        if shape == _shape(got):
            return [words]
    return [f"{_together(shapes)} broadcast to {tuple(want['shape'])}, not to {_shown(_shape(got))}."]


def _broadcasts_played(shapes: list[list[int]]) -> Iterator[tuple[str, list[int]]]:
    ndim = max(map(len, shapes))
    right = [[1] * (ndim - len(shape)) + shape for shape in shapes]
    left = [shape + [1] * (ndim - len(shape)) for shape in shapes]
    yield (
        "An axis of size 1 is stretched to the other size, also where that is 0: the largest size is not the answer.",
        [max(sizes) for sizes in zip(*right, strict=True)],
    )
    yield (
        "The shapes are aligned at the left. Axes are aligned at the right, and new ones are added in front.",
        [max(sizes) for sizes in zip(*left, strict=True)],
    )
    if len(shapes) > 2:
        yield (
            "Only the first two shapes are looked at; there may be any number.",
            [max(sizes) for sizes in zip(*right[:2], strict=True)],
        )
    shortest = min(map(len, shapes))
    if shortest < ndim:
        yield (
            "Axes that only the longer shapes have are missing.",
            [max(sizes) for sizes in zip(*right, strict=True)][ndim - shortest :],
        )
    yield "This is the first shape as it came; the others may stretch it.", list(shapes[0])
    yield "This is the last shape as it came; the others may stretch it.", list(shapes[-1])


# --- views ----------------------------------------------------------------------------------------


def view(inputs: Inputs, got: Any, want: Any) -> list[str]:
    of, (kind, *arguments) = inputs["of"], inputs["do"]
    if not isinstance(got, dict):
        return [f"{kind} did not give a View."]
    if refused(want):
        return (
            []
            if refused(got)
            else [
                f"A view of shape {tuple(of['shape'])} can't be stretched to {tuple(arguments[0])}: only axes of size "
                "1 stretch, and new ones come in front. Raise ValueError."
            ]
        )
    if refused(got):
        return [f"{kind} raised ValueError, but there is an answer, of shape {tuple(want['shape'])}."]
    wrong = []
    if got.get("changed"):
        wrong.append(f"{kind} changed the view that it was given, or its storage. Make a new View.")
    if not got.get("shares"):
        wrong.append(f"The result of {kind} is on another storage. A view is on the storage of what it is a view of.")
    if got.get("shape") != want["shape"]:
        wrong.append(_wrong_shape(of, kind, arguments, got.get("shape"), want["shape"]))
    elif not _same(got.get("reads"), want["reads"]):
        wrong.append(
            next(
                (words for words, reads in _views_played(of, kind, arguments) if _same(got.get("reads"), reads)),
                _first_difference(got.get("reads"), want["reads"], of),
            )
        )
    return wrong


def _wrong_shape(of: dict[str, Any], kind: str, arguments: list[Any], got: Any, want: list[int]) -> str:
    shape = of["shape"]
    if kind == "transpose" and got == [shape[i] for i in np.argsort(arguments[0])]:
        return (
            "The axes are moved the other way round: axis k of the result is axis axes[k] of the view, not the reverse."
        )
    if kind == "transpose" and got == shape[::-1]:
        return "The axes are reversed, whatever `axes` says."
    if kind == "take_slice":
        axis, start, stop, step = arguments
        if got == shape:
            return "The shape is that of the whole view: a slice has as many entries as range(...) of its bounds."
        place = len(range(*slice(start, stop, step).indices(shape[axis])))
        if isinstance(got, list) and len(got) == len(shape) and got[axis] in (place - 1, place + 1):
            return (
                f"The slice {_slice(arguments)} of an axis of size {shape[axis]} has {place} entries, not {got[axis]}: "
                "the number of steps is rounded up, and is 0 where none is left."
            )
        if isinstance(got, list) and any(size < 0 for size in got if isinstance(size, int)):
            return "A size is negative: a slice in which nothing is left has size 0."
    return f"The result of {kind} has shape {_shown(got)}; expected {tuple(want)}."


def _views_played(of: dict[str, Any], kind: str, arguments: list[Any]) -> Iterator[tuple[str, np.ndarray]]:
    shape, strides, offset = of["shape"], of["strides"], of["offset"]

    def reads(shape: list[int], strides: list[int], offset: int = offset) -> np.ndarray:
        found = np.full(shape, offset, np.int64)
        for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
            found += (np.arange(size) * stride).reshape((size,) + (1,) * (len(shape) - axis - 1))
        return found

    if kind == "transpose":
        axes = arguments[0]
        new = [shape[a] for a in axes]
        yield "The shape is transposed, but the strides are as they were.", reads(new, strides)
        yield (
            "The strides are row-major again: the entries stay in their order, and are only cut up in another way.",
            reads(new, row_major(new)),
        )
        yield (
            "The strides are moved the other way round than the shape.",
            reads(new, [strides[i] for i in np.argsort(axes)]),
        )
        yield "The offset is lost.", reads(new, [strides[a] for a in axes], 0)
    if kind == "broadcast_to":
        new = arguments[0]
        added = len(new) - len(shape)
        right = [0 if a < added or (shape[a - added] == 1 != new[a]) else strides[a - added] for a in range(len(new))]
        yield "The offset is lost.", reads(new, right, 0)
        yield (
            "A stretched axis keeps its stride; it is 0: every step along it stays where it is.",
            reads(new, [0] * added + strides),
        )
        yield "A new axis has stride 0 too.", reads(new, [1] * added + right[added:])
        yield "Every stride is 0, also of axes that are not stretched.", reads(new, [0] * len(new))
        yield "The strides are row-major, so that no two entries are at one place.", reads(new, row_major(new))
    if kind == "take_slice":
        axis, start, stop, step = arguments
        first, last, step = slice(start, stop, step).indices(shape[axis])
        size = len(range(first, last, step))
        new = [*shape[:axis], size, *shape[axis + 1 :]]
        stepped = [*strides[:axis], strides[axis] * step, *strides[axis + 1 :]]
        moved = offset + first * strides[axis]
        yield (
            "The view starts where the whole axis starts: the offset moves by start times the stride of the axis.",
            reads(new, stepped),
        )
        yield (
            "The offset moves by start, not by start times the stride of the axis.",
            reads(new, stepped, offset + first),
        )
        yield (
            "The step is missing from the stride: every entry is read, not every step-th.",
            reads(new, strides, moved),
        )
        yield (
            "The stride of the axis is the step alone; it is the step times the stride that the axis had.",
            reads(new, [*strides[:axis], step, *strides[axis + 1 :]], moved),
        )
        yield (
            "The offset of the view that was sliced is lost.",
            reads(new, stepped, first * strides[axis]),
        )
        yield (
            "With a negative step the view starts at its last entry, and its stride is negative.",
            reads(new, [*strides[:axis], strides[axis] * abs(step), *strides[axis + 1 :]], moved),
        )


def _first_difference(got: Any, want: np.ndarray, of: dict[str, Any]) -> str:
    if not isinstance(got, np.ndarray) or got.shape != want.shape:
        return "The places that the view reads are not those expected."
    index = tuple(int(i) for i in np.argwhere(got != want)[0])
    return f"Entry {index} is read from place {got[index]} of the storage; it lies at {want[index]}."


# --- reshape --------------------------------------------------------------------------------------


def reshape(inputs: Inputs, got: Any, want: Any) -> list[str]:
    of, shape = inputs["of"], inputs["shape"]
    if not isinstance(got, dict):
        return ["reshape did not give a View."]
    wrong = []
    if got.get("contiguous") is not want["contiguous"]:
        said = "is" if want["contiguous"] else "is not"
        why = ""
        if not math.prod(of["shape"]):
            why = " A view of nothing is."
        elif 1 in of["shape"] and want["contiguous"]:
            why = " The stride of an axis of size 1 is never used, and does not count."
        wrong.append(f"A view of shape {tuple(of['shape'])} and strides {tuple(of['strides'])} {said} contiguous.{why}")
    if refused(want):
        if not refused(got):
            copied = "" if got.get("shares") else " A copy is not what was asked for."
            wrong.append(
                f"No strides read the entries of shape {tuple(of['shape'])} and strides {tuple(of['strides'])} as "
                f"{tuple(shape)}: raise ValueError.{copied}"
            )
        return wrong
    if refused(got):
        return [
            *wrong,
            f"ValueError was raised, but strides exist that read shape {tuple(of['shape'])} and strides "
            f"{tuple(of['strides'])} as {tuple(shape)}. {_why_possible(of)}",
        ]
    if not got.get("shares"):
        wrong.append("The result of reshape is on another storage; no entry needs to be copied here.")
    if got.get("shape") != want["shape"]:
        wrong.append(f"The result of reshape has shape {_shown(got.get('shape'))}; expected {tuple(want['shape'])}.")
    elif not _same(got.get("reads"), want["reads"]):
        in_order = np.arange(want["reads"].size).reshape(want["reads"].shape)
        if _same(got.get("reads"), want["reads"] - of["offset"]):
            wrong.append("The offset is lost.")
        elif _same(got.get("reads"), in_order + of["offset"]):
            wrong.append(
                "The new strides are row-major, as if the view were contiguous; its strides are "
                f"{tuple(of['strides'])}."
            )
        else:
            wrong.append(_first_difference(got.get("reads"), want["reads"], of))
    return wrong


def _why_possible(of: dict[str, Any]) -> str:
    if not math.prod(of["shape"]):
        return "A view of nothing can have any shape of nothing."
    if 1 in of["shape"]:
        return "Axes of size 1 can be left out of account."
    return (
        "A view need not be contiguous for that: it is enough that the axes that are joined lie evenly, the stride of "
        "each being that of the next times its size. An axis that is split is always possible."
    )


# --- elementwise ----------------------------------------------------------------------------------


def elementwise(inputs: Inputs, got: Any, want: Any) -> list[str]:
    shapes = [inputs["a"]["shape"], inputs["b"]["shape"]]
    if not isinstance(got, dict):
        return ["elementwise did not give a View."]
    if refused(want):
        return [] if refused(got) else [f"{_together(shapes)} do not broadcast: raise ValueError."]
    if refused(got):
        return [f"ValueError was raised. {_together(shapes)} do broadcast, to {tuple(want['shape'])}."]
    wrong = []
    if got.get("shape") != want["shape"]:
        return [f"{_together(shapes)} give a result of shape {tuple(want['shape'])}, not {_shown(got.get('shape'))}."]
    if got.get("shares"):
        wrong.append("The result is on the storage of an input, which is changed by it. Make a storage of its own.")
    mismatches = compare(got.get("values"), want["values"])
    if mismatches:
        wrong.append(
            next((words for words, values in _results_played(inputs) if _close(got.get("values"), values)), "")
            or mismatches[0].message
        )
    if not got.get("row_major"):
        wrong.append(
            "The result is not row-major on a storage of just its own size: a new tensor has offset 0, the strides of "
            "its shape, and no more memory than entries."
        )
    return wrong


def _results_played(inputs: Inputs) -> Iterator[tuple[str, np.ndarray]]:
    from autograder.drivers.lab01_tensor import FUNCTIONS

    f, a, b, every = FUNCTIONS[inputs["f"]], inputs["a"], inputs["b"], inputs["every"]
    if every != 1 or 0 in (*a["shape"], *b["shape"]):
        return
    shape = np.broadcast_shapes(tuple(a["shape"]), tuple(b["shape"]))
    full = [np.broadcast_to(entries(one), shape) for one in (a, b)]
    yield "The two inputs are swapped: the first comes first.", f(full[1], full[0]).reshape(-1)

    def in_order(of: dict[str, Any]) -> np.ndarray:
        count = math.prod(of["shape"])
        return np.broadcast_to(of["storage"][:count].reshape(of["shape"]), shape)

    def without_offset(of: dict[str, Any]) -> np.ndarray:
        places = np.clip(positions(of) - of["offset"], 0, of["storage"].size - 1)
        return np.broadcast_to(of["storage"][places], shape)

    yield "The offsets are left out.", f(without_offset(a), without_offset(b)).reshape(-1)
    if all(math.prod(one["shape"]) <= one["storage"].size for one in (a, b)):
        yield (
            "The storages are read from front to back; strides and offset say where the entries of a view lie.",
            f(in_order(a), in_order(b)).reshape(-1),
        )


# --- what all of them ask -------------------------------------------------------------------------


def refused(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.get("raised") == "ValueError"


def _same(got: Any, want: np.ndarray) -> bool:
    return isinstance(got, np.ndarray) and got.shape == want.shape and bool(np.array_equal(got, want))


def _close(got: Any, want: np.ndarray) -> bool:
    return isinstance(got, np.ndarray) and got.shape == want.shape and bool(np.allclose(got, want))


def _shape(got: Any) -> Any:
    return got.get("shape") if isinstance(got, dict) else None


def _shown(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, list) else repr(value)


def _together(shapes: list[list[int]]) -> str:
    return "The shapes " + " and ".join(str(tuple(shape)) for shape in shapes)


def _slice(arguments: list[Any]) -> str:
    return ":".join("" if part is None else str(part) for part in arguments[1:])
