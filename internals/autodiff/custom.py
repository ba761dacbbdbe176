"""Rules written by the user: a function with a backward pass of its own, as a row that is in no table."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from internals.autodiff.lifted import Lifted, is_tensor
from internals.autodiff.recorded import vjp
from internals.device import shares_memory
from internals.ops.spec import Spec
from internals.ops.table import TABLE, Op, is_array
from internals.tensor import Tensor, no_grad, wrap


class _Call:
    """One call of a custom function: its settings, and what its forward pass kept for the backward one."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.out: Any = None
        self.saved: Any = None
        self.ran = False


class CustomOp(Op):
    """A row whose kernel and rules are the user's. Each call of it, on whatever level, keeps its own values."""

    def __init__(self, function: custom_vjp, **columns: Any) -> None:
        super().__init__(function.name, lambda xp, *arrays, call: call.out, **columns)
        self.function = function

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        call, inputs = _Call(attrs["call"].settings), args[0]
        if not any(isinstance(one, Lifted) for one in inputs):
            # Here rather than in the kernel, so that an error of the user's keeps its own words and lines.
            call.out, call.saved = self.function.run(inputs, call.settings)
            call.ran = True
        result = super().__call__(inputs, call=call)
        call.out = None  # the tape keeps the call, and must not keep the result by it
        return result

    def forget(self, attrs: dict[str, Any]) -> None:
        """Let go of what forward kept."""
        attrs["call"].saved, attrs["call"].ran = None, False


class _EachInput:
    """The jvp rules of a row with any number of inputs."""

    def __init__(self, rule: Callable[..., Any]) -> None:
        self.rule = rule

    def __getitem__(self, position: int) -> Callable[..., Any]:
        return functools.partial(self.rule, position)


