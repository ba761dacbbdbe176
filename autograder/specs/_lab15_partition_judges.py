"""What is wrong with an answer of ``lab15_partition``, in words. What came is not trusted: any plain data."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from autograder.drivers.lab15_partition import chain, graph_of
from autograder.spec import Inputs
from autograder.specs._ranks import Ended, not_returned


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:6])}, ... ({len(names)} in all)"


# --- reach ----------------------------------------------------------------------------------------


def reach(inputs: Inputs, got: Any, want: Any) -> list[str]:
    graph = chain(inputs["length"]) if inputs["length"] else graph_of(inputs["graph"])
    twice = [name for name, times in Counter(got).items() if times > 1]
    if twice:
        return [f"{twice[0]} is in the result {got.count(twice[0])} times; once is enough. A set holds a name once."]
    lacking, extra = [n for n in want if n not in set(got)], [n for n in got if n not in set(want)]
    words = []
    if lacking:
        name = lacking[-1]
        ordered = [one for one in want if name in graph[one].controls]
        why = (
            "it is fetched."
            if name in inputs["fetches"]
            else f"nothing flows from it, but {ordered[0]} has to run after it, and {ordered[0]} is needed. An "
            "assignment that only a control edge reaches would be left out."
            if ordered and not any(name in graph[one].inputs for one in want)
            else "a node that is needed is made from it."
        )
        words.append(f"{_listed(lacking)} is missing. {name}: {why}")
    if extra:
        words.append(f"{_listed(extra)} is not needed: no fetch is made from it, nor ordered after it.")
    return words


# --- places ---------------------------------------------------------------------------------------


def places(inputs: Inputs, got: Any, want: Any) -> list[str]:
    graph = graph_of(inputs["graph"])
    for name, node in graph.items():
        if name not in got:
            return [f"{name} has no device."]
        if got[name] == want[name]:
            continue
        lead = f"{name} was placed on {got[name] or 'nothing'}; expected {want[name]}"
        if node.beside is not None:
            first = node.beside
            while graph[first].beside is not None:
                first = str(graph[first].beside)
            if got[name] == node.device:
                return [f"{lead}. It has to be where {node.beside} is, whatever device it asks for itself."]
            if first != node.beside:
                return [f"{lead}. It is beside {node.beside}, which is beside another in turn: follow them to {first}."]
            return [f"{lead}, where {node.beside} is: that is what `beside` says."]
        if node.device is not None:
            return [f"{lead}, the device that it asks for."]
        return [f"{lead}, the default: it asks for no device and belongs beside nothing."]
    return [] if set(got) == set(graph) else ["Nodes were placed that are not in the graph."]


# --- cut ------------------------------------------------------------------------------------------


def cut(inputs: Inputs, got: Any, want: Any) -> list[str]:
    graph, where = graph_of(inputs["graph"]), inputs["places"]
    parts = {device: steps for device, steps in got.items() if steps}
    strange = set(parts) - set(where.values())
    if strange:
        return [f"There is a part for {sorted(strange)[0]}, where no node was placed."]
    ran = Counter((step[1], device) for device, steps in parts.items() for step in steps if step[0] == "run")
    for name in graph:
        found = [device for (one, device) in ran if one == name]
        if found != [where[name]] or ran[name, where[name]] != 1:
            times = sum(ran[name, device] for device in found)
            return [f"{name} runs {times} times, on {_listed(sorted(found)) or 'no device'}; it has to run once, on "
                    f"{where[name]}, where it was placed."]  # fmt: skip
    return _pairs(parts, want, graph, where) or _order(parts, graph)


def _pairs(parts: dict[str, Any], want: Any, graph: Any, where: Any) -> list[str]:
    sends = Counter(
        (step[1], device, step[2]) for device, steps in parts.items() for step in steps if step[0] == "send"
    )
    recvs = Counter(
        (step[1], step[2], device) for device, steps in parts.items() for step in steps if step[0] == "recv"
    )
    for (name, source, target), times in sends.items():
        if where[name] != source:
            return [f"{source} sends {name}, which runs on {where[name]}."]
        if source == target:
            return [f"{source} sends {name} to itself; what runs on one device needs no send."]
        if times > 1:
            return [
                f"{name} is sent from {source} to {target} {times} times. Once is enough for all that read it there: a "
                "pair belongs to a tensor and a target, not to an edge."
            ]
        if [name, target] not in want:
            return [f"{name} is sent to {target}, where nothing needs it."]
    for name, target in want:
        if not sends[name, where[name], target]:
            readers = [one for one, node in graph.items() if where[one] == target and name in node.inputs]
            after = [one for one, node in graph.items() if where[one] == target and name in node.controls]
            if not readers:
                return [
                    f"{after[0]} on {target} has to run after {name} on {where[name]}, and nothing tells it that "
                    f"{name} has run. A control edge that crosses a border needs a pair, too."
                ]
            return [f"{readers[0]} on {target} reads {name}, and {where[name]} does not send it there."]
    for (name, source, target), times in recvs.items():
        if not sends[name, source, target]:
            return [f"{target} receives {name} from {source}, which does not send it there: it would wait for ever."]
        if times > 1:
            return [f"{target} receives {name} from {source} {times} times, and it is sent once."]
    lost = [pair for pair in sends if not recvs[pair]]
    if lost:
        name, source, target = lost[0]
        return [f"{name} is sent from {source} to {target}, and {target} has no step that receives it."]
    return []


def _order(parts: dict[str, Any], graph: Any) -> list[str]:
    """Each device does its steps one by one, and waits where it receives; whether all come to their end."""
    done: dict[str, set[str]] = {device: set() for device in parts}
    wire: set[tuple[str, str]] = set()
    at = dict.fromkeys(parts, 0)
    moved = True
    while moved:
        moved = False
        for device, steps in parts.items():
            while at[device] < len(steps):
                kind, name, *other = steps[at[device]]
                if kind == "recv" and (name, device) not in wire:
                    break
                if kind == "send":
                    if name not in done[device]:
                        return [f"{device} sends {name} before it has run there."]
                    wire.add((name, other[0]))
                if kind == "run":
                    lacking = [one for one in graph[name].inputs if one not in done[device]]
                    early = [one for one in graph[name].controls if one not in done[device]]
                    if lacking:
                        return [f"{device} runs {name} before it has {lacking[0]}, which {name} reads."]
                    if early:
                        return [f"{device} runs {name} before it knows that {early[0]} has run, after which it comes."]
                done[device].add(name)
                at[device] += 1
                moved = True
    stuck = {device: steps[at[device]] for device, steps in parts.items() if at[device] < len(steps)}
    if not stuck:
        return []
    told = "; ".join(f"{device} waits for {step[1]} from {step[2]}" for device, step in sorted(stuck.items()))
    return [
        f"A deadlock: {told}. Each does its steps in order. A receive that stands too early keeps the sends behind it "
        "from ever being done; place it where the first node needs it."
    ]


# --- meet -----------------------------------------------------------------------------------------


def meet(inputs: Inputs, got: Any, want: Any) -> list[str]:
    takes = [action for action in inputs["actions"] if action[0] == "take"]
    if len(got["taken"]) != len(takes):
        return ["There is no answer for each take."]
    for (_, step, name), came, right in zip(takes, got["taken"], want["taken"], strict=True):
        if came == right and type(came) is type(right):
            continue
        lead = f"take({step}, {name!r}) gave {came}; expected {right}"
        others = [one for what, when, *rest in inputs["actions"] if what == "put" and when != step for one in [rest[1]]]
        if came is not None and right is None:
            if any(what == "abort" and when == step for what, when, *_ in inputs["actions"]):
                return [f"{lead}. Step {step} was given up: what had come is dropped, and so is what comes late."]
            if came in others:
                return [f"{lead}. That value belongs to another step: the step is a part of the key."]
            return [f"{lead}. A value is taken once; what was taken is gone."]
        if came is None and right == 0:
            return [f"{lead}. A value may be 0; ask whether the key is there, not whether the value is true."]
        if came is not None and came in others:
            return [f"{lead}. That value belongs to another step: the step is a part of the key."]
        return [f"{lead}."]
    if got["held"] != want["held"]:
        return [
            f"At the end {got['held']} values are held; expected {want['held']}. What was taken, and what belongs to a "
            "step that was given up, must not be kept: a job has millions of steps."
        ]
    return []


# --- share ----------------------------------------------------------------------------------------


def share(inputs: Inputs, got: Any, want: Any) -> list[str]:
    parts, kill = inputs["parts"], inputs["conditions"].get("kill")
    if kill:
        return _after_a_death(inputs, got, want)
    stopped = not_returned(got, len(parts))
    if stopped:
        return stopped
    for rank in range(len(parts)):
        fault = _values(inputs, rank, got[rank]["value"], want)
        if fault:
            return [fault]
    return []


def _values(inputs: Inputs, rank: int, value: Any, want: Any) -> str:
    steps = inputs["parts"][rank]
    order = [step[1] for step in steps if step[0] == "run"]
    ran = [[step, name] for step in range(inputs["count"]) for name in order]
    if value["ran"] != ran:
        came = [name for _, name in value["ran"]]
        if came == [name for _, name in ran]:
            return (
                f"Rank {rank} gave calculate the steps {sorted({step for step, _ in value['ran']})}; they are counted "
                f"from 0 to {inputs['count'] - 1}."
            )
        if sorted(map(str, value["ran"])) == sorted(map(str, ran)):
            return f"Rank {rank} ran its nodes in another order than that of its part."
        return (
            f"Rank {rank} ran {_listed(came) or 'nothing'}; its part runs {_listed(order) or 'nothing'} in each step."
        )
    needed = [step[1] for step in steps if step[0] != "send"]
    if len(value["values"]) != inputs["count"]:
        return f"Rank {rank} returned {len(value['values'])} dicts for {inputs['count']} steps."
    for step, values in enumerate(value["values"]):
        for name in needed:
            if name not in values:
                return f"Rank {rank}, step {step}: {name} is not among the values."
            found, right = values[name], want[step][name]
            if not isinstance(found, np.ndarray) or found.shape != (1,) or float(found[0]) != right:
                came = found.tolist() if isinstance(found, np.ndarray) else found
                other = [n for n in range(len(want)) if n != step and came == [want[n][name]]]
                mixed = [n for n in want[step] if n != name and came == [want[step][n]]]
                why = (
                    f" That is the value of step {other[0]}: messages carry their step, and wait until it is its turn."
                    if other
                    else f" That is the value of {mixed[0]}: another message had come first."
                    if mixed
                    else ""
                )
                return f"Rank {rank}, step {step}: {name} is {came}; expected {[right]}.{why}"
    return ""


def _after_a_death(inputs: Inputs, got: list[Ended], want: Any) -> list[str]:
    victim = inputs["conditions"]["kill"][0]
    stopped = not_returned(got, len(inputs["parts"]))
    if "killed" not in got[victim]:
        return stopped or [f"Rank {victim} returned before it came to the message at which it was to be killed."]
    for rank, one in enumerate(got):
        if rank == victim:
            continue
        if "value" in one:
            fault = _values(inputs, rank, one["value"], want)
            if fault:
                return [f"Rank {victim} died, and rank {rank} returned as if nothing had happened. {fault}"]
        elif "error" in one and "lost" not in one:
            return [
                f"Rank {victim} died, and rank {rank} ended with {one['error']['type']}: "
                f"{one['error']['message'].rstrip('.')}. "
                "Let the PeerLost that receive raises go through: it names who is gone."
            ]
        elif "error" not in one:
            return [f"Rank {victim} died. {sentence}" for sentence in stopped if "killed" not in sentence]
    return []
