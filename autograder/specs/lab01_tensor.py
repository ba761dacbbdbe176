"""``lab01_tensor``: what a tensor is, in five pieces: strides, broadcasting, views, reshape, and one kernel."""

from __future__ import annotations

from typing import Any

from autograder.spec import Lab, Task
from autograder.specs import _lab01_tensor_cases as cases
from autograder.specs import _lab01_tensor_judges as judges
from autograder.specs import _lab01_tensor_oracles as oracles
from autograder.specs import _lab01_tensor_show as show
from autograder.specs._source import source

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def _view(of: dict[str, Any]) -> str:
    storage = of["storage"]
    made = source(storage) if storage.size <= 64 else f"np.linspace(-1, 1, {storage.size})"
    return f"View({made}, {tuple(of['shape'])}, {tuple(of['strides'])}, {of['offset']})"


def replay_layout(shape: list[int], index: list[int], strides: list[int], offset: int) -> str:
    return f"strides_of({tuple(shape)}), locate({tuple(index)}, {tuple(strides)}, {offset})"


def replay_broadcast(shapes: list[list[int]]) -> str:
    return f"broadcast_shapes({', '.join(str(tuple(shape)) for shape in shapes)})"


def replay_view(of: dict[str, Any], do: list[Any]) -> str:
    kind, *arguments = do
    given = ", ".join(str(tuple(one)) if isinstance(one, list) else str(one) for one in arguments)
    return f"view = {_view(of)}\n{kind}(view, {given})"


def replay_reshape(of: dict[str, Any], shape: list[int]) -> str:
    return f"view = {_view(of)}\nprint(is_contiguous(view))\nreshape(view, {tuple(shape)})"


def replay_elementwise(f: str, a: dict[str, Any], b: dict[str, Any], every: int) -> str:
    return f"a = {_view(a)}\nb = {_view(b)}\nelementwise(np.{f}, a, b)"


# --- the tasks ------------------------------------------------------------------------------------

LAYOUT = Task(
    name="layout",
    title="Strides of a shape, and the place of an entry",
    points=15,
    names=("strides_of", "locate"),
    driver="layout",
    call=replay_layout,
    show=show.layout,
    strategy=cases.layout_strategy,
    edges=cases.layout_edges,
    # TensorFlow shows no strides.
    oracles={"torch": oracles.layout_torch, "numpy": oracles.layout_numpy},
    judge=judges.layout,
    hints={"none": "Both functions return something: a tuple, and an integer.", "index": "A 0-d tensor has no axes."},
)

BROADCAST = Task(
    name="broadcast",
    title="The shape that shapes broadcast to",
    points=15,
    names=("broadcast_shapes",),
    driver="broadcast",
    call=replay_broadcast,
    show=show.broadcast,
    strategy=cases.broadcast_strategy,
    edges=cases.broadcast_edges,
    oracles={
        "torch": oracles.broadcast_torch,
        "tensorflow": oracles.broadcast_tensorflow,
        "numpy": oracles.broadcast_numpy,
    },
    judge=judges.broadcast,
    hints={"index": "Shapes may have different lengths: line them up at the right first."},
)

VIEWS = Task(
    name="views",
    title="Transposed, stretched and sliced, without moving an entry",
    points=25,
    names=("View", "transpose", "broadcast_to", "take_slice"),
    driver="view",
    call=replay_view,
    show=show.view,
    strategy=cases.view_strategy,
    edges=cases.view_edges,
    oracles={"torch": oracles.view_torch, "tensorflow": oracles.view_tensorflow, "numpy": oracles.view_numpy},
    judge=judges.view,
    hints={"none": "Each of the three returns a View."},
)

RESHAPE = Task(
    name="reshape",
    title="Contiguous or not, and reshape without a copy",
    points=25,
    names=("View", "is_contiguous", "reshape"),
    driver="reshape",
    call=replay_reshape,
    show=show.view,
    strategy=cases.reshape_strategy,
    edges=cases.reshape_edges,
    # TensorFlow shows no strides, and its reshape does not say whether it copies.
    oracles={"torch": oracles.reshape_torch, "numpy": oracles.reshape_numpy},
    judge=judges.reshape,
    hints={
        "none": "is_contiguous returns True or False, reshape a View.",
        "index": "Try a 0-d view, and one of nothing.",
    },
)

ELEMENTWISE = Task(
    name="elementwise",
    title="One kernel that reads through strides",
    points=20,
    names=("View", "elementwise"),
    driver="elementwise",
    call=replay_elementwise,
    show=show.elementwise,
    strategy=cases.elementwise_strategy,
    edges=cases.elementwise_edges,
    oracles={
        "torch": oracles.elementwise_torch,
        "tensorflow": oracles.elementwise_tensorflow,
        "numpy": oracles.elementwise_numpy,
    },
    judge=judges.elementwise,
    limit=1.0,
    hints={
        "time": f"The largest result has {cases.LARGE:,} entries: compute all places at once as an array of integers, "
        "and read the storage with it.",
        "index": "A place outside the storage was read: strides and offset say where entries lie.",
    },
)

lab = Lab(
    name="lab01_tensor",
    title="Tensors: one storage, many views",
    tasks=(LAYOUT, BROADCAST, VIEWS, RESHAPE, ELEMENTWISE),
)
