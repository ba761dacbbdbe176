"""The op table: every operation is one row, written once; every style of execution runs these rows.

A row says how to compute (`kernel`), how to pull a cotangent back (`vjp`), what the backward pass keeps alive for it
(`saves`), and which shape and dtype come out (`infer`). Nothing here knows about Tensors, tapes or graphs: a style of
execution registers the type of value it works on with `style`, and calling a row hands its inputs to that style.
On bare arrays a row computes at once.

Rules are written with operations and operators only, so one rule serves bare arrays (a first-order backward pass),
Tensors (higher order) and graph nodes (symbolic gradients).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from internals.device import Array, DeviceError, SimArray, device_of

Rule = Callable[..., Any]
"""``rule(cotangent, out, *inputs, **attrs)`` -> the cotangent of one input; a joint rule returns one for each."""

Shape = tuple[int, ...]

DEFAULT_FLOAT = np.dtype(np.float32)


class Spec:
    """What is known of a value without computing it: its shape and dtype."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: Any) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


class Op:
    """One row of the table.

    Parameters
    ----------
    name : str
    kernel : callable ``kernel(xp, *arrays, **attrs)``, or str
        The forward computation; a string names the function of the array module that does it.
    vjp : rule, tuple of (rule or None), or None
        One rule per input, so that a cotangent nobody asked for is never computed; None where an input has no
        derivative (an index, a condition). One rule alone is for the only input of a unary row, or, with `joint`,
        computes all cotangents together. None for the whole row: not differentiable.
    saves : str
        Which of ``out`` and the inputs the rules read the values of. The tape keeps just these alive; of the others a
        rule can ask ``shape``, ``dtype`` and ``ndim``.
    infer : callable ``infer(*specs, **attrs)`` -> Spec
        Shape and dtype of the result; raises ValueError or TypeError saying what is wrong with the inputs.
    dtypes : {"promote", "float", "compare", "branches", "first", "own"}
        How input dtypes are brought together before the kernel runs: all to their common dtype; to a floating one; to
        their common dtype, with a boolean result; all but the first; to that of the first; or not at all.
    broadcasts : bool
        The kernel broadcasts its inputs, so the engine sums a cotangent over the axes that were stretched.
    variadic : bool
        The inputs come as one sequence (`concat`).
    joint : bool
        `vjp` is one rule for all inputs.
    doc : str
        One sentence, then where frameworks differ and whom we follow.
    """

    def __init__(
        self,
        name: str,
        kernel: Callable[..., Array] | str,
        *,
        vjp: Rule | Sequence[Rule | None] | None,
        infer: Callable[..., Spec],
        saves: str = "",
        dtypes: str = "own",
        broadcasts: bool = False,
        variadic: bool = False,
        joint: bool = False,
        view: bool = False,
        doc: str = "",
        room: str = "",
    ) -> None:
        self.name, self.doc, self.room = name, doc, room
        self.kernel: Callable[..., Array] = _named(kernel) if isinstance(kernel, str) else kernel
        self.on_numpy: Callable[..., Array] = getattr(np, kernel) if isinstance(kernel, str) else partial(kernel, np)
        self.infer = infer
        self.dtypes, self.broadcasts, self.variadic, self.joint, self.view = dtypes, broadcasts, variadic, joint, view
        parameters = list(inspect.signature(infer).parameters.values())
        self.inputs = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
        self.attrs = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        self.arity = len(self.inputs)
        self.vjp: Rule | tuple[Rule | None, ...] | None
        self.vjp = vjp if vjp is None or joint else (tuple(vjp) if isinstance(vjp, Sequence) else (vjp,))
        self.saves = tuple(saves.split())
        self.saves_out = "out" in self.saves
        self.saves_inputs = tuple(name in self.saves for name in self.inputs)
        self.plain = not self.attrs and not variadic
        self.__name__, self.__doc__ = name, doc
        unknown = set(self.saves) - {"out", *self.inputs}
        if unknown:
            raise ValueError(f"op table: {name} saves {sorted(unknown)}, but its inputs are {self.inputs}.")

    @property
    def differentiable(self) -> bool:
        return self.vjp is not None

    def has_rule(self, position: int) -> bool:
        """Whether a cotangent of the input at `position` can be asked for."""
        return self.vjp is not None and (self.joint or self.vjp[position] is not None)  # type: ignore[index]  # a tuple, when not joint

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        inputs, attrs = (args, attrs) if self.plain and len(args) == self.arity and not attrs else self.bind(args, attrs)
        run, rank = run_on_arrays, 0
        for value in inputs:
            entry = _STYLES.get(type(value))
            if entry is not None and entry[1] > rank:
                run, rank = entry
        return run(self, inputs, attrs)

    def bind(self, args: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Split a call's arguments into inputs and a full set of attributes."""
        if len(args) == self.arity and attrs.keys() == self.attrs.keys() and not self.variadic:
            return args, attrs
        if self.variadic:
            if not args or not isinstance(args[0], Sequence):
                raise TypeError(f"{self.name}: expected a list or tuple of tensors first, got {_kind(args[0]) if args else 'nothing'}.")
            inputs, extra = tuple(args[0]), args[1:]
        else:
            inputs, extra = args[: self.arity], args[self.arity :]
            inputs += tuple(attrs.pop(name) for name in self.inputs[len(inputs) :] if name in attrs)
            if len(inputs) < self.arity:
                raise TypeError(f"{self.name}: takes {self.arity} inputs ({', '.join(self.inputs)}), got {len(inputs)}.")
        if len(extra) > len(self.attrs):
            raise TypeError(f"{self.name}: takes at most {len(self.attrs)} attributes ({', '.join(self.attrs)}), got {len(extra)}.")
        given = dict(zip(self.attrs, extra, strict=False)) | attrs
        bound = {name: given.pop(name, default) for name, default in self.attrs.items()}
        if given:
            raise TypeError(f"{self.name}: unknown attribute {', '.join(given)}; it takes {', '.join(self.attrs) or 'none'}.")
        missing = [name for name, value in bound.items() if value is inspect.Parameter.empty]
        if missing:
            raise TypeError(f"{self.name}: attribute {', '.join(missing)} is missing.")
        return inputs, bound

    def input_dtypes(self, inputs: Sequence[Any]) -> list[np.dtype | None]:
        """The dtype each input is cast to before the kernel runs; None leaves it as it is."""
        if self.dtypes == "own":
            return [None] * len(inputs)
        if self.dtypes == "first":
            return [None] + [np.dtype(inputs[0].dtype)] * (len(inputs) - 1)
        if self.dtypes == "branches":
            return [None] + [promote(inputs[1:])] * (len(inputs) - 1)
        common = promote(inputs)
        if self.dtypes == "float" and _kind_rank(common) < 2:
            common = DEFAULT_FLOAT
        return [common] * len(inputs)

    def infer_from(self, inputs: Sequence[Any], attrs: dict[str, Any]) -> Spec:
        """The result's Spec for inputs of any kind that have a shape and dtype; Python numbers count as 0-d."""
        specs = [
            Spec(shape_of(value), dtype or dtype_of(value))
            for value, dtype in zip(inputs, self.input_dtypes(inputs), strict=True)
        ]
        return self.infer(*specs, **attrs)

    def signature(self) -> str:
        """The call as a reader types it."""
        inputs = [f"[{self.inputs[0]}, ...]"] if self.variadic else list(self.inputs)
        attrs = [name if value is inspect.Parameter.empty else f"{name}={value!r}" for name, value in self.attrs.items()]
        return f"{self.name}({', '.join(inputs + attrs)})"

    def __repr__(self) -> str:
        return f"<op {self.signature()}>"


TABLE: dict[str, Op] = {}
"""Every row, by name."""

_STYLES: dict[type, tuple[Callable[[Op, tuple[Any, ...], dict[str, Any]], Any], int]] = {}


def style(value_type: type, run: Callable[[Op, tuple[Any, ...], dict[str, Any]], Any], *, rank: int) -> None:
    """Register a style of execution: rows called with a `value_type` are handed to ``run(op, inputs, attrs)``.

    Where values of several styles meet in one call, the highest rank runs it: 10 eager, 20 forward mode, 30 graph.
    """
    _STYLES[value_type] = (run, rank)


def row(name: str, kernel: Callable[..., Array] | str, **columns: Any) -> Op:
    """Add a row to the table."""
    if name in TABLE:
        raise ValueError(f"op table: there is a row called {name} already.")
    room = sys._getframe(1).f_globals["__name__"].rpartition(".")[2]
    TABLE[name] = Op(name, kernel, room=room, **columns)
    return TABLE[name]


def run_on_arrays(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Array:
    """The plainest style: run the kernel on bare arrays."""
    for value in inputs:
        if isinstance(value, np.ndarray | np.generic):
            return op.on_numpy(*inputs, **attrs)
        if not isinstance(value, bool | int | float):
            return op.kernel(device_of(value).xp, *inputs, **attrs)
    return op.on_numpy(*inputs, **attrs)


@contextmanager
def swap(**rules: Rule) -> Iterator[None]:
    """Put other vjp rules in the table for a while: ``with swap(mul=my_rule): train()``.

    A rule here has the form that a learner writes first, ``rule(cotangent, *inputs)`` -> one cotangent per input, and
    may do its own summing over broadcast axes.

    Raises
    ------
    ValueError
        No row has that name.
    """
    unknown = [name for name in rules if name not in TABLE]
    if unknown:
        raise ValueError(f"swap: there is no op called {', '.join(unknown)}.")
    kept = {name: (TABLE[name].vjp, TABLE[name].joint, TABLE[name].saves_inputs) for name in rules}
    try:
        for name, rule in rules.items():
            op = TABLE[name]
            op.vjp, op.joint, op.saves_inputs = partial(_without_out, rule), True, (True,) * op.arity
        yield
    finally:
        for name, columns in kept.items():
            TABLE[name].vjp, TABLE[name].joint, TABLE[name].saves_inputs = columns


def _without_out(rule: Rule, cotangent: Any, out: Any, *inputs: Any, **attrs: Any) -> Any:
    return rule(cotangent, *inputs, **attrs)


def _named(function: str) -> Callable[..., Array]:
    def kernel(xp: Any, *arrays: Array, **attrs: Any) -> Array:
        return getattr(xp, function)(*arrays, **attrs)

    return kernel


# Shapes and dtypes


def shape_of(value: Any) -> Shape:
    """The shape of an array, Spec or Tensor; a Python number is 0-d."""
    return tuple(value.shape) if hasattr(value, "shape") else ()


def dtype_of(value: Any) -> np.dtype:
    """The dtype of an array, Spec or Tensor, or the one a Python number takes alone."""
    return np.dtype(value.dtype) if hasattr(value, "dtype") else promote([value])


def promote(values: Sequence[Any]) -> np.dtype:
    """The dtype that values of several dtypes are brought to.

    The kind decides first (boolean < integer < floating), then the width among values of that kind; Python numbers only
    raise the kind. So int64 with float32 is float32, and float32 with the number 2.5 stays float32: PyTorch's rules,
    where NumPy would go to float64 in the first case. A 0-d array counts as any array does (NumPy 2; PyTorch lets it yield).
    """
    dtypes = [value.dtype for value in values if hasattr(value, "dtype")]
    kinds = [_kind_rank(dtype) for dtype in dtypes]
    rank = max(kinds, default=-1)
    scalars = max((_scalar_rank(value) for value in values if isinstance(value, bool | int | float)), default=-1)
    if scalars > rank:
        return (np.dtype(bool), np.dtype(np.int64), DEFAULT_FLOAT)[scalars]
    if rank < 0:
        raise TypeError("promote: none of the values has a dtype.")
    return np.result_type(*[dtype for dtype, kind in zip(dtypes, kinds, strict=True) if kind == rank])


def _kind_rank(dtype: np.dtype) -> int:
    return 0 if dtype.kind == "b" else 1 if dtype.kind in "iu" else 2


def _scalar_rank(value: bool | int | float) -> int:
    return 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2


def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    """The shape that `shapes` broadcast to: aligned at the right, axes of size 1 are stretched.

    Raises
    ------
    ValueError
        An axis has two sizes, neither of them 1; names the op, the shapes and the axis.
    """
    ndim = max((len(shape) for shape in shapes), default=0)
    result: list[int] = []
    for axis in range(-ndim, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            raise ValueError(
                f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast: axis {axis} has sizes "
                f"{' and '.join(map(str, sorted(sizes)))}. Axes are aligned at the right; one of two sizes must be 1, or both equal."
            )
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def normalise_axis(name: str, axis: int, ndim: int) -> int:
    """`axis` counted from the front.

    Raises
    ------
    ValueError
        The axis is not there.
    """
    if not isinstance(axis, int | np.integer):
        raise TypeError(f"{name}: axis must be an integer, got {_kind(axis)}.")
    if not -ndim <= axis < ndim:
        there = f"axes {-ndim} to {ndim - 1}" if ndim else "no axes"
        raise ValueError(f"{name}: axis {axis} is out of range; a tensor of {ndim} dimensions has {there}.")
    return int(axis) % ndim


def normalise_axes(name: str, axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """`axis` as a tuple counted from the front: None means every axis."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(normalise_axis(name, one, ndim) for one in (axis if isinstance(axis, tuple | list) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: axis {axis} names an axis twice.")
    return axes


def unbroadcast(cotangent: Any, shape: Shape) -> Any:
    """Sum a cotangent over the axes along which a value of `shape` was stretched. The engine calls this, rules never do."""
    extra = cotangent.ndim - len(shape)
    if extra:
        cotangent = TABLE["sum"](cotangent, axis=tuple(range(extra)), keepdims=False)
    stretched = tuple([axis for axis, size in enumerate(shape) if size == 1 and cotangent.shape[axis] != 1])
    return TABLE["sum"](cotangent, axis=stretched, keepdims=True) if stretched else cotangent


def check_one_device(name: str, arrays: Sequence[Array]) -> None:
    """Raise DeviceError when bare arrays live on more than one device."""
    devices = {device_of(array).name: None for array in arrays if not isinstance(array, bool | int | float)}
    if len(devices) > 1:
        first, second = list(devices)[:2]
        raise DeviceError(f"{name}: inputs are on {first} and {second}. Move one of them: x.to('{first}').")


def is_array(value: Any) -> bool:
    """Whether `value` is a bare array of some device."""
    return isinstance(value, np.ndarray | np.generic | SimArray) or type(value).__module__.partition(".")[0] == "cupy"


def _kind(value: Any) -> str:
    return type(value).__name__
