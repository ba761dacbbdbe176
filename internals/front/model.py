"""Models: layers in a row, or any graph of layers between inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from internals.front.layer import LAYERS, Layer
from internals.front.symbol import Input, Symbol, told
from internals.front.training import Trainer
from internals.nn.module import Module


class Step(NamedTuple):
    """One call of a layer: on which of the model's values, and which values it gives."""

    layer: Layer
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Model(Trainer, Layer):
    """A graph of layers; built by calling them on what `Input` gives.

    Parameters
    ----------
    inputs : Symbol or list of Symbol
        Made by `Input`.
    outputs : Symbol or list of Symbol
        Made from the inputs, by layers.
    name : str, optional

    Attributes
    ----------
    layers : list of Layer
        Each once, in the order in which they run.
    steps : list of Step
        Each call of a layer, in order; the model's values are numbered, the inputs first.
    output_names : list of str
        The names of the layers that make the outputs.

    Raises
    ------
    ValueError
        An output depends on an input that is not among `inputs`.
    """

    def __init__(
        self, inputs: Symbol | Sequence[Symbol], outputs: Symbol | Sequence[Symbol], *, name: str | None = None
    ) -> None:
        super().__init__(name=name)
        self.connect_graph(_symbols("inputs", inputs), _symbols("outputs", outputs))

    def connect_graph(self, inputs: list[Symbol], outputs: list[Symbol]) -> None:
        wrong = [symbol for symbol in inputs if symbol.layer is not None]
        if wrong:
            raise ValueError(f"Model: {wrong[0]!r} is no input; inputs are made by Input(shape).")
        self.inputs, self.outputs = inputs, outputs
        numbers = {id(symbol): i for i, symbol in enumerate(inputs)}
        values: list[Symbol] = list(inputs)
        self.steps: list[Step] = []
        order = _in_order(outputs)
        together: dict[tuple[int, int], list[Symbol]] = {}
        for symbol in order:
            together.setdefault((id(symbol.layer), id(symbol.inputs)), []).append(symbol)
        for symbol in order:
            if id(symbol) in numbers:
                continue
            if symbol.layer is None:
                raise ValueError(
                    f"Model: an output depends on {symbol!r}{f' ({symbol.name})' if symbol.name else ''}, which is not "
                    "among the inputs."
                )
            siblings = together[id(symbol.layer), id(symbol.inputs)]
            made = []
            for position in range(max(one.position for one in siblings) + 1):
                made.append(len(values))
                values.append(next((one for one in siblings if one.position == position), symbol))
            numbers |= {id(one): made[one.position] for one in siblings}
            self.steps.append(Step(symbol.layer, tuple(numbers[id(one)] for one in symbol.inputs), tuple(made)))
        self.values = values
        self.results = [numbers[id(symbol)] for symbol in outputs]
        self.layers = list(dict.fromkeys(step.layer for step in self.steps))
        self.layer_names = _unique_names(self.layers)
        self.built = True
        called = dict(zip(self.layers, self.layer_names, strict=True))
        makers = {number: called[step.layer] for step in self.steps for number in step.outputs}
        self.output_names = [makers.get(number, f"output_{i}") for i, number in enumerate(self.results)]

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        return zip(self.layer_names, self.layers, strict=True) if self.built else iter(())

    def get_layer(self, name: str) -> Layer:
        """The layer of a name."""
        if name not in self.layer_names:
            raise ValueError(f"get_layer: no layer is called {name!r}; there are {', '.join(self.layer_names)}.")
        return self.layers[self.layer_names.index(name)]

    def forward(self, *inputs: Any) -> Any:
        if len(inputs) != len(self.inputs):
            raise ValueError(f"{self.name}: the model has {len(self.inputs)} input(s), got {len(inputs)}.")
        for symbol, value in zip(self.inputs, inputs, strict=True):
            fits = len(symbol.shape) == len(value.shape) and all(
                size is None or size == given for size, given in zip(symbol.shape, value.shape, strict=True)
            )
            if not fits:
                raise ValueError(
                    f"{self.name}: got an input of shape {tuple(value.shape)}, and was built for {told(symbol.shape)}."
                )
        values: dict[int, Any] = dict(enumerate(inputs))
        for layer, used, made in self.steps:
            found = layer(*[values[number] for number in used])
            for number, value in zip(made, found if isinstance(found, tuple | list) else [found], strict=False):
                values[number] = value
        results = [values[number] for number in self.results]
        return results[0] if len(results) == 1 else results

    # What it is made of

    def config(self) -> dict[str, Any]:
        """What makes the model again, weights aside, in JSON's types."""
        return {
            "class": "Model",
            "name": self.given_name,
            "inputs": [
                {"shape": list(symbol.shape[1:]), "dtype": symbol.dtype.name, "name": symbol.name}
                for symbol in self.inputs
            ],
            "layers": [layer.config() for layer in self.layers],
            "steps": [[self.layers.index(step.layer), step.inputs, len(step.outputs)] for step in self.steps],
            "outputs": self.results,
        }

    def summary(self) -> str:
        """The layers, the shapes of their results, and how many numbers their weights hold: Keras's table, as text."""
        if not self.built:
            raise ValueError(f"summary: {self.name} is not built yet; give it an Input, or call it on a batch.")
        rows = [
            (self._input_name(i), "Input", told(symbol.shape), "0", "") for i, symbol in enumerate(self._inputs_shown())
        ]
        counted: set[int] = set()
        for step in self.steps:
            name = self.layer_names[self.layers.index(step.layer)]
            count = "-" if id(step.layer) in counted else f"{step.layer.count_params():,}"
            counted.add(id(step.layer))
            shape = ", ".join(told(self.values[number].shape) for number in step.outputs)
            rows.append((name, type(step.layer).__name__, shape, count, self._told_inputs(step)))
        head = ("Layer", "Type", "Output shape", "Params", "Connected to")
        columns = [*zip(head, *rows, strict=True)]
        if not self._branches():
            columns.pop()
        widths = [max(map(len, column)) for column in columns]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                 for row in zip(*columns, strict=True)]  # fmt: skip
        total, trained = self.count_params(), self.num_parameters(trainable=True)
        lines.insert(1, "-" * (sum(widths) + 2 * len(widths) - 2))
        return "\n".join(
            [*lines, lines[1], f"Total params: {total:,}", f"Trainable params: {trained:,}",
             f"Non-trainable params: {total - trained:,}"]
        )  # fmt: skip

    def _inputs_shown(self) -> list[Symbol]:
        return self.inputs

    def _branches(self) -> bool:
        return len(self.inputs) > 1 or any(step.inputs != (i,) for i, step in enumerate(self.steps))

    def _told_inputs(self, step: Step) -> str:
        made = {n: self.layer_names[self.layers.index(one.layer)] for one in self.steps for n in one.outputs}
        return ", ".join(made.get(number) or self._input_name(number) for number in step.inputs)

    def _input_name(self, number: int) -> str:
        return self.inputs[number].name or f"input_{number}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.layers)} layers>"


