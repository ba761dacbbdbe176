"""What is wrong with an answer of ``lab16_formats``, in words. What came is not trusted: it may be any plain data."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.compare import compare
from autograder.spec import Inputs
from autograder.specs._lab16_formats_runtime import OnnxError, run


def _named(message: Any, names: list[Any]) -> bool:
    return any(str(name) in str(message) for name in names)


def signature(inputs: Inputs, got: Any, want: Any) -> list[str]:
    if not isinstance(got, dict):
        return ["bind did not give a dict of sizes."]
    if "wrong" in want:
        wrong = ", ".join(want["wrong"])
        if "refused" not in got:
            return [f"the call does not fit the signature ({wrong}), and bind did not raise SignatureError."]
        if not _named(got["refused"], want["wrong"]):
            return [f"The message of SignatureError does not name the input that is wrong ({wrong})."]
        return []
    if "refused" in got:
        return [f"the call fits the signature, and bind raised SignatureError: {str(got['refused'])[:120]}"]
    found = got.get("sizes")
    if not isinstance(found, dict) or found.keys() != want["sizes"].keys():
        came = sorted(found) if isinstance(found, dict) else found
        return [f"bind gave the sizes {came}; expected {sorted(want['sizes'])}."]
    return [f"{key} is {want['sizes'][key]}, not {size}." for key, size in found.items() if size != want["sizes"][key]]


def _changed(name: str, got: Any) -> list[str]:
    """Whoever recorded the graph still has it, and may write it a second time."""
    if isinstance(got, dict) and "changed" in got:
        return [f"{name} changed {got['changed']} that it was given; make new ones, and leave those as they are."]
    return []


def freeze(inputs: Inputs, got: Any, want: Any) -> list[str]:
    if not isinstance(got, dict):
        return ["freeze did not give a list of nodes."]
    if changed := _changed("freeze", got):
        return changed
    if "wrong" in want:
        if "refused" not in got:
            return [f"{want['wrong'][0]} writes a variable and an output needs it; FreezeError was not raised."]
        if not _named(got["refused"], want["wrong"]):
            return [f"The message of FreezeError does not name the node that writes: {', '.join(want['wrong'])}."]
        return []
    if "refused" in got:
        return ["FreezeError was raised, but no node that an output needs writes a variable."]
    found = got.get("nodes")
    if not isinstance(found, list):
        return ["freeze did not give a list of nodes."]
    names, wanted = [one["name"] for one in found], [one["name"] for one in want["nodes"]]
    if len(set(names)) < len(names):
        return [f"a node is there twice: {', '.join(names)}."]
    words = []
    if set(wanted) - set(names):
        words.append(f"{', '.join(sorted(set(wanted) - set(names)))} is missing: an output needs it.")
    if set(names) - set(wanted):
        words.append(f"{', '.join(sorted(set(names) - set(wanted)))} is there, and no output needs it.")
    if words:
        return words
    for i, one in enumerate(found):
        late = set(one["inputs"]) - set(names[:i])
        if late:
            return [f"{one['name']} stands before {', '.join(sorted(late))}, which it reads."]
    by_name = {one["name"]: one for one in want["nodes"]}
    for one in found:
        expected = by_name[one["name"]]
        if one["op"] != expected["op"] or one["inputs"] != expected["inputs"]:
            right = f"{expected['op']} of {expected['inputs']}"
            return [f"{one['name']} is {one['op']} of {one['inputs']}; expected {right}."]
        if one["attrs"].keys() != expected["attrs"].keys():
            return [f"{one['name']} has the attributes {sorted(one['attrs'])}; expected {sorted(expected['attrs'])}."]
        for key, value in expected["attrs"].items():
            came = one["attrs"][key]
            if isinstance(value, np.ndarray):
                if not isinstance(came, np.ndarray) or came.shape != value.shape or not np.array_equal(came, value):
                    return [f"the constant {one['name']} does not have the variable's value."]
            elif came != value:
                return [f"{one['name']} has {key}={came}; expected {value}."]
    return []


def sizes(inputs: Inputs, got: Any, want: Any) -> list[str]:
    if not isinstance(got, dict):
        return ["open_sizes did not give a list of steps."]
    if changed := _changed("open_sizes", got):
        return changed
    if "wrong" in want:
        steps = ", ".join(map(str, want["wrong"]))
        if "refused" not in got:
            return [f"the records differ by more than the batch (step {steps}), and SizeError was not raised."]
        if len(inputs["first"]) == len(inputs["second"]) and not _named(got["refused"], want["wrong"]):
            return [f"The message of SizeError does not say which step differs ({steps}, counted from 0)."]
        return []
    if "refused" in got:
        return [f"the records differ by the batch only, and SizeError was raised: {str(got['refused'])[:120]}"]
    found = got.get("steps")
    if not isinstance(found, list) or len(found) != len(want["steps"]):
        return [f"the record has {len(want['steps'])} steps."]
    for i, (one, expected) in enumerate(zip(found, want["steps"], strict=True)):
        for key in ("op", "inputs"):
            if one[key] != expected[key]:
                return [f"step {i}: {key} is {one[key]}; expected {expected[key]}."]
        if one["attrs"].keys() != expected["attrs"].keys():
            return [f"step {i} has the attributes {sorted(one['attrs'])}; expected {sorted(expected['attrs'])}."]
        for name, value in expected["attrs"].items():
            came = one["attrs"][name]
            if came != value or [*map(type, _leaves(came))] != [*map(type, _leaves(value))]:
                return [f"step {i}: {name} is {came}; expected {value}."]
    return []


def _leaves(value: Any) -> list[Any]:
    return [leaf for one in value for leaf in _leaves(one)] if isinstance(value, list) else [value]


def export(inputs: Inputs, got: Any, want: Any) -> list[str]:
    if changed := _changed("export", got):
        return changed
    try:
        graph = {"nodes": list(got["nodes"]), "initializers": dict(got["initializers"])}
        found = run(graph, inputs["x"])
    except OnnxError as error:
        return [f"The graph is not valid ONNX: {error}"]
    wasted = {name for name in graph["initializers"] if not any(name in one["inputs"] for one in graph["nodes"])}
    if wasted:
        return [f"the initializer {sorted(wasted)[0]} is read by no node."]
    if found.shape != want["y"].shape:
        return [f"y has shape {found.shape}; expected {want['y'].shape}."]
    if compare(np.asarray(found, np.float32), np.asarray(want["y"], np.float32)):
        return ["y has other values than the network gives."]
    try:
        twice = run(graph, np.concatenate([inputs["x"], inputs["x"]]))
    except OnnxError as error:
        return [f"The graph runs on this batch only; on one of twice as many: {error}"]
    if compare(np.asarray(twice, np.float32), np.concatenate([want["y"], want["y"]])):
        return ["The graph is right for this batch only: on one of twice as many y has other values."]
    return []
