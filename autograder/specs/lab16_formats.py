"""``lab16_formats``: signatures, freezing, open sizes, and an ONNX exporter for five operations."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from autograder.spec import Lab, Task
from autograder.specs import _lab16_formats_cases as cases
from autograder.specs import _lab16_formats_judges as judges
from autograder.specs import _lab16_formats_oracles as oracles
from autograder.specs._source import source

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def _value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return source(value)
    return repr(tuple(value) if isinstance(value, list) else value)


def _nodes(nodes: list[dict[str, Any]]) -> str:
    lines = []
    for node in nodes:
        attrs = ", ".join(f"{key!r}: {_value(value)}" for key, value in node["attrs"].items())
        name = f"'name': {node['name']!r}, " if "name" in node else ""
        lines.append(f"    {{{name}'op': {node['op']!r}, 'inputs': {node['inputs']}, 'attrs': {{{attrs}}}}},")
    return "\n".join(["[", *lines, "]"])


def _arrays(arrays: dict[str, np.ndarray]) -> str:
    return "{" + ", ".join(f"{name!r}: {source(array)}" for name, array in arrays.items()) + "}"


def replay_signature(signature: list[list[Any]], given: dict[str, np.ndarray]) -> str:
    described = ", ".join(f"{name!r}: ({tuple(shape)!r}, {dtype!r})" for name, shape, dtype in signature)
    return f"signature = {{{described}}}\ngiven = {_arrays(given)}\nbind(signature, given)"


def replay_freeze(nodes: list[dict[str, Any]], values: dict[str, np.ndarray], outputs: list[str]) -> str:
    return f"nodes = {_nodes(nodes)}\nvalues = {_arrays(values)}\nfreeze(nodes, values, {outputs})"


def replay_sizes(first: list[dict[str, Any]], second: list[dict[str, Any]], batches: list[int]) -> str:
    return f"first = {_nodes(first)}\nsecond = {_nodes(second)}\nopen_sizes(first, second, {tuple(batches)})"


def replay_export(nodes: list[dict[str, Any]], weights: dict[str, np.ndarray], x: np.ndarray) -> str:
    return f"nodes = {_nodes(nodes)}\nweights = {_arrays(weights)}\nexport(nodes, weights)"


# --- answers in words -----------------------------------------------------------------------------


def show_refusal(error: str, answer: Any) -> str:
    if "wrong" in answer:
        return f"{error}, whose message names {' or '.join(map(str, answer['wrong']))}"
    if "refused" in answer:
        return f"{error}: {answer['refused']}"
    return repr(answer.get("sizes", answer))


def show_nodes(error: str, answer: Any) -> str:
    if "nodes" not in answer and "steps" not in answer:
        return show_refusal(error, answer)
    lines = []
    for one in answer.get("nodes", answer.get("steps")):
        attrs = ", ".join(f"{key}={_short(value)}" for key, value in one["attrs"].items())
        lines.append(f"{one.get('name', '')} {one['op']}{tuple(one['inputs'])} {attrs}".strip())
    return "\n".join(lines) or "no nodes"


def _short(value: Any) -> str:
    return f"array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)


def show_export(answer: Any) -> str:
    if "y" in answer:
        return f"y = {np.array2string(np.asarray(answer['y']), precision=5, threshold=20)}"
    lines = [f"{one['op_type']}({', '.join(one['inputs'])}) -> {', '.join(one['outputs'])} {one['attrs']}"
             for one in answer["nodes"]]  # fmt: skip
    arrays = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in answer["initializers"].items())
    return "\n".join([*lines, f"initializers: {arrays or 'none'}"])


# --- the tasks ------------------------------------------------------------------------------------

SIGNATURE = Task(
    name="bind",
    title="Whether a call fits a signature",
    points=20,
    names=("bind", "SignatureError"),
    driver="signature",
    call=replay_signature,
    show=partial(show_refusal, "SignatureError"),
    strategy=cases.signature_strategy,
    edges=cases.signature_edges,
    oracles={"tensorflow": oracles.signature_tensorflow, "numpy": oracles.signature_definition},
    judge=judges.signature,
    hints={
        "none": "bind has to return the dict of sizes.",
        "key": "Look whether an input is there before you read it.",
    },
)

FREEZE = Task(
    name="freeze",
    title="Variables made constants, and what training needed left out",
    points=25,
    names=("freeze", "FreezeError"),
    driver="freeze",
    call=replay_freeze,
    show=partial(show_nodes, "FreezeError"),
    strategy=cases.freeze_strategy,
    edges=cases.freeze_edges,
    oracles={"torch": oracles.freeze_torch, "numpy": oracles.freeze_definition},
    judge=judges.freeze,
    hints={"none": "freeze has to return the list of nodes."},
)

SIZES = Task(
    name="open_sizes",
    title="The sizes that are left open",
    points=20,
    names=("open_sizes", "SizeError"),
    driver="sizes",
    call=replay_sizes,
    show=partial(show_nodes, "SizeError"),
    strategy=cases.sizes_strategy,
    edges=cases.sizes_edges,
    oracles={"torch": oracles.sizes_torch, "numpy": oracles.sizes_definition},
    judge=judges.sizes,
    hints={"none": "open_sizes has to return the list of steps."},
)

EXPORT = Task(
    name="onnx",
    title="An ONNX exporter for five operations",
    points=35,
    names=("export",),
    driver="export",
    call=replay_export,
    show=show_export,
    strategy=cases.export_strategy,
    edges=cases.export_edges,
    oracles={"torch": oracles.export_torch, "onnxruntime": oracles.export_onnxruntime},
    judge=judges.export,
    hints={"none": "export has to return the dict.", "key": "A variable's array is weights[name]."},
)

lab = Lab(
    name="lab16_formats",
    title="Formats: signatures, freezing, open sizes, and an ONNX exporter",
    tasks=(SIGNATURE, FREEZE, SIZES, EXPORT),
)
