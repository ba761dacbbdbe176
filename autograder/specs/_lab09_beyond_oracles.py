"""Who knows the answers of ``lab09_beyond``: torch and TensorFlow, asked directly, and a third way by arithmetic.

Each oracle takes its framework module first. A program is text in the few functions of the lab; each framework runs it
with its own. The third way is complex steps (Squire & Trapp 1998), or polynomials in infinitesimals.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.specs import _lab09_beyond_jets as jets

STEP = 1e-30


def to_torch(torch: Any, array: Any) -> Any:
    return array if array is None or isinstance(array, float) else torch.tensor(np.array(array, order="C"))


# --- programs -------------------------------------------------------------------------------------


def torch_names(torch: Any) -> dict[str, Any]:
    def total(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return x.sum() if axis is None else x.sum(axis, keepdim=keepdims)

    def jvp(function: Callable[..., Any], primals: Any, tangents: Any) -> Any:
        moves = [torch.zeros_like(x) if dx is None else dx for x, dx in zip(primals, tangents, strict=True)]
        return torch.func.jvp(function, tuple(primals), tuple(moves))

    names = {name: getattr(torch, name) for name in ("exp", "log", "sin", "cos", "tanh")}
    return names | {
        "softmax": lambda x: torch.softmax(x, -1),
        "total": total,
        "spread": lambda x, shape: torch.broadcast_to(x, shape),
        "jvp": jvp,
    }


def tensorflow_names(tf: Any) -> dict[str, Any]:
    def jvp(function: Callable[..., Any], primals: Any, tangents: Any) -> Any:
        """Two tapes: J'u is linear in u, so the pullback of that pullback pushes forward. A ForwardAccumulator inside
        another one can be wrong in eager mode (tensorflow issue 127753: m * m * m)."""
        # TensorFlow watches tensors, wherever they are used; a copy is what only this function sees.
        points = [tf.identity(x) for x in primals]
        moves = [tf.zeros_like(x) if dx is None else tf.identity(dx) for x, dx in zip(points, tangents, strict=True)]
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(points)
                out = function(*points)
            u = tf.ones_like(out)
            outer.watch(u)
            pulled = inner.gradient(out, points, output_gradients=u)
        ways = [(one, move) for one, move in zip(pulled, moves, strict=True) if one is not None]
        if not ways:
            return out, tf.zeros_like(out)
        tangent = outer.gradient([one for one, _ in ways], u, output_gradients=[move for _, move in ways])
        return out, tf.zeros_like(out) if tangent is None else tangent

    return {
        **{name: getattr(tf.math, name) for name in ("exp", "log", "sin", "cos", "tanh")},
        "softmax": lambda x: tf.nn.softmax(x, axis=-1),
        "total": lambda x, axis=None, keepdims=False: tf.reduce_sum(x, axis=axis, keepdims=keepdims),
        "spread": tf.broadcast_to,
        "jvp": jvp,
    }


class Matrix:
    """A TensorFlow constant that multiplies vectors too; ``tf.linalg.matmul`` wants matrices."""

    def __init__(self, tf: Any, value: Any) -> None:
        self.tf, self.value = tf, value

    def __matmul__(self, x: Any) -> Any:
        return self.tf.linalg.matvec(self.value, x) if len(x.shape) == 1 else self.tf.linalg.matmul(self.value, x)


def _matrices(tf: Any, text: str, values: dict[str, Any]) -> dict[str, Any]:
    """Constants, those that stand left of an @ as matrices."""
    made = {name: tf.constant(one) for name, one in values.items()}
    return {name: Matrix(tf, one) if f"{name} @" in text else one for name, one in made.items()}


# --- rules ----------------------------------------------------------------------------------------


def _operation(op: str, frame: dict[str, Any], matmul: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return {
        "add": lambda x, y: x + y,
        "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y,
        "matmul": matmul,
        "tanh": frame["tanh"],
        "softmax": frame["softmax"],
    }[op]


def rules_torch(torch: Any, op: str, dx: Any, dy: Any, x: Any, y: Any, lifted: bool) -> np.ndarray:
    names = torch_names(torch)
    run = _operation(op, names, torch.matmul)
    primals, moves = [to_torch(torch, x)], [to_torch(torch, dx)]
    if y is not None:
        primals.append(torch.tensor(y, dtype=primals[0].dtype) if isinstance(y, float) else to_torch(torch, y))
        moves.append(to_torch(torch, dy))
    return names["jvp"](run, primals, moves)[1].numpy()


def rules_tensorflow(tensorflow: Any, op: str, dx: Any, dy: Any, x: Any, y: Any, lifted: bool) -> np.ndarray:
    tf = tensorflow
    names = tensorflow_names(tf)

    def matmul(a: Any, b: Any) -> Any:
        # Matrices only: vectors become a row and a column, and leave again.
        whole = tf.linalg.matmul(a[tf.newaxis] if x.ndim == 1 else a, b[:, tf.newaxis] if y.ndim == 1 else b)
        gone = [-2] * (x.ndim == 1) + [-1] * (y.ndim == 1)
        return tf.squeeze(whole, axis=gone) if gone else whole

    primals, moves = [tf.constant(x)], [dx]
    if y is not None:
        primals.append(tf.constant(y, primals[0].dtype))
        moves.append(dy)
    moves = [np.zeros(one.shape, x.dtype) if move is None else move for one, move in zip(primals, moves, strict=True)]
    with tf.autodiff.ForwardAccumulator(primals, [tf.constant(move) for move in moves]) as forward:
        out = _operation(op, names, matmul)(*primals)
    return np.asarray(forward.jvp(out, unconnected_gradients="zero"))


def rules_complex(numpy: Any, op: str, dx: Any, dy: Any, x: Any, y: Any, lifted: bool) -> np.ndarray:
    def softmax(x: Any) -> Any:
        powers = np.exp(x - np.real(x).max(-1, keepdims=True, initial=-np.inf))
        return powers / powers.sum(-1, keepdims=True)

    run = _operation(op, {"tanh": np.tanh, "softmax": softmax}, np.matmul)
    points = [
        np.asarray(one, np.complex128) + (0 if move is None else 1j * STEP * np.asarray(move, np.float64))
        for one, move in ((x, dx), (y, dy))
        if one is not None
    ]
    return np.asarray(np.imag(run(*points)) / STEP, dtype=x.dtype)


# --- jvp ------------------------------------------------------------------------------------------


def _split(values: dict[str, Any], moves: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return [values[name] for name in moves], {name: one for name, one in values.items() if name not in moves}


def jvp_torch(torch: Any, program: str, values: dict[str, Any], moves: dict[str, Any]) -> list[np.ndarray]:
    names = torch_names(torch)
    primals, constants = _split({name: to_torch(torch, one) for name, one in values.items()}, moves)
    run = jets.program(program, ", ".join(moves), constants, **names)
    return [out.numpy() for out in names["jvp"](run, primals, [to_torch(torch, one) for one in moves.values()])]


def jvp_tensorflow(tensorflow: Any, program: str, values: dict[str, Any], moves: dict[str, Any]) -> list[np.ndarray]:
    names = tensorflow_names(tensorflow)
    primals, constants = _split(values, moves)
    run = jets.program(program, ", ".join(moves), _matrices(tensorflow, program, constants), **names)
    return [np.asarray(out) for out in names["jvp"](run, [tensorflow.constant(x) for x in primals], moves.values())]


def jvp_jets(
    numpy: Any, program: str, values: dict[str, Any], moves: dict[str, Any], jvp: Any = jets.jvp
) -> list[np.ndarray]:
    primals, constants = _split(values, moves)
    run = jets.program(program, ", ".join(moves), constants, jvp=jvp)
    dtype = primals[0].dtype
    return [np.asarray(out.standard, dtype=dtype) for out in jvp(run, primals, list(moves.values()))]


# --- jacobian -------------------------------------------------------------------------------------


def jacobian_torch(torch: Any, first: Any, second: Any, x: np.ndarray, outer: list[int]) -> dict[str, Any]:
    a, b, point = (to_torch(torch, one) for one in (first, second, x))
    size, count = x.size, math.prod(outer)
    if not size or not count:
        return {"jacobian": np.zeros((*outer, *x.shape)), "calls": 0}
    way = torch.func.jacfwd if size <= count else torch.func.jacrev
    found = way(lambda x: (b @ torch.tanh(a @ x.reshape(-1))).reshape(outer))(point)
    return {"jacobian": found.numpy(), "calls": min(size, count)}


def jacobian_tensorflow(tensorflow: Any, first: Any, second: Any, x: np.ndarray, outer: list[int]) -> dict[str, Any]:
    tf = tensorflow
    if not x.size or not math.prod(outer):
        return {"jacobian": np.zeros((*outer, *x.shape)), "calls": 0}
    point = tf.constant(x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(point)
        out = tf.reshape(tf.linalg.matvec(second, tf.tanh(tf.linalg.matvec(first, tf.reshape(point, [-1])))), outer)
    found = tape.jacobian(out, point, experimental_use_pfor=False)
    return {"jacobian": found.numpy(), "calls": min(x.size, math.prod(outer))}


def jacobian_complex(numpy: Any, first: Any, second: Any, x: np.ndarray, outer: list[int]) -> dict[str, Any]:
    found = np.zeros((math.prod(outer), x.size))
    for place in range(x.size):
        moved = x.ravel().astype(np.complex128)
        moved[place] += 1j * STEP
        found[:, place] = np.imag(second @ np.tanh(first @ moved)) / STEP
    return {"jacobian": found.reshape((*outer, *x.shape)), "calls": min(found.shape)}


# --- hvp ------------------------------------------------------------------------------------------


def hvp_torch(torch: Any, program: str, values: dict[str, Any], v: np.ndarray) -> dict[str, Any]:
    constants = {name: to_torch(torch, one) for name, one in values.items() if name != "x"}
    run = jets.program(program, "x", constants, **torch_names(torch))
    slope = torch.func.grad(run)
    product = torch.func.jvp(slope, (to_torch(torch, values["x"]),), (to_torch(torch, v),))[1]
    return {"product": product.numpy(), "calls": 1}


def hvp_tensorflow(tensorflow: Any, program: str, values: dict[str, Any], v: np.ndarray) -> dict[str, Any]:
    tf = tensorflow
    constants = _matrices(tf, program, {name: one for name, one in values.items() if name != "x"})
    run = jets.program(program, "x", constants, **tensorflow_names(tf))
    x = tf.constant(values["x"])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            out = run(x)
        slope = inner.gradient(out, x, unconnected_gradients="zero")
    product = outer.gradient(slope, x, output_gradients=tf.constant(v))
    return {"product": np.zeros_like(v) if product is None else product.numpy(), "calls": 1}


def hvp_jets(numpy: Any, program: str, values: dict[str, Any], v: np.ndarray) -> dict[str, Any]:
    """Entry i is the coefficient of the two infinitesimals in ``f(x + e_i eps + v eta)``."""
    constants = {name: one for name, one in values.items() if name != "x"}
    run, x = jets.program(program, "x", constants), values["x"]
    product = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        unit = np.zeros(x.shape)
        unit[place] = 1.0
        eps, eta = jets.fresh(), jets.fresh()
        out = jets.jet(run(jets.moved(jets.moved(x, unit, eps), v, eta)))
        product[place] = out.terms.get(frozenset({eps, eta}), 0.0)
    return {"product": np.asarray(product, dtype=x.dtype), "calls": 1}


# --- solve ----------------------------------------------------------------------------------------
# After k products, conjugate gradients have the minimiser of p'Hp/2 - b'p among the combinations of b, Hb, ..., up to
# the k-th (Nocedal & Wright 2006, theorem 5.3). It is computed here from a basis of these, once per size.


def _solved(linalg: Any, matrix: Any, b: Any, tolerance: float, limit: int) -> tuple[Any, int, list[float]]:
    """The minimiser, the products it takes, and the length of what is left after each number of steps.

    `linalg` offers products, ``length``, ``qr``, ``solve`` and ``smallest`` (of the eigenvalues), of one framework.
    """
    size = linalg.length(b)
    p, lengths = 0.0 * b, [size]
    if size <= tolerance * size:
        return p, 0, lengths
    columns: list[Any] = []
    for k in range(limit):
        basis = linalg.qr([*columns, linalg.mv(matrix, columns[-1]) if columns else b])
        columns = [basis[:, place] for place in range(k + 1)]
        within = linalg.mm(linalg.t(basis), linalg.mm(matrix, basis))
        if linalg.smallest(within) <= 0:
            return (p if k else b), k + 1, lengths
        p = linalg.mv(basis, linalg.solve(within, linalg.mv(linalg.t(basis), b)))
        lengths.append(linalg.length(b - linalg.mv(matrix, p)))
        if lengths[-1] <= tolerance * size:
            return p, k + 1, lengths
    return p, limit, lengths


class _Numpy:
    mv = mm = staticmethod(np.matmul)
    t = staticmethod(np.transpose)
    qr = staticmethod(lambda columns: np.linalg.qr(np.stack(columns, axis=1))[0])
    solve = staticmethod(np.linalg.solve)
    length = staticmethod(lambda x: float(np.linalg.norm(x)))
    smallest = staticmethod(lambda m: float(np.linalg.eigvalsh(m)[0]))


def solve_numpy(numpy: Any, matrix: np.ndarray, b: np.ndarray, tolerance: float, limit: int) -> dict[str, Any]:
    p, calls, _ = _solved(_Numpy, matrix, b, tolerance, limit)
    return {"p": np.asarray(p), "calls": calls}


def residuals(matrix: np.ndarray, b: np.ndarray, tolerance: float, limit: int) -> list[float]:
    """What is left of b after each number of steps."""
    return _solved(_Numpy, matrix, b, tolerance, limit)[2]


def solve_torch(torch: Any, matrix: np.ndarray, b: np.ndarray, tolerance: float, limit: int) -> dict[str, Any]:
    class Linalg:
        mv, mm, t = torch.mv, torch.mm, torch.t
        qr = staticmethod(lambda columns: torch.linalg.qr(torch.stack(columns, 1))[0])
        solve = torch.linalg.solve
        length = staticmethod(lambda x: float(torch.linalg.vector_norm(x)))
        smallest = staticmethod(lambda m: float(torch.linalg.eigvalsh(m)[0]))

    p, calls, _ = _solved(Linalg, to_torch(torch, matrix), to_torch(torch, b), tolerance, limit)
    return {"p": p.numpy(), "calls": calls}


def solve_tensorflow(
    tensorflow: Any, matrix: np.ndarray, b: np.ndarray, tolerance: float, limit: int
) -> dict[str, Any]:
    tf = tensorflow

    class Linalg:
        mv, mm, t = tf.linalg.matvec, tf.linalg.matmul, tf.transpose
        qr = staticmethod(lambda columns: tf.linalg.qr(tf.stack(columns, 1))[0])
        solve = staticmethod(lambda m, b: tf.linalg.solve(m, b[:, tf.newaxis])[:, 0])
        length = staticmethod(lambda x: float(tf.norm(x)))
        smallest = staticmethod(lambda m: float(tf.linalg.eigvalsh(m)[0]))

    p, calls, _ = _solved(Linalg, tf.constant(matrix), tf.constant(b), tolerance, limit)
    return {"p": np.asarray(p), "calls": calls}


# --- reverse --------------------------------------------------------------------------------------


def binomial(steps: int, slots: int) -> int:
    """The fewest steps that must run, by the formula of Griewank & Walther (2000), for ``slots + 1`` states."""
    c, r = slots + 1, 0
    while math.comb(c + r, c) < steps:
        r += 1
    return r * steps - math.comb(c + r, r - 1) if r else 0


@functools.cache
def tried(steps: int, slots: int) -> int:
    """The same, by trying every place for the first state that is kept."""
    if steps == 1 or not slots:
        return steps * (steps - 1) // 2
    counts = np.zeros((slots + 1, steps + 1), dtype=np.int64)
    counts[0] = [n * (n - 1) // 2 for n in range(steps + 1)]
    for s in range(1, slots + 1):
        for n in range(2, steps + 1):
            k = np.arange(1, n)
            counts[s, n] = (k + counts[s, k] + counts[s - 1, n - k]).min()
    return int(counts[slots, steps])


def reverse_torch(torch: Any, weights: Any, x: np.ndarray, g: np.ndarray, slots: int) -> dict[str, Any]:
    start = to_torch(torch, x).requires_grad_()
    state = start
    for weight in to_torch(torch, weights):
        state = state + weight * torch.sin(state)
    found = torch.autograd.grad(state, start, to_torch(torch, g))[0]
    return {"gradient": found.numpy(), "runs": binomial(len(weights), slots), "last": 0, "kept": slots}


def reverse_tensorflow(tensorflow: Any, weights: Any, x: np.ndarray, g: np.ndarray, slots: int) -> dict[str, Any]:
    tf = tensorflow
    start = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(start)
        state = start
        for weight in tf.constant(weights):
            state = state + weight * tf.sin(state)
    found = tape.gradient(state, start, output_gradients=tf.constant(g))
    return {"gradient": found.numpy(), "runs": tried(len(weights), slots), "last": 0, "kept": slots}


def reverse_product(numpy: Any, weights: Any, x: np.ndarray, g: np.ndarray, slots: int) -> dict[str, Any]:
    """The chain rule for a chain of element-wise steps: a product of slopes, from the front."""
    state, slope = np.array(x), np.ones_like(x)
    for weight in weights:
        slope = slope * (1 + weight * np.cos(state))
        state = state + weight * np.sin(state)
    return {"gradient": g * slope, "runs": tried(len(weights), slots), "last": 0, "kept": slots}
