"""``lab05_tape``: reverse mode in five pieces, each asked of torch, TensorFlow and arithmetic on fresh inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.drivers.lab05_tape import label
from autograder.spec import Cost, Hint, Lab, Task, Written
from autograder.specs import _lab05_tape_cases as cases
from autograder.specs import _lab05_tape_judges as judges
from autograder.specs import _lab05_tape_oracles as oracles
from autograder.specs import _lab05_tape_show as show
from autograder.specs._lab05_tape_programs import rules_needed
from autograder.specs._source import source

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def replay_rules(op: str, g: np.ndarray, x: np.ndarray, y: np.ndarray) -> str:
    return f"g = {source(g)}\nx = {source(x)}\ny = {source(y)}\n{op}_rule(g, x, y)"


def replay_order(inputs: list[list[int]], root: int, repeat: int) -> str:
    if repeat == 1:
        graph = ", ".join(
            f"{label(index)!r}: {tuple(label(k) for k in needed)!r}" for index, needed in enumerate(inputs)
        )
        return f"inputs = {{{graph}}}\ntopological_order({label(root)!r}, inputs.__getitem__)"
    step = len(inputs) - 1
    return (
        f"motif, step, copies = {inputs[:-1]}, {step}, {repeat}  # copies of the motif, end to end\n"
        f"inputs = {{step * n + i: [step * n + k for k in motif[i]] for n in range(copies) for i in range(step)}}\n"
        f"inputs[step * copies] = ()\n"
        f"topological_order(0, inputs.__getitem__)"
    )


def replay_accumulate(arrays: list[np.ndarray], steps: list[list[Any]], nodes: int) -> str:
    lines = [f"arrays = [{', '.join(source(array) for array in arrays)}]", "cotangents = {}"]
    for index, kind, which in steps:
        value = {"array": f"arrays[{which}]", "none": "None", "sum": f"cotangents[{label(which)!r}]"}[kind]
        lines.append(f"accumulate(cotangents, {label(index)!r}, {value})")
    return "\n".join([*lines, "cotangents, arrays"])


def replay_backward(
    steps: list[dict[str, Any]], partials: list[Any], root: int, cotangent: np.ndarray, repeat: int
) -> str:
    lines = []
    for index, (step, ways) in enumerate(zip(steps, partials, strict=True)):
        if step["op"] == "leaf":
            lines.append(f"{label(index)} = Node()")
            continue
        needed = [label(k) for k in step["inputs"]]
        passed = ", ".join(_passed_on(way) for way in ways)
        comma = "," if len(needed) == 1 else ""
        lines.append(
            f"{label(index)} = Node(({', '.join(needed)}{comma}), lambda g: ({passed}{comma}))  # {step['op']}"
        )
    if repeat > 1:
        first, last = label(0), label(root)
        lines = [
            lines[0],
            f"start = {first}",
            f"for _ in range({repeat}):",
            *(f"    {line}" for line in lines[1:]),
            f"    {first} = {last}",
        ]
        return "\n".join([*lines, f"backward({last}, {source(cotangent)})[start]"])
    leaves = ", ".join(
        f"{label(index)!r}: found.get({label(index)})" for index, step in enumerate(steps) if step["op"] == "leaf"
    )
    return "\n".join([*lines, f"found = backward({label(root)}, {source(cotangent)})", f"{{{leaves}}}"])


def _passed_on(way: list[Any]) -> str:
    match way[0]:
        case "same":
            return "g"
        case "negated":
            return "-g"
        case "times":
            return f"g * {source(way[1])}"
        case "spread":
            return f"np.broadcast_to(g, {tuple(way[1])})"
    return "None"


def replay_stale(tensors: list[np.ndarray], events: list[list[Any]]) -> str:
    lines = [f"t{index} = Tensor({source(array)})" for index, array in enumerate(tensors)]
    records: list[str] = []
    for line, (kind, first, second) in enumerate(events):
        if kind == "record":
            records.append(f"saved{len(records)}")
            lines.append(f"{records[-1]} = Saved({first!r}, {', '.join(f't{k}' for k in second)})  # event {line}")
        elif kind == "change":
            lines.append(f"t{first}.add_({source(second)})  # event {line}")
        else:
            lines.append(f"print({records[first]}.take({'retain=True' if second else ''}))  # event {line}")
    return "\n".join(lines)


# --- the tasks ------------------------------------------------------------------------------------

RULES = Task(
    name="rules",
    title="The rules of mul and matmul, with broadcasting",
    points=25,
    names=("mul_rule", "matmul_rule"),
    driver="rules",
    call=replay_rules,
    show=show.rules,
    strategy=cases.rules_strategy,
    edges=cases.rules_edges,
    oracles={"torch": oracles.rules_torch, "tensorflow": oracles.rules_tensorflow, "numpy": oracles.rules_differences},
    hints={
        "not_summed": "Whatever NumPy stretched on the way forward is summed on the way back; one helper can serve "
        "both rules.",
        "keepdims": "Axes NumPy added in front vanish again; axes that were 1 stay 1. A reshape to x.shape at the end "
        "settles both.",
        "transposed": "For z = x @ y: dx = g @ yᵀ and dy = xᵀ @ g. Shapes alone decide it unless the matrices are "
        "square.",
        "swapped": "The pair is (dx, dy): dx has x's shape.",
        "dtype": "A gradient has the dtype of its input.",
        "cotangent_ignored": "Every term of a rule has g in it.",
        "read_only": "The arrays you are given are shared with the rest of the tape.",
        "axes_transpose": "Use np.swapaxes(a, -1, -2), which leaves batch axes in place, and treat 1-D operands on "
        "their own.",
        "axis": "A 1-D operand has no second axis to swap: make x a row x[None, :] and y a column y[:, None] first, "
        "and drop the axis at the end.",
        "inner_sizes": "Make 1-D operands matrices first (x a row, y a column, and g the matching shape), then one "
        "formula serves all forms.",
        "broadcast": "Sum over the stretched axes before anything else is combined.",
    },
    unlocks=(
        Hint(
            "Broadcasting is not undone|Sum it over|summed down to",
            "Take x of shape (3, 1) and y of shape (4,). Write down, for one entry of x, every entry of z = x * y"
            " that it is in: its gradient has one term for each. Which axes of g are those?",
        ),
        Hint(
            "transposed|another order|1-D",
            "Write the three shapes of z = x @ y below one another and give each letter its size. Only one "
            "arrangement of g and the other input fits the shape that dx must have.",
        ),
    ),
)

ORDER = Task(
    name="order",
    title="A topological order without recursion",
    points=20,
    names=("topological_order",),
    driver="order",
    call=replay_order,
    show=show.order,
    strategy=cases.order_strategy,
    edges=cases.order_edges,
    oracles={"torch": oracles.order_torch, "tensorflow": oracles.order_tensorflow, "numpy": oracles.order_reach},
    judge=judges.order,
    limit=3.0,
    hints={
        "recursion": f"The longest graph tried is a chain of {cases.CHAIN:,} nodes: keep a list of nodes still to "
        "visit.",
        "time": f"Visit each node once. {cases.DOUBLINGS} doublings y = y + y have 2 to the {cases.DOUBLINGS} paths, "
        f"but only {cases.DOUBLINGS + 1} nodes; "
        "and looking for a node in a list takes as long as the list, so use a set.",
        "none": "topological_order has to return the list.",
    },
    unlocks=(
        Hint(
            "comes before|comes 2 times",
            "Draw y = a * b with b computed from a. A node may be written down only once nothing that still has "
            "to come reads it: what would you have to count to know that?",
        ),
    ),
)

ACCUMULATE = Task(
    name="accumulate",
    title="Accumulation that changes nobody's array",
    points=15,
    names=("accumulate",),
    driver="accumulate",
    call=replay_accumulate,
    show=show.accumulate,
    strategy=cases.accumulate_strategy,
    edges=cases.accumulate_edges,
    oracles={
        "torch": oracles.accumulate_torch,
        "tensorflow": oracles.accumulate_tensorflow,
        "numpy": oracles.accumulate_sum,
    },
    judge=judges.accumulate,
    hints={
        "none_used": "A value of None means that nothing flows to this node: return without touching the dict.",
        "key": "The first contribution to a node finds no entry yet.",
        "read_only": "`+=` writes into the first array; some arrays are views that can't be written to.",
        "in_place_shape": "`+=` writes into the first array; make a new one instead.",
    },
    unlocks=(
        Hint(
            "has changed|An array is shared",
            "Ask after each line who else holds the array that you are about to write into: the rule of z = x + y"
            " hands the same one to both of its inputs.",
            after=2,
        ),
    ),
)

BACKWARD = Task(
    name="backward",
    title="The backward pass",
    points=25,
    names=("backward",),
    driver="backward",
    call=replay_backward,
    show=show.backward,
    strategy=cases.backward_strategy,
    edges=cases.backward_edges,
    oracles={
        "torch": oracles.backward_torch,
        "tensorflow": oracles.backward_tensorflow,
        "numpy": oracles.backward_differences,
    },
    judge=judges.backward,
    costs=(Cost("rules", "Rules run", rules_needed, "one for each operation that a cotangent reaches"),),
    limit=3.0,
    hints={
        "cost": "Wait until a node's cotangent is complete, then run its rule once; otherwise the work doubles with "
        "every fork.",
        "recursion": f"The longest graph tried is a chain of {cases.CHAIN:,} nodes: walk along "
        "topological_order(root, ...).",
        "time": "A node's rule runs once, when all its consumers have added to its cotangent; following every path "
        "takes time without end.",
        "none_used": "A leaf has no rule to call. And a rule may give None for an input, where no cotangent flows: a "
        "node that got only None is skipped.",
        "key": "A node that no cotangent reached has no entry: skip it.",
        "signature": "A leaf has no rule to call.",
        "read_only": "Some rules hand out read-only views: add without `+=`.",
    },
    unlocks=(
        Hint(
            "too costly|recursion|Ran longer",
            "Print which rule runs, for y = x + x, z = y + y, w = z + z. Each name should be printed once; if one"
            " is printed more often, the walk follows paths and not nodes.",
            after=2,
        ),
        Hint(
            "contributions|before all of its consumers",
            "A rule that runs too early sees a part of its cotangent. Which of your five pieces knows when all "
            "parts have arrived?",
        ),
    ),
)

STALE = Task(
    name="stale",
    title="Refusing a stale tape",
    points=15,
    names=("Saved", "StaleTape"),
    driver="stale",
    call=replay_stale,
    show=show.stale,
    strategy=cases.stale_strategy,
    edges=cases.stale_edges,
    # TensorFlow has no such failure to ask about: reading a variable copies it.
    oracles={"torch": oracles.stale_torch, "numpy": oracles.stale_count},
    judge=judges.stale,
    hints={
        "signature": "It is called as Saved(op, *tensors), take() and take(retain=True).",
        "attribute": "A tensor has .data and .version; a record must remember the versions of its own moment.",
        "none_used": "After a take without retain, check that first and raise StaleTape.",
    },
)

REFUSE = Written(
    name="refuse",
    title="Refuse, or copy?",
    points=5,
    rubric="1.5: copying costs memory and time for every saved array in every step, also where nothing changes. "
    "1.5: refusing costs a number and a comparison, and a person's time: it fails while the program runs, away from "
    "the line at fault. 1: a choice that follows from what was said. 1: a case for the other way.",
)

lab = Lab(
    name="lab05_tape",
    title="The tape: reverse mode in five pieces",
    tasks=(RULES, ORDER, ACCUMULATE, BACKWARD, STALE),
    written=(REFUSE,),
)
