"""No public operation drops a gradient silently: the result requires one, or it is declared here, and in the doc, why.

The tables are complete: a row, function, method or module that is in none of them fails.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_answers import call_row, laid_out
from op_examples import GROUPS, Example

from internals import Tensor, nn, ops
from internals.ops import TABLE, Op
from internals.ops.operators import Operators

CONSTANT_RESULTS = {"zeros_like": "Zeros", "ones_like": "Ones"}
"""Rows whose floating result does not depend on the input's values, and the word of the doc that says so."""

CONSTANT_INPUTS = {("weighted_cross_entropy", "weight"): "a constant that is not differentiated by",
                   ("fake_quantise", "scale"): "a constant that is not differentiated by"}  # fmt: skip
"""Floating inputs without a rule, and the words of the doc that say so."""


def floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype.kind == "f"


def results(out: Any) -> list[Any]:
    return [one for part in out for one in results(part)] if isinstance(out, tuple | list) else [out]


def requires(out: Any) -> list[bool]:
    """Of each floating result whether it requires a gradient."""
    return [one.requires_grad for one in results(out) if floating(one)]


def richest(name: str) -> list[Example]:
    """Of each case of a row, the example with the most to it."""
    return [group.examples[-4] for group in GROUPS if group.case.op == name and group.dtype == "float32"]


@pytest.mark.parametrize("name", TABLE)
def test_a_row_keeps_the_gradient_or_says_why_not(name: str) -> None:
    op = TABLE[name]
    for example in richest(name):
        arrays = example.inputs()
        for position in [i for i, array in enumerate(arrays) if array.dtype.kind == "f"]:
            inputs = [laid_out(array, "plain") for array in arrays]
            inputs[position].requires_grad = True
            kept = requires(call_row(example, inputs))
            argument = op.inputs[min(position, op.arity - 1)]
            if not kept:  # integers or booleans
                continue
            if name in CONSTANT_RESULTS:
                assert not any(kept)
                assert CONSTANT_RESULTS[name] in op.doc
            elif (name, argument) in CONSTANT_INPUTS:
                assert not any(kept)
                assert CONSTANT_INPUTS[name, argument] in op.doc
            else:
                assert all(kept), f"{name} of {argument}: a gradient is asked for and none kept"


@pytest.mark.parametrize("name", TABLE)
def test_an_input_without_a_rule_is_an_index_a_condition_or_declared(name: str) -> None:
    op = TABLE[name]
    for example in richest(name) if op.differentiable else []:
        for position, array in enumerate(example.inputs()):
            argument = op.inputs[min(position, op.arity - 1)]
            if not op.has_rule(position if not op.variadic else 0):
                assert array.dtype.kind in "biu" or (name, argument) in CONSTANT_INPUTS, f"{name}: {argument}"


def test_rows_without_a_derivative_say_what_they_give() -> None:
    """Where the result is an integer or a boolean there is nothing to say; a floating one is in the table above."""
    for name, op in TABLE.items():
        if not op.differentiable and name not in CONSTANT_RESULTS:
            for example in richest(name):
                out = results(call_row(example, [laid_out(array, "plain") for array in example.inputs()]))
                inputs = example.inputs()
                assert all(one.dtype.kind in "biu" for one in out) or all(x.dtype.kind in "biu" for x in inputs), name


def x(*shape: int) -> Tensor:
    values = np.random.default_rng([7, *shape]).uniform(0.2, 0.9, shape).astype(np.float32)
    return Tensor(values, requires_grad=True)


def ids(*values: Any) -> Tensor:
    return Tensor(np.array(values))


MASK = Tensor(np.array([True, False, True]))