class custom_vjp:
    """A function of tensors whose derivative you write yourself.

    ::

        @custom_vjp
        def clipped(x, *, limit):                  # forward: the result, and what backward is to be given
            return ops.clip(x, -limit, limit), x

        @clipped.backward
        def clipped_backward(saved, cotangent, *, limit):
            return cotangent * ...                  # one cotangent per positional argument; None where there is none

        clipped(x, limit=1.0)

    Parameters
    ----------
    function : callable
        ``function(*tensors, **settings)`` returns ``(out, saved)``: one tensor, and anything. What it does inside is
        not recorded. Settings come by keyword, and are handed to every rule.

    Notes
    -----
    ``backward(saved, cotangent, **settings)`` returns one cotangent for each positional argument, of its shape and
    dtype (alone, or in a tuple), or None for an argument without one.

    ``jvp(saved, *tangents, **settings)``, if given with ``@clipped.jvp``, returns the tangent of the result; each
    tangent has the shape and dtype of its argument. Without it forward mode transposes `backward`, which is linear in
    the cotangent (Radul et al. 2022): `backward` must then be written with operations.

    Both are written with operations where higher orders are wanted: those run forward once more, so that what it saved
    is a function of the arguments, and differentiate through it and `backward`, as jax.custom_vjp does. PyTorch's
    autograd.Function; tf.custom_gradient.

    Raises
    ------
    TypeError
        `function` is not callable or takes keyword arguments only; forward does not return a pair, or its result is no
        tensor; no backward was given; backward returned something that is no tensor.
    RuntimeError
        In the backward pass: wrong number of cotangents, or one of the wrong shape or dtype; names the function and
        the argument.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(f"custom_vjp: expected a function, got {type(function).__name__}.")
        functools.update_wrapper(self, function)
        self.function = function
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self._backward: Callable[..., Any] | None = None
        self._jvp: Callable[..., Any] | None = None
        parameters = inspect.signature(function).parameters.values()
        self.inputs = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        several = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        if not self.inputs and not several:
            raise TypeError(f"custom_vjp: {self.name} takes no positional argument to differentiate by.")
        self.op = CustomOp(
            self,
            vjp=self._pull,
            jvp=self._push,
            infer=self._infer,
            saves="tensors",
            variadic=True,
            joint=True,
            doc=(function.__doc__ or "").strip(),
        )
        self.op.jvp = _EachInput(self._push)  # type: ignore[assignment]  # as many rules as a call has inputs

    def backward(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Give the rule: ``rule(saved, cotangent, **settings)``. As a decorator."""
        self._backward = rule
        return rule

    def jvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Give a forward rule: ``rule(saved, *tangents, **settings)``. As a decorator."""
        self._jvp = rule
        return rule

    def __call__(self, *inputs: Any, **settings: Any) -> Any:
        if self._backward is None:
            raise TypeError(f"{self.name}: has no backward rule yet; give it one with @{self.name}.backward.")
        if not inputs or not any(is_tensor(one) or is_array(one) for one in inputs):
            raise TypeError(f"{self.name}: expected at least one tensor as a positional argument.")
        given = [one if is_tensor(one) or isinstance(one, bool | int | float) else Tensor(one) for one in inputs]
        return self.op(given, call=_Call(settings))

    def __repr__(self) -> str:
        return f"<custom_vjp {self.name}>"

    def run(self, inputs: Sequence[Any], settings: dict[str, Any]) -> tuple[Any, Any]:
        """The forward pass, unrecorded: an array of its own, and what is to be saved."""
        with no_grad():
            out, saved = self._forward([wrap(one) if is_array(one) else one for one in inputs], settings)
        if not isinstance(out, Tensor):
            raise TypeError(
                f"{self.name}: forward used a value of an outer transformation that is no argument; pass it as one."
            )
        shared = any(isinstance(one, Tensor) and shares_memory(out.data, one.data) for one in inputs)
        return (out.data.copy() if shared else out.data), saved

    def _forward(self, inputs: Sequence[Any], settings: dict[str, Any]) -> tuple[Any, Any]:
        result = self.function(*inputs, **settings)
        if not isinstance(result, tuple) or len(result) != 2:
            came = f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__
            raise TypeError(f"{self.name}: a custom_vjp returns (out, saved), got {came}.")
        if not is_tensor(result[0]):
            raise TypeError(f"{self.name}: the result must be one tensor, got {type(result[0]).__name__}.")
        return result

    def _infer(self, *tensors: Any, call: Any) -> Any:
        raise TypeError(f"{self.name}: the result of a custom_vjp is not known without computing it.")

    # The rules of the row

    def _pull(self, cotangent: Any, out: Any, *inputs: Any, call: _Call) -> list[Any]:
        bare = not is_tensor(cotangent)
        if bare and call.ran:
            pieces = self._pieces(call.saved, wrap(cotangent), inputs, call.settings)
            return [piece.data if isinstance(piece, Tensor) else piece for piece in pieces]
        # What was saved must be a function of the inputs, on the level that these are of.
        return self._pieces(self._forward(inputs, call.settings)[1], cotangent, inputs, call.settings)

    def _pieces(self, saved: Any, cotangent: Any, inputs: Sequence[Any], settings: dict[str, Any]) -> list[Any]:
        assert self._backward is not None
        given = self._backward(saved, cotangent, **settings)
        pieces: list[Any] = list(given) if isinstance(given, tuple | list) else [given]
        if len(pieces) != len(inputs):
            raise RuntimeError(
                f"{self.name}: its backward returned {len(pieces)} cotangents for {len(inputs)} arguments; expected "
                "one for each, None where there is none."
            )
        for i, (piece, one) in enumerate(zip(pieces, inputs, strict=True)):
            if piece is None or not hasattr(one, "shape") or one.dtype.kind in "biu":
                pieces[i] = None
            elif not is_tensor(piece):
                raise TypeError(
                    f"{self.name}: its backward returned {type(piece).__name__} for {self._argument(i)}; expected a "
                    "tensor or None."
                )
            elif tuple(piece.shape) != tuple(one.shape) or piece.dtype != one.dtype:
                raise RuntimeError(
                    f"{self.name}: its backward returned a cotangent of {Spec(piece.shape, piece.dtype)} for "
                    f"{self._argument(i)}, which is {Spec(one.shape, one.dtype)}."
                )
        return pieces

    def _push(self, position: int, tangent: Any, out: Any, *inputs: Any, call: _Call) -> Any:
        saved = self._forward(inputs, call.settings)[1]
        if self._jvp is None:

            def piece(cotangent: Any) -> Any:
                found = self._pieces(saved, cotangent, inputs, call.settings)[position]
                return TABLE["zeros_like"](inputs[position]) if found is None else found

            return vjp(piece, TABLE["zeros_like"](out))[1](tangent)[0]
        tangents = [
            tangent if i == position else TABLE["zeros_like"](one) if hasattr(one, "shape") else 0.0
            for i, one in enumerate(inputs)
        ]
        moved = self._jvp(saved, *tangents, **call.settings)
        if not is_tensor(moved) or tuple(moved.shape) != tuple(out.shape) or moved.dtype != out.dtype:
            came = Spec(moved.shape, moved.dtype) if is_tensor(moved) else type(moved).__name__
            raise RuntimeError(
                f"{self.name}: its jvp returned {came}, but the result is {Spec(out.shape, out.dtype)}; they must "
                "agree."
            )
        return moved

    def _argument(self, i: int) -> str:
        return f"argument {self.inputs[i]!r}" if i < len(self.inputs) else f"argument {i}"
