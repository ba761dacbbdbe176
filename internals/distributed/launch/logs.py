"""Many processes write, one reads: whole lines, each with the name of who wrote it."""

from __future__ import annotations

import os
from collections import deque
from typing import IO

LONGEST = 1 << 16
"""Bytes of a line that is waited for; a longer one is shown in parts."""
KEPT = 20
"""Lines of each process that are kept for the summary."""
COLOURS = (36, 33, 32, 35, 34, 31)


class Output:
    """Where the lines of all processes go, one at a time.

    Parameters
    ----------
    out, err : binary streams
    colours : bool
        Whether a name is coloured.
    """

    def __init__(self, out: IO[bytes], err: IO[bytes], *, colours: bool) -> None:
        self._streams = (out, err)
        self._colours = colours
        self.broken = False
        """Nobody reads any more."""

    def prefix(self, name: str, number: int) -> bytes:
        """What stands in front of each line of a process."""
        tag = f"[{name}]"
        if self._colours:
            tag = f"\x1b[{COLOURS[number % len(COLOURS)]}m{tag}\x1b[0m"
        return tag.encode() + b" "

    def write(self, line: bytes, *, error: bool) -> None:
        """Write one line, at once and whole."""
        if self.broken:
            return
        stream = self._streams[error]
        try:
            stream.write(line)
            stream.flush()
        except OSError:
            self.broken = True


class Lines:
    """What comes through one pipe, cut into lines.

    Parameters
    ----------
    pipe : int
        File descriptor, read without blocking.
    last : deque of bytes
        Is given each line too; shared by the pipes of one process.
    """

    def __init__(self, pipe: int, prefix: bytes, output: Output, last: deque[bytes], *, error: bool) -> None:
        os.set_blocking(pipe, False)
        self.pipe = pipe
        self._prefix = prefix
        self._output = output
        self._last = last
        self._error = error
        self._begun = b""

    def read(self) -> bool:
        """Take what is there; False where the other end is closed."""
        while True:
            try:
                piece = os.read(self.pipe, LONGEST)
            except BlockingIOError:
                return True
            except OSError:
                piece = b""
            if not piece:
                return False
            *whole, self._begun = (self._begun + piece).split(b"\n")
            for line in whole:
                self._show(line)
            if len(self._begun) >= LONGEST:
                self._show(self._begun)
                self._begun = b""
            if len(piece) < LONGEST:
                return True

    def end(self) -> None:
        """Show a last line that has no end, and let go of the pipe."""
        if self._begun:
            self._show(self._begun)
            self._begun = b""
        os.close(self.pipe)

    def _show(self, line: bytes) -> None:
        line = line.rstrip(b"\r")
        if b"\r" in line:  # a progress bar writes over itself: what stood there last
            line = line.rsplit(b"\r", 1)[1]
        self._last.append(line)
        self._output.write(self._prefix + line + b"\n", error=self._error)
