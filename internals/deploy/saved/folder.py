"""The files of a saved model: written so that there is always a whole directory, read so that nothing else is touched.

The manifest names every file with its size and SHA-256. Files are opened through the directory itself, so a directory
that is replaced while it is read gives the old model or, where that is gone already, the new one, never some of each.
Links and devices are refused.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import secrets
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from internals.deploy.errors import FormatError

ASSETS = "assets"
_PART, _OLD = ".part", ".old"


def write_folder(path: Path, files: Mapping[str, bytes | Path], *, overwrite: bool, marker: str) -> None:
    """Write a directory of files in one step.

    Parameters
    ----------
    path : Path
    files : mapping of str to (bytes or Path)
        The content, or a file to copy; a name is plain, or ``assets/`` and a plain one.
    overwrite : bool
        Take the place of a directory that has a file called `marker`.

    Raises
    ------
    FileExistsError
        There is something at `path`, and it may not be replaced, or is no saved model.
    OSError
        It could not be written; what was at `path` is unchanged.
    """
    target = path.resolve() if path.is_symlink() else path
    if os.path.lexists(target):
        if not overwrite:
            raise FileExistsError(f"save: {path} exists. Choose another name, or pass overwrite=True.")
        if not (target / marker).is_file():
            raise FileExistsError(f"save: {path} exists and is no saved model (it has no {marker}); it stays as it is.")
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_left_behind(target)
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}{_PART}")
    part.mkdir()
    handle = os.open(part, os.O_RDONLY)
    try:
        _locked(handle)
        if any(name.startswith(f"{ASSETS}/") for name in files):
            (part / ASSETS).mkdir()
        for name, content in files.items():
            with (part / name).open("xb") as out:
                if isinstance(content, Path):
                    with content.open("rb") as source:
                        shutil.copyfileobj(source, out)
                else:
                    out.write(content)
                out.flush()
                os.fsync(out.fileno())
        for folder in ([part / ASSETS] if (part / ASSETS).exists() else []) + [part]:
            _sync(folder)
        _put_in_place(part, target)
        _sync(target.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def _put_in_place(part: Path, target: Path) -> None:
    if not target.exists():
        part.rename(target)
    elif _exchanged(part, target):
        shutil.rmtree(part)
    else:  # between two steps there is neither; the old one is kept until the new one is there
        old = target.with_name(f".{target.name}.{secrets.token_hex(8)}{_OLD}")
        target.rename(old)
        try:
            part.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old)


def _exchanged(one: Path, two: Path) -> bool:
    """Swap two directories in one step, where the system can (Linux's renameat2)."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    at, exchange = -100, 2
    return rename(at, os.fsencode(one), at, os.fsencode(two), exchange) == 0


def _remove_left_behind(target: Path) -> None:
    """Directories that a save made that was killed; one that is being written is locked."""
    for part in target.parent.glob(f".{target.name}.*{_PART}"):
        try:
            handle = os.open(part, os.O_RDONLY)
        except OSError:
            continue
        try:
            if _locked(handle):
                shutil.rmtree(part, ignore_errors=True)
        finally:
            os.close(handle)


def _locked(handle: int) -> bool:
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Folder:
    """A directory of files, open for reading.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._handle)

    @property
    def is_replaced(self) -> bool:
        """Whether another directory has taken its place since it was opened."""
        mine, there = os.fstat(self._handle), os.stat(self.path)
        return (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino)

    def read(self, name: str, most: int) -> bytes:
        """A file, if it is no larger than that.

        Raises
        ------
        FormatError
            It is missing, larger than `most` bytes, or no plain file.
        """
        handle, size = self._open(name)
        try:
            if size > most:
                raise FormatError(f"load: {self.path / name} has {size:,} bytes; more than {most:,} are refused.")
            data = os.read(handle, size)
            if len(data) == size:
                return data
            with os.fdopen(handle, "rb", closefd=False) as file:
                return data + file.read(size - len(data))
        finally:
            os.close(handle)

    def size(self, name: str) -> int:
        """How many bytes a file has."""
        handle, size = self._open(name)
        os.close(handle)
        return size

    def digest(self, name: str) -> tuple[int, str]:
        """Size and SHA-256 of a file that is not kept in memory."""
        handle, size = self._open(name)
        with os.fdopen(handle, "rb", buffering=0) as file:
            return size, hashlib.file_digest(file, "sha256").hexdigest()

    def whole(self, name: str, expected: int | None = None, found: Sums | None = None) -> memoryview:
        """A large file, in memory of this process; read-only.

        It is not mapped: who wrote into a mapped file would change the model while it runs, and who cut it off would
        end the process.

        Parameters
        ----------
        name : str
        expected : int, optional
            How many bytes it must have; else it is not read.
        found : Sums, optional
            Is given the rows of the file, each while it is still in the processor's cache.

        Raises
        ------
        FormatError
            It is missing, no plain file, of another size, or larger than this machine's memory.
        """
        handle, size = self._open(name)
        try:
            if expected is not None:
                check_size(self.path, name, size, expected)
            most = memory()
            if size > most:
                raise FormatError(f"load: {self.path / name} has {size:,} bytes; more than {most:,} are refused.")
            data, rows = room_for(size)
            for start in range(0, len(rows), _AT_ONCE):
                part = data[start * ROW : (start + _AT_ONCE) * ROW]
                got = os.readv(handle, [part])
                while got < len(part):
                    more = os.readv(handle, [part[got:]])
                    if not more:
                        raise FormatError(f"load: {self.path / name} was cut off while it was read.")
                    got += more
                if found is not None:
                    found.add(rows[start : start + _AT_ONCE])
            return data.toreadonly()
        finally:
            os.close(handle)

    def _open(self, name: str) -> tuple[int, int]:
        folder, plain = self._handle, name
        opened = []
        try:
            if name.startswith(f"{ASSETS}/"):
                plain = name.removeprefix(f"{ASSETS}/")
                folder = os.open(ASSETS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                opened.append(folder)
            check_name(plain)
            # A pipe would be waited for without O_NONBLOCK.
            handle = os.open(plain, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            raise FormatError(f"load: {self.path} has no {name}, which its manifest names.") from None
        except OSError as error:
            raise FormatError(
                f"load: {self.path / name} can't be opened: {error.strerror}. Links are refused."
            ) from None
        finally:
            for one in opened:
                os.close(one)
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            os.close(handle)
            raise FormatError(f"load: {self.path / name} is no plain file.")
        return handle, about.st_size


def check_size(path: Path, name: str, size: int, expected: int) -> None:
    """Refuse a file of another size than its manifest says.

    Raises
    ------
    FormatError
    """
    if size != expected:
        raise FormatError(
            f"load: {path / name} has {size:,} bytes, and the manifest says {expected:,}: it was cut off, or replaced."
        )


def memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


_OUTSIDE = frozenset("/\\\0:")


def check_name(name: Any) -> None:
    """Refuse a file name that could lead out of the directory.

    Raises
    ------
    FormatError
    """
    if not isinstance(name, str) or not name or len(name) > 200 or name.startswith(".") or not name.isprintable():
        raise FormatError(f"load: {name!r} is no file name that a saved model may have.")
    if not _OUTSIDE.isdisjoint(name):
        raise FormatError(f"load: {name!r} leads out of the directory; names have no slashes or colons.")


ROW = 4096
"""Bytes of a row whose words are added up; a page of memory, and a block of most disks."""
_AT_ONCE = 1024
"""Rows: four megabytes, which processors have room for."""
_WORD = np.dtype("<u8")
_LARGE = 2**25
"""Bytes from which the C library takes memory from the system each time, and keeps none for the next."""
_CACHED = 2**23
"""Bytes up to which zeros that were just written are still in the processor's cache."""
_OWN = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0)
_NOTHING = hashlib.sha256()
"""To copy it is faster than to look for the algorithm in OpenSSL again."""


