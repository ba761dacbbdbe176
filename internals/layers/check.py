"""What is checked before anything runs: the configuration as a whole, and each batch against the data layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from internals.device import Device, device_of
from internals.layers.argument import Argument, Form
from internals.layers.config import ConfigError, Entry
from internals.layers.layer import LAYERS, PARTS, Layer, Parameters, arity_of, settings_of
from internals.layers.mixed import PROJECTIONS


def topological_order(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of layers, each after its bottoms; where several may come next, the one that was written first.

    Parameters
    ----------
    layers : sequence of mappings with ``name`` and ``bottom``, a list of names

    Raises
    ------
    ValueError
        A name stands twice, a bottom is missing, or there is a circle, which is spelled out.
    """
    place: dict[str, int] = {}
    for i, one in enumerate(layers):
        if one["name"] in place:
            raise ValueError(f"layer {one['name']!r} is there twice; give each a name of its own.")
        place[one["name"]] = i
    waits = [0] * len(layers)
    readers: list[list[int]] = [[] for _ in layers]
    for i, one in enumerate(layers):
        for bottom in one["bottom"]:
            if bottom not in place:
                raise ValueError(f"layer {one['name']!r} reads {bottom!r}, which is not there{_meant(bottom, place)}.")
            waits[i] += 1
            readers[place[bottom]].append(i)
    ready = [i for i, count in enumerate(waits) if not count]
    heapify(ready)
    found: list[str] = []
    while ready:
        i = heappop(ready)
        found.append(layers[i]["name"])
        for reader in readers[i]:
            waits[reader] -= 1
            if not waits[reader]:
                heappush(ready, reader)
    if len(found) < len(layers):
        raise ValueError(f"layers lead in a circle: {' -> '.join(_circle(layers, set(found)))}.")
    return found


