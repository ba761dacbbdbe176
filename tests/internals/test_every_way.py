"""One program, every way: as a net of layers, in a session, eager, traced and folded, beside torch and TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from every_way_layers import AsLayers, batch_for
from every_way_models import PROGRAMS, Deciding, Program
from frameworks import tf
from layer_nets import TWINS

from internals import Tensor, fold, nn
from internals.graph import Graph, Session, gradients
from internals.graph.session import DEFAULT
from internals.layers import LAYERS, ConfigError, GradientMachine, Net
from internals.trace import function
from internals.trace.recording import recording

Found = dict[str, np.ndarray]
"""The loss, the gradient by x, and those by the parameters, by their names in the module."""
Way = Callable[[Program, nn.Module], Found]


def eagerly(program: Program, net: nn.Module) -> Found:
    return _by_tape(program.loss, program, net)


def traced(program: Program, net: nn.Module) -> Found:
    run = function(program.loss)
    _by_tape(run, program, net)
    found = _by_tape(run, program, net)
    assert len(run.traces) == 1
    return found


def _by_tape(run: Callable[..., Any], program: Program, net: nn.Module) -> Found:
    x = None if program.x is None else Tensor(program.x, requires_grad=True)
    return _back(run(net, x, Tensor(program.target)), x, net)


def _back(loss: Any, x: Any, net: nn.Module) -> Found:
    net.zero_grad()
    loss.backward()
    by_x = {} if x is None else {"x": x.grad.numpy()}
    return {"loss": loss.detach().numpy(), **by_x, **{name: p.grad.numpy() for name, p in net.named_parameters()}}


def in_a_session(passes: tuple[str, ...]) -> Way:
    def run(program: Program, net: nn.Module) -> Found:
        graph = Graph()
        with recording(graph):  # parameters are variables, also where they meet no placeholder
            given = {"x": program.x} if program.x is not None else {}
            fed = {name: graph.placeholder(one.shape, one.dtype) for name, one in given.items()}
            target = graph.placeholder(program.target.shape, program.target.dtype)
            variables = {name: graph.variable(p) for name, p in net.named_parameters()}
            graph._captured.update({id(p): (p, variables[name]) for name, p in net.named_parameters()})
            loss = function(program.loss).body(net, fed.get("x"), target)
            found = gradients([loss], [*fed.values(), *variables.values()])
        with Session(graph, passes=passes) as session:
            session.initialise()
            feeds = {fed[name]: one for name, one in given.items()} | {target: program.target}
            values = session.run([loss, *found], feeds)
        return dict(zip(["loss", *fed, *variables], values, strict=True))

    return run


def as_layers(threads: int) -> Way:
    def run(program: Program, net: nn.Module) -> Found:
        written = program.as_layers
        assert isinstance(written, AsLayers)
        with pytest.MonkeyPatch.context() as patch:
            for name, kind in written.extra.items():
                patch.setitem(LAYERS, name, kind)
            there = Net(written.config)
        for name, value in net.state_dict().items():
            there.parameters[written.names[name]].value = value
        batch = batch_for(written, program.x, program.target)
        if threads == 1:
            there.forward(batch)
            there.backward()
            loss = there.loss()
        else:
            with GradientMachine(there, threads=threads) as machine:
                loss = machine.forward_backward(batch)
        found = {"loss": np.asarray(loss, np.float32)}
        if threads == 1 and program.x is not None:
            found["x"] = there.arguments["x"].gradient.reshape(program.x.shape)
        return found | {name: there.parameters[place].gradient for name, place in written.names.items()}

    return run


def folded(schedule: str) -> Way:
    """Each example by itself, noted, and run with the others where they are alike."""

    def run(program: Program, net: nn.Module) -> Found:
        assert program.x is not None
        x, target = Tensor(program.x, requires_grad=True), Tensor(program.target)
        places = [slice(i, i + 1) for i in range(x.shape[0])]
        with fold.Batch(schedule) as batch:
            losses = [program.loss(net, fold.defer(x[at]), fold.defer(target[at])) for at in places]
        loss = fold.stacked(losses).mean()
        together = max(launch.size for launch in batch.launches)
        assert together > 1 if isinstance(net, Deciding) else together == len(places)
        return _back(loss, x, net)

    return run


EXACT: dict[str, Way] = {"traced": traced, "session": in_a_session(()), "layers": as_layers(1)}
CLOSE: dict[str, Way] = {
    **{f"session, {name}": in_a_session((name,)) for name in DEFAULT},
    "session, all passes": in_a_session(DEFAULT),
    "layers on two threads": as_layers(2),
    **{f"folded, {schedule}": folded(schedule) for schedule in fold.SCHEDULES},
}
WAYS = EXACT | CLOSE


def why_not(program: Program, way: str) -> str:
    """Why a style has no such model."""
    if way.startswith("layers") and isinstance(program.as_layers, str):
        return program.as_layers
    if way == "layers on two threads" and "batch normalisation" in program.not_folded:
        return "each thread normalises its share of the batch by itself"
    return program.not_folded if way.startswith("folded") else ""


TABLE = [(name, way) for name in PROGRAMS for way in WAYS if not why_not(PROGRAMS[name], way)]


@pytest.mark.parametrize(("name", "way"), TABLE)
def test_every_way_is_the_eager_one(name: str, way: str) -> None:
    program = PROGRAMS[name]
    net = program.model()
    want, found = eagerly(program, net), WAYS[way](program, net)
    assert set(want) - set(found) <= ({"x"} if way == "layers on two threads" else set())
    for part, one in found.items():
        if way in EXACT and not program.rounded:
            np.testing.assert_array_equal(one, want[part], err_msg=part)
        else:
            np.testing.assert_allclose(one, want[part], rtol=1e-4, atol=1e-5, err_msg=part)


def test_every_model_is_tried_in_every_style() -> None:
    """But for the pairs for which there is a reason."""
    assert {(name, way) for name in PROGRAMS for way in WAYS} - set(TABLE) == {
        *((name, way) for name in ("deciding", "each deciding") for way in WAYS if way.startswith("layers")),
        *(("deciding", way) for way in WAYS if way.startswith("folded")),
        *((f"net of layers: {twin.name}", way) for twin in TWINS for way in WAYS
          if way.startswith("folded") and twin.name.startswith(("batch norm", "LSTM", "context"))),
        ("net of layers: batch norm and two branches", "layers on two threads"),
    }  # fmt: skip
    styles = {way.split(",")[0].split(" ")[0] for way in WAYS}
    assert styles == {"traced", "session", "layers", "folded"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_torch_and_tensorflow_agree(name: str) -> None:
    program = PROGRAMS[name]
    net = program.model()
    found = eagerly(program, net)
    state = net.state_dict()
    theirs = {key: torch.tensor(value, requires_grad=True) for key, value in state.items()}
    x = None if program.x is None else torch.tensor(program.x, requires_grad=True)
    loss = program.torch_loss(theirs, x, torch.tensor(program.target))
    want = torch.autograd.grad(loss, [*([] if x is None else [x]), *theirs.values()])
    for (part, one), other in zip(found.items(), [loss, *want], strict=True):
        np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-3, atol=1e-4, err_msg=part)
    variables = {key: tf.Variable(value) for key, value in state.items()}
    given = None if program.x is None else tf.constant(program.x)

    @tf.function
    def run() -> Any:
        with tf.GradientTape() as tape:
            if given is not None:
                tape.watch(given)
            loss = program.tensorflow_loss(variables, given, tf.constant(program.target))
        return loss, tape.gradient(loss, [*([] if given is None else [given]), *variables.values()])

    loss, want = run()
    for (part, one), other in zip(found.items(), [loss, *want], strict=True):
        other = tf.convert_to_tensor(other).numpy()
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4, err_msg=part)


# Where a style has no such model


@pytest.mark.parametrize(
    "decision",
    [
        'while { bottom: "h" layer { name: "inner" type: "fc" bottom: "h" size: 4 } }',
        'layer { name: "h2" type: "while" bottom: "h" }',
        'layer { name: "h" type: "fc" bottom: "h" size: 4 }',
    ],
)
def test_a_net_has_no_word_for_a_decision(decision: str) -> None:
    config = (
        f'layer {{ name: "x" type: "data" shape: 4 }} layer {{ name: "h" type: "fc" bottom: "x" size: 4 }} {decision}'
    )
    with pytest.raises(ConfigError):
        Net(config)


def test_a_net_runs_the_same_layers_whatever_the_data() -> None:
    config = PROGRAMS["MLP"].as_layers.config  # type: ignore[union-attr]
    net, ran = Net(config), []
    for layer in net.layers:
        layer.run = lambda bottoms, layer=layer, run=layer.run: ran.append(layer.name) or run(bottoms)  # type: ignore[method-assign]
    for scale in (0, 100):
        net.forward({"x": np.full((2, 6), scale, np.float32), "y": np.array([0, 1])})
    assert ran == 2 * ["hidden", "out", "loss"]


def test_examples_of_a_batch_that_are_normalised_together_are_no_examples_alone() -> None:
    name = "net of layers: batch norm and two branches"
    program = PROGRAMS[name]
    net = program.model()
    assert program.x is not None
    whole = program.loss(net, Tensor(program.x), Tensor(program.target)).item()
    alone = [
        program.loss(net, Tensor(program.x[i : i + 1]), Tensor(program.target[i : i + 1])).item() for i in range(6)
    ]
    assert abs(np.mean(alone) - whole) > 1e-3
