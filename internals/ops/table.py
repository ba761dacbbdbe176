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
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from internals.device import Array, SimArray, device_of
from internals.ops.errors import attributed, checked_number, explain
from internals.ops.spec import DEFAULT_FLOAT, Spec, dtype_of, is_half, kind_rank, promote, shape_of

Rule = Callable[..., Any]
"""``rule(cotangent, out, *inputs, **attrs)`` -> the cotangent of one input; a joint rule returns one for each."""

Execution = Callable[["Op", tuple[Any, ...], dict[str, Any]], Any]
"""``run(op, inputs, attrs)``: how one style executes a row."""


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
    jvp : {"symmetric", "linear", "bilinear"}, rule or tuple of (rule or None)
        How a tangent is pushed forward. "symmetric": the Jacobian is its own transpose, so the vjp rules serve (every
        element-wise row: the Jacobian is diagonal). "linear": the row itself, applied to the tangents. "bilinear": the
        row with one input's tangent at a time. Else one rule per input, ``rule(tangent, out, *inputs, **attrs)``, whose
        contributions are added. Every row that has a vjp has it.
    saves : str, or one str for each rule
        Which of ``out`` and the inputs the rules read the values of. The tape keeps just these alive, and where it is
        said rule by rule, just for the rules that will run; of the others a rule can ask ``shape``, ``dtype``, ``ndim``
        and ``size``.
    infer : callable ``infer(*specs, **attrs)`` -> Spec, or a tuple of them
        Shape and dtype of the result; raises ValueError or TypeError saying what is wrong with the inputs.
    strict : bool
        The kernel would take inputs that `infer` refuses, so `infer` is asked first. Elsewhere it is asked only when
        the kernel has failed, to say why.
    dtypes : {"promote", "number", "float", "compare", "branches", "first", "own"}
        How input dtypes are brought together before the kernel runs: all to their common dtype; to that, which must
        not be boolean; to a floating one; to their common dtype, with a boolean result; all but the first; to that of
        the first; or not at all.
    broadcasts : bool
        The kernel broadcasts its inputs, so the engine sums a cotangent over the axes that were stretched.
    variadic : bool
        The inputs come as one sequence (`concat`).
    joint : bool
        `vjp` is one rule for all inputs.
    results : sequence of str, or "several"
        The names of the results, where there is more than one; "several" where how many depends on the call. The
        kernel, `infer` and the jvp rules then give a tuple, and rules are given tuples as cotangent and out: the
        cotangent of a result that nothing was computed from is zeros, that of an integer result None. `saves` may name
        results.
    fills : bool
        Whether those zeros are made; if not, the rules are given None.
    expr : str
        For an element-wise row, the C expression for one entry; ``{0}``, ``{1}``, ... stand for the inputs' entries,
        and an attribute's name in braces for its value.
    doc : str
        One sentence, then where frameworks differ and whom we follow.
    """

    def __init__(
        self,
        name: str,
        kernel: Callable[..., Array] | str,
        *,
        vjp: Rule | Sequence[Rule | None] | None,
        infer: Callable[..., Any],
        jvp: str | Rule | Sequence[Rule | None] | None = None,
        saves: str | Sequence[str] = "",
        dtypes: str = "own",
        broadcasts: bool = False,
        variadic: bool = False,
        joint: bool = False,
        results: Sequence[str] | str = (),
        fills: bool = True,
        view: bool = False,
        strict: bool = False,
        expr: str = "",
        doc: str = "",
        room: str = "",
    ) -> None:
        self.name, self.doc, self.room = name, doc, room
        self.kernel: Callable[..., Array] = _named(kernel) if isinstance(kernel, str) else kernel
        self.on_numpy: Callable[..., Array] = getattr(np, kernel) if isinstance(kernel, str) else partial(kernel, np)
        self.infer, self.strict, self.expr = infer, strict, expr
        self.dtypes, self.broadcasts, self.variadic, self.joint, self.view = dtypes, broadcasts, variadic, joint, view
        parameters = list(inspect.signature(infer).parameters.values())
        self.inputs = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
        self.attrs = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        self.arity = len(self.inputs)
        self.vjp: Rule | tuple[Rule | None, ...] | None
        if vjp is None or joint:
            self.vjp = vjp if callable(vjp) else None
        else:
            self.vjp = tuple(vjp) if isinstance(vjp, Sequence) else (vjp,)
        self.jvp: str | tuple[Rule | None, ...] | None
        if jvp is None or isinstance(jvp, str):
            self.jvp = jvp
        else:
            self.jvp = (jvp,) if callable(jvp) else tuple(jvp)
        self._by_rule = [tuple(one.split()) for one in ((saves,) if isinstance(saves, str) else saves)]
        self.saves = tuple(dict.fromkeys(name for one in self._by_rule for name in one))
        self._keeps: dict[tuple[bool, ...], tuple[tuple[str, ...], Any]] = {}
        self.plain = not self.attrs and not variadic
        self.fills = fills
        self.results = results if isinstance(results, str) else tuple(results)
        if self.results:
            named: Any = namedtuple(name, self.results) if isinstance(self.results, tuple) else None
            self.bundle: Callable[[Sequence[Any]], Any] = tuple if named is None else named._make
            self.kernel = _bundling(self.kernel, self.bundle)
            self.on_numpy = partial(self.kernel, np)
        self.__name__, self.__doc__ = name, doc
        if (self.vjp is None) != (self.jvp is None):
            raise ValueError(f"op table: {name} has a vjp or a jvp, but not both; give both, or neither.")
        unknown = set(self.saves) - {"out", *self.inputs, *(self.results if isinstance(self.results, tuple) else ())}
        if unknown:
            raise ValueError(f"op table: {name} saves {sorted(unknown)}, but its inputs are {self.inputs}.")

    @property
    def differentiable(self) -> bool:
        return self.vjp is not None

    def keeps(self, wanted: Sequence[Any]) -> tuple[tuple[str, ...], Any]:
        """What must be kept for the rules of the inputs that are `wanted` (not None).

        Returns
        -------
        tuple of str, one per input
            The input's name, empty where its value is not needed.
        bool
            Whether the result is needed; of a row with named results, a tuple that says so for each.
        """
        mask = tuple([want is not None for want in wanted])
        if mask not in self._keeps:
            rules = self._by_rule if len(self._by_rule) == len(mask) else [self.saves] * len(mask)
            names = {name for rule, want in zip(rules, mask, strict=True) if want for name in rule}
            inputs = self.inputs * len(mask) if self.variadic else self.inputs
            kept = tuple(name if name in names else "" for name, _ in zip(inputs, mask, strict=False))
            named = isinstance(self.results, tuple) and self.results
            self._keeps[mask] = (
                kept,
                tuple(one in names or "out" in names for one in named) if named else "out" in names,
            )
        return self._keeps[mask]

    def has_rule(self, position: int) -> bool:
        """Whether a cotangent of the input at `position` can be asked for."""
        return self.vjp is not None and (self.joint or self.vjp[position] is not None)  # type: ignore[index]  # a tuple, when not joint

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        inputs, attrs = (
            (args, attrs) if self.plain and len(args) == self.arity and not attrs else self.bind(args, attrs)
        )
        run: Execution = run_on_arrays
        rank = 0
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
                raise TypeError(
                    f"{self.name}: expected a list or tuple of tensors first, got "
                    f"{_kind(args[0]) if args else 'nothing'}."
                )
            inputs, extra = tuple(args[0]), args[1:]
            if not inputs:
                self.infer()  # has no style to run in, and says so
        else:
            inputs, extra = args[: self.arity], args[self.arity :]
            inputs += tuple(attrs.pop(name) for name in self.inputs[len(inputs) :] if name in attrs)
            if len(inputs) < self.arity:
                raise TypeError(
                    f"{self.name}: takes {self.arity} inputs ({', '.join(self.inputs)}), got {len(inputs)}."
                )
        if len(extra) > len(self.attrs):
            raise TypeError(
                f"{self.name}: takes at most {len(self.attrs)} attributes ({', '.join(self.attrs)}), got {len(extra)}."
            )
        given = dict(zip(self.attrs, extra, strict=False)) | attrs
        bound = {name: given.pop(name, default) for name, default in self.attrs.items()}
        if given:
            raise TypeError(
                f"{self.name}: unknown attribute {', '.join(given)}; it takes {', '.join(self.attrs) or 'none'}."
            )
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
        if self.dtypes == "float" and kind_rank(common) < 2:
            common = DEFAULT_FLOAT
        if self.dtypes == "number" and kind_rank(common) < 1:
            raise TypeError(
                f"{self.name}: takes numbers, got booleans. Cast them: x.to('int64'); or combine them with "
                "logical_not, logical_and, logical_or, not_equal."
            )
        return [common] * len(inputs)

    def infer_from(self, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """The result's Spec for inputs of any kind that have a shape and dtype; Python numbers count as 0-d.

        A tuple of Specs for a row with several results.
        """
        specs = [
            Spec(shape_of(value), dtype or dtype_of(value))
            for value, dtype in zip(inputs, self.input_dtypes(inputs), strict=True)
        ]
        try:
            return self.infer(*specs, **attrs)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            if str(error).startswith(f"{self.name}:"):
                raise
            raise attributed(self, attrs, error) from None

    def signature(self) -> str:
        """The call as a reader types it."""
        inputs = [f"[{self.inputs[0]}, ...]"] if self.variadic else list(self.inputs)
        attrs = [
            name if value is inspect.Parameter.empty else f"{name}={value!r}" for name, value in self.attrs.items()
        ]
        return f"{self.name}({', '.join(inputs + attrs)})"

    def __repr__(self) -> str:
        return f"<op {self.signature()}>"


TABLE: dict[str, Op] = {}
"""Every row, by name."""

_STYLES: dict[type, tuple[Execution, int]] = {}


def style(value_type: type, run: Execution, *, rank: int) -> None:
    """Register a style of execution: rows called with a `value_type` are handed to ``run(op, inputs, attrs)``.

    Where values of several styles meet in one call, the highest rank runs it: 10 eager, 20 forward mode, 30 graph.
    """
    _STYLES[value_type] = (run, rank)


def execution_of(value_type: type) -> Execution:
    """What runs rows called with a `value_type` now."""
    return _STYLES[value_type][0]


def row(name: str, kernel: Callable[..., Array] | str, **columns: Any) -> Op:
    """Add a row to the table."""
    if name in TABLE:
        raise ValueError(f"op table: there is a row called {name} already.")
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back  # past functions such as `unary`, which make rows for other rooms than their own
    room = frame.f_globals["__name__"].rpartition(".")[2]
    TABLE[name] = Op(name, kernel, room=room, **columns)
    return TABLE[name]


def run_on_arrays(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Array:
    """The plainest style: run the kernel on bare arrays."""
    for value in inputs:
        kind = type(value)
        if kind is np.ndarray or isinstance(value, np.generic):
            if value.dtype.itemsize == 2:
                op = for_dtype(op, value.dtype)
            try:
                return op.on_numpy(*inputs, **attrs)
            except Exception as error:
                explain(op, inputs, attrs, error)
                raise
        if not isinstance(value, bool | int | float):
            place = device_of(value, op.name)
            op = for_dtype(op, value.dtype)
            with place.scope():
                return op.kernel(place.xp, *inputs, **attrs)
    # Python numbers alone: a Python number again, which takes the dtype of whatever it meets next.
    out = run_on_arrays(op, tuple([checked_number(op.name, value) for value in inputs]), attrs)
    parts = [one.item() if one.ndim == 0 else one for one in (out if op.results else [out])]
    return op.bundle(parts) if op.results else parts[0]


def for_dtype(op: Op, dtype: np.dtype) -> Op:
    """The row in the form in which it runs on a dtype; see `internals.ops.half`."""
    if not is_half(dtype):
        return op
    from internals.ops.half import half_form

    return half_form(op)


def _bundling(kernel: Callable[..., Any], bundle: Callable[[Sequence[Any]], Any]) -> Callable[..., Any]:
    def bundled(xp: Any, *arrays: Array, **attrs: Any) -> Any:
        return bundle(kernel(xp, *arrays, **attrs))

    return bundled


def _named(function: str) -> Callable[..., Array]:
    def kernel(xp: Any, *arrays: Array, **attrs: Any) -> Array:
        return getattr(xp, function)(*arrays, **attrs)

    return kernel


def is_array(value: Any) -> bool:
    """Whether `value` is a bare array of some device."""
    return isinstance(value, np.ndarray | np.generic | SimArray) or type(value).__module__.partition(".")[0] == "cupy"


def _kind(value: Any) -> str:
    return type(value).__name__
