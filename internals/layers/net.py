"""A net: layers run in one order, and back in reverse. All of it is checked before any of it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from internals.device import Array, Device, cpu, device_of
from internals.device import device as device_called
from internals.layers.argument import Argument, Form, Parameter
from internals.layers.check import built_layer, fed_argument, ordered
from internals.layers.config import ConfigError, read
from internals.layers.layer import Layer, Parameters


class Net:
    """Layers, connected as a configuration says.

    Parameters
    ----------
    config : str or mapping
        A text such as ``layer { name: "fc1" type: "fc" bottom: "pixels" size: 64 act: "relu" }``, or a dict
        ``{"layer": [{"name": ...}, ...]}``; see `internals.layers.config`.
    rng : numpy.random.Generator, optional
        Where parameters start, drawn layer by layer in the order in which they run.
    dtype : {"float32", "float64"}
    device : str or Device

    Attributes
    ----------
    layers : list of Layer
        In the order in which they run.
    parameters : dict of str to Parameter
    inputs : dict of str to Form
        What a batch has to hold.
    arguments : dict of str to Argument
        What each layer gave in the last forward pass.

    Raises
    ------
    ConfigError
        Unknown type, unknown or missing setting, missing bottom, two layers of one name, a circle, shapes that do not
        fit: each at its line.
    """

    def __init__(
        self,
        config: str | Mapping[str, Any],
        *,
        rng: np.random.Generator | None = None,
        dtype: Any = "float32",
        device: str | Device = cpu,
    ) -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype.kind != "f" or self.dtype.itemsize < 4:
            raise TypeError(f"Net: dtype must be float32 or float64, got {self.dtype}.")
        self.name, entries = read(config)
        self.device = device_called(device)
        store = Parameters(rng or np.random.default_rng(), self.dtype, self.device)
        by_name = {entry.name: entry for entry in entries}
        self.layers: list[Layer] = []
        forms: dict[str, Form] = {}
        for name in ordered(entries):
            entry = by_name[name]
            built = built_layer(entry, store)
            try:
                forms[name] = built.build([forms[bottom] for bottom in entry.bottoms])
            except ConfigError:  # of a layer inside this one, at its own line
                raise
            except (ValueError, TypeError) as error:
                raise ConfigError(f"layer {name!r}: {error}", entry.group.place) from error
            self.layers.append(built)
        self.forms = forms
        self.parameters: dict[str, Parameter] = store.by_name
        self.inputs = {one.name: one.form for one in self.layers if one.settings_type == "data"}
        read_by_others = {bottom for one in self.layers for bottom in one.bottoms}
        self.outputs = [one.name for one in self.layers if one.name not in read_by_others]
        self.costs = [one.name for one in self.layers if one.cost]
        self.arguments: dict[str, Argument] = {}

    # running

    def forward(self, batch: Mapping[str, Any], *, test: bool = False) -> dict[str, Argument]:
        """Run the layers.

        Parameters
        ----------
        batch : mapping of str to (array or Argument)
            One for each data layer; sequences as Arguments with `starts`.
        test : bool
            Layers behave as in use, not as in training: dropout does nothing, batch_norm uses running statistics.

        Returns
        -------
        dict of str to Argument
            What each layer gave.

        Raises
        ------
        ValueError, TypeError
            The batch is not what the data layers say; names the layer.
        """
        fed = self.checked(batch)
        self.arguments = {}
        for one in self.layers:
            one.training = not test
            if one.name in fed:
                self.arguments[one.name] = fed[one.name]
            else:
                self.arguments[one.name] = one.run([self.arguments[bottom] for bottom in one.bottoms])
        return self.arguments

    def counts(self) -> dict[str, int]:
        """For each cost of the last forward pass, how many terms its mean is over."""
        return {
            one.name: one.count(*[self.arguments[bottom] for bottom in one.bottoms]) for one in self.layers if one.cost
        }

    def backward(self, weights: Mapping[str, float] | None = None) -> None:
        """Run the layers' backward passes in reverse, from the costs.

        Parameters
        ----------
        weights : mapping of str to float, optional
            What each cost counts for; 1 unless given.
        """
        for _ in self.backward_steps(weights):
            pass

    def backward_steps(self, weights: Mapping[str, float] | None = None) -> Iterator[str]:
        """As `backward`, stopping at each parameter whose gradient is complete, which is known beforehand."""
        if not self.costs:
            raise RuntimeError(f"net {self.name!r} has no cost layer, so there is nothing to go back from.")
        if not self.arguments:
            raise RuntimeError("backward: run the forward pass first.")
        remaining = self.uses()
        for parameter in self.parameters.values():
            parameter.gradient = None
        for argument in self.arguments.values():
            argument.gradient = None
        for name in self.costs:
            top = self.arguments[name]
            assert top.value is not None
            seed = np.full((1,), 1.0 if weights is None else weights[name], top.value.dtype)
            top.accumulate(self.device.from_host(seed))
        for one in reversed(self.layers):
            one.run_backward(self.arguments[one.name], [self.arguments[bottom] for bottom in one.bottoms])
            for name in dict.fromkeys(parameter.name for parameter in one.parameters.values()):
                remaining[name] -= 1
                if not remaining[name]:
                    yield name

    def uses(self) -> dict[str, int]:
        """How many layers use each parameter."""
        counts = dict.fromkeys(self.parameters, 0)
        for one in self.layers:
            for name in {parameter.name for parameter in one.parameters.values()}:
                counts[name] += 1
        return counts

    def loss(self) -> float:
        """The sum of the costs of the last forward pass."""
        return float(sum(float(_host(self.arguments[name].value)[0]) for name in self.costs))

    def checked(self, batch: Mapping[str, Any]) -> dict[str, Argument]:
        """The batch as Arguments, each checked against its data layer."""
        if not isinstance(batch, Mapping):
            raise TypeError(f"forward: a batch is a dict from data layers to arrays, got {type(batch).__name__}.")
        unknown, missing = set(batch) - set(self.inputs), [name for name in self.inputs if name not in batch]
        if unknown or missing:
            raise ValueError(
                f"forward: the batch has {', '.join(map(str, batch)) or 'nothing'}; the data layers are "
                f"{', '.join(self.inputs)}."
            )
        found = {
            name: fed_argument(name, batch[name], form, self.dtype, self.device) for name, form in self.inputs.items()
        }
        examples = {name: argument.examples for name, argument in found.items()}
        if len(set(examples.values())) > 1:
            counted = ", ".join(f"{name} {count}" for name, count in examples.items())
            raise ValueError(f"forward: the parts of the batch have different numbers of examples: {counted}.")
        return found

    # what is known without running

    def replica(self) -> Net:
        """The same parameters' values, with layers, Arguments and gradients of its own: one for each thread."""
        twin = object.__new__(Net)
        vars(twin).update(vars(self))
        twin.parameters = {name: parameter.shadow() for name, parameter in self.parameters.items()}
        twin.layers = [one.replica(twin.parameters) for one in self.layers]
        twin.arguments = {}
        return twin

    def summary(self, examples: int = 1) -> str:
        """A table of layers, what comes out of them, and their memory, made from the configuration alone.

        Parameters
        ----------
        examples : int
            The size of the batch that the bytes are for. Sequences count as one step each.
        """
        rows = [("layer", "type", "bottoms", "comes out", "parameters", "bytes")]
        totals = [0, 0]
        for one in self.layers:
            count = sum(parameter.value.size for parameter in one.parameters.values())
            size = examples * one.form.size * (8 if one.form.ids else self.dtype.itemsize)
            totals = [totals[0] + count, totals[1] + size]
            rows.append((one.name, one.settings_type, ", ".join(one.bottoms), str(one.form), f"{count:,}", f"{size:,}"))
        rows.append(("total", "", "", "", f"{totals[0]:,}", f"{totals[1]:,}"))
        widths = [max(len(row[i]) for row in rows) for i in range(6)]
        lines = [
            "  ".join(
                cell.ljust(width) if i < 4 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<net {self.name!r}: {len(self.layers)} layers, {len(self.parameters)} parameters>"


def _host(array: Array) -> np.ndarray:
    return device_of(array).to_host(array)
