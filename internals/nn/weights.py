"""Weights in files: the safetensors format, and replacing a file so that there is always a whole one.

The format is a header in JSON, with the name, dtype, shape and place of each array, and then the arrays' bytes; reading
one runs no code. Files written here are read by any safetensors library, and by PyTorch, TensorFlow and JAX through it.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from internals.nn.module import Module

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
}  # fmt: skip


def save_arrays(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], **metadata: str) -> None:
    """Write arrays to a safetensors file, in place of the one that may be there.

    Parameters
    ----------
    path : path
    arrays : mapping of str to array
    metadata : str
        Kept in the header.

    Raises
    ------
    TypeError
        An array of a dtype that the format has not.
    OSError
        It could not be written; what was at `path` is unchanged.
    """
    replace_file(path, array_bytes(arrays, **metadata))


def array_bytes(arrays: Mapping[str, np.ndarray], **metadata: str) -> bytes:
    """Arrays as the bytes of a safetensors file; see `save_arrays`."""
    safetensors = _safetensors()
    # Contiguous, and 0-d where they were: numpy.ascontiguousarray would make those 1-d.
    whole = {name: np.array(array, order="C", copy=None) for name, array in arrays.items()}
    for name, array in whole.items():
        try:
            code_of(array.dtype)
        except TypeError:
            raise TypeError(f"save_arrays: {name} is {array.dtype}, which safetensors has not.") from None
    data: bytes = safetensors.numpy.save(whole, {key: str(value) for key, value in metadata.items()})
    return data


def load_arrays(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of a safetensors file, and its metadata.

    Raises
    ------
    ValueError
        The file is not in this format, or was cut off.
    FileNotFoundError
    """
    safetensors = _safetensors()
    data = _checked_path("load", path).read_bytes()
    try:
        found = safetensors.deserialize(data)
        arrays = {
            name: np.frombuffer(bytearray(entry["data"]), dtype_named(entry["dtype"])).reshape(entry["shape"])
            for name, entry in found
        }
    except safetensors.SafetensorError as error:
        raise ValueError(f"load: {os.fspath(path)} is no safetensors file, or only a part of one: {error}.") from None
    return arrays, _metadata(data)


def save_weights(module: Module, path: str | os.PathLike[str], **metadata: str) -> None:
    """Write a module's parameters and buffers, by the names of `state_dict`; see `save_arrays`."""
    save_arrays(path, module.state_dict(), format="internals", version="1", **metadata)


def load_weights(module: Module, path: str | os.PathLike[str]) -> None:
    """Read what `save_weights` wrote into a module of the same structure; see `load_arrays`.

    Raises
    ------
    ValueError
        Names or shapes are not those of the module, which is unchanged then.
    """
    arrays, _ = load_arrays(path)
    try:
        module.load_state_dict(arrays)
    except ValueError as error:
        raise ValueError(f"load_weights: {os.fspath(path)} is of another model: {error}") from None


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Put a file in place of another in one step: whoever looks, whenever, finds the old one or the new one, whole.

    The bytes go to a temporary file in the same folder, which is renamed once they are on the disk. Killed on the way,
    that file stays behind, and goes when the next one is written.

    Raises
    ------
    OSError
        The folder is missing or read-only, or the disk full; what was at `path` is unchanged.
    """
    target = _checked_path("save", path)
    if target.is_symlink():  # which stays one
        target = target.resolve()
    temporary = None
    try:
        _remove_left_behind(target)
        temporary = target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}{_SUFFIX}")
        with temporary.open("xb") as out:
            _locked(out.fileno())
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
            if os.path.exists(target):
                temporary.chmod(target.stat().st_mode & 0o777)
            temporary.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        there = "; the file that was there is unchanged" if os.path.exists(target) else ""
        raise type(error)(
            error.errno, f"can't write {len(data):,} bytes to {target}{there}: {error.strerror}"
        ) from None
    except BaseException:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise


def _checked_path(name: str, path: Any) -> Path:
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise TypeError(f"{name}: expected the path of a file, got {path!r}.")
    return Path(path)


_SUFFIX = ".part"


def _prefix(target: Path) -> str:
    return f".{target.name}."


def _locked(handle: int) -> bool:
    """Hold a file as long as this process has it open; whether nobody else did."""
    try:
        import fcntl
    except ImportError:  # Windows: nothing is removed there
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


_NEW = 10.0
"""Seconds for which a temporary file may not be locked yet by who is writing it."""


def _remove_left_behind(target: Path) -> None:
    for part in target.parent.glob(f"{_prefix(target)}*{_SUFFIX}"):
        try:
            with part.open("rb") as file:
                if time.time() - os.fstat(file.fileno()).st_mtime > _NEW and _locked(file.fileno()):
                    part.unlink()
        except OSError:
            continue


def _sync_folder(folder: Path) -> None:
    """Have the new name on the disk too; where a folder can't be opened, as on Windows, the system sees to it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _metadata(data: bytes) -> dict[str, str]:
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]).get("__metadata__", {})


def dtype_named(code: str) -> np.dtype:
    """The dtype of a code of the format.

    Raises
    ------
    ValueError
        NumPy has no such dtype.
    """
    if code not in _DTYPES:
        raise ValueError(f"load: the file holds arrays of {code}, which NumPy has not.")
    if code == "BF16":
        try:
            import ml_dtypes
        except ImportError:
            raise ImportError("NumPy has no bfloat16 of its own: pip install ml-dtypes") from None
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(_DTYPES[code])


@lru_cache(100)
def code_of(dtype: np.dtype) -> str:
    """The format's code of a dtype, whatever its byte order.

    Raises
    ------
    TypeError
        It has none.
    """
    for code, name in _DTYPES.items():
        if name == dtype.name:
            return code
    raise TypeError(f"safetensors has no {dtype}.")


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError("Weights are kept as safetensors files: pip install safetensors") from None
    return safetensors
