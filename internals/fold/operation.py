"""Several rows as one call: a function that is noted whole, and runs on all examples under `vmap`.

Noting costs about as much as running a small row. TensorFlow Fold's operations and DyNet's builders stand for whole
cells for that reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from internals.autodiff import vmap
from internals.fold.deferred import Deferred, Note, Notes, Signature, run_deferred
from internals.ops.spec import Spec
from internals.ops.table import Op

_INPUT = Op("input", lambda xp: None, vjp=None, infer=lambda: Spec((), bool), doc="An input of an operation.")


class _Body(Notes):
    """Notes of an operation's body, from which shapes are read and nothing is run."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def stand_in(self, value: Deferred) -> Deferred:
        """A value of the same kind that is never known."""
        note = Note(self, Signature(_INPUT, {}, True, [value.kind], None, -1), (), None, -1)
        return Deferred(note, 0, value.kind)

    def run(self, values: Sequence[Deferred] | None = None) -> None:
        raise TypeError(
            f"{self.name}: an operation's body runs for many examples at once, so it can't ask for a value or branch "
            "on one. Use ops.where, or branch outside the operation."
        )


class Operation:
    """A function of tensors that is noted as one call; see `operation`.

    Attributes
    ----------
    function : callable
    name : str
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(f"operation: expected a function of tensors, got {type(function).__name__}.")
        self.function = function
        self.name: str = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *inputs: Any) -> Any:
        if not any(type(value) is Deferred for value in inputs):
            return self.function(*inputs)
        return run_deferred(self, inputs, {})

    def infer_from(self, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Shapes and dtypes of the results: the function runs on values that are noted and never computed."""
        body = _Body(self.name)
        result = self.function(*[body.stand_in(one) if type(one) is Deferred else one for one in inputs])
        outs = result if isinstance(result, tuple | list) else [result]
        for one in outs:
            if not isinstance(one, Deferred):
                raise TypeError(
                    f"{self.name}: an operation returns a tensor computed from its inputs, or a tuple of them; got "
                    f"{type(one).__name__}."
                )
        specs = [Spec(one.shape, one.dtype) for one in outs]
        return (
            type(result)._make(specs) if hasattr(result, "_make") else type(outs)(specs) if result is outs else specs[0]
        )

    def bundle_of(self, spec: Any) -> Any:
        """What puts several results together as the function does; None where it gives one."""
        return getattr(type(spec), "_make", type(spec)) if isinstance(spec, tuple | list) else None

    def run(self, values: list[Any], batched: list[bool]) -> list[Any]:
        """All examples at once, each result with their axis in front."""
        tensors = [i for i, value in enumerate(values) if hasattr(value, "shape")]

        def of_tensors(*given: Any) -> Any:
            whole = list(values)
            for i, value in zip(tensors, given, strict=True):
                whole[i] = value
            return self.function(*whole)

        axes = tuple(0 if batched[i] else None for i in tensors)
        out = vmap(of_tensors, in_axes=axes, randomness="different")(*[values[i] for i in tensors])
        return list(out) if isinstance(out, tuple | list) else [out]

    def __repr__(self) -> str:
        return f"<operation {self.name}>"


def operation(function: Callable[..., Any]) -> Operation:
    """A function of tensors, such as a cell or a module, to be noted as one call.

    Parameters
    ----------
    function : callable
        Of tensors and numbers, given by position; returns a tensor or a tuple of them. It must not branch on values,
        and may use parameters of its own. Called with Tensors it just runs.

    Returns
    -------
    Operation

    Raises
    ------
    TypeError
        It is not callable; on the call, it returned something else, or its result does not depend on its inputs.
    """
    return Operation(function)
