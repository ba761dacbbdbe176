"""What prefetch saves: python -m benchmarks.prefetch

Photographs are unpacked (np.savez_compressed), cropped at random and averaged down to 32 x 32; a small convolutional
step trains on each batch. With prefetch the next batch is made while the step runs. Prints seconds per epoch (median of
3) and the ratio to making each batch when it is asked for.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from internals import Tensor, nn, optim
from internals.data import photographs, read


def decoded(path: Path, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    pixels = np.load(path)["image"].astype(np.float32) / 255
    top, left = rng.integers(0, 427 - 256), rng.integers(0, 640 - 256)
    crop = pixels[top : top + 256, left : left + 256]
    small = crop.reshape(32, 8, 32, 8, 3).mean((1, 3))
    return small.transpose(2, 0, 1), int(path.stem == "flower")


def an_epoch(reader: Any) -> float:
    rng = np.random.default_rng(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 5, rng=rng), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(784, 2, rng=rng)
    )
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    start = time.perf_counter()
    for images, labels in reader:
        loss = nn.cross_entropy(model(Tensor(images)), Tensor(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, image in photographs().items():
            files.append(Path(folder, f"{name}.npz"))
            np.savez_compressed(files[-1], image=image)
        measure(files * 128)


def measure(files: list[Path]) -> None:
    batches = read(files).shuffle(0).map(decoded, seed=0).batch(16)
    ways = {
        "when asked for": batches,
        "1 thread": batches.prefetch(1),
        "2 threads": batches.prefetch(2),
        "1 process": batches.prefetch(1, processes=True),
        "2 processes": batches.prefetch(2, processes=True),
    }
    seconds = {way: statistics.median(an_epoch(reader) for _ in range(3)) for way, reader in ways.items()}
    for way, taken in seconds.items():
        print(f"{way:16} {taken:6.2f} s  {taken / seconds['when asked for']:5.2f}x")


if __name__ == "__main__":
    main()
