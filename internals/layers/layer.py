"""What every layer offers, and the registry that turns the word ``type`` of a configuration into one."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from internals import ops
from internals.device import Array, Device, cpu
from internals.layers.argument import Argument, Form, Parameter
from internals.ops.rules import pull as pull_row
from internals.ops.table import Op

ACTIVATIONS: dict[str, tuple[Op | None, dict[str, Any]]] = {
    "linear": (None, {}),
    "relu": (ops.relu, {}),
    "sigmoid": (ops.sigmoid, {}),
    "tanh": (ops.tanh, {}),
    "softmax": (ops.softmax, {"axis": -1}),
    "softrelu": (ops.softplus, {}),
    "abs": (ops.abs, {}),
    "square": (ops.square, {}),
    "exp": (ops.exp, {}),
    "log": (ops.log, {}),
}
"""What a layer's ``act`` may be, and the row of the op table that does it."""


class Parameters:
    """Makes a net's parameters while it is built; one that is named twice is one parameter."""

    def __init__(self, rng: np.random.Generator, dtype: np.dtype, device: Device = cpu) -> None:
        self.rng, self.dtype, self.device = rng, dtype, device
        self.by_name: dict[str, Parameter] = {}

    def make(self, name: str, shape: Sequence[int], wanted: Mapping[str, Any]) -> Parameter:
        """The parameter called `name`, new or shared; `wanted` may have what PARAMETER_SETTINGS lists."""
        if name in self.by_name:
            shared = self.by_name[name]
            if tuple(shared.value.shape) != tuple(shape):
                raise ValueError(
                    f"parameter {name!r} is shared, but has shape {tuple(shared.value.shape)} in one layer and "
                    f"{tuple(shape)} in this."
                )
            return shared
        settings = {key: wanted[key] for key in ("lr_mult", "decay_mult", "static") if key in wanted}
        value = self.device.from_host(_start(self.rng, tuple(shape), wanted).astype(self.dtype))
        self.by_name[name] = Parameter(name, value, **settings)
        return self.by_name[name]


def _start(rng: np.random.Generator, shape: tuple[int, ...], wanted: Mapping[str, Any]) -> np.ndarray:
    kind, fan_in = wanted.get("init", "normal"), wanted.get("fan_in", shape[0] if shape else 1)
    if kind == "constant":
        return np.full(shape, wanted.get("value", 0.0), np.float64)
    if kind == "normal":
        return rng.standard_normal(shape) * wanted.get("std", max(fan_in, 1) ** -0.5)
    if kind == "xavier":
        return rng.uniform(-1, 1, shape) * (3 / max(fan_in, 1)) ** 0.5
    raise ValueError(f"init {kind!r} is not one of constant, normal, xavier.")


PARAMETER_SETTINGS = {"name", "init", "std", "value", "lr_mult", "decay_mult", "static"}


class Layer:
    """One layer. A subclass writes three methods, and the class says which parameters (`roles`) it may have.

    ``setup(self, *forms, **settings) -> Form`` checks what comes in, makes the parameters, and says what comes out.
    Its positional parameters are the layer's bottoms, its keyword ones the settings a configuration may give.
    ``forward(self, *bottoms) -> array`` computes the value.
    ``backward(self, g, *bottoms)`` is given the gradient by that value, and adds to the gradients of bottoms and
    parameters.

    What `backward` needs from `forward` is kept on `self`: each thread has layers of its own.
    """

    roles: tuple[str, ...] = ()
    cost = False
    """Whether the value is a loss: a mean over `count` terms, from which a backward pass starts."""

    def __init__(self, name: str, bottoms: Sequence[str], settings: Mapping[str, Any], store: Parameters) -> None:
        self.name, self.bottoms, self.settings, self.store = name, tuple(bottoms), dict(settings), store
        self.parameters: dict[str, Parameter] = {}
        self.form = Form()
        self.settings_type = ""
        self.training = True
        self.rng = np.random.default_rng(0)
        self.act: tuple[Op, dict[str, Any]] | None = None

    setup: Callable[..., Form]
    forward: Callable[..., Array]
    backward: Callable[..., None]

    def count(self, *bottoms: Argument) -> int:
        """Of a cost: how many terms its mean is over."""
        return int(bottoms[0].entries.shape[0])

    # what the net calls

    def build(self, forms: Sequence[Form]) -> Form:
        """Check the settings and what comes in; the form of what comes out."""
        settings = {k: v for k, v in self.settings.items() if k not in self.roles and k != "act"}
        act = self.settings.get("act", "linear")
        if not isinstance(act, str) or act not in ACTIVATIONS:
            raise ValueError(f"act {act!r} is not one of {', '.join(ACTIVATIONS)}.")
        row, attrs = ACTIVATIONS[act]
        self.act = None if row is None else (row, attrs)
        self.form = self.setup(*forms, **settings)
        return self.form

    def run(self, bottoms: Sequence[Argument]) -> Argument:
        """The forward pass, activation included."""
        value = self.forward(*bottoms)
        if self.act is not None:
            self._before = value
            value = self.act[0](value, **self.act[1])
        starts = bottoms[0].starts if self.form.sequence and bottoms else None
        top = Argument(ops.reshape(value, shape=(1,)) if self.cost else value, starts=starts)
        top.wants = any(bottom.wants for bottom in bottoms) or any(not p.static for p in self.parameters.values())
        return top

    def run_backward(self, top: Argument, bottoms: Sequence[Argument]) -> None:
        """The backward pass of a layer whose top has its whole gradient."""
        if top.gradient is None or not top.wants or not bottoms:
            return
        g = ops.reshape(top.gradient, shape=()) if self.cost else top.gradient
        if self.act is not None:
            g = pull(self.act[0], g, top.value, [self._before], **self.act[1])[0]
        self.backward(g, *bottoms)

    def parameter(self, role: str, shape: Sequence[int], **start: Any) -> Parameter:
        """The parameter that plays `role`; the configuration may give it a name, multipliers and another start."""
        wanted = self.settings.get(role, {})
        if not isinstance(wanted, Mapping):
            raise TypeError(f"{role} must be a group of settings such as {role} {{ lr_mult: 2 }}, got {wanted!r}.")
        unknown = set(wanted) - PARAMETER_SETTINGS
        if unknown:
            there = ", ".join(sorted(PARAMETER_SETTINGS))
            raise ValueError(f"{role} has no setting {', '.join(sorted(unknown))}; there are {there}.")
        for key in ("std", "value", "lr_mult", "decay_mult"):
            if key in wanted and (isinstance(wanted[key], bool) or not isinstance(wanted[key], int | float)):
                raise TypeError(f"{key} of {role} must be a number, got {wanted[key]!r}.")
            if key != "value" and not wanted.get(key, 0) >= 0:
                raise ValueError(f"{key} of {role} must not be negative, got {wanted[key]!r}.")
        for key, kind in (("static", bool), ("name", str)):
            if not isinstance(wanted.get(key, kind()), kind):
                raise TypeError(f"{key} of {role} must be a {kind.__name__}, got {wanted[key]!r}.")
        name = wanted.get("name", f"{self.name}.{role}")
        if "std" in wanted and "init" not in wanted:
            start["init"] = "normal"
        found = self.store.make(name, shape, {**start, **wanted})
        self.parameters[role] = found
        setattr(self, role, found)
        return found

    def optional(self, role: str, shape: Sequence[int], **start: Any) -> Parameter | None:
        """As `parameter`, or None where the configuration says ``role: false``."""
        if self.settings.get(role, {}) is False:
            setattr(self, role, None)
            return None
        if self.settings.get(role) is True:
            del self.settings[role]
        return self.parameter(role, shape, **start)

    def replica(self, shadows: Mapping[str, Parameter]) -> Layer:
        """A layer for another thread: the same values, its own gradients and its own state."""
        twin = copy.copy(self)
        twin.parameters = {role: shadows[parameter.name] for role, parameter in self.parameters.items()}
        for role, parameter in twin.parameters.items():
            setattr(twin, role, parameter)
        return twin

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.form}>"


