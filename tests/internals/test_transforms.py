"""gradient, vjp, jvp, jacobian, hessian, hvp and vmap: random nests of them on random functions, as torch.func."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from op_answers import assert_close, to_host

from internals import Tensor, enable_grad, grad, no_grad, ops
from internals.autodiff import gradient, hessian, hvp, jacobian, jvp, value_and_grad, vjp, vmap

N = 4
CLOSE = (1e-8, 1e-9)


class Ours:
    """The same words as `Theirs`."""

    tanh, sin, cos, exp, stack, where = ops.tanh, ops.sin, ops.cos, ops.exp, ops.stack, ops.where
    vmap = staticmethod(vmap)
    grad = staticmethod(gradient)
    jvp = staticmethod(jvp)

    @staticmethod
    def constant(array: np.ndarray) -> Any:
        return Tensor(array)

    @staticmethod
    def vjp(f: Any, x: Any, g: Any) -> Any:
        return vjp(f, x)[1](g)[0]

    @staticmethod
    def jacrev(f: Any) -> Any:
        return jacobian(f, mode="reverse")

    @staticmethod
    def jacfwd(f: Any) -> Any:
        return jacobian(f, mode="forward")

    hessian = staticmethod(hessian)
    softmax = staticmethod(lambda x: ops.softmax(x, axis=-1))
    cumsum = staticmethod(lambda x: ops.cumsum(x, axis=0))
    cumprod = staticmethod(lambda x: ops.cumprod(x, axis=0))
    logsumexp = staticmethod(lambda x: ops.logsumexp(x))
    flip = staticmethod(lambda x: ops.flip(x))
    cat = staticmethod(lambda xs: ops.concat(xs, axis=0))


class Theirs:
    tanh, sin, cos, exp, stack, where = torch.tanh, torch.sin, torch.cos, torch.exp, torch.stack, torch.where
    vmap = staticmethod(torch.func.vmap)
    grad = staticmethod(torch.func.grad)
    jacrev = staticmethod(torch.func.jacrev)
    jacfwd = staticmethod(torch.func.jacfwd)
    hessian = staticmethod(torch.func.hessian)
    constant = staticmethod(torch.tensor)

    @staticmethod
    def jvp(f: Any, x: Any, t: Any) -> Any:
        return torch.func.jvp(f, (x,), (t,))

    @staticmethod
    def vjp(f: Any, x: Any, g: Any) -> Any:
        return torch.func.vjp(f, x)[1](g)[0]

    softmax = staticmethod(lambda x: torch.softmax(x, -1))
    cumsum = staticmethod(lambda x: torch.cumsum(x, 0))
    cumprod = staticmethod(lambda x: torch.cumprod(x, 0))
    logsumexp = staticmethod(lambda x: torch.logsumexp(x, 0))
    flip = staticmethod(lambda x: torch.flip(x, (0,)))
    cat = staticmethod(lambda xs: torch.cat(xs, 0))


WEIGHTS = np.random.default_rng(5).standard_normal((3, N, N)) / 2

Step = Callable[[Any, Any], Any]

STEPS: dict[str, Step] = {
    "tanh": lambda F, x: F.tanh(x),
    "sin": lambda F, x: F.sin(x),
    "square": lambda F, x: x * x / 2,
    "matmul": lambda F, x: F.constant(WEIGHTS[0]) @ x,
    "quadratic": lambda F, x: (x @ F.constant(WEIGHTS[1])) * x,
    "softmax": lambda F, x: F.softmax(x) * 2,
    "cumsum": lambda F, x: F.cumsum(x) / 2,
    "cumprod": lambda F, x: F.cumprod(F.cos(x)),
    "mixed": lambda F, x: x * F.logsumexp(x) / 2,
    "slices": lambda F, x: F.cat([x[1:] * x[:-1], x[:1]]),
    "picked": lambda F, x: x[[2, 0, 0, 3]] - F.flip(x),
    "outer": lambda F, x: (x[:, None] * F.tanh(x)[None, :]).sum(0),
    "branch": lambda F, x: F.where(x > 0.1, F.sin(x), x * x),
    "divided": lambda F, x: x / (1 + (x * x).sum()),
}


def program(rng: np.random.Generator) -> Callable[[Any], Callable[[Any], Any]]:
    """A random function R^n -> R^n, for either framework."""
    chosen = [list(STEPS)[i] for i in rng.integers(len(STEPS), size=3)]

    def of(F: Any) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            for name in chosen:
                x = STEPS[name](F, x)
            return x

        f.__doc__ = " ".join(chosen)
        return f

    return of


# Each makes a function R^n -> R^n of one.
DERIVATIVES: dict[str, Callable[[Any, Any], Any]] = {
    "jvp": lambda F, f: lambda x: F.jvp(f, x, F.cos(x))[1],
    "vjp": lambda F, f: lambda x: F.vjp(f, x, F.sin(x)),
    "grad": lambda F, f: F.grad(lambda x: (f(x) * f(x)).sum() / 2),
    "jacrev": lambda F, f: lambda x: F.jacrev(f)(x) @ F.tanh(x),
    "jacfwd": lambda F, f: lambda x: F.jacfwd(f)(x) @ F.tanh(x),
    "vmap": lambda F, f: lambda x: F.vmap(f)(F.stack([x, F.sin(x), x * 2])).sum(0) / 3,
    "vmap of a closure": lambda F, f: lambda x: F.vmap(lambda s: f(x * s) * x)(F.stack([x[0], x[1] * 2])).sum(0) / 2,
    "per example": lambda F, f: (
        lambda x: F.vmap(lambda s: F.grad(lambda y: (f(y) * s).sum())(x))(F.stack([x, F.cos(x)])).sum(0)
    ),
    "inner": lambda F, f: F.grad(lambda x: (x * F.jvp(f, x, x)[1]).sum()),
    "hessian": lambda F, f: lambda x: F.hessian(lambda y: f(y).sum())(x) @ x / 2,
}


def compare(ours: Any, theirs: Any, what: str) -> None:
    assert_close(to_host(ours), theirs.detach().numpy(), what, CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_any_nest_of_two_as_torch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [list(DERIVATIVES)[i] for i in rng.integers(len(DERIVATIVES), size=2)]
    check_nest(rng, names)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_any_nest_of_three_as_torch(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    names = [list(DERIVATIVES)[i] for i in rng.integers(len(DERIVATIVES), size=3)]
    check_nest(rng, names)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_each_derivative_as_torch(name: str) -> None:
    for seed in range(4):
        check_nest(np.random.default_rng(100 + seed), [name])


def check_nest(rng: np.random.Generator, names: list[str]) -> None:
    of, x = program(rng), rng.standard_normal(N)
    mine, theirs = of(Ours), of(Theirs)
    what = f"{' of '.join(names)} of {mine.__doc__}"
    for name in names[::-1]:
        mine, theirs = DERIVATIVES[name](Ours, mine), DERIVATIVES[name](Theirs, theirs)
    want = theirs(torch.tensor(x))
    if not torch.isfinite(want).all() or want.abs().max() > 1e6:
        pytest.skip("the function leaves the range where two libraries round alike")
    compare(mine(Tensor(x)), want, what)


@pytest.mark.parametrize("seed", range(12))
def test_the_tape_differentiates_through_every_derivative(seed: int) -> None:
    """Recorded on Tensors, a transformation can be differentiated backward in turn."""
    rng = np.random.default_rng(200 + seed)
    of, x, name = program(rng), rng.standard_normal(N), list(DERIVATIVES)[seed % len(DERIVATIVES)]
    at, there = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    found = grad((DERIVATIVES[name](Ours, of(Ours))(at) ** 2).sum(), at)
    want = torch.autograd.grad((DERIVATIVES[name](Theirs, of(Theirs))(there) ** 2).sum(), there)[0]
    compare(found, want, f"{name} of {of(Ours).__doc__}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_second_derivatives_as_tensorflow(tf: Any, seed: int) -> None:
    rng = np.random.default_rng(300 + seed)
    x, t, w = rng.standard_normal(N), rng.standard_normal(N), rng.standard_normal((N, N))

    def mine(v: Any) -> Any:
        return (ops.tanh(Tensor(w) @ v) * v).sum() * ops.logsumexp(v)

    at = tf.Variable(x)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            value = tf.reduce_sum(tf.tanh(tf.linalg.matvec(w, at)) * at) * tf.reduce_logsumexp(at)
        slope = inner.gradient(value, at)
    want = outer.jacobian(slope, at).numpy()
    value_found, slope_found = value_and_grad(mine)(Tensor(x))
    assert_close(to_host(value_found), value.numpy(), "value", CLOSE)
    assert_close(to_host(slope_found), slope.numpy(), "gradient", CLOSE)
    assert_close(to_host(hessian(mine)(Tensor(x))), want, "Hessian", CLOSE)
    for over in ("forward", "reverse"):
        assert_close(to_host(hvp(mine, Tensor(x), Tensor(t), over=over)), want @ t, f"hvp over {over}", CLOSE)


def test_jacobians_and_tangents_as_tensorflow(tf: Any) -> None:
    rng = np.random.default_rng(310)
    x, t, w = rng.standard_normal(N), rng.standard_normal(N), rng.standard_normal((3, N))
    at = tf.constant(x)
    with tf.autodiff.ForwardAccumulator(at, tf.constant(t)) as forward, tf.GradientTape() as tape:
        tape.watch(at)
        out = tf.nn.softmax(tf.linalg.matvec(w, tf.sin(at)))
    full = tape.jacobian(out, at).numpy()

    def mine(v: Any) -> Any:
        return ops.softmax(Tensor(w) @ ops.sin(v))

    for mode in (None, "reverse", "forward"):
        assert_close(to_host(jacobian(mine, mode=mode)(Tensor(x))), full, f"Jacobian, {mode}", CLOSE)
    value, tangent = jvp(mine, Tensor(x), Tensor(t))
    assert_close(to_host(value), out.numpy(), "value", CLOSE)
    assert_close(to_host(tangent), forward.jvp(out).numpy(), "tangent", CLOSE)
    assert_close(to_host(vjp(mine, Tensor(x))[1](value)[0]), full.T @ out.numpy(), "cotangent", CLOSE)


# Structures


def model(p: Any, x: Any, F: Any) -> Any:
    h = F.tanh(x @ p["w"][0] + p["b"])
    return h @ p["w"][1]


def parameters(make: Any) -> Any:
    rng = np.random.default_rng(7)
    return {
        "w": [make(rng.standard_normal((3, 4))), make(rng.standard_normal((4, 2)))],
        "b": make(rng.standard_normal(4)),
    }


@pytest.mark.parametrize("mode", [None, "reverse", "forward"])
def test_jacobians_of_structures(mode: str | None) -> None:
    x = np.random.default_rng(8).standard_normal((5, 3))

    def f(F: Any) -> Any:
        return lambda p, x: {"y": model(p, x, F), "more": (x.sum(), p["b"] * 2)}

    found = jacobian(f(Ours), argnums=(0, 1), mode=mode)(parameters(Tensor), Tensor(x))
    transform = torch.func.jacfwd if mode == "forward" else torch.func.jacrev
    want = transform(f(Theirs), argnums=(0, 1))(parameters(torch.tensor), torch.tensor(x))
    same_structure(found, want)


def test_hessians_of_structures() -> None:
    x = np.random.default_rng(8).standard_normal((5, 3))
    found = hessian(lambda p: (model(p, Tensor(x), Ours) ** 2).sum())(parameters(Tensor))
    want = torch.func.hessian(lambda p: (model(p, torch.tensor(x), Theirs) ** 2).sum())(parameters(torch.tensor))
    same_structure(found, want)


def same_structure(found: Any, want: Any) -> None:
    if isinstance(want, dict):
        assert found.keys() == want.keys()
        for key in want:
            same_structure(found[key], want[key])
    elif isinstance(want, tuple | list):
        assert type(found) is type(want)
        assert len(found) == len(want)
        for one, other in zip(found, want, strict=True):
            same_structure(one, other)
    else:
        compare(found, want, "leaf")


def test_value_and_grad_with_aux_and_several_arguments() -> None:
    x, y = np.random.default_rng(9).standard_normal((2, 3))

    def f(F: Any) -> Any:
        def inner(x: Any, y: Any, scale: float = 1.0) -> Any:
            product = x * y * scale
            return F.sin(product).sum(), product

        return inner

    (value, aux), slopes = value_and_grad(f(Ours), argnums=(0, -1), has_aux=True)(Tensor(x), Tensor(y), scale=2.0)
    want, (their_value, their_aux) = torch.func.grad_and_value(f(Theirs), argnums=(0, 1), has_aux=True)(
        torch.tensor(x), torch.tensor(y), scale=2.0
    )
    same_structure((value, aux, slopes), (their_value, their_aux, want))
    assert not isinstance(aux, tuple)
    only, aux = gradient(f(Ours), has_aux=True)(Tensor(x), Tensor(y))
    assert only.shape == (3,)


def test_an_argument_without_influence_has_derivative_zero() -> None:
    x = Tensor([1.0, 2.0])
    for found in (
        gradient(lambda x, y: (x * x).sum(), 1)(x, x),
        gradient(lambda x: Tensor(3.0))(x),
        gradient(lambda x: (x.detach() * 2).sum())(x),
    ):
        np.testing.assert_array_equal(to_host(found), [0, 0])
    assert not np.any(to_host(jacobian(lambda x: Tensor([1.0, 2.0, 3.0]))(x)))
    assert not np.any(to_host(hessian(lambda x: x.sum())(x)))


@pytest.mark.parametrize("where", ["cpu", "sim:0"])
def test_indices_and_masks_as_tensors(where: str) -> None:
    x = Tensor([1.0, 2.0, 3.0], device=where)
    keep, twice = Tensor([True, False, True], device=where), Tensor([1, 1], device=where)
    found = gradient(lambda x: (x[keep] ** 2).sum() + x[twice].sum() + x[[0, 2]].sum() + x[None, twice][0, 0])(x)
    np.testing.assert_array_equal(to_host(found), [3, 3, 7])


# What must not be confused


def test_no_confusion_of_perturbations() -> None:
    """d/dx (x d/dy (x + y)) = 1, with each mode inside each (Siskind & Pearlmutter 2005)."""
    one = Tensor(1.0)

    def forward(f: Any) -> Any:
        return lambda x: jvp(f, x, one)[1]

    for outer in (forward, gradient):
        for inner in (forward, gradient):
            slope = outer(lambda x, inner=inner: x * inner(lambda y: x + y)(one))(one)
            assert slope.item() == 1.0
            slope = outer(lambda x, inner=inner: x * inner(lambda y: x * y)(x))(Tensor(3.0))
            assert slope.item() == 6.0
            # The inner function hands out a value of its own level, used after it has ended.
            kept: list[Any] = []

            def leaks(y: Any, kept: list[Any] = kept) -> Any:
                kept.append(y)
                return y * y

            inner(leaks)(one)
            assert outer(lambda x, kept=kept: x * x)(one).item() == 2.0


def test_pull_can_be_called_again_and_differentiated() -> None:
    x = Tensor(np.array([0.5, -1.0]))
    out, pull = vjp(lambda x: (ops.sin(x), x.sum()), x)
    first = pull((ops.ones_like(out[0]), Tensor(np.float64(2.0))))[0]
    second = pull((ops.ones_like(out[0]), Tensor(np.float64(2.0))))[0]
    np.testing.assert_array_equal(to_host(first), to_host(second))
    np.testing.assert_allclose(to_host(first), np.cos([0.5, -1.0]) + 2)
    alone = pull((None, Tensor(np.float64(2.0))))[0]
    np.testing.assert_array_equal(to_host(alone), [2, 2])


def test_integers_and_plain_values_are_constants() -> None:
    index, x = Tensor([1, 0]), Tensor([2.0, 5.0])
    out, pull = vjp(lambda x, i, n: ops.take(x, i) ** n, x, index, 2)
    pieces = pull(ops.ones_like(out))
    np.testing.assert_array_equal(to_host(pieces[0]), [4, 10])
    assert pieces[1:] == (None, None)


def test_an_outer_no_grad_does_not_reach_inside() -> None:
    """As torch.func: the derivative is the same; an inner no_grad holds, and the result is not recorded."""
    x = Tensor([2.0, 3.0], requires_grad=True)
    with no_grad():
        found = gradient(lambda x: (x**3).sum())(x)
    np.testing.assert_array_equal(to_host(found), [12, 27])
    assert not found.requires_grad

    def stopped(x: Any) -> Any:
        with no_grad():
            held = x * x
        return (held * x).sum()

    np.testing.assert_array_equal(to_host(gradient(stopped)(x)), [4, 9])
    assert gradient(lambda x: (x**3).sum())(x).requires_grad
    with no_grad(), enable_grad():
        assert gradient(lambda x: (x**3).sum())(x).requires_grad


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_dtypes_and_devices_are_kept(dtype: str) -> None:
    x = Tensor(np.array([0.5, 1.5]), dtype=dtype, device="sim:0")
    for found in (
        gradient(lambda x: (x * x).sum())(x),
        jacobian(lambda x: x * x)(x),
        hessian(lambda x: (x * x * x).sum())(x),
        hvp(lambda x: (x * x * x).sum(), x, x),
        vmap(lambda x: x * x)(x),
    ):
        assert found.dtype == dtype
        assert found.device.name == "sim:0"


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1, 1)])
def test_shapes_at_the_edge(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).standard_normal(shape)
    for mode in ("reverse", "forward"):
        found = jacobian(lambda x: ops.sin(x) * 2, mode=mode)(Tensor(x))
        compare(found, torch.func.jacrev(lambda x: torch.sin(x) * 2)(torch.tensor(x)), mode)
    compare(
        hessian(lambda x: (x**3).sum())(Tensor(x)),
        torch.func.hessian(lambda x: (x**3).sum())(torch.tensor(x)),
        "Hessian",
    )


def test_rows_with_several_results() -> None:
    x = np.random.default_rng(4).standard_normal((3, 3))

    def f(x: Any) -> Any:
        top = ops.topk(x, k=2)
        return (top[0] ** 2).sum() + ops.split(x, 2, axis=0)[1].sum()

    def theirs(x: Any) -> Any:
        return (torch.topk(x, 2)[0] ** 2).sum() + torch.split(x, 2)[1].sum()

    compare(gradient(f)(Tensor(x)), torch.func.grad(theirs)(torch.tensor(x)), "gradient")
    compare(hessian(f)(Tensor(x)), torch.func.hessian(theirs)(torch.tensor(x)), "Hessian")
    found = vmap(gradient(lambda r: (ops.sort(r)[0] ** 3)[1:].sum()))(Tensor(x))
    want = torch.func.vmap(torch.func.grad(lambda r: (torch.sort(r)[0] ** 3)[1:].sum()))(torch.tensor(x))
    compare(found, want, "a gradient for each row")
