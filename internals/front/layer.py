"""Layers that find out the shapes of their weights when they first meet an input."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals.front.names import choose
from internals.front.symbol import Symbol, infer
from internals.nn.module import Module
from internals.ops.spec import DEFAULT_FLOAT
from internals.ops.table import is_array
from internals.tensor import Tensor

LAYERS: dict[str, type[Layer]] = {}
"""Every class of layers, by its name: what a saved model is built from again."""


class Layer(Module):
    """A part of a model whose weights are made when it is first called.

    Subclasses hand their settings to ``super().__init__``, make weights in `build`, and compute in `forward`.

    Parameters
    ----------
    name : str, optional
        Unique within a model; a model names those that have none, as Keras does.
    settings
        The arguments that make the same layer again: numbers, strings, tuples, None. Found in `settings`.
    """

    built = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        LAYERS[cls.__name__] = cls

    def __init__(self, *, name: str | None = None, **settings: Any) -> None:
        if name is not None and (not isinstance(name, str) or not name or "." in name):
            raise ValueError(f"{type(self).__name__}: name must be a string without dots, got {name!r}.")
        self.given_name = name
        self.settings = settings
        self.rng: np.random.Generator | None = None

    @property
    def name(self) -> str:
        return self.given_name or snake_case(type(self).__name__)

    def build(self, *shapes: tuple[int | None, ...]) -> None:
        """Make the weights for inputs of these shapes; layers without weights need not write it."""

    def __call__(self, *inputs: Any) -> Any:
        """The result for values, or a Symbol for Symbols; a list of inputs may be given as a list, as in Keras."""
        if len(inputs) == 1 and isinstance(inputs[0], list | tuple):
            inputs = tuple(inputs[0])
        if not inputs:
            raise TypeError(f"{self.name}: called without an input.")
        symbols = [isinstance(value, Symbol) for value in inputs]
        if any(symbols):
            if not all(symbols):
                raise TypeError(f"{self.name}: some inputs are symbols and others values; give one kind.")
            return self.connect(inputs)
        values = [as_input(self.name, value) for value in inputs]
        self.ensure_built([(None, *value.shape[1:]) for value in values])
        return super().__call__(*values)

    def connect(self, inputs: tuple[Symbol, ...]) -> Any:
        """A Symbol for each result."""
        self.ensure_built([symbol.shape for symbol in inputs])
        results = [
            Symbol(shape, dtype, self, inputs, position) for position, (shape, dtype) in enumerate(infer(self, inputs))
        ]
        return results[0] if len(results) == 1 else results

    def ensure_built(self, shapes: Sequence[tuple[int | None, ...]]) -> None:
        if not self.built:
            self.random()  # now, so that it does not depend on who draws first
            self.build(*shapes)
            self.built = True

    def weight(
        self, shape: Sequence[int], initializer: str | Callable[..., np.ndarray], *, train: bool = True
    ) -> Tensor:
        """A new weight, float32."""
        values = initial(initializer)(self.random(), tuple(shape))
        return Tensor(values, dtype=DEFAULT_FLOAT, requires_grad=train)

    def random(self) -> np.random.Generator:
        """The layer's own generator: its weights are drawn from it, and what it does at random."""
        if self.rng is None:
            self.rng = np.random.default_rng(fresh_seed())
        return self.rng

    def get_weights(self) -> list[np.ndarray]:
        """Copies of all weights, in the order in which Keras has those of the same model."""
        return list(self.state_dict().values())

    def set_weights(self, arrays: Sequence[Any]) -> None:
        """Put arrays in place of all weights.

        Raises
        ------
        ValueError
            The layer has no weights yet, or there are more or fewer arrays, or arrays of other shapes.
        """
        names = list(self.state_dict())
        if len(names) != len(arrays):
            unbuilt = "" if self.built else " It is not built yet: give it an Input."
            raise ValueError(f"set_weights: {self.name} has {len(names)} weights, got {len(arrays)} arrays.{unbuilt}")
        self.load_state_dict(dict(zip(names, arrays, strict=True)))

    def count_params(self) -> int:
        """How many numbers its weights hold."""
        return self.num_parameters() + sum(buffer.size for _, buffer in self.named_buffers())

    def config(self) -> dict[str, Any]:
        """What makes the layer again, in JSON's types."""
        settings = {key: list(one) if isinstance(one, tuple) else one for key, one in self.settings.items()}
        return {"class": type(self).__name__, "name": self.given_name, "settings": settings}

    def __repr__(self) -> str:
        settings = ", ".join(f"{key}={value!r}" for key, value in self.settings.items() if value is not None)
        return f"{type(self).__name__}({settings})"


_seeds = [np.random.default_rng()]


def set_random_seed(seed: int) -> None:
    """Make weights, dropout and shuffling from here on repeatable."""
    _seeds[0] = np.random.default_rng(seed)


def fresh_seed() -> int:
    return int(_seeds[0].integers(2**31))


def as_input(name: str, value: Any) -> Any:
    if isinstance(value, list | tuple | int | float | np.generic) or is_array(value):
        array = value if is_array(value) else np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(DEFAULT_FLOAT)
        if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
            raise TypeError(f"{name}: expected numbers, got an array of {array.dtype}.")
        value = Tensor(array)
    if not hasattr(value, "shape"):
        raise TypeError(f"{name}: expected a Tensor or an array, got {type(value).__name__}.")
    if len(value.shape) == 0:
        raise ValueError(f"{name}: an input needs a batch axis; got a 0-d value.")
    return value


def snake_case(name: str) -> str:
    """A class's name as Keras makes a layer's of it: Conv2D is conv2d, MaxPooling2D is max_pooling2d."""
    parted = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", parted).lower()


def known(layer: str, argument: str, size: int | None) -> int:
    if size is None:
        raise ValueError(f"{layer}: {argument} must be known when the layer is built; give Input its size, not None.")
    return size


def positive(layer: str, **sizes: Any) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{layer}: {name} must be a positive integer, got {size!r}.")


def fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """Inputs and outputs of one unit: the last two axes, times the window that stands before them."""
    if len(shape) < 2:
        return float(shape[0] if shape else 1), float(shape[0] if shape else 1)
    window = float(np.prod(shape[:-2]))
    return shape[-2] * window, shape[-1] * window


def _glorot_uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    limit = np.sqrt(6 / sum(fans(shape)))
    return rng.uniform(-limit, limit, shape)


def _he_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Cut off at two standard deviations, and scaled so that what is left has the variance wanted."""
    values = rng.normal(size=shape)
    while (outside := np.abs(values) > 2).any():
        values[outside] = rng.normal(size=int(outside.sum()))
    return values * np.sqrt(2 / fans(shape)[0]) / 0.87962566103423978


def _orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    q, r = np.linalg.qr(rng.normal(size=(max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diag(r))
    return (q if rows >= columns else q.T).reshape(shape)


INITIALIZERS: dict[str, Callable[..., np.ndarray]] = {
    "zeros": lambda rng, shape: np.zeros(shape),
    "ones": lambda rng, shape: np.ones(shape),
    "uniform": lambda rng, shape: rng.uniform(-0.05, 0.05, shape),
    "glorot_uniform": _glorot_uniform,
    "he_normal": _he_normal,
    "orthogonal": _orthogonal,
}
"""By Keras's names: Glorot & Bengio (2010), He et al. (2015), Saxe et al. (2014)."""


def initial(initializer: str | Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return choose("initializer", initializer, INITIALIZERS)
