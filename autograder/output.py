"""What commands say and write: answers on stdout, one line per error on stderr, files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

WRONG_USE = 2


class Refusal(Exception):
    """One line for the user, and the exit code."""

    def __init__(self, message: str, code: int = WRONG_USE) -> None:
        super().__init__(message)
        self.code = code


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    progress_done()
    sys.stderr.write(f"autograder: {printable(' '.join(text.split()))}\n")


def printable(text: str) -> str:
    """Without control characters, which a file's name may have and a terminal would obey."""
    return "".join(char if char.isprintable() else "?" for char in text)


def progress(sentence: str) -> None:
    """What is waited for, on one line of the terminal that is wiped afterwards; nothing where stderr is a file."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{printable(sentence)}")
        sys.stderr.flush()


def progress_done() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def page_paths(files: list[Path], out: Path | None) -> dict[Path, Path]:
    """Where the page of each file goes; refuses before anything is graded what could not be written afterwards."""
    if out is None:
        return {}
    many = len(files) > 1 or out.is_dir()
    folder = out if many else out.parent
    if many:
        try:
            out.mkdir(exist_ok=True)
        except OSError as error:
            raise Refusal(f"--html {out}: {error.strerror}. For several notebooks, give a directory.") from None
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        why = "is read-only" if folder.is_dir() else "is not there"
        raise Refusal(f"--html {out}: the directory {folder} {why}.")
    if not many:
        return {files[0]: out}
    pages: dict[Path, Path] = {}
    stems = [file.stem for file in files]
    for file in files:
        # Where every learner's file has the lab's name, the folder it lies in says whose it is.
        name = file.stem if stems.count(file.stem) == 1 else f"{file.absolute().parent.name}-{file.stem}"
        page, number = folder / f"{name}.html", 2
        while page in pages.values():
            page, number = folder / f"{name}-{number}.html", number + 1
        pages[file] = page
    return pages


def write_file(path: Path, text: str) -> None:
    """All of the text or none of it: an earlier file stays whole when the disk is full."""
    path = Path(os.path.realpath(path))
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.exists() and not path.is_file():
            # A pipe or a device keeps nothing, and must not be replaced by a file.
            path.write_text(text, encoding="utf-8", newline="")
            return
        part.write_text(text, encoding="utf-8", newline="")
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise Refusal(f"{path}: cannot be written: {error.strerror or error}.") from None
