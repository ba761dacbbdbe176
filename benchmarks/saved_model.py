"""Loading a saved model, beside reading its bytes: ``python -m benchmarks.saved_model``.

The goal is at most twice the time of reading. Loading reads the weights into memory, makes their checksum, checks the
header and makes the graph's nodes; with ``verify="sha256"`` the checksum is SHA-256, and "none" makes none.

"Read" is ``read_bytes`` of each file. It and loading are timed alike, in three states of the machine:

- from the disk, as a server reads a model that it starts with: before each, the files are put out of the system's
  memory (posix_fadvise), and the memory that this process has free is given back (malloc_trim);
- "new": the files are in the system's memory, and the process takes new memory to read them into, as one that starts
  does;
- "again": the process has read them before and has the memory still, which is reused.

In all of them, what earlier ones left is collected before (a model that was dropped holds its memory until then).

On two cores of an AMD EPYC, from the disk every row is within the goal (1.1 to 1.5), and so is it into new memory (0.7
to 1.7); from 100 MB on, loading takes less time than ``read_bytes``, since memory is taken all at once and not page by
page. Again, rows from 8 MB on are within the goal (0.7 to 1.9), and those of 2 MB are not: 0.25 to 0.7 ms to read and
0.8 to 1.6 to load, 2.1 to 3.8 times as long. Half a millisecond of that does not depend on the size of the weights: the
manifest, the header, and the nodes, of which each kind is checked in all ways once. It takes half as long where the
processor still has the code at hand, which it has not after collecting. Remembering what kinds of nodes were checked in
files before saved 0.1 ms of it; reading the weights in a thread cost more than it saved. torch.jit takes 4 milliseconds
to load the same model.
"""

from __future__ import annotations

import ctypes
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

RESULTS = Path(__file__).parent / "results"
RUNS, SMALL_RUNS = 7, 41
SMALL = 2**25
"""Bytes; smaller models are loaded more often, since what else the machine does counts more."""
SHAPES = ((256, 8), (512, 8), (1024, 6), (2048, 6), (4096, 4))
"""Width and number of layers of each model."""


def median_ms(size: int, measured: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> float:
    times = []
    for _ in range(SMALL_RUNS if size < SMALL else RUNS):
        gc.collect()
        before()
        start = time.perf_counter()
        measured()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def read(folder: Path) -> int:
    return sum(len(file.read_bytes()) for file in folder.iterdir() if file.is_file())


def give_back() -> None:
    """Have this process give memory that is free back to the system, where the C library can (glibc's)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def forget(folder: Path) -> None:
    """Have the system drop what it holds of the files, and this process what it has free."""
    give_back()
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
    columns = (
        "disk read",
        "load",
        "ratio",
        "new read",
        "load",
        "ratio",
        "again read",
        "load",
        "ratio",
        "sha256",
        "none",
    )
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    say("Milliseconds; the last two are loading again, verified by SHA-256 and not at all.")
    say(f"{'weights':>10} {'form':>7} {' '.join(f'{name:>10}' for name in columns)}")
    for width, layers in SHAPES:
        model = mlp(width, layers)
        for form in ("json", "binary"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model"
                save(path, model, signatures(width), form=form)
                size = read(path)
                found = []
                for before in (partial(forget, path), give_back, lambda: None):
                    pair = [median_ms(size, one, before) for one in (partial(read, path), partial(load, path))]
                    found += [*pair, pair[1] / pair[0]]
                found += [median_ms(size, partial(load, path, verify=how)) for how in ("sha256", False)]
                x = np.zeros((1, width), np.float32)
                assert load(path).signatures["serve"](x=x)["output"].shape == (1, width)
            say(f"{size / 1e6:8.1f}MB {form:>7} {' '.join(f'{one:10.2f}' for one in found)}")
    say("\nThe same models in other libraries, from files in memory: load, ms")
    for width, layers in SHAPES:
        size = 4 * layers * (width * width + width)
        with tempfile.TemporaryDirectory() as folder:
            times = {name: median_ms(size, one) for name, one in elsewhere(Path(folder), width, layers).items()}
        say(f"{size / 1e6:8.1f}MB {' '.join(f'{name} {time:10.2f}' for name, time in times.items())}")
    say(f"\nLoad average at the end {os.getloadavg()[0]:.1f}. `python -m benchmarks.saved_model`")
    text = (
        "Loading a saved model, beside reading its bytes (goal: at most twice that)\n\n```\n"
        + "\n".join(lines)
        + "\n```\n"
    )
    (RESULTS / "saved_model.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
