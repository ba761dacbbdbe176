"""Every row of the op table against torch, tensorflow and finite differences, on every device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from op_answers import (
    Answer,
    assert_close,
    attrs_of,
    by_differences,
    by_tensorflow,
    by_torch,
    call,
    call_row,
    differences,
    laid_out,
    ours,
    to_host,
)
from op_cases import CASES
from op_examples import GROUPS, Example, Group

from internals import Tensor
from internals.autodiff import grad
from internals.device import device_of
from internals.ops import TABLE, Op, Spec
from internals.ops.spec import dtype_of, shape_of

DEVICES = ["cpu", "sim:0", pytest.param("cuda:0", marks=pytest.mark.gpu)]
DIFFERENTIABLE = [group for group in GROUPS if group.dtype == "float64" and TABLE[group.case.op].differentiable]
IN_TENSORFLOW = [  # its ctc_loss is for float32 alone
    group for group in GROUPS if group.dtype != "int64" and (group.case.op, group.dtype) != ("ctc", "float64")
]
on_every_device = pytest.mark.parametrize("where", DEVICES)
first_on_the_host = pytest.mark.parametrize(
    "where", ["cpu", pytest.param("sim:0", marks=pytest.mark.slow), pytest.param("cuda:0", marks=pytest.mark.gpu)]
)


@cache
def torch_answer(example: Example) -> Answer:
    return by_torch(example)


@cache
def tensorflow_answer(tf: Any, example: Example) -> Answer:
    return by_tensorflow(tf, example)


@cache
def difference_answer(example: Example) -> list[np.ndarray]:
    return by_differences(example)


def check_each(examples: Iterable[Example], check: Callable[[Example], None]) -> None:
    """Check one example after the other; a failure says which one it was."""
    for example in examples:
        try:
            check(example)
        except Exception as error:
            error.add_note(f"in {example}")
            raise


def compare(got: Answer, want: Answer, *, dtype: bool = True) -> None:
    if dtype:
        assert got.out.dtype == want.out.dtype
    assert_close(got.out, want.out, "result")
    assert len(got.gradients) == len(want.gradients)
    for i, (mine, theirs) in enumerate(zip(got.gradients, want.gradients, strict=True)):
        assert mine.dtype == theirs.dtype
        assert_close(mine, theirs, f"gradient {i}")


# Against the real frameworks


def test_every_row_has_a_case_and_every_case_a_row() -> None:
    assert {case.op for case in CASES} == set(TABLE), "each row has one line in tests/internals/op_cases.py"


def test_every_row_meets_the_edge_shapes() -> None:
    met: dict[str, set[str]] = {name: set() for name in TABLE}
    for example in [example for group in GROUPS for example in group.examples]:
        kinds = met[example.case.op]
        for shape in example.shapes:
            kinds.add(
                "0-d" if shape == () else "size 0" if 0 in shape else "size 1" if set(shape) == {1} else "several"
            )
        kinds.add(example.layout)
    no_scalars = {
        "getitem",
        "concat",
        "matmul",
        "gather",
        "scatter_add",
        "softmax",
        "cumsum",
        "cumprod",
        "tril",
        "triu",
        "diagonal",
        "diag_embed",
        "roll",
        "pad",
        "repeat",
        "outer",
        "log_softmax",
        "products_of_others",
        "index_put",
        "scatter",
        "sort",
        "argsort",
        "topk",
        "ctc",
        "matmul_integer",
        "conv2d_integer",
    } | {
        name
        for name, op in TABLE.items()
        if op.room in {"conv", "pool", "normalise", "recurrent", "solve", "decompose"}
    }
    for name, kinds in met.items():
        wanted = {"size 1", "several", "plain", "reversed", "transposed", "stretched", "0-d", "size 0"}
        wanted -= {"0-d"} if name in no_scalars else set()
        wanted -= {"size 1"} if name in {"getitem"} else set()
        wanted -= {"size 0"} if name in {"ctc"} else set()  # torch and tensorflow refuse an empty batch
        assert not wanted - kinds, name


@first_on_the_host
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_as_torch(group: Group, where: str) -> None:
    """The same values, dtype, shape and gradients as torch."""
    check_each(group.examples, lambda example: compare(ours(example, where), torch_answer(example)))


@pytest.mark.slow
@on_every_device
@pytest.mark.parametrize("group", IN_TENSORFLOW, ids=str)
def test_as_tensorflow(group: Group, where: str, tf: Any) -> None:
    """The same values, dtype, shape and gradients as tensorflow."""
    check_each(group.examples, lambda example: compare(ours(example, where), tensorflow_answer(tf, example)))


@pytest.mark.slow
@on_every_device
@pytest.mark.parametrize("group", DIFFERENTIABLE, ids=str)
def test_as_finite_differences(group: Group, where: str) -> None:
    """The gradient is that of the kernel, whatever any framework says."""

    def check(example: Example) -> None:
        answer = ours(example, where)
        assert len(answer.gradients) == (len(example.wrt()) if answer.out.dtype.kind == "f" else 0)
        if answer.out.dtype == np.float64:  # a cast to less has no finite differences
            for i, (mine, theirs) in enumerate(zip(answer.gradients, difference_answer(example), strict=True)):
                assert_close(mine, theirs, f"gradient {i}", (2e-6, 2e-7))

    check_each([example for example in group.examples if example.smooth], check)


ROOMS = {"elementwise", "functions"}
NUMBERS = [case for case in CASES if len(TABLE[case.op].inputs) == 2 and TABLE[case.op].room in ROOMS]


@first_on_the_host
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("number", [2, 1.5, True])
@pytest.mark.parametrize("op", sorted({case.op for case in NUMBERS} - {"logical_and", "logical_or"}))
def test_a_python_number_on_either_side(op: str, number: float, dtype: str, where: str) -> None:
    """It takes the tensor's dtype, and the gradient is the same recorded or not."""
    if dtype == "float16" and number is True and op == "pow":
        pytest.skip("torch has no power of a boolean number")
    values = np.array([0.5, 1.5, 2.5], dtype)
    counterpart = next(case for case in NUMBERS if case.op == op).call("torch")
    for order in (lambda x, n: (x, n), lambda x, n: (n, x)):
        x, t = Tensor(values, device=where, requires_grad=True), torch.tensor(values, requires_grad=True)
        out, want = TABLE[op](*order(x, number)), counterpart(torch, *order(t, torch.tensor(number, dtype=t.dtype)))
        assert out.dtype == want.detach().numpy().dtype
        assert_close(to_host(out), want.detach().numpy(), "result")
        if TABLE[op].differentiable:
            start = np.array([0.3, -1.2, 0.8], dtype)
            gradient = grad(out, x, Tensor(start, device=where), retain_graph=True)
            (theirs,) = torch.autograd.grad(want, t, torch.tensor(start))
            assert gradient.dtype == dtype
            assert_close(to_host(gradient), theirs.numpy(), "gradient")
            recorded = grad(out, x, Tensor(start, device=where), create_graph=True)
            np.testing.assert_array_equal(to_host(recorded), to_host(gradient))


