"""From a trained model to one of 8-bit integers: prepare, calibrate, convert; or train on with the rounding in place.

Jacob et al. 2018; Krishnamoorthi 2018, "Quantizing deep convolutional networks for efficient inference".
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals import ops
from internals.deploy.compress.calibrate import OBSERVERS, MovingAverage, Observer
from internals.deploy.compress.fold import fold_norms
from internals.deploy.compress.layers import (
    QuantisedConv2d,
    QuantisedEmbedding,
    QuantisedLinear,
    array_of,
    weight_quantisation,
)
from internals.deploy.compress.scale import INT8, NARROW_INT8, Grid, Quantisation
from internals.deploy.saved.module import LoadedModule
from internals.front import Model
from internals.nn import Conv2d, Embedding, Linear, Module
from internals.tensor import Tensor, no_grad


@dataclass(frozen=True)
class Recipe:
    """How a model is to be quantised.

    Attributes
    ----------
    per_channel : bool
        One scale per output of a weight, or one for all of it.
    weight_grid, weight_scheme
        `NARROW_INT8` and "symmetric" are TensorFlow Lite's; `INT8` and "symmetric" PyTorch's.
    grid, scheme
        The same for what comes into a layer.
    observer : {"minmax", "average", "percentile", "entropy"}
        How the range of what comes in is chosen.
    settings : mapping
        The observer's own, such as ``{"percentile": 99.9}``.
    dynamic : bool
        No calibration: each batch has its own range.
    """

    per_channel: bool = True
    weight_grid: Grid = NARROW_INT8
    weight_scheme: str = "symmetric"
    grid: Grid = INT8
    scheme: str = "affine"
    observer: str = "minmax"
    settings: Mapping[str, Any] = field(default_factory=dict)
    dynamic: bool = False

    def __post_init__(self) -> None:
        if self.observer not in OBSERVERS:
            raise ValueError(f"Recipe: observer must be one of {', '.join(OBSERVERS)}, got {self.observer!r}.")
        for what in ("weight_grid", "grid"):
            grid = getattr(self, what)
            if not isinstance(grid, Grid) or grid.dtype not in (np.int8, np.uint8):
                raise ValueError(f"Recipe: {what} must be a Grid within int8 or uint8, got {grid}.")
        self.watch()

    def watch(self) -> Observer:
        """A new observer of what comes into a layer."""
        observer: Observer = OBSERVERS[self.observer](grid=self.grid, scheme=self.scheme, **self.settings)
        return observer

    def weight(self, layer: Module) -> Quantisation:
        return weight_quantisation(layer, self.per_channel, self.weight_grid, self.weight_scheme)


class Observed(Module):
    """A layer that is watched: what comes in is noted when it evaluates."""

    def __init__(self, layer: Linear | Conv2d, recipe: Recipe) -> None:
        self.layer, self.recipe = layer, recipe
        self.observer = None if recipe.dynamic else recipe.watch()

    def forward(self, x: Tensor) -> Tensor:
        if self.observer is not None:
            self.observer.observe(array_of(x))
        return self.layer(x)

    def converted(self) -> Module:
        """The layer of integers."""
        activation = None if self.observer is None else self.observer.quantisation()
        return _quantised(self.layer, self.recipe.weight(self.layer), activation)


class Trained(Module):
    """A layer that trains with the rounding in place: weight and input are written in integers and read again.

    The input's range is the batches' moving average; it is taken along in training mode only. The weight's range is its
    own at every step.

    Parameters
    ----------
    layer : Linear or Conv2d
    recipe : Recipe
    momentum : float
        Of the moving average; PyTorch's 0.01 by default.
    """

    def __init__(self, layer: Linear | Conv2d, recipe: Recipe, momentum: float = 0.01) -> None:
        self.layer, self.recipe = layer, recipe
        self.observer = MovingAverage(recipe.grid, recipe.scheme, momentum)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.observer.observe(array_of(x))
        x = _rounded(x, self.observer.quantisation())
        weight = _rounded(self.layer.weight, self.recipe.weight(self.layer))
        rounded = copy.copy(self.layer)
        vars(rounded)["weight"] = weight
        return rounded.forward(x)

    def converted(self) -> Module:
        """The layer of integers, which gives what this one gives in evaluation."""
        return _quantised(self.layer, self.recipe.weight(self.layer), self.observer.quantisation())


def _rounded(x: Tensor, how: Quantisation) -> Tensor:
    """Onto the grid, with the straight-through rule."""
    scale, zero_point = Tensor(how.scale, device=x.device), Tensor(how.zero_point, device=x.device)
    return ops.fake_quantise(x, scale, zero_point, low=how.grid.low, high=how.grid.high, axis=how.axis)


def _quantised(layer: Module, weight: Quantisation, activation: Quantisation | None) -> Module:
    if isinstance(layer, Linear):
        return QuantisedLinear(layer, weight, activation)
    assert isinstance(layer, Conv2d)
    return QuantisedConv2d(layer, weight, activation)


def prepare(model: Module, recipe: Recipe | None = None) -> Module:
    """A copy of a trained model, in evaluation, whose `Linear` and `Conv2d` layers are watched.

    Normalisations that follow such a layer in a `Sequential` are folded into it.

    Raises
    ------
    ValueError
        There is no layer to quantise.
    """
    recipe = recipe or Recipe()
    return _replaced(_ready(model), lambda layer: Observed(layer, recipe), "prepare")


def prepare_training(model: Module, recipe: Recipe | None = None, momentum: float = 0.01) -> Module:
    """A copy of a model that trains with the rounding in place, with straight-through gradients; see `Trained`."""
    recipe = recipe or Recipe()
    if recipe.dynamic:
        raise ValueError("prepare_training: a dynamic recipe has no range to train with; use a static one.")
    return _replaced(_ready(model), lambda layer: Trained(layer, recipe, momentum), "prepare_training").train()


def _ready(model: Module) -> Module:
    """A folded copy in evaluation; the model itself stays in its mode."""
    if not isinstance(model, Module):
        raise TypeError(f"prepare: expected a Module, got {type(model).__name__}.")
    if isinstance(model, Model):
        raise TypeError(
            "prepare: a Keras-style model has layers of its own; internals.deploy.lite.to_lite(model, calibration=...) "
            "makes integers of it."
        )
    if isinstance(model, LoadedModule):
        raise TypeError(
            "prepare: a loaded model is a graph, without layers; quantise it before it is saved, or let "
            "internals.deploy.lite.to_lite(model, calibration=...) make integers of it."
        )
    return fold_norms(copy.deepcopy(model).eval())


def calibrate(prepared: Module, batches: Iterable[Any]) -> int:
    """Show batches to a prepared model; returns how many there were.

    Raises
    ------
    ValueError
        There was none, or one holds NaN or infinity.
    """
    count = 0
    with no_grad():
        for batch in batches:
            prepared(batch if isinstance(batch, Tensor) else Tensor(np.asarray(batch)))
            count += 1
    if not count:
        raise ValueError("calibrate: there was no batch; a range is chosen by real inputs.")
    return count


def convert(prepared: Module) -> Module:
    """A copy of a prepared (and calibrated, or trained) model whose layers are integers.

    Raises
    ------
    ValueError
        A layer saw no batch, or nothing was prepared.
    """
    prepared = copy.deepcopy(prepared)

    def layer(part: Module) -> Module:
        assert isinstance(part, Observed | Trained)
        return part.converted()

    return _replaced(prepared, layer, "convert", kinds=(Observed, Trained)).eval()


def quantise_model(model: Module, batches: Iterable[Any] = (), recipe: Recipe | None = None) -> Module:
    """Prepare, calibrate and convert in one; `batches` is not needed for a dynamic recipe."""
    prepared = prepare(model, recipe)
    if not (recipe or Recipe()).dynamic:
        calibrate(prepared, batches)
    return convert(prepared)


def quantise_tables(model: Module) -> Module:
    """A copy of a model whose `Embedding` tables are int8."""
    return _replaced(copy.deepcopy(model), QuantisedEmbedding, "quantise_tables", kinds=(Embedding,))


def _replaced(
    model: Module, made: Callable[[Any], Module], who: str, kinds: tuple[type, ...] = (Linear, Conv2d)
) -> Module:
    """The model with each part of these kinds replaced; a part that stands in two places is replaced once."""
    there: dict[int, Module] = {}
    count = 0

    def new(part: Any) -> Any:
        nonlocal count
        if isinstance(part, list | tuple):
            return type(part)([new(one) for one in part])
        if isinstance(part, dict):
            return {name: new(one) for name, one in part.items()}
        if not isinstance(part, Module):
            return part
        if id(part) not in there:
            there[id(part)] = part
            if type(part) in kinds:
                there[id(part)] = made(part)
                count += 1
            else:
                for name, value in list(vars(part).items()):
                    if _holds_modules(value):
                        setattr(part, name, new(value))
        return there[id(part)]

    found: Module = new(model)
    if not count:
        kept = ", ".join(sorted({type(part).__name__ for part in model.modules()}))
        raise ValueError(f"{who}: there is no {' or '.join(kind.__name__ for kind in kinds)} in it, only {kept}.")
    return found


def _holds_modules(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, Module) or (isinstance(value, list | tuple) and any(map(_holds_modules, value)))
