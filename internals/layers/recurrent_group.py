"""A loop in a net of layers: a small net that is run at each step of a sequence, and remembers.

PaddlePaddle's recurrent_group. Each step has layers, Arguments and gradients of its own, kept until the way back; the
parameters are the same ones at each step. Sequences are sorted by length, so those that still run come first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals import ops
from internals.device import Array, device_of
from internals.layers.argument import Argument, Form, Parameter
from internals.layers.check import built_layer, ordered
from internals.layers.config import ConfigError, Entry, Group, Place, entry_of, group_of
from internals.layers.dense import flag, positive
from internals.layers.layer import Layer, layer

_NOT_INSIDE = ("data", "recurrent_group", "batch_norm")


@dataclass
class _Remembered:
    """What a step knows of the one before: the value of a layer, under another name."""

    name: str
    of: str
    size: int


@dataclass
class _Step:
    layers: list[Layer]
    arguments: dict[str, Argument]


@layer("recurrent_group")
class RecurrentGroup(Layer):
    """Layers that run once for each step; inside, the bottoms stand for one step of them, under their own names.

    ``memory { name: "before" of: "h" size: 8 }`` is what the layer ``h`` gave one step earlier, at first zeros.
    ``output`` names the layer whose values come out.
    """

    def setup(self, *forms: Form, layer: Any, output: str, memory: Any = (), reverse: bool = False) -> Form:
        for form in forms:
            if not form.sequence:
                raise ValueError(f"a recurrent_group runs over sequences, but a bottom is {form}.")
        flag(reverse=reverse)
        self.reverse = reverse
        several = list(memory) if isinstance(memory, list | tuple) else [memory]
        self.memories = [self._remembered(one) for one in several]
        written = [self._fed(name, form.shape, form.ids) for name, form in zip(self.bottoms, forms, strict=True)]
        written += [self._fed(one.name, (one.size,), 0) for one in self.memories]
        for group in layer:
            if not isinstance(group, Group):
                raise TypeError(f"a layer is a group of fields in braces, got {group!r}.")
            entry = entry_of(self._renamed(group), group.place)
            if entry.type in _NOT_INSIDE:
                raise ConfigError(f"a layer of type {entry.type!r} can't stand in a recurrent_group.", group.place)
            written.append(entry)
        by_name = {entry.name: entry for entry in written}
        found: dict[str, Form] = {}
        self.inner: list[Layer] = []
        for name in ordered(written):
            entry = by_name[name]
            built = built_layer(entry, self.store)
            try:
                found[name] = built.build([found[bottom] for bottom in entry.bottoms])
            except (ValueError, TypeError) as error:
                raise ConfigError(f"layer {name!r}: {error}", entry.group.place) from error
            if built.cost or found[name].sequence:
                raise ConfigError(f"layer {name!r} gives no value for each step of a sequence.", entry.group.place)
            self.inner.append(built)
        for built in self.inner:
            self.parameters |= {f"{built.name}.{role}": one for role, one in built.parameters.items()}
        for one in self.memories:
            if found.get(self._inside(one.of)) != Form((one.size,)):
                there = found.get(self._inside(one.of), "not there")
                raise ValueError(f"memory {one.name!r} is of {one.of!r} and has size {one.size}, but that is {there}.")
        if self._inside(output) not in found:
            raise ValueError(f"output {output!r} is none of the layers inside.")
        self.output = self._inside(output)
        return Form(found[self.output].shape, sequence=True)

    def _remembered(self, given: Any) -> _Remembered:
        if not isinstance(given, Mapping) or set(given) != {"name", "of", "size"}:
            raise ValueError(f"a memory is a group of a name, of and size, got {given!r}.")
        positive(size=given["size"])
        return _Remembered(**given)

    def _inside(self, name: Any) -> Any:
        return f"{self.name}/{name}" if isinstance(name, str) else name

    def _fed(self, name: str, shape: tuple[int, ...], ids: int) -> Entry:
        given = {"name": self._inside(name), "type": "data"} | ({"ids": ids} if ids else {"shape": list(shape)})
        return entry_of(group_of(given, Place()), Place())

    def _renamed(self, group: Group) -> Group:
        """A layer's fields with the names that it has in this group."""
        made = Group(group.place)
        for key, values in group.fields.items():
            for value, place in zip(values, group.places[key], strict=True):
                named = self._inside(value) if key in ("name", "bottom") else value
                inner = key == "projection" and isinstance(value, Group)
                made.add(key, self._renamed(value) if inner else named, place)
        return made

    def forward(self, *bottoms: Argument) -> Array:
        first = bottoms[0]
        for bottom in bottoms[1:]:
            if not np.array_equal(bottom.starts, first.starts):
                raise ValueError(f"layer {self.name!r}: its bottoms are sequences of different lengths.")
        device = device_of(first.entries)
        longest_first = np.argsort(-first.lengths, kind="stable")
        lengths, starts = first.lengths[longest_first], first.starts[:-1][longest_first]
        self.rows, self.steps = [], []
        for time in range(int(lengths.max(initial=0))):
            running = int((lengths > time).sum())
            along = lengths[:running] - 1 - time if self.reverse else time
            rows = device.from_host(starts[:running] + along)
            self.rows.append(rows)
            self.steps.append(self._step(bottoms, rows, running))
        order = np.concatenate([device.to_host(rows) for rows in self.rows])
        self.places = device.from_host(np.argsort(order))
        values = [step.arguments[self.output].value for step in self.steps]
        return ops.take(ops.concat(values, axis=0), self.places, axis=0)

    def _step(self, bottoms: Sequence[Argument], rows: Array, running: int) -> _Step:
        given: dict[str, Argument] = {}
        for name, bottom in zip(self.bottoms, bottoms, strict=True):
            entries = ops.take(bottom.entries, rows, axis=0)
            given[self._inside(name)] = Argument(entries) if bottom.ids is None else Argument(ids=entries)
            given[self._inside(name)].wants = bottom.wants
        for one in self.memories:
            if self.steps:
                before = self.steps[-1].arguments[self._inside(one.of)]
                argument = Argument(before.value[:running])
                argument.wants = before.wants
            else:
                value = np.zeros((running, one.size), self.store.dtype)
                argument = Argument(device_of(rows).from_host(value))
            given[self._inside(one.name)] = argument
        known = {parameter.name: parameter for parameter in self.parameters.values()}
        layers = [inner.replica(known) for inner in self.inner if inner.settings_type != "data"]
        for inner in layers:
            inner.training, inner.rng = self.training, self.rng
            given[inner.name] = inner.run([given[bottom] for bottom in inner.bottoms])
        return _Step(layers, given)

    def backward(self, g: Array, *bottoms: Argument) -> None:
        after: _Step | None = None
        for rows, step in zip(reversed(self.rows), reversed(self.steps), strict=True):
            step.arguments[self.output].accumulate(ops.take(g, rows, axis=0))
            for one in self.memories if after is not None else ():
                assert after is not None
                self._hand_back(after.arguments[self._inside(one.name)], step.arguments[self._inside(one.of)])
            for inner in reversed(step.layers):
                inner.run_backward(step.arguments[inner.name], [step.arguments[name] for name in inner.bottoms])
            after = step
        for name, bottom in zip(self.bottoms, bottoms, strict=True):
            if bottom.wants and bottom.ids is None:
                parts = [self._gradient(step.arguments[self._inside(name)]) for step in self.steps]
                bottom.accumulate(ops.take(ops.concat(parts, axis=0), self.places, axis=0))

    def _hand_back(self, memory: Argument, source: Argument) -> None:
        """What a step's memory was worth goes to the layer of the step before; sequences that had ended get nothing."""
        if memory.gradient is not None:
            ended = source.value.shape[0] - memory.value.shape[0]
            source.accumulate(ops.pad(memory.gradient, width=((0, ended), (0, 0))))

    def _gradient(self, argument: Argument) -> Array:
        return ops.zeros_like(argument.value) if argument.gradient is None else argument.gradient

    def replica(self, shadows: Mapping[str, Parameter]) -> Layer:
        twin = super().replica(shadows)
        assert isinstance(twin, RecurrentGroup)
        twin.inner = [one.replica(shadows) for one in self.inner]
        return twin
