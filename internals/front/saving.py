"""A whole model in one file: architecture, weights and the state of training."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from internals.front.layer import Layer
from internals.front.model import Model, from_config
from internals.nn.weights import load_arrays, save_arrays

FORMAT = "internals.front"
VERSION = 1


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a safetensors file, in place of the one that may be there.

    The weights are arrays ``model/<name>``, the optimizer's memory ``optimizer/<number>/<slot>``. The rest is JSON in
    the header's metadata: what layers there are, the optimizer's settings, how many epochs were trained, the order in
    which examples come, and the state of each layer's random numbers. `load` goes on exactly where this was.

    Raises
    ------
    ValueError
        The model is not built, or a layer's settings can't be written down.
    OSError
        It could not be written; what was at `path` is unchanged.
    """
    if not model.built:
        raise ValueError("save: the model is not built yet; give it an Input, or train it first.")
    arrays = {f"model/{name}": value for name, value in model.state_dict().items()}
    training: dict[str, Any] = {"epochs_done": model.epochs_done, "shuffle_seed": getattr(model, "shuffle_seed", None)}
    if model.optimizer is not None:
        state = model.optimizer.state_dict()
        training["optimizer"] = {"class": type(model.optimizer).__name__, "param_groups": state["param_groups"]}
        training["steps"] = {number: slots.get("step") for number, slots in state["state"].items()}
        for number, slots in state["state"].items():
            for slot, value in slots.items():
                if slot != "step":
                    arrays[f"optimizer/{number}/{slot}"] = np.asarray(value)
    training["random"] = {
        name: part.rng.bit_generator.state
        for name, part in model.named_modules()
        if isinstance(part, Layer) and part.rng is not None
    }
    save_arrays(
        path,
        arrays,
        format=FORMAT,
        version=str(VERSION),
        architecture=_json("architecture", model.config()),
        training=_json("training", training),
    )


def load(
    path: str | os.PathLike[str],
    *,
    compile: Mapping[str, Any] | None = None,
    layers: Mapping[str, type[Layer]] | None = None,
) -> Model:
    """Read a model that `Model.save` wrote.

    Parameters
    ----------
    path : path
    compile : mapping, optional
        The arguments of `Model.compile`, to train on: the file has the optimizer's state, but no functions.
    layers : mapping of name to class, optional
        Layers of your own, if their module is not imported.

    Returns
    -------
    Model
        ``model.fit(..., initial_epoch=model.epochs_done)`` goes on as if training had never stopped.

    Raises
    ------
    ValueError
        The file is none of these, of a newer version, or its optimizer another than `compile` names.
    """
    arrays, metadata = load_arrays(path)
    name = os.fspath(path)
    if metadata.get("format") != FORMAT:
        raise ValueError(f"load: {name} holds weights, but no model; build the model and call load_weights.")
    version = metadata.get("version", "")
    if version.isdecimal() and int(version) > VERSION:
        raise ValueError(f"load: {name} is of version {version}; this is for versions up to {VERSION}.")
    with _as_written(name):
        model = from_config(json.loads(metadata["architecture"]), dict(layers or {}))
        if not isinstance(model, Model):
            raise ValueError(f"it describes a {type(model).__name__}, which is no model")
        training = json.loads(metadata["training"])
        model.load_state_dict({key[6:]: value for key, value in arrays.items() if key.startswith("model/")})
        _load_place(model, training)
    if compile is not None:
        model.compile(**compile)
        with _as_written(name):
            _load_optimizer(model, training, arrays)
    return model


@contextmanager
def _as_written(name: str) -> Iterator[None]:
    """Tell of a description that `save` did not write, or that was changed since."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        if str(error).startswith("load: "):
            raise
        what = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ValueError(
            f"load: {name}: what is in the file does not fit together ({what}). Was it changed, or written by another "
            "program? Save the model again, or read the arrays alone with load_arrays."
        ) from None


def _load_place(model: Any, training: dict[str, Any]) -> None:
    """How far training was, and the state of the random numbers."""
    model.epochs_done = training["epochs_done"]
    if training["shuffle_seed"] is not None:
        model.shuffle_seed = training["shuffle_seed"]
    parts = dict(model.named_modules())
    for part, state in training["random"].items():
        parts[part].random().bit_generator.state = state


def _load_optimizer(model: Model, training: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    saved = training.get("optimizer")
    if saved is None:
        return
    kind = type(model.optimizer).__name__
    if saved["class"] != kind:
        raise ValueError(f"load: the model was trained by {saved['class']}, but compile names {kind}.")
    state: dict[int, dict[str, Any]] = {}
    for number, step in training["steps"].items():
        state[int(number)] = {} if step is None else {"step": step}
    for key, value in arrays.items():
        if key.startswith("optimizer/"):
            _, number, slot = key.split("/")
            state[int(number)][slot] = value
    assert model.optimizer is not None
    groups = [
        {key: tuple(value) if isinstance(value, list) and key != "params" else value for key, value in group.items()}
        for group in saved["param_groups"]
    ]
    model.optimizer.load_state_dict({"state": state, "param_groups": groups})


def _json(what: str, value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"save: the {what} can't be written down ({error}). A layer's settings must be numbers, strings, lists or "
            "None."
        ) from None