FUNCTIONS: dict[str, Callable[[], Any]] = {
    "attention": lambda: ops.attention(x(2, 3, 4), x(2, 3, 4), x(2, 3, 4)),
    "batch_norm": lambda: ops.batch_norm(x(4, 3)),
    "group_norm": lambda: ops.group_norm(x(2, 4), 2),
    "layer_norm": lambda: ops.layer_norm(x(2, 3)),
    "rms_norm": lambda: ops.rms_norm(x(2, 3)),
    "moveaxis": lambda: ops.moveaxis(x(2, 3), 0, 1),
    "swapaxes": lambda: ops.swapaxes(x(2, 3), 0, 1),
    "split": lambda: ops.split(x(5), 2),
    "chunk": lambda: ops.chunk(x(5), 2),
    "unbind": lambda: ops.unbind(x(2, 3)),
    "index_add": lambda: [ops.index_add(x(3), ids(0), Tensor([1.0])), ops.index_add(Tensor([1.0]), ids(0), x(1))],
    "masked_fill": lambda: [ops.masked_fill(x(3), MASK, 0.0), ops.masked_fill(Tensor([1.0, 2.0, 3.0]), MASK, x())],
    "pad_same": lambda: ops.pad_same(x(1, 1, 4), 2),
    "smooth_l1": lambda: ops.smooth_l1(x(3), Tensor([1.0, 2.0, 3.0])),
    "soft_cross_entropy": lambda: [ops.soft_cross_entropy(x(2, 3), x(2, 3).detach()),
                                   ops.soft_cross_entropy(x(2, 3).detach(), x(2, 3))],
    "weighted_binary_cross_entropy": lambda: [ops.weighted_binary_cross_entropy(x(3), x(3).detach(), 2.0),
                                              ops.weighted_binary_cross_entropy(x(3).detach(), x(3).detach(), x())],
    "lstsq": lambda: [ops.lstsq(x(3, 2), x(3, 1).detach()), ops.lstsq(x(3, 2).detach(), x(3, 1))],
}  # fmt: skip
ABOUT_THE_TABLE = {
    "Op", "Spec", "broadcast_shapes", "draw_seed", "explain_broadcast", "promote", "pull", "row", "style", "swap",
    "swap_jvp", "swap_kernels",
    "unbroadcast",
}  # fmt: skip
"""Public names that do not compute on tensors, and the two that the backward pass itself is made of."""


def public_functions() -> set[str]:
    return {name for name in ops.__all__ if callable(getattr(ops, name)) and not isinstance(getattr(ops, name), Op)}


def test_every_function_of_ops_is_here() -> None:
    assert public_functions() == set(FUNCTIONS) | ABOUT_THE_TABLE


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_keeps_the_gradient(name: str) -> None:
    kept = requires(FUNCTIONS[name]())
    assert kept
    assert all(kept)


