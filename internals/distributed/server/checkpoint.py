"""A server's state on disk: whole or not there, whatever is killed and whichever disk is full.

A file is written under another name, brought to the disk, and only then given its own: renaming is atomic. A file that
has its name is complete; each array in it has a checksum, and a list of the arrays tells of one that is missing.
"""

from __future__ import annotations

import json
import os
import queue
import re
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

KEPT = 3
"""Checkpoints of a server that are kept; after a failure all servers need one of the same step."""


class Checkpoints:
    """The checkpoints of one server, in a directory that servers may share.

    Parameters
    ----------
    directory : path
        Made where it is not there.
    server : int
    servers : int
        Part of the name: a checkpoint of two servers is of no use to three.
    """

    def __init__(self, directory: str | os.PathLike[str], server: int, servers: int) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._stem = f"server-{server}-of-{servers}"
        for left in self.directory.glob(f"{self._stem}-*.part"):
            left.unlink(missing_ok=True)  # of a process that was killed while it wrote

    def steps(self) -> list[int]:
        """The steps of which there is a checkpoint, ascending."""
        pattern = re.compile(rf"{self._stem}-(\d+)\.npz")
        found = (pattern.fullmatch(path.name) for path in self.directory.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def path(self, step: int) -> Path:
        return self.directory / f"{self._stem}-{step:010d}.npz"

    def save(self, step: int, plain: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Path:
        """Write a checkpoint, and let go of the oldest ones.

        Raises
        ------
        OSError
            It could not be written; the message says where and how much. Earlier checkpoints are as they were.
        """
        path = self.path(step)
        part = path.with_suffix(".part")
        meta = np.frombuffer(json.dumps({"plain": plain, "arrays": sorted(arrays)}).encode(), np.uint8)
        try:
            with open(part, "wb") as file:
                np.savez(file, **{"meta": meta, **arrays})  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
            _sync_directory(self.directory)
        except OSError as error:
            part.unlink(missing_ok=True)
            nbytes = sum(array.nbytes for array in arrays.values())
            kept = self.steps()
            raise OSError(
                error.errno,
                f"checkpoint of step {step}: {path} ({nbytes / 1e6:.1f} MB) could not be written: "
                f"{error.strerror or error}; the last whole one is {f'of step {kept[-1]}' if kept else 'none'}",
            ) from error
        for old in self.steps()[:-KEPT]:
            self.path(old).unlink(missing_ok=True)
        return path

    def load(self, step: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Read a checkpoint.

        Raises
        ------
        ValueError
            The file is damaged; the message names it.
        FileNotFoundError
        """
        path = self.path(step)
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            meta = json.loads(arrays.pop("meta").tobytes())
            if lacking := sorted({*meta["arrays"]} ^ arrays.keys()):
                raise ValueError(f"the arrays in it are not those that were written: {', '.join(lacking)}")
        except (FileNotFoundError, PermissionError):
            raise
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError, RuntimeError, OSError) as error:
            # A flipped bit can ask zipfile for a password, another compression, or a place before the file begins.
            raise ValueError(f"{path} is damaged ({error}); remove it, and the one before it is used") from error
        return meta["plain"], arrays

    def forget_after(self, step: int) -> None:
        """Remove the checkpoints of later steps: training goes another way from here."""
        for later in self.steps():
            if later > step:
                self.path(later).unlink(missing_ok=True)


class Writer:
    """Saves in a thread of its own, one checkpoint at a time, so that training goes on."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._jobs: queue.Queue[Any] = queue.Queue(maxsize=1)
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
        self._thread.start()

    def save(self, step: int, plain: Any, arrays: Mapping[str, np.ndarray], told: Any) -> None:
        """Save copies that nobody else writes to; then ``told(error or None)``. Waits where two are due already."""
        self._jobs.put((step, plain, arrays, told))

    def drain(self) -> None:
        """Wait until what was handed in is written."""
        self._jobs.join()

    def close(self) -> None:
        """Finish what was handed in, and end."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                if job is None:
                    return
                step, plain, arrays, told = job
                try:
                    self._checkpoints.save(step, plain, arrays)
                except Exception as error:  # noqa: BLE001  who asked is told, whatever it was
                    told(error)
                else:
                    told(None)
            finally:
                self._jobs.task_done()


def _sync_directory(directory: Path) -> None:
    """Bring a renaming to the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