def _meant(word: str, known: Any) -> str:
    close = get_close_matches(word, list(known), 1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _circle(layers: Sequence[Mapping[str, Any]], free: set[str]) -> list[str]:
    """A circle among the layers that are not free of one, from bottom to top."""
    bottoms = {one["name"]: one["bottom"] for one in layers}
    name = next(one["name"] for one in layers if one["name"] not in free)
    seen: list[str] = []
    while name not in seen:
        seen.append(name)
        name = next(bottom for bottom in bottoms[name] if bottom not in free)
    return [name, *seen[: seen.index(name) - 1 if seen.index(name) else None : -1]]


PARTS["order"] = topological_order


def ordered(entries: Sequence[Entry]) -> list[str]:
    """The names in order; what is wrong is said at the line where it is wrong."""
    by_name: dict[str, Entry] = {}
    for entry in entries:
        if entry.name in by_name:
            first = by_name[entry.name].group.place
            raise ConfigError(
                f"layer {entry.name!r} is there twice, first at {first}; give each a name of its own.",
                entry.group.where("name"),
            )
        by_name[entry.name] = entry
    for entry in entries:
        for bottom, place in zip(entry.bottoms, entry.bottom_places, strict=True):
            if bottom not in by_name:
                raise ConfigError(
                    f"layer {entry.name!r} reads {bottom!r}, which is not there{_meant(bottom, by_name)}.", place
                )
    order: Callable[..., list[str]] = PARTS["order"]
    try:
        return list(order([{"name": entry.name, "bottom": list(entry.bottoms)} for entry in entries]))
    except ValueError as error:
        about = next((entry for entry in entries if repr(entry.name) in str(error) or entry.name in str(error)), None)
        raise ConfigError(str(error), (about or entries[0]).group.place) from error


def built_layer(entry: Entry, store: Parameters) -> Layer:
    """A layer whose type, settings and number of bottoms are right; forms come later."""
    kind = LAYERS.get(entry.type)
    if kind is None:
        raise ConfigError(
            f"layer {entry.name!r} has the unknown type {entry.type!r}{_meant(entry.type, LAYERS)}; there are "
            f"{', '.join(LAYERS)}.",
            entry.group.where("type"),
        )
    known = settings_of(kind)
    for key in entry.settings:
        if key not in known:
            raise ConfigError(
                f"a layer of type {entry.type!r} has no setting {key!r}{_meant(key, known)}; there are "
                f"{', '.join(known)}.",
                entry.group.where(key),
            )
    for key, must in known.items():
        if must and key not in entry.settings:
            raise ConfigError(f"a layer of type {entry.type!r} needs the setting {key!r}.", entry.group.place)
    for projection, place in zip(
        entry.group.fields.get("projection", []), entry.group.places.get("projection", []), strict=True
    ):
        if not hasattr(projection, "fields"):
            raise ConfigError(f"a projection is a group of fields in braces, got {projection!r}.", place)
        word = projection.fields["type"][0]
        if word not in PROJECTIONS:
            raise ConfigError(
                f"unknown projection {word!r}{_meant(str(word), PROJECTIONS)}; there are {', '.join(PROJECTIONS)}.",
                projection.where("type"),
            )
    least, most = arity_of(kind)
    if entry.type == "mixed":
        least, most = 1, len(entry.group.fields.get("projection", []))
    if len(entry.bottoms) < least or (most is not None and len(entry.bottoms) > most):
        wanted = f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
        raise ConfigError(
            f"a layer of type {entry.type!r} has {wanted} bottoms, {entry.name!r} has {len(entry.bottoms)}.",
            entry.group.where("bottom"),
        )
    built = kind(entry.name, entry.bottoms, entry.settings, store)
    built.settings_type = entry.type
    return built


def fed_argument(name: str, given: Any, form: Form, dtype: np.dtype, place: Device) -> Argument:
    argument = given if isinstance(given, Argument) else None
    if argument is None:
        array = given if hasattr(given, "dtype") and hasattr(given, "shape") else np.asarray(given)
        if not array.ndim:
            raise ValueError(f"data layer {name!r}: the first axis is the batch; a 0-d array has none.")
        if form.ids and array.dtype.kind not in "iu":
            raise TypeError(f"data layer {name!r}: {form} must be integers, got {array.dtype}.")
        argument = Argument(ids=array) if form.ids else Argument(array)
    entries = argument.entries
    kind = "ids" if argument.ids is not None else "numbers"
    if (argument.ids is not None) != bool(form.ids):
        raise TypeError(f"data layer {name!r}: expected {form}, got {kind}.")
    if form.sequence and argument.starts is None:
        raise ValueError(f"data layer {name!r}: expected {form}; give an Argument with `starts`.")
    if not form.sequence and argument.starts is not None:
        raise ValueError(f"data layer {name!r}: expected {form}, one for each example, got sequences.")
    if tuple(entries.shape[1:]) != form.shape:
        raise ValueError(
            f"data layer {name!r}: an array of shape {tuple(entries.shape)} came; expected "
            f"({', '.join(map(str, ('examples', *form.shape)))}), that is {form}."
        )
    if not argument.examples:
        raise ValueError(f"data layer {name!r}: the batch is empty; a mean over no example is not a number.")
    if not form.ids and entries.dtype != dtype:
        raise TypeError(
            f"data layer {name!r}: an array of {entries.dtype} came, but the net works in {dtype}. Cast it: "
            f"x.astype('{dtype}')."
        )
    if device_of(entries) is not place:
        raise ValueError(
            f"data layer {name!r}: an array on {device_of(entries)} came, but the net is on {place}. Move it there."
        )
    if form.ids and isinstance(entries, np.ndarray) and not 0 <= entries.min() <= entries.max() < form.ids:
        raise ValueError(f"data layer {name!r}: ids go from {entries.min()} to {entries.max()}; expected {form}.")
    # A fresh one: the caller's may be fed again, and its gradient is not ours to keep.
    fresh = Argument(ids=entries, starts=argument.starts) if form.ids else Argument(entries, starts=argument.starts)
    fresh.wants = argument.wants and not form.ids
    return fresh