METHODS: dict[str, Callable[[Tensor], Any]] = {
    "T": lambda x: x.T,
    **{name: lambda x, name=name: getattr(x, name)(0) for name in ("cumprod", "cumsum", "unsqueeze")},
    **{name: lambda x, name=name: getattr(x, name)() for name in (
        "clone", "contiguous", "exp", "flatten", "log", "log_softmax", "max", "mean", "min", "norm", "prod", "relu",
        "sigmoid", "softmax", "sqrt", "squeeze", "std", "sum", "tanh", "var",
    )},
    **{name: lambda x, name=name: getattr(x, name)() for name in ("amax", "amin", "sort", "unbind")},
    **{name: lambda x, name=name: getattr(x, name)(1) for name in ("chunk", "split", "topk")},
    "masked_fill": lambda x: x.masked_fill(x.detach() > 0.5, 0.0),
    "broadcast_to": lambda x: x.broadcast_to(2, 2, 3),
    "clip": lambda x: x.clip(0.0, 1.0),
    "cpu": lambda x: x.to("sim:0").cpu(),
    "permute": lambda x: x.permute(1, 0),
    "reshape": lambda x: x.reshape(3, 2),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "to": lambda x: [x.to("sim:0"), x.to("float64")],
    "transpose": lambda x: x.transpose(1, 0),
    "__abs__": abs,
    "__add__": lambda x: [x + 1.0, 1.0 + x],
    "__sub__": lambda x: [x - 1.0, 1.0 - x],
    "__mul__": lambda x: [x * 2.0, 2.0 * x],
    "__truediv__": lambda x: [x / 2.0, 2.0 / x],
    "__pow__": lambda x: [x**2.0, 2.0**x],
    "__mod__": lambda x: [x % 2.0, 5.0 % x],
    "__floordiv__": lambda x: [x // 2.0, 5.0 // x],
    "__divmod__": lambda x: [*divmod(x, 2.0), *divmod(5.0, x)],
    "__pos__": lambda x: +x,
    "__array_ufunc__": lambda x: [np.full(3, 2.0) + x, np.exp(x), np.logaddexp(x, 1.0), np.float64(2) * x],
    "__matmul__": lambda x: [x @ Tensor([1.0, 2.0, 3.0]), Tensor([1.0, 2.0]) @ x],
    "__neg__": lambda x: -x,
    "__getitem__": lambda x: [x[0], x[:, None], x[x.detach() > 0.0], x[ids(0, 1, 1)]],
    "__iter__": list,
}  # fmt: skip
REFLECTED = {
    f"__r{name}__"
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "divmod", "pow", "mod", "matmul", "and", "or", "xor",
    )
}  # fmt: skip
INTEGER_OR_BOOLEAN = {
    "all", "any", "argmax", "argmin", "argsort", "__and__", "__or__", "__xor__", "__invert__", "__eq__", "__ne__",
    "__lt__", "__le__", "__gt__", "__ge__",
}  # fmt: skip
CUT_OFF_ON_PURPOSE = {"detach", "data", "grad", "numpy", "item", "tolist", "storage", "base", "__reduce__"}
REFUSED_WITH_A_GRADIENT = {"__array__", "__array_function__"}
ABOUT_THE_TENSOR = {
    "backward", "device", "dtype", "is_contiguous", "is_leaf", "is_view", "itemsize", "nbytes", "ndim", "node",
    "offset", "register_hook", "register_post_accumulate_grad_hook", "requires_grad", "retain_grad", "shape", "size",
    "strides", "version",
}  # fmt: skip
"""What is asked of a tensor that is no tensor."""


def test_every_method_of_a_tensor_is_here() -> None:
    public = {name for name in dir(Tensor) if not name.startswith("_") and not name.endswith("_")}
    known = {*METHODS, *INTEGER_OR_BOOLEAN, *CUT_OFF_ON_PURPOSE, *ABOUT_THE_TENSOR}
    assert public - known == set()
    assert {name for name in known if not name.startswith("_")} - public == set()
    operators = {name for name, value in vars(Operators).items() if inspect.isfunction(value) and name[0] == "_"}
    assert operators - {*METHODS, *REFLECTED, *INTEGER_OR_BOOLEAN, *REFUSED_WITH_A_GRADIENT} == set()


@pytest.mark.parametrize("ask", [np.asarray, np.sum, lambda x: np.concatenate([[1.0], x]), lambda x: np.fmod(x, 2.0)])
def test_where_numpy_would_lose_a_gradient_it_is_refused(ask: Any) -> None:
    with pytest.raises(RuntimeError, match="requires a gradient, which NumPy can't follow.*detach"):
        ask(x(3))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_keeps_the_gradient(name: str) -> None:
    kept = requires(METHODS[name](x(2, 3)))
    assert kept
    assert all(kept)


@pytest.mark.parametrize("name", [name for name in dir(Tensor) if re.fullmatch("[a-z][a-z0-9_]*[a-z0-9]_", name)])
def test_a_write_in_place_keeps_the_gradient(name: str) -> None:
    """Of the tensor that is written to, and of the one that is written; zeros and numbers have none."""
    arguments: dict[str, tuple[Any, ...]] = {"clip_": (0.3, 0.6), "clamp_": (0.3, 0.6), "lerp_": (2.0, 0.5)}
    binary = TABLE[name[:-1]].arity == 2 if name[:-1] in TABLE else name == "copy_"
    target = x(3) * 1.0
    if name in ("fill_", "zero_", "copy_"):
        other = x(3)
        target = Tensor([1.0, 2.0, 3.0])
        getattr(target, name)(*((other,) if name == "copy_" else (0.5,) if name == "fill_" else ()))
        assert target.requires_grad == (name == "copy_")
        return
    getattr(target, name)(*arguments.get(name, (2.0,) if binary else ()))
    assert target.requires_grad
    if binary:
        constant = Tensor([0.5, 0.5, 0.5])
        getattr(constant, name)(x(3))
        assert constant.requires_grad