class Sequential(Model):
    """Layers one after the other.

    Parameters
    ----------
    layers : sequence of Layer
        The first may be an `Input`; without one the model is built when it first meets data.
    name : str, optional
    """

    def __init__(self, layers: Sequence[Layer | Symbol] = (), *, name: str | None = None) -> None:
        Layer.__init__(self, name=name)
        self.layers: list[Layer] = []
        self.layer_names: list[str] = []
        self.first: Symbol | None = None
        for layer in layers:
            self.add(layer)

    def add(self, layer: Layer | Symbol) -> None:
        """Put a layer behind the others."""
        if isinstance(layer, Symbol):
            if self.layers or self.first is not None or layer.layer is not None:
                raise ValueError("Sequential: an Input can only stand first.")
            self.first = layer
            return
        if not isinstance(layer, Layer):
            hint = " Modules of internals.nn go into nn.Sequential." if isinstance(layer, Module) else ""
            raise TypeError(f"Sequential: expected layers, got {type(layer).__name__}.{hint}")
        if layer in self.layers:
            raise ValueError(f"Sequential: {layer.name} is there twice; layers are shared in a functional Model.")
        self.layers.append(layer)
        self.built = False
        if self.first is not None:
            self._connect(self.first)

    def build(self, *shapes: tuple[int | None, ...]) -> None:
        if len(shapes) != 1:
            raise ValueError(f"{self.name}: a Sequential has one input, got {len(shapes)}.")
        self.first = Input(shapes[0][1:])
        self._connect(self.first)

    def _connect(self, first: Symbol) -> None:
        if not self.layers:
            raise ValueError("Sequential: there are no layers.")
        last = first
        for layer in self.layers:
            last = layer(last)
            if not isinstance(last, Symbol):
                raise ValueError(f"Sequential: {layer.name} has several results; use a functional Model.")
        self.connect_graph([first], [last])

    def _inputs_shown(self) -> list[Symbol]:
        return []

    def config(self) -> dict[str, Any]:
        return {**super().config(), "class": "Sequential"}


