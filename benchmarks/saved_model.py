"""Loading a saved model, beside reading its bytes: ``python -m benchmarks.saved_model``.

The goal is at most twice the time of reading. Loading maps the weights, computes the SHA-256 of every file, checks the
header and makes the graph's nodes; without the checksums the weights are not looked at before they are used.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from internals import nn
from internals.deploy import Signature, TensorSpec, load, save

RUNS = 9


def median_ms(measured: Callable[[], Any]) -> float:
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        measured()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def read(folder: Path) -> int:
    return sum(len(file.read_bytes()) for file in folder.iterdir() if file.is_file())


def mlp(width: int, layers: int) -> nn.Module:
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])


def main() -> None:
    print(f"{'weights':>10} {'form':>7} {'read ms':>9} {'load ms':>9} {'ratio':>6} {'unverified ms':>14}")
    for width, layers in ((256, 8), (1024, 6), (2048, 6), (4096, 4)):
        model = mlp(width, layers)
        spec = {"serve": Signature({"x": TensorSpec(("batch", width))})}
        for form in ("json", "binary"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model"
                save(path, model, spec, form=form)
                size = read(path)
                reading = median_ms(lambda path=path: read(path))  # type: ignore[misc]
                loading = median_ms(lambda path=path: load(path))  # type: ignore[misc]
                trusting = median_ms(lambda path=path: load(path, verify=False))  # type: ignore[misc]
                x = np.zeros((1, width), np.float32)
                assert load(path).signatures["serve"](x=x)["output"].shape == (1, width)
            ratio = loading / reading
            print(f"{size / 1e6:8.1f}MB {form:>7} {reading:9.1f} {loading:9.1f} {ratio:6.2f} {trusting:14.1f}")


if __name__ == "__main__":
    main()