MODULES: dict[str, Callable[[], Any]] = {
    **{name: lambda name=name: getattr(nn, name)()(x(2, 3)) for name in (
        "ELU", "Flatten", "GELU", "Identity", "LeakyReLU", "LogSoftmax", "ReLU", "Sigmoid", "SiLU", "Softmax",
        "Softplus", "Tanh", "Dropout",
    )},
    "Linear": lambda: nn.Linear(3, 2)(x(2, 3)),
    "Sequential": lambda: nn.Sequential(nn.Linear(3, 2), nn.ReLU())(x(2, 3)),
    "Conv1d": lambda: nn.Conv1d(2, 3, 2)(x(1, 2, 4)),
    "Conv2d": lambda: nn.Conv2d(2, 3, 2)(x(1, 2, 4, 4)),
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(2, 3, 2)(x(1, 2, 4)),
    "ConvTranspose2d": lambda: nn.ConvTranspose2d(2, 3, 2)(x(1, 2, 4, 4)),
    "MaxPool2d": lambda: nn.MaxPool2d(2)(x(1, 2, 4, 4)),
    "AvgPool2d": lambda: nn.AvgPool2d(2)(x(1, 2, 4, 4)),
    "AdaptiveAvgPool2d": lambda: nn.AdaptiveAvgPool2d(2)(x(1, 2, 4, 4)),
    "BatchNorm1d": lambda: nn.BatchNorm1d(3)(x(4, 3)),
    "BatchNorm2d": lambda: nn.BatchNorm2d(3)(x(4, 3, 2, 2)),
    "GroupNorm": lambda: nn.GroupNorm(2, 4)(x(2, 4, 3)),
    "LayerNorm": lambda: nn.LayerNorm(3)(x(2, 3)),
    "RMSNorm": lambda: nn.RMSNorm(3)(x(2, 3)),
    "Embedding": lambda: nn.Embedding(4, 3)(ids(0, 2)),
    "LearnedPositions": lambda: nn.LearnedPositions(5, 4)(x(2, 3, 4)),
    "SinusoidalPositions": lambda: nn.SinusoidalPositions(5, 4)(x(2, 3, 4)),
    "RNN": lambda: nn.RNN(3, 4)(x(2, 5, 3)),
    "LSTM": lambda: nn.LSTM(3, 4)(x(2, 5, 3)),
    "GRU": lambda: nn.GRU(3, 4)(x(2, 5, 3)),
    "RNNCell": lambda: nn.RNNCell(3, 4)(x(2, 3)),
    "LSTMCell": lambda: nn.LSTMCell(3, 4)(x(2, 3)),
    "GRUCell": lambda: nn.GRUCell(3, 4)(x(2, 3)),
    "MultiheadAttention": lambda: nn.MultiheadAttention(4, 2)(x(2, 3, 4)),
    "TransformerBlock": lambda: nn.TransformerBlock(4, 2)(x(2, 3, 4)),
    "CrossEntropyLoss": lambda: nn.CrossEntropyLoss()(x(2, 3), ids(0, 2)),
    "NLLLoss": lambda: nn.NLLLoss()(x(2, 3), ids(0, 2)),
    **{name: lambda name=name: getattr(nn, name)()(x(2, 3), x(2, 3).detach()) for name in (
        "BCEWithLogitsLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss",
    )},
}  # fmt: skip
HOLDERS = {"Module", "ModuleDict", "ModuleList"}
"""Modules that only hold others."""


def test_every_module_is_here() -> None:
    modules = {name for name in nn.__all__ if isinstance(getattr(nn, name), type)}
    assert modules == set(MODULES) | HOLDERS


@pytest.mark.parametrize("name", MODULES)
def test_a_module_keeps_the_gradient(name: str) -> None:
    kept = requires(MODULES[name]())
    assert kept
    assert all(kept)