def from_config(config: dict[str, Any], layers: dict[str, type[Layer]] | None = None) -> Layer:
    """The layer or model that a `config` describes, with fresh weights.

    Raises
    ------
    ValueError
        It names a class of layers that is not known here: pass it in `layers`.
    """
    known = {**LAYERS, **(layers or {})}
    name = config["class"]
    if name not in known:
        raise ValueError(f"load: no layer class is called {name!r}; import it first, or pass layers={{{name!r}: ...}}.")
    if "steps" not in config:
        return known[name](**config["settings"], **({"name": config["name"]} if config["name"] else {}))
    made = [from_config(one, layers) for one in config["layers"]]
    values: list[Any] = [Input(one["shape"], one["dtype"], name=one["name"]) for one in config["inputs"]]
    if name == "Sequential":
        return Sequential([values[0], *made], name=config["name"])
    inputs = list(values)
    for layer, used, count in config["steps"]:
        found = made[layer](*[values[number] for number in used])
        values += (found if isinstance(found, list) else [found])[:count]
    return Model(inputs, [values[number] for number in config["outputs"]], name=config["name"])


def _symbols(what: str, given: Symbol | Sequence[Symbol]) -> list[Symbol]:
    symbols = [given] if isinstance(given, Symbol) else list(given)
    wrong = [one for one in symbols if not isinstance(one, Symbol)]
    if wrong or not symbols:
        got = type(wrong[0]).__name__ if wrong else "none"
        raise TypeError(f"Model: {what} must be made by Input and layers, got {got}.")
    return symbols


def _in_order(outputs: Sequence[Symbol]) -> list[Symbol]:
    """All that the outputs depend on, each after what it is made from."""
    order: list[Symbol] = []
    seen: set[int] = set()
    stack = [(symbol, False) for symbol in reversed(outputs)]
    while stack:
        symbol, ready = stack.pop()
        if ready:
            order.append(symbol)
        elif id(symbol) not in seen:
            seen.add(id(symbol))
            stack.append((symbol, True))
            stack += [(one, False) for one in reversed(symbol.inputs)]
    return order


def _unique_names(layers: Sequence[Layer]) -> list[str]:
    """Keras's: dense, dense_1, dense_2, ... for layers that were given no name."""
    given = [layer.given_name for layer in layers if layer.given_name]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"Model: two layers are called {twice!r}; each needs a name of its own.")
    taken, names = set(given), []
    for layer in layers:
        name, number = layer.name, 0
        while layer.given_name is None and name in taken:
            number += 1
            name = f"{layer.name}_{number}"
        taken.add(name)
        names.append(name)
    return names
