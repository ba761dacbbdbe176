"""A configuration that can't be a net is refused before anything runs, at its line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from internals.layers import Argument, ConfigError, DataProvider, Form, GradientMachine, Momentum, Net, Parameter, swap

GOOD = """name: "small"   # a comment
layer { name: "x" type: "data" shape: 3 }
layer { name: "label" type: "data" ids: 2 }
layer {
  name: "out"
  type: "fc"
  bottom: "x"
  size: 2
}
layer { name: "loss" type: "softmax_with_loss" bottom: ["out", "label"] }
"""


def edited(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


GROUP = """layer { name: "x" type: "data" shape: 3 sequence: true }
layer {
  name: "g" type: "recurrent_group"
  bottom: "x"
  output: "h"
  memory { name: "before" of: "h" size: 2 }
  layer { name: "both" type: "concat" bottom: ["x", "before"] }
  layer { name: "h" type: "fc" bottom: "both" size: 2 }
}
"""


def grouped(old: str, new: str) -> str:
    assert old in GROUP
    return GROUP.replace(old, new)


BAD_GROUPS = [
    (
        "a setting inside",
        grouped('"both" size: 2', '"both" size: 0'),
        8,
        "layer 'g/h': size must be a positive integer",
    ),
    ("an unknown type inside", grouped('"concat"', '"conct"'), 7, "'g/both' has the unknown type 'conct' (did you"),
    ("a bottom inside that is outside", grouped('["x",', '["y",'), 7, "'g/both' reads 'g/y', which is not there"),
    ("a circle inside", grouped('["x", "before"]', '["x", "h"]'), 7, "in a circle: g/both -> g/h -> g/both"),
    ("a memory of nothing", grouped('of: "h"', 'of: "k"'), 2, "memory 'before' is of 'k' and has size 2, but that"),
    ("a memory of another size", grouped("size: 2 }\n  layer", "size: 4 }\n  layer"), 2, "size 4, but that is 2"),
    ("a memory without a size", grouped(' of: "h" size: 2', ' of: "h"'), 2, "a memory is a group of a name, of and"),
    ("an output that is not there", grouped('output: "h"', 'output: "o"'), 2, "output 'o' is none of the layers"),
    ("no output", grouped('output: "h"', ""), 2, "needs the setting 'output'"),
    ("a group over one example", grouped(" sequence: true", ""), 2, "runs over sequences, but a bottom is 3"),
    ("a batch norm inside", grouped('"concat" bottom: ["x", "before"]', '"batch_norm" bottom: "x"'), 7, "can't stand"),
    ("a number for a layer", grouped('layer { name: "h"', 'layer: 3 layer { name: "h"'), 2, "a layer is a group of"),
    ("a setting of a group in another", grouped('"recurrent_group"', '"grumemory"'), 5, "no setting 'output'"),
]

BAD = [
    *[(f"group: {name}", text, line, words) for name, text, line, words in BAD_GROUPS],
    ("unknown type", edited('"fc"', '"fx"'), 6, "'out' has the unknown type 'fx' (did you mean 'fc'?)"),
    ("missing bottom", edited('bottom: "x"', 'bottom: "xs"'), 7, "'out' reads 'xs', which is not there"),
    ("duplicate name", edited('"loss"', '"out"'), 10, "'out' is there twice, first at line 4"),
    ("circle", edited('bottom: "x"', 'bottom: "loss"'), 4, "in a circle: out -> loss -> out"),
    ("its own bottom", edited('bottom: "x"', 'bottom: "out"'), 4, "in a circle: out -> out"),
    (
        "shape does not fit",
        edited("size: 2", "size: 3"),
        10,
        "3 classes in the first bottom, but labels are ids below 2",
    ),
    ("labels of numbers", edited("ids: 2", "shape: 2"), 10, "must be ids, one for each example"),
    ("unknown setting", edited("size: 2", "sise: 2"), 8, "no setting 'sise' (did you mean 'size'?)"),
    ("missing setting", edited("size: 2", ""), 4, "needs the setting 'size'"),
    ("setting of another kind", edited("size: 2", 'size: "two"'), 4, "size must be a positive integer, got 'two'"),
    ("size 0", edited("size: 2", "size: 0"), 4, "size must be a positive integer, got 0"),
    ("unknown activation", edited("size: 2", 'size: 2 act: "rleu"'), 4, "act 'rleu' is not one of linear, relu"),
    ("no bottom", edited('bottom: "x"', ""), 4, "'fc' has 1 bottoms, 'out' has 0"),
    ("a bottom too many", edited('["out", "label"]', '["out", "label", "x"]'), 10, "has 2 bottoms, 'loss' has 3"),
    ("no name", edited('name: "out"', ""), 4, "a layer has no name"),
    ("two types", edited('type: "fc"', 'type: "fc" type: "sum"'), 6, "more than one type"),
    ("a name that is a number", edited('name: "out"', "name: 5"), 5, "no word as its name"),
    ("brace not closed", edited("  size: 2\n}", "  size: 2"), 4, "the brace of line 4 is not closed"),
    ("brace at the end", GOOD[: GOOD.rindex("}")], 10, "the brace of line 10 is not closed"),
    ("a brace too many", GOOD + "}", 11, "expected the name of a field, got '}'"),
    ("string not closed", edited('"fc"', '"fc'), 6, "a string that does not end on its line"),
    ("list not closed", GOOD[: GOOD.rindex("]")], 10, "the text ends inside a list"),
    ("no colon", edited("size: 2", "size 2"), 8, "expected : or { after 'size', got '2'"),
    ("no value", edited("size: 2", "size:"), 9, "expected a value, got '}'"),
    ("a strange character", edited("size: 2", "size: 2 %"), 8, "'%' is neither a word, a number nor a string"),
    ("number and letters", edited("size: 2", "size: 2x"), 8, "'2x' is neither"),
    ("field beside the layers", edited('name: "small"', "lr: 3"), 1, "'lr' stands beside the layers"),
    ("not a group", edited('name: "small"', "layer: 3"), 1, "a group of fields in braces, got 3"),
    ("nothing", "", 1, "there is no layer"),
    ("parameter setting", edited("size: 2", "size: 2 bias { speed: 2 }"), 4, "bias has no setting speed"),
    ("parameter number", edited("size: 2", 'size: 2 bias { lr_mult: "two" }'), 4, "lr_mult of bias must be a number"),
    (
        "parameter negative",
        edited("size: 2", "size: 2 bias { lr_mult: -1 }"),
        4,
        "lr_mult of bias must not be negative",
    ),
    ("parameter static", edited("size: 2", 'size: 2 bias { static: "yes" }'), 4, "static of bias must be a bool"),
    ("parameter name", edited("size: 2", "size: 2 bias { name: 5 }"), 4, "name of bias must be a str, got 5"),
    ("two activations", edited("size: 2", 'size: 2 act: ["relu", "tanh"]'), 4, "act ['relu', 'tanh'] is not one of"),
    ("sequence of another kind", edited("ids: 2", 'ids: 2 sequence: "yes"'), 3, "sequence must be true or false"),
    ("momentum", edited('"fc"', '"batch_norm" momentum: 2').replace("size: 2", ""), 4, "momentum must be a number in"),
    ("parameter start", edited("size: 2", 'size: 2 weight { init: "ones" }'), 4, "init 'ones' is not one of"),
    ("parameter off", edited("size: 2", "size: 2 weight: 3"), 4, "weight must be a group of settings"),
    (
        "shared, of two shapes",
        edited(
            "size: 2\n}",
            'size: 2 weight { name: "w" }\n}\nlayer { name: "o" type: "fc" bottom: "x" size: 5 weight { name: "w" } }',
        ),
        10,
        "'w' is shared, but has shape (3, 2) in one layer and (3, 5) in this",
    ),
    ("ids into fc", edited('bottom: "x"', 'bottom: "label"'), 4, "needs numbers, but its bottom is ids below 2"),
    (
        "vectors into conv",
        edited('type: "fc"', 'type: "conv" window: 2 channels: 1').replace("size: 2", ""),
        4,
        "needs images",
    ),
    (
        "unknown projection",
        edited('type: "fc"\n  bottom: "x"', 'type: "mixed"\n projection { type: "matrix" bottom: "x" }'),
        7,
        "unknown projection 'matrix'",
    ),
    (
        "projection without a bottom",
        edited('type: "fc"\n  bottom: "x"', 'type: "mixed"\n projection { type: "table" }'),
        7,
        "a projection has one bottom",
    ),
    (
        "identity of another size",
        edited('type: "fc"\n  bottom: "x"', 'type: "mixed"\n projection { type: "identity" bottom: "x" offset: 2 }'),
        4,
        "are not all there",
    ),
]


@pytest.mark.parametrize(("text", "line", "words"), [pytest.param(*case[1:], id=case[0]) for case in BAD])
def test_refused_at_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Net(text)
    assert caught.value.line == line, caught.value
    assert str(caught.value).startswith(f"line {line}, column {caught.value.column}: ")
    assert words in str(caught.value)


def test_a_dict_says_which_layer() -> None:
    layers = [{"name": "x", "type": "data", "shape": 3}, {"name": "out", "type": "fc", "bottom": "y", "size": 2}]
    with pytest.raises(ConfigError, match=r"layer 1 \('out'\): layer 'out' reads 'y', which is not there"):
        Net({"layer": layers})
    for given in (None, 3, ["x"]):
        with pytest.raises(TypeError, match="from a text or a dict"):
            Net(given)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be float32 or float64"):
        Net(GOOD, dtype="float16")


def test_text_and_dict_are_the_same_net() -> None:
    written = {
        "name": "small",
        "layer": [
            {"name": "loss", "type": "softmax_with_loss", "bottom": ["out", "label"]},
            {"name": "x", "type": "data", "shape": 3},
            {"name": "label", "type": "data", "ids": 2},
            {"name": "out", "type": "fc", "bottom": "x", "size": 2},
        ],
    }
    one, other = (Net(given, rng=np.random.default_rng(0)) for given in (GOOD, written))
    assert one.summary(4) == other.summary(4)
    assert [layer.name for layer in other.layers] == ["x", "label", "out", "loss"]
    assert np.array_equal(one.parameters["out.weight"].value, other.parameters["out.weight"].value)


def batch(**changed: Any) -> dict[str, Any]:
    return {"x": np.ones((4, 3), "f"), "label": np.zeros(4, int)} | changed


FED = [
    ("not a dict", [1, 2], TypeError, "a batch is a dict"),
    ("one is missing", {"x": np.ones((4, 3), "f")}, ValueError, "the batch has x; the data layers are x, label"),
    ("one too many", batch(y=1), ValueError, "the batch has x, label, y"),
    ("wrong shape", batch(x=np.ones((4, 2), "f")), ValueError, "expected (examples, 3), that is 3"),
    ("wrong dtype", batch(x=np.ones((4, 3))), TypeError, "Cast it: x.astype('float32')"),
    ("0-d", batch(x=np.float32(1)), ValueError, "a 0-d array has none"),
    ("labels of floats", batch(label=np.zeros(4)), TypeError, "'label': ids below 2 must be integers, got float64"),
    ("label too large", batch(label=np.array([0, 1, 2, 0])), ValueError, "ids go from 0 to 2; expected ids below 2"),
    ("label negative", batch(label=np.array([0, 1, -1, 0])), ValueError, "ids go from -1 to 1"),
    ("other batch sizes", batch(label=np.zeros(3, int)), ValueError, "x 4, label 3"),
    ("empty", batch(x=np.ones((0, 3), "f"), label=np.zeros(0, int)), ValueError, "the batch is empty"),
    ("sequences", batch(x=Argument(np.ones((4, 3), "f"), starts=[0, 4])), ValueError, "got sequences"),
    ("ids for numbers", batch(x=Argument(ids=np.zeros(4, int))), TypeError, "expected 3, got ids"),
]


@pytest.mark.parametrize(("given", "error", "words"), [pytest.param(*case[1:], id=case[0]) for case in FED])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_that_does_not_fit(given: Any, error: type[Exception], words: str, threads: int) -> None:
    with pytest.raises(error) as caught:
        GradientMachine(Net(GOOD), threads=threads).forward_backward(given)
    assert words in str(caught.value)


def test_a_batch_on_another_device() -> None:
    from internals.device import device

    with pytest.raises(ValueError, match=r"an array on sim:0 came, but the net is on cpu"):
        Net(GOOD).forward(batch(x=device("sim:0").from_host(np.ones((4, 3), "f"))))


def test_sequences_are_wanted_with_their_starts() -> None:
    net = Net("""layer { name: "w" type: "data" ids: 5 sequence: true }
        layer { name: "v" type: "mixed" size: 2 projection { type: "table" bottom: "w" } }""")
    with pytest.raises(ValueError, match="give an Argument with `starts`"):
        net.forward({"w": np.zeros(4, int)})
    for starts in ([0, 2], [1, 4], [0, 2, 2, 4], [0, 5], [], [0.0, 4.0], [[0, 4]]):
        with pytest.raises(ValueError, match="starts must"):
            Argument(ids=np.zeros(4, int), starts=starts)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Argument(), ValueError, "either a value or ids"),
        (lambda: Argument(np.ones(2), ids=np.ones(2, int)), ValueError, "either a value or ids"),
        (lambda: Argument(ids=np.ones(2)), TypeError, "must be integers, got float64"),
        (lambda: Argument(np.float32(1)), ValueError, "0-d array"),
        (lambda: Parameter("w", np.zeros(2)).accumulate(np.zeros(3)), ValueError, "'w': a gradient of float64"),
        (lambda: Parameter("w", np.zeros(2)).accumulate(np.zeros(2, "f")), ValueError, "they must agree"),
        (lambda: setattr(Parameter("w", np.zeros(2)), "value", np.zeros(3)), ValueError, "a value of shape (3,)"),
        (lambda: GradientMachine(Net(GOOD), threads=0), ValueError, "threads must be a positive integer"),
        (lambda: Net(GOOD).backward(), RuntimeError, "run the forward pass first"),
        (lambda: Net('layer { name: "x" type: "data" shape: 1 }').backward(), RuntimeError, "has no cost layer"),
        (lambda: swap(fx=1).__enter__(), ValueError, "there is no fx; there are the parts order"),
        (lambda: GradientMachine(Net(GOOD)).forward_backward(batch(), 5), TypeError, "callback must be a function"),
        (lambda: Momentum(0.0), ValueError, "lr must be positive"),
        (lambda: Momentum(0.1, momentum=1), ValueError, "momentum in [0, 1)"),
        (lambda: Momentum(float("nan")), ValueError, "lr is nan"),
        (lambda: Momentum(0.1, decay=-1), ValueError, "decay is -1"),
        (lambda: DataProvider([], {}, batch_size=0), ValueError, "batch_size must be a positive integer"),
        (lambda: DataProvider(iter([]), {}, batch_size=1), TypeError, "once only"),
        (lambda: list(DataProvider([{}], {"x": Form((2,))}, batch_size=1)), ValueError, "lacks x"),
        (
            lambda: list(DataProvider([{"x": [1, 2, 3]}], {"x": Form((2,))}, batch_size=1)),
            ValueError,
            "'x' must be 2, got an entry of shape (3,)",
        ),
        (
            lambda: list(DataProvider([{"x": []}], {"x": Form(ids=3, sequence=True)}, batch_size=1)),
            TypeError,
            "must be sequences of ids below 3, got float64",
        ),
        (
            lambda: list(DataProvider([{"x": 1.5}], {"x": Form(ids=3)}, batch_size=1)),
            TypeError,
            "must be ids below 3, got float64",
        ),
    ],
)
def test_other_nonsense(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert words in str(caught.value)
