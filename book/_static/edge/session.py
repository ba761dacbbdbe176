"""What a page asks of the interpreter, and what it answers: JSON both ways. Runs in the browser's Python."""

import base64
import json
import platform
import time

import numpy as np
from runtime import Interpreter

models = {}


def answer(question: str) -> str:
    """Do what `question` says; its ``do`` is the name of one of the functions below."""
    asked = json.loads(question)
    return json.dumps(DO[asked.pop("do")](**asked))


def versions() -> dict:
    """What runs here."""
    return {"python": platform.python_version(), "numpy": np.__version__, "platform": platform.system()}


def load(name: str, file: str, batch: int = 1) -> dict:
    """Read a model, given in base64; bytes of its file, its arena, and the room behind that."""
    data = base64.b64decode(file)
    models[name] = model = Interpreter(data, batch=batch)
    return {"file": len(data), "arena": len(model.arena), "room": len(model.room)}


def run(name: str, x: dict, milliseconds: float = 0) -> dict:
    """Run the model on its one input; reals where it wants int8 are quantised.

    Parameters
    ----------
    x
        ``{"dtype": ..., "shape": ..., "data": ...}``, the bytes in base64.
    milliseconds
        Run again for so long, and tell what one run takes. A browser's clock is coarse, so many are timed together.
    """
    model, array = models[name], unpacked(x)
    ((source, place),) = model.inputs.items()
    if place.dtype == np.int8 and array.dtype != np.int8:
        array = model.quantised(source, array)
    ((result, found),) = model(**{source: array}).items()
    reals = model.real(result, found) if found.dtype == np.int8 else found
    told = {"y": packed(found), "reals": reals.tolist()}
    if milliseconds:
        runs, started, spent = 0, time.perf_counter(), 0.0
        while 1000 * spent < milliseconds:
            model.set(source, array)
            model.invoke()
            runs += 1
            spent = time.perf_counter() - started
        told["milliseconds"] = 1000 * spent / runs
    return told


def packed(array: np.ndarray) -> dict:
    """An array as JSON can hold it."""
    data = base64.b64encode(array.tobytes()).decode()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def unpacked(told: dict) -> np.ndarray:
    """The array that `packed` told of."""
    return np.frombuffer(base64.b64decode(told["data"]), told["dtype"]).reshape(told["shape"])


DO = {"versions": versions, "load": load, "run": run}