def pull(
    row: Op, g: Any, out: Any, inputs: Sequence[Any], wanted: Sequence[bool] | None = None, **attrs: Any
) -> list[Any]:
    """The op table's rule of a row, for bare arrays; None for inputs that are not `wanted`."""
    asked = [value if wanted is None or wanted[i] else None for i, value in enumerate(inputs)]
    return pull_row(row, g, out, inputs, row.bind(tuple(inputs), dict(attrs))[1] if not row.variadic else attrs, asked)


LAYERS: dict[str, type[Layer]] = {}
"""Every type of layer, by its word in a configuration."""

PARTS: dict[str, Callable[..., Any]] = {}
"""Parts of the machinery that can be swapped: filled by the modules that have them."""

Kind = TypeVar("Kind", bound=type[Layer])


def layer(name: str) -> Callable[[Kind], Kind]:
    """Register a class under the word a configuration calls it by."""

    def register(kind: Kind) -> Kind:
        if name in LAYERS:
            raise ValueError(f"layer: there is a type called {name!r} already.")
        LAYERS[name] = kind
        return kind

    return register


def settings_of(kind: type[Layer]) -> dict[str, bool]:
    """What a configuration may say for a type of layer, and whether it must."""
    parameters = inspect.signature(kind.setup).parameters.values()
    found = {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY}
    return found | dict.fromkeys(kind.roles, False) | {"act": False}


def arity_of(kind: type[Layer]) -> tuple[int, int | None]:
    """The fewest and the most bottoms of a type; None for any number."""
    parameters = list(inspect.signature(kind.setup).parameters.values())[1:]
    fixed = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    least = sum(p.default is p.empty for p in fixed)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return max(least, 1), None
    return least, len(fixed)


@contextmanager
def swap(**pieces: Any) -> Iterator[None]:
    """Put other layers or other machinery in for a while: ``with swap(fc=Mine, order=mine): net = Net(text)``.

    Parameters
    ----------
    pieces
        Under a layer type's word, a subclass of `Layer`. Under the name of a part, a function in its place:
        ``order(layers) -> names``, where layers are dicts with a name and a list of bottoms;
        ``forward_backward(step, batch, threads) -> (loss, gradients)``;
        ``update(parameter, lr, momentum, decay)``. Types are looked up when a net is built, the others when they run.

    Raises
    ------
    ValueError
        There is no such type or part.
    """
    unknown = [name for name in pieces if name not in LAYERS and name not in PARTS]
    if unknown:
        raise ValueError(
            f"swap: there is no {', '.join(unknown)}; there are the parts {', '.join(PARTS)} and the layer types "
            f"{', '.join(LAYERS)}."
        )
    before: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for name, piece in pieces.items():
            table: dict[str, Any] = LAYERS if name in LAYERS else PARTS
            before.append((table, name, table[name]))
            table[name] = piece
        yield
    finally:
        for table, name, piece in before:
            table[name] = piece