# The columns of a row agree with each other


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_infer_is_what_the_kernel_gives(group: Group) -> None:
    def check(example: Example) -> None:
        inputs = [laid_out(array, example.layout) for array in example.inputs()]
        came, said = call_row(example, inputs), TABLE[example.case.op].infer_from(inputs, attrs_of(example))
        if TABLE[example.case.op].results:
            assert tuple(said) == tuple(Spec(one.shape, one.dtype) for one in came)
        else:
            assert said == Spec(came.shape, came.dtype)

    check_each(group.examples, check)


def rules(op: Op, inputs: list[Any]) -> list[tuple[list[bool], Callable[..., list[Any]]]]:
    """Every rule of a row, with the inputs whose cotangents it gives."""
    if op.joint:
        return [([True] * len(inputs), lambda *given, **attrs: list(op.vjp(*given, **attrs)))]
    found = []
    for position, rule in enumerate(op.vjp):
        if rule is not None:
            asked = [i == position for i in range(len(inputs))]
            found.append((asked, lambda *given, rule=rule, **attrs: [rule(*given, **attrs)]))
    return found


def without_value(value: Any) -> Spec:
    """What the tape keeps of a value no rule reads."""
    return Spec(shape_of(value), dtype_of(value))


def plain(group: Group) -> list[Example]:
    return [example for example in group.examples if example.layout == "plain"]


@pytest.mark.parametrize("group", DIFFERENTIABLE, ids=str)
def test_rules_read_nothing_but_what_is_saved(group: Group) -> None:
    """With what is not saved taken away, a rule gives the same."""

    def check(example: Example) -> None:
        op, inputs, attrs = TABLE[example.case.op], example.inputs(), attrs_of(example)
        out = on_host(call_row(example, inputs))
        cotangent = cotangents(example, out)
        for asked, rule in rules(op, inputs):
            names, keeps_out = op.keeps([one or None for one in asked])
            kept = [x if name else without_value(x) for x, name in zip(inputs, names, strict=True)]
            if isinstance(keeps_out, tuple):
                kept_out = op.bundle([one if keep else None for one, keep in zip(out, keeps_out, strict=True)])
            else:
                kept_out = out if keeps_out else None
            with np.errstate(all="ignore"):  # also rules whose gradient has no meaning for these inputs
                want = rule(cotangent, out, *inputs, **attrs)
                got = rule(cotangent, kept_out, *kept, **attrs)
            for mine, theirs in zip(got, want, strict=True):
                np.testing.assert_array_equal(mine, theirs)

    if group.case.op != "transfer":  # its rule moves the cotangent from another device; the tape does that, not NumPy
        check_each(plain(group), check)