class Sums:
    """A checksum nearly as fast as memory is read: the SHA-256 of sums of 64-bit words, along rows of 4,096 bytes and
    down the columns.

    Every change of one word changes both sums, and rows that change places change the order of the first. For neither
    to change, at least four words must, in two rows and two columns, by amounts that cancel out: damage does not do
    that. Whoever means to can, as they can write another checksum. The last row is taken to end in zeros, so that the
    size must be compared too.
    """

    def __init__(self) -> None:
        self._digest, self._down = _NOTHING.copy(), np.zeros(ROW // 8, _WORD)

    def add(self, rows: np.ndarray) -> None:
        """The next rows, of 512 words each."""
        self._digest.update(np.add.reduce(rows, 1, _WORD).data)
        self._down += np.add.reduce(rows, 0, _WORD)

    def hexdigest(self) -> str:
        whole = self._digest.copy()
        whole.update(self._down.data)
        return whole.hexdigest()


def room_for(size: int) -> tuple[memoryview, np.ndarray]:
    """Memory for bytes, and the rows of `Sums` that they will be; what is left of the last one is zeros.

    Large memory is the system's own, all of it at once: page by page, as it is written to, takes longer. It is not
    NumPy's, which asks for large pages; those take half the time where the system has them at hand, and four times as
    long where it must make them, as in a virtual machine.
    """
    space = size + -size % ROW
    room: Any = mmap.mmap(-1, space, flags=_OWN) if space >= _LARGE else _unset(space)
    rows = np.frombuffer(room, _WORD).reshape(-1, ROW // 8)
    rows[-1:] = 0
    return memoryview(room)[:size], rows


def _unset(size: int) -> bytearray:
    """Bytes of which each will be written.

    To write zeros first takes a fifth of the time of loading 25 megabytes. A few megabytes are read into zeros as fast,
    since the processor's cache has them then.
    """
    make = getattr(getattr(ctypes, "pythonapi", None), "PyByteArray_FromStringAndSize", None)  # CPython's own
    if make is None or size < _CACHED:
        return bytearray(size)
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_ssize_t)
    made: bytearray = make(None, size)
    return made


def sums(data: bytes) -> str:
    """The `Sums` of bytes."""
    found, whole = Sums(), memoryview(data)
    for start in range(0, len(whole), _AT_ONCE * ROW):
        part = whole[start : start + _AT_ONCE * ROW]
        copied, rows = room_for(len(part))
        copied[:] = part
        found.add(rows)
    return found.hexdigest()


def checksum(data: Any) -> str:
    """SHA-256, in hexadecimal."""
    found = _NOTHING.copy()
    found.update(data)
    return found.hexdigest()


def checksum_of_file(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()
