"""Loading a saved model, beside reading its bytes: ``python -m benchmarks.saved_model``.

The goal is at most twice the time of reading. Loading reads the weights into memory, makes their checksum, checks the
header and makes the graph's nodes; with ``verify="sha256"`` the checksum is SHA-256, and "unverified" makes none.

"Read" is ``read_bytes`` of each file. The first columns are from the disk, as a server reads a model that it starts
with: before them the files are put out of memory (posix_fadvise). Those that say "again" are of files that are in
memory. Before each reading and each loading, what earlier ones left is collected: a model that was dropped holds its
memory until then, and one that is loaded beside it has to wait for new memory, which reading has not. (Without that,
bytes that fit the processor's cache are read into it over and over: those of 2 MB in 0.14 ms, and loading takes 5 times
as long.)

From the disk, every row is within the goal (0.9 to 1.4); of files in memory, those from 25 MB on (1.0 to 1.8). The
model of 2 MB takes 2.1 to 2.4 times as long as its bytes: half a millisecond is reading, a sixth is the checksum, and
nearly half a millisecond does not depend on the size of the weights: the manifest, the header, and the nodes, of which
each kind is checked in all ways once. torch.jit and onnxruntime take 4 and 3 milliseconds to load it.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from internals import nn
from internals.deploy import Signature, TensorSpec, load, save

RUNS, SMALL_RUNS = 7, 41
SMALL = 2**25
"""Bytes; smaller models are loaded more often, since what else the machine does counts more."""
SHAPES = ((256, 8), (1024, 6), (2048, 6), (4096, 4))
"""Width and number of layers of each model."""


def median_ms(size: int, measured: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> float:
    times = []
    for _ in range(SMALL_RUNS if size < SMALL else RUNS):
        before()
        gc.collect()
        start = time.perf_counter()
        measured()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def read(folder: Path) -> int:
    return sum(len(file.read_bytes()) for file in folder.iterdir() if file.is_file())


def forget(folder: Path) -> None:
    """Have the system drop what it holds of the files."""
    for file in folder.iterdir():
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def mlp(width: int, layers: int) -> nn.Module:
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])


def elsewhere(path: Path, width: int, layers: int) -> dict[str, Callable[[], Any]]:
    """What loads the same model in other libraries, of those that are installed."""
    found: dict[str, Callable[[], Any]] = {}
    if importlib.util.find_spec("torch"):
        import torch

        model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])
        with warnings.catch_warnings(action="ignore"):  # of its age
            torch.jit.trace(model, torch.zeros(1, width)).save(path / "model.pt")
        found["torch.jit"] = lambda: torch.jit.load(path / "model.pt")
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
        onnxruntime = importlib.import_module("onnxruntime")
        from internals.deploy.onnx import export_onnx

        export_onnx(path / "model.onnx", mlp(width, layers), signatures(width))
        found["onnxruntime"] = lambda: onnxruntime.InferenceSession(path / "model.onnx")
    return found


def signatures(width: int) -> dict[str, Signature]:
    return {"serve": Signature({"x": TensorSpec(("batch", width))})}


def main() -> None:
    columns = ("read ms", "load ms", "ratio", "read again", "load again", "ratio", "sha256", "unverified")
    print(f"{'weights':>10} {'form':>7} {' '.join(f'{name:>10}' for name in columns)}")
    for width, layers in SHAPES:
        model = mlp(width, layers)
        for form in ("json", "binary"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model"
                save(path, model, signatures(width), form=form)
                size = read(path)
                both = (partial(read, path), partial(load, path))
                from_disk = [median_ms(size, one, partial(forget, path)) for one in both]
                again = [median_ms(size, one) for one in both]
                others = [median_ms(size, partial(load, path, verify=how)) for how in ("sha256", False)]
                x = np.zeros((1, width), np.float32)
                assert load(path).signatures["serve"](x=x)["output"].shape == (1, width)
            found = [*from_disk, from_disk[1] / from_disk[0], *again, again[1] / again[0], *others]
            print(f"{size / 1e6:8.1f}MB {form:>7} {' '.join(f'{one:10.2f}' for one in found)}")
    print("\nThe same models in other libraries, from files in memory: load, ms")
    for width, layers in SHAPES:
        size = 4 * layers * (width * width + width)
        with tempfile.TemporaryDirectory() as folder:
            times = {name: median_ms(size, one) for name, one in elsewhere(Path(folder), width, layers).items()}
        print(f"{size / 1e6:8.1f}MB {' '.join(f'{name} {time:10.2f}' for name, time in times.items())}")


if __name__ == "__main__":
    main()