@pytest.mark.parametrize("name", [name for name, op in TABLE.items() if op.differentiable and op.saves])
def test_rules_read_all_that_is_saved(name: str) -> None:
    """Whatever else is put in place of a saved value, some gradient changes."""
    op, unread = TABLE[name], set()
    for example in [example for group in DIFFERENTIABLE if group.case.op == name for example in plain(group)]:
        inputs, attrs = example.inputs(), attrs_of(example)
        out = on_host(call_row(example, inputs))
        cotangent = cotangents(example, out)
        for number, (asked, rule) in enumerate(rules(op, inputs)):
            names, keeps_out = op.keeps([one or None for one in asked])
            saved = [n for n in names if n] + (["out"] * keeps_out if isinstance(keeps_out, bool) else [])
            if isinstance(keeps_out, tuple):
                saved += [n for n, keep in zip(op.results, keeps_out, strict=True) if keep]
            unread |= {(number, n) for n in saved} if example is first_example(name) else set()
            with np.errstate(all="ignore"):
                want = rule(cotangent, out, *inputs, **attrs)
                for one in saved:
                    named = op.inputs * len(inputs) if op.variadic else op.inputs
                    others = [other_value(x) if one == given else x for x, given in zip(inputs, named, strict=True)]
                    other_out = out
                    if one == "out":
                        other_out = other_value(out)
                    elif one in op.results:
                        other_out = out._replace(**{one: other_value(getattr(out, one))})
                    try:
                        got = rule(cotangent, other_out, *others, **attrs)
                    except (
                        IndexError,
                        ValueError,
                    ):  # an index that is none, a matrix that can't be inverted: it is read
                        unread.discard((number, one))
                        continue
                    if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(got, want, strict=True)):
                        unread.discard((number, one))
    assert not unread, f"{name} keeps (rule, value) {unread} alive, and no rule reads it"


def on_host(out: Any) -> Any:
    if isinstance(out, tuple):
        return type(out)._make(map(on_host, out)) if hasattr(out, "_make") else tuple(map(on_host, out))
    return np.asarray(device_of(out).to_host(out))


def cotangents(example: Example, out: Any) -> Any:
    """One of each floating result."""
    if isinstance(out, tuple):
        return tuple([example.cotangent(one) if one.dtype.kind == "f" else None for one in out])
    return example.cotangent(out)


def first_example(name: str) -> Example:
    return next(group.examples[0] for group in DIFFERENTIABLE if group.case.op == name)


def other_value(x: np.ndarray) -> np.ndarray:
    if x.dtype == bool:
        return ~x
    return (x + 1) % 3 if x.dtype.kind in "iu" else -x - 0.7


# Second order


@pytest.mark.parametrize("group", DIFFERENTIABLE, ids=str)
def test_a_recorded_backward_pass_gives_the_same_bits(group: Group) -> None:
    """One rule, on bare arrays and on Tensors."""

    def check(example: Example) -> None:
        bare, recorded = ours(example, "cpu"), ours(example, "cpu", create_graph=True)
        for mine, theirs in zip(bare.gradients, recorded.gradients, strict=True):
            assert mine.dtype == theirs.dtype
            assert mine.tobytes() == theirs.tobytes()

    check_each(plain(group), check)


FLAT = {"sign", "floor", "floor_divide", "ceil", "round", "trunc"}
"""Rows whose derivative is 0 wherever there is one."""


@pytest.mark.slow
@pytest.mark.parametrize("group", DIFFERENTIABLE, ids=str)
def test_second_order(group: Group) -> None:
    """The gradients of the gradients are their finite differences, by the inputs and by the cotangent."""
    check_each(plain(group), check_second_order)


def check_second_order(example: Example) -> None:
    inputs, wrt = example.inputs(), example.wrt()
    out = to_host(call(example, [Tensor(array) for array in inputs]))
    if out.dtype != np.float64:  # a cast to less has no finite differences
        return
    weights = [np.random.default_rng(i).standard_normal(inputs[i].shape) for i in wrt]

    def first(*values: np.ndarray) -> tuple[list[Tensor], tuple[Tensor, ...]]:
        leaves = [Tensor(value, requires_grad=i in (*wrt, len(inputs))) for i, value in enumerate(values)]
        result = call(example, leaves[:-1])
        return leaves, grad(result, [leaves[i] for i in wrt], leaves[-1].to(result.device), create_graph=True)

    def weighted(*values: np.ndarray) -> np.ndarray:
        return np.asarray(sum(np.sum(g.detach().numpy() * w) for g, w in zip(first(*values)[1], weights, strict=True)))

    values = [*inputs, example.cotangent(out)]
    leaves, gradients = first(*values)
    if example.case.op in FLAT:
        assert not any(np.any(gradient.numpy()) for gradient in gradients)
        return
    assert all(gradient.requires_grad or not gradient.size for gradient in gradients), "the pass was not recorded"
    if not all(gradient.requires_grad for gradient in gradients):  # of no entries, from a rule that goes over entries
        return
    positions = (*wrt, len(inputs))
    seconds = grad(gradients, [leaves[i] for i in positions], [Tensor(w) for w in weights], allow_unused=True)
    for position, second in zip(positions, seconds, strict=True):
        got = np.zeros(values[position].shape) if second is None else second.numpy()
        want = differences(weighted, values, position, np.ones(()), 1e-5)
        assert_close(got, want, f"second derivative by input {position}", (1e-5, 1e-6))
