"""A real kernel that runs cells as a learner does, for the tests of check() and submit()."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

RULES = """
def unbroadcast(g, shape):
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    ones = tuple(axis for axis, size in enumerate(shape) if size == 1 and g.shape[axis] != 1)
    return g.sum(axis=ones, keepdims=True) if ones else g

def mul_rule(g, x, y):
    return unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)

def matmul_rule(g, x, y):
    x2 = x[None, :] if x.ndim == 1 else x
    y2 = y[:, None] if y.ndim == 1 else y
    if y.ndim == 1:
        g = g[..., None]
    if x.ndim == 1:
        g = np.expand_dims(g, -2)
    dx = unbroadcast(g @ np.swapaxes(y2, -1, -2), x2.shape)
    dy = unbroadcast(np.swapaxes(x2, -1, -2) @ g, y2.shape)
    return dx.reshape(x.shape), dy.reshape(y.shape)
"""
WRONG_RULES = RULES.replace("unbroadcast(g * x, y.shape)", "g * x")
ACCUMULATE = """
def accumulate(cotangents, node, value):
    if value is not None:
        cotangents[node] = cotangents[node] + value if node in cotangents else value
"""


@dataclass
class Output:
    """What a cell showed: the last rich output's forms, everything printed, and the error, if any."""

    data: dict[str, str] = field(default_factory=dict)
    printed: str = ""
    error: str = ""

    @property
    def text(self) -> str:
        return self.data.get("text/plain", "")

    @property
    def html(self) -> str:
        return self.data.get("text/html", "")


class Kernel:
    """One IPython kernel.

    Parameters
    ----------
    file : Path
        The notebook it is told to belong to.
    **environment : str
    """

    def __init__(self, file: Path | None = None, **environment: str) -> None:
        env = dict(os.environ) | {"JPY_SESSION_NAME": str(file) if file else ""} | environment
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=env)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code: str, timeout: float = 120) -> Output:
        """Run one cell and wait for it."""
        output = Output()

        def hear(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "execute_result":
                output.data = content["data"]
            elif message["msg_type"] == "stream":
                output.printed += content["text"]
            elif message["msg_type"] == "error":
                output.error = f"{content['ename']}: {content['evalue']}"

        self.client.execute_interactive(code, timeout=timeout, output_hook=hear, store_history=True)
        return output

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def write_notebook(path: Path, *cells: str, lab: str = "lab05_tape", tags: dict[int, list[str]] | None = None) -> Path:
    """An .ipynb of code cells."""
    document = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        | ({"autograder": {"lab": lab, "version": 1}} if lab else {}),
        "cells": [
            {
                "cell_type": "code",
                "id": f"c{position}",
                "metadata": {"tags": (tags or {}).get(position, [])},
                "execution_count": None,
                "outputs": [],
                "source": source,
            }
            for position, source in enumerate(cells)
        ],
    }
    path.write_text(json.dumps(document))
    return path
