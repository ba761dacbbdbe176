"""A net of the layer-wise style as functions that can be traced: its layers forward, as in use, without its costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from internals.deploy.saved.signature import Signature, TensorSpec
from internals.device import device_of
from internals.layers import Net
from internals.layers.argument import Argument
from internals.layers.layer import Layer
from internals.tensor import Tensor


def net_signatures(net: Net, signatures: Mapping[str, Signature] | None) -> tuple[dict[str, Signature], dict[int, str]]:
    """Signatures that run a net's layers, and the names of its parameters by the ids of the Tensors that they read.

    Parameters
    ----------
    net : Net
        Its running state, such as batch normalisation's, is that of now.
    signatures : mapping of str to Signature, optional
        Inputs are named as data layers, outputs as layers. Without, what the costs look at first is given for what it
        needs of a batch.

    Raises
    ------
    TypeError
        A layer, or a data layer, that a signature names is not in the net, or is of sequences.
    """
    twin = net.replica()
    names = {}
    for name, parameter in twin.parameters.items():
        value = Tensor(device_of(parameter.value).to_host(parameter.value), requires_grad=not parameter.static)
        parameter._value = value
        names[id(value)] = name
    if signatures is None:
        ends = [one.bottoms[0] for one in net.layers if one.cost] or net.outputs
        signatures = {"serve": Signature(_specs(net, _below(twin, ends)), tuple(ends))}
    made = {}
    for key, given in signatures.items():
        ends = list(given.outputs or net.outputs)
        unknown = [name for name in ends if name not in net.forms] + [n for n in given.inputs if n not in net.inputs]
        if unknown:
            raise TypeError(f"save: {key}: the net has no layer {unknown[0]!r}; there are {', '.join(net.forms)}.")
        needed = _below(twin, ends)
        missing = [one.name for one in needed if one.name in net.inputs and one.name not in given.inputs]
        if missing:
            raise TypeError(f"save: {key}: {', '.join(ends)} need the data layer {missing[0]!r}; name it as an input.")
        made[key] = Signature(given.inputs, tuple(ends), _function(needed, list(given.inputs), ends))
    return made, names


def _below(net: Net, ends: Sequence[str]) -> list[Layer]:
    """The layers that some need, in the order in which they run."""
    wanted = set(ends)
    found = []
    for one in reversed(net.layers):
        if one.name in wanted:
            if one.form.sequence:
                raise TypeError(f"save: the layer {one.name!r} is of sequences, whose lengths no signature has.")
            found.append(one)
            wanted |= set(one.bottoms)
    return found[::-1]


def _specs(net: Net, needed: Sequence[Layer]) -> dict[str, TensorSpec]:
    forms = {one.name: one.form for one in needed if one.name in net.inputs}
    return {
        name: TensorSpec(("batch", *form.shape), np.int64 if form.ids else net.dtype) for name, form in forms.items()
    }


def _function(needed: Sequence[Layer], inputs: Sequence[str], ends: Sequence[str]) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        there = {}
        for name, value in zip(inputs, values, strict=True):
            there[name] = Argument(ids=value) if value.dtype.kind in "iu" else Argument(value)
        for one in needed:
            if one.name not in there:
                one.training = False
                there[one.name] = one.run([there[bottom] for bottom in one.bottoms])
        return tuple(there[name].entries for name in ends)

    return run
