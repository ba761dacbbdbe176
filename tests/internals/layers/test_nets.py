"""Layers alone, against differences; whole nets are in `test_every_way`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layer_nets import TWINS

from internals import Tensor, ops
from internals.device import device
from internals.layers import Argument, GradientMachine, Net, batch_of
from internals.layers.layer import Layer

# every layer against differences: settings that the models above do not have

GROUP = {
    "type": "recurrent_group",
    "output": "h",
    "memory": [{"name": "before", "of": "h", "size": 2}, {"name": "longer", "of": "wide", "size": 3}],
    "layer": [
        {
            "name": "h",
            "type": "mixed",
            "size": 2,
            "act": "tanh",
            "bias": True,
            "projection": [{"type": "full_matrix", "bottom": one} for one in ("scaled", "before", "longer")],
        },
        {"name": "wide", "type": "fc", "bottom": "h", "size": 3, "act": "sigmoid"},
    ],
}

LAYERS_ALONE: list[tuple[str, dict[str, Any], Any]] = [
    ("fc of images", {"type": "fc", "size": 3}, (2, 3, 2)),
    ("fc, exp", {"type": "fc", "size": 3, "act": "exp"}, (4,)),
    ("activation", {"type": "activation", "act": "softrelu"}, (4,)),
    ("square", {"type": "activation", "act": "square"}, (4,)),
    ("conv, groups", {"type": "conv", "channels": 4, "window": [2, 3], "groups": 2, "stride": [1, 2]}, (2, 5, 6)),
    ("pool, average with border", {"type": "pool", "pool": "average", "window": 2, "padding": 1}, (2, 4, 4)),
    ("pool, overlapping", {"type": "pool", "window": 3, "stride": 2}, (2, 5, 5)),
    ("batch norm of rows", {"type": "batch_norm"}, (4,)),
    ("reshape", {"type": "reshape", "shape": [2, 3]}, (6,)),
    ("identity, some columns", {"type": "mixed", "size": 2, "projection": {"type": "identity", "offset": 1}}, (4,)),
    ("context", {"type": "mixed", "size": 6, "projection": {"type": "context", "start": 0, "length": 2}}, "steps"),
    ("lrn", {"type": "lrn", "window": 3, "alpha": 0.7, "beta": 0.6, "k": 0.9}, (4, 2, 3)),
    ("lrn, wider than there are channels", {"type": "lrn", "alpha": 2.0}, (2, 2, 2)),
    ("grumemory", {"type": "grumemory"}, "steps"),
    ("grumemory, reverse, no bias", {"type": "grumemory", "reverse": True, "bias": False}, "steps"),
    ("recurrent", {"type": "recurrent"}, "steps"),
    ("recurrent, relu", {"type": "recurrent", "nonlinearity": "relu", "reverse": True}, "steps of 8"),
    ("recurrent_group", GROUP, "steps"),
    ("recurrent_group, reverse, act", GROUP | {"reverse": True, "act": "tanh", "output": "wide"}, "steps"),
    ("lstmemory, reverse", {"type": "lstmemory", "reverse": True}, "steps of 8"),
    ("lstmemory, no bias", {"type": "lstmemory", "bias": False}, "steps of 8"),
    *[(f"sequence pool, {pool}", {"type": "sequence_pool", "pool": pool}, "steps") for pool in ("sum", "average")],
    *[(f"sequence pool, {pool}", {"type": "sequence_pool", "pool": pool}, "steps") for pool in ("first", "max")],
]


def alone(name: str, settings: dict[str, Any], shape: Any, device_name: str = "cpu") -> tuple[Net, dict[str, Any]]:
    """A net of a data layer, a layer with weights, the layer in question, and a squared difference from data."""
    rng = np.random.default_rng(len(name))
    sequence = isinstance(shape, str)
    sizes = ((8,) if "8" in shape else (3,)) if sequence else shape
    tested = settings | {"name": "tested"}
    below = {"name": "x", "type": "data", "shape": list(sizes), "sequence": sequence}
    scale = {"name": "scaled", "type": "sum", "bottom": ["x", "x"]}
    if settings["type"] == "mixed":
        tested["projection"] = [settings["projection"] | {"bottom": "scaled"}]
    else:
        tested["bottom"] = "scaled"
    form = Net({"layer": [below, scale, tested]}).forms["tested"]
    target = {"name": "y", "type": "data", "shape": list(form.shape), "sequence": form.sequence}
    cost = {"name": "loss", "type": "square_error", "bottom": ["tested", "y"]}
    where = device(device_name)
    net = Net({"layer": [below, scale, target, tested, cost]}, rng=rng, dtype="float64", device=where)
    starts = [0, 3, 4, 6] if sequence else None
    x = rng.standard_normal((6 if sequence else 4, *sizes)) / 2
    y = rng.standard_normal((6 if form.sequence else 3 if sequence else 4, *form.shape))
    batch = {"x": Argument(where.from_host(x), starts=starts)}
    batch["x"].wants = True
    batch["y"] = Argument(where.from_host(y), starts=starts if form.sequence else None)
    return net, batch


def gradients(net: Net, batch: dict[str, Any]) -> dict[str, np.ndarray]:
    """Those of the parameters and of x."""
    twin = net.replica()
    twin.forward(batch)
    twin.backward()
    found = {name: one.gradient for name, one in twin.parameters.items() if not one.static}
    return {k: net.device.to_host(v) for k, v in (found | {"": twin.arguments["x"].gradient}).items()}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings", "shape"), [pytest.param(*case, id=case[0]) for case in LAYERS_ALONE])
def test_a_layer_alone_as_differences_and_on_a_device(name: str, settings: dict[str, Any], shape: Any) -> None:
    net, batch = alone(name, settings, shape)
    found = gradients(net, batch)

    def loss() -> float:
        net.forward(batch)
        return net.loss()

    places = {key: net.parameters[key].value if key else batch["x"].value for key in found}
    for key, array in places.items():
        expected = np.zeros(array.shape)
        for at in np.ndindex(array.shape):
            kept, ends = array[at], []
            for moved in (1e-6, -1e-6):
                array[at] = kept + moved
                ends.append(loss())
            array[at] = kept
            expected[at] = (ends[0] - ends[1]) / 2e-6
        assert np.allclose(found[key], expected, rtol=1e-5, atol=1e-7), key
    on_sim = gradients(*alone(name, settings, shape, "sim:0"))
    assert all(np.array_equal(on_sim[key], found[key]) for key in found)


def test_every_type_of_layer_is_tried() -> None:
    from internals.layers import LAYERS

    tried = {settings["type"] for _, settings, _ in LAYERS_ALONE}
    for twin in TWINS:
        tried |= {one.settings_type for one in Net(twin.config).layers}
    assert set(LAYERS) - tried == {"dropout", "sigmoid_cross_entropy"}  # which have tests of their own below


def test_sigmoid_cross_entropy_as_torch() -> None:
    torch = pytest.importorskip("torch")
    net = Net(
        """layer { name: "x" type: "data" shape: 3 }  layer { name: "y" type: "data" shape: 2 }
        layer { name: "out" type: "fc" bottom: "x" size: 2 }
        layer { name: "loss" type: "sigmoid_cross_entropy" bottom: ["out", "y"] }""",
        rng=np.random.default_rng(0),
    )
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((5, 3)).astype("f"), rng.integers(0, 2, (5, 2)).astype("f")
    net.forward({"x": x, "y": y})
    net.backward()
    weight, bias = (
        torch.tensor(net.parameters[f"out.{role}"].value, requires_grad=True) for role in ("weight", "bias")
    )
    loss = torch.nn.functional.binary_cross_entropy_with_logits(torch.tensor(x) @ weight + bias, torch.tensor(y))
    loss.backward()
    assert net.loss() == pytest.approx(loss.item(), rel=1e-6)
    assert np.allclose(net.parameters["out.weight"].gradient, weight.grad, rtol=1e-5, atol=1e-7)


def test_dropout_drops_in_training_only_and_its_gradient_has_the_mask() -> None:
    net = Net(
        """layer { name: "x" type: "data" shape: 50 }  layer { name: "y" type: "data" shape: 50 }
        layer { name: "w" type: "mixed" size: 50 projection { type: "dotmul" bottom: "x" } }
        layer { name: "drop" type: "dropout" bottom: "w" p: 0.4 }
        layer { name: "loss" type: "square_error" bottom: ["drop", "y"] }"""
    )
    rng = np.random.default_rng(1)
    batch = {"x": rng.uniform(1, 2, (4, 50)).astype("f"), "y": np.zeros((4, 50), "f")}
    machine = GradientMachine(net, threads=1)
    first = machine.forward(batch)["drop"].value
    machine.backward()
    kept = first != 0
    assert 0.4 < kept.mean() < 0.8
    assert np.allclose(first[kept], batch["x"][kept] / 0.6, rtol=1e-6)
    assert np.array_equal(net.arguments["w"].gradient != 0, kept)
    assert not np.array_equal(machine.forward(batch)["drop"].value != 0, kept)
    assert np.array_equal(machine.forward(batch, test=True)["drop"].value, batch["x"])


def test_batch_norm_in_test_mode_is_that_of_nn() -> None:
    from internals import nn

    twin = next(twin for twin in TWINS if twin.name.startswith("batch norm"))
    rng = np.random.default_rng(0)
    net = Net(twin.config, rng=rng)
    machine, norm = GradientMachine(net), nn.BatchNorm2d(4)
    for _ in range(3):
        batch = twin.batch(rng, 6)
        machine.forward_backward(batch)
        norm(ops.conv2d(Tensor(batch["x"]), Tensor(net.parameters["conv.weight"].value), stride=2))
    norm.eval()
    mine = net.forward(batch, test=True)
    theirs = ops.relu(norm(Tensor(mine["conv"].value))).detach().numpy()
    assert np.allclose(mine["norm"].value, theirs, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="test mode"):
        net.backward()


def test_nothing_is_computed_below_the_lowest_parameter_that_learns() -> None:
    net = Net(
        """layer { name: "x" type: "data" shape: 3 }  layer { name: "y" type: "data" shape: 2 }
        layer { name: "fixed" type: "fc" bottom: "x" size: 3 weight { static: true } bias { static: true } }
        layer { name: "out" type: "fc" bottom: "fixed" size: 2 }
        layer { name: "loss" type: "square_error" bottom: ["out", "y"] }"""
    )
    net.forward({"x": np.ones((2, 3), "f"), "y": np.ones((2, 2), "f")})
    net.backward()
    assert net.arguments["fixed"].gradient is None
    assert net.parameters["fixed.weight"].gradient is None
    assert net.parameters["out.weight"].gradient is not None


def test_a_layer_of_ones_own() -> None:
    from internals.layers import LAYERS, Form, layer

    @layer("cube")
    class Cube(Layer):
        def setup(self, x: Form) -> Form:
            return x

        def forward(self, x: Argument) -> Any:
            return x.value**3

        def backward(self, g: Any, x: Argument) -> None:
            x.accumulate(3 * x.value**2 * g)

    try:
        net, batch = alone("cube", {"type": "cube"}, (4,))
        assert np.array_equal(net.forward(batch)["tested"].value, net.arguments["scaled"].value ** 3)
        with pytest.raises(ValueError, match="there is a type called 'cube' already"):
            layer("cube")(Cube)
    finally:
        del LAYERS["cube"]


# what others have under these names


def sequences(rng: np.random.Generator, width: int) -> Argument:
    return batch_of([rng.standard_normal((length, width)).astype("f") for length in (3, 1, 4)], ids=False)


def over(kind: str, width: int) -> Net:
    return Net(
        f'''layer {{ name: "x" type: "data" shape: {width} sequence: true }}
        layer {{ name: "h" type: "{kind}" bottom: "x" }}''',
        rng=np.random.default_rng(5),
    )


@pytest.mark.parametrize(("kind", "gates", "theirs"), [("grumemory", 3, "GRU"), ("recurrent", 1, "RNN")])
def test_recurrent_layers_as_torch(kind: str, gates: int, theirs: str) -> None:
    torch = pytest.importorskip("torch")
    rng, size = np.random.default_rng(1), 4
    net, x = over(kind, gates * size), sequences(rng, gates * size)
    for one in net.parameters.values():
        one.value = rng.standard_normal(one.value.shape).astype("f")
    found = net.forward({"x": x})["h"].value
    model = getattr(torch.nn, theirs)(gates * size, size)
    with torch.no_grad():
        model.weight_ih_l0.copy_(torch.eye(gates * size))
        model.bias_ih_l0.zero_()
        model.weight_hh_l0.copy_(torch.tensor(net.parameters["h.weight"].value))
        model.bias_hh_l0.copy_(torch.tensor(net.parameters["h.bias"].value))
        for begin, end in zip(x.starts, x.starts[1:], strict=False):
            want = model(torch.tensor(x.value[begin:end])[:, None])[0][:, 0]
            np.testing.assert_allclose(found[begin:end], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("window", [1, 3, 5])
def test_lrn_as_torch(window: int) -> None:
    torch = pytest.importorskip("torch")
    net = Net(
        f"""layer {{ name: "x" type: "data" shape: [4, 3, 2] }}
        layer {{ name: "h" type: "lrn" bottom: "x" window: {window} alpha: 0.8 beta: 0.7 k: 1.5 }}"""
    )
    x = np.random.default_rng(window).standard_normal((2, 4, 3, 2)).astype("f") * 2
    want = torch.nn.LocalResponseNorm(window, 0.8, 0.7, 1.5)(torch.tensor(x))
    np.testing.assert_allclose(net.forward({"x": x})["h"].value, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_group_of_layers_is_the_recurrent_layer(reverse: bool) -> None:
    """The loop written with layers, and the one that is one layer: values, and gradients by x and by the weights."""
    flag = str(reverse).lower()
    texts = [
        f"""layer {{ name: "h" type: "recurrent" bottom: "gates" reverse: {flag} bias: false }}""",
        f"""layer {{ name: "h" type: "recurrent_group" bottom: "gates" output: "state" reverse: {flag}
            memory {{ name: "before" of: "state" size: 3 }}
            layer {{ name: "moved" type: "fc" bottom: "before" size: 3 bias: false }}
            layer {{ name: "state" type: "sum" bottom: ["gates", "moved"] act: "tanh" }} }}""",
    ]
    rng = np.random.default_rng(2)
    x, weight = sequences(rng, 2), rng.standard_normal((3, 3)).astype("f")
    target = Argument(rng.standard_normal((8, 3)).astype("f"), starts=x.starts)
    x.wants = True
    found = []
    for text, name in zip(texts, ("h.weight", "h/moved.weight"), strict=True):
        net = Net(
            f"""layer {{ name: "x" type: "data" shape: 2 sequence: true }}
            layer {{ name: "y" type: "data" shape: 3 sequence: true }}
            layer {{ name: "gates" type: "fc" bottom: "x" size: 3 }} {text}
            layer {{ name: "loss" type: "square_error" bottom: ["h", "y"] }}""",
            rng=np.random.default_rng(7),
        )
        net.parameters["gates.weight"].value = rng.standard_normal((2, 3)) if not found else found[0][-1]
        net.parameters[name].value = weight if name == "h.weight" else weight.T
        with GradientMachine(net, threads=2) as machine:
            parts = machine.forward_backward({"x": x, "y": target}), net.parameters["gates.weight"].gradient.copy()
        net.forward({"x": x, "y": target})
        net.backward()
        by = net.parameters[name].gradient
        gates = net.parameters["gates.weight"]
        by_inputs = [net.arguments["x"].gradient, by if name == "h.weight" else by.T, gates.gradient]
        found.append([net.arguments["h"].value, *by_inputs, *parts, gates.value])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[0][3], found[0][5], rtol=1e-4, atol=1e-6)


def test_layers_in_a_group_share_a_parameter_by_its_name_and_drop_anew_at_each_step() -> None:
    net = Net(
        """layer { name: "x" type: "data" shape: 40 sequence: true }
        layer { name: "h" type: "recurrent_group" bottom: "x" output: "drop"
          layer { name: "same" type: "mixed" size: 40 projection { type: "dotmul" bottom: "x" weight { name: "w" } } }
          layer { name: "drop" type: "dropout" bottom: "same" } }
        layer { name: "again" type: "mixed" size: 40 projection { type: "dotmul" bottom: "h" weight { name: "w" } } }"""
    )
    assert list(net.parameters) == ["w"]
    machine = GradientMachine(net)
    batch = {"x": batch_of([np.ones((3, 40), "f"), np.ones((2, 40), "f")], ids=False)}
    rows = {row.tobytes() for _ in range(2) for row in machine.forward(batch)["h"].value != 0}
    assert len(rows) == 10
    assert (machine.forward(batch, test=True)["h"].value == 1).all()


def test_ids_are_looked_up_inside_a_group() -> None:
    net = Net(
        """layer { name: "words" type: "data" ids: 7 sequence: true }
        layer { name: "h" type: "recurrent_group" bottom: "words" output: "row"
          layer { name: "row" type: "mixed" size: 2 projection { type: "table" bottom: "words" } } }"""
    )
    words = batch_of([[1, 2, 6], [3]], ids=True)
    found = net.forward({"words": words})["h"].value
    np.testing.assert_array_equal(found, net.parameters["h/row.0.weight"].value[[1, 2, 6, 3]])
