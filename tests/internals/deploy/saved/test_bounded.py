"""Files that hold more values than is sane are refused before they are read: a byte can become a list of 60."""

from __future__ import annotations

import ctypes
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from internals import nn, ops
from internals.deploy import FormatError, Signature, TensorSpec, load, save
from internals.deploy.saved import bounded, folder
from internals.deploy.saved.arrays import arrays_in
from internals.deploy.saved.folder import Folder
from internals.deploy.saved.graphfile import MAGIC, graph_to_json, json_to_binary, read_graph
from internals.deploy.saved.manifest import read_manifest
from internals.graph import Graph

HEADER = b'{"a":[' + b"[]," * 500_000 + b"[]]}"
HOSTILE: dict[str, tuple[Callable[[bytes], Any], bytes]] = {
    "lists in JSON": (lambda data: read_graph("graph.json", data, {}), b"[" + b"[]," * 500_000 + b"[]]"),
    "objects in JSON": (lambda data: read_graph("graph.json", data, {}), b"[" + b"{}," * 500_000 + b"{}]"),
    "lists in msgpack": (
        lambda data: read_graph("graph.bin", data, {}),
        MAGIC + b"\xdd\x00\x7a\x12\x00" + b"\x90" * 8_000_000),
    "text in msgpack": (
        lambda data: read_graph("graph.bin", data, {}), MAGIC + b"\xdd\x00\x2d\xc6\xc0" + b"\xa2ab" * 5_000_000),
    "a header of arrays": (
        lambda data: arrays_in("weights", memoryview(data)), len(HEADER).to_bytes(8, "little") + HEADER),
    "a manifest": (lambda data: read_manifest("saved_model.json", data), b"[" + b"[]," * 500_000 + b"[]]"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_more_values_than_is_sane(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, data = HOSTILE[name]
    if "msgpack" not in name:
        monkeypatch.setattr(bounded, "MOST", 400_000)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"it holds up to [\d,]+ values; more than [\d,]+ are refused"):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 2.2 * len(data)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["weights.safetensors", "assets/words.txt"])
def test_a_file_of_another_size_is_not_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with a hole in it takes no room on the disk, whatever its size, and all of it in memory."""
    save(tmp_path / "model", nn.Linear(3, 2), {"serve": Signature({"x": TensorSpec((3,))})}, assets={"words.txt": b"a"})
    os.truncate(tmp_path / "model" / name, 2**34)
    for holder, reads in ((Folder, "digest"), (folder, "room_for"), (os, "readv")):
        monkeypatch.setattr(holder, reads, lambda *given, reads=reads: pytest.fail(f"{reads} of {given}"))
    with pytest.raises(FormatError, match=f"{name} has 17,179,869,184 bytes, and the manifest says"):
        load(tmp_path / "model")


@pytest.mark.parametrize("read", [read_manifest, lambda name, data: read_graph(name, data, {})])
def test_text_that_is_no_utf_8_is_refused_in_a_line(read: Callable[[str, bytes], Any]) -> None:
    """Not with all of the file, as Python's own error is shown."""
    with pytest.raises(FormatError, match="file: it is no text in UTF-8") as error:
        read("file", b'{"format": "' + b"\xff" * 10_000 + b'"}')
    assert len(str(error.value)) < 200


def without_pythonapi() -> SimpleNamespace:
    return SimpleNamespace(**{name: getattr(ctypes, name) for name in ("py_object", "c_void_p", "c_ssize_t")})


MEMORY: dict[str, dict[str, Any]] = {
    "zeros": {"_CACHED": 2**60, "_LARGE": 2**60},
    "unset": {"_CACHED": 1, "_LARGE": 2**60},
    "unset, elsewhere": {"_CACHED": 1, "_LARGE": 2**60, "ctypes": without_pythonapi()},
    "the system's": {"_LARGE": 1},
}


@pytest.mark.parametrize("kind", MEMORY)
@pytest.mark.parametrize("size", [0, 1, folder.ROW, 3 * folder.ROW + 5, folder.ROW * folder._AT_ONCE + 9])
def test_a_file_that_is_read_piece_by_piece_is_whole(
    size: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the system reads at once, into whatever memory: the bytes, read-only, and their checksum."""
    for name, value in MEMORY[kind].items():
        monkeypatch.setattr(folder, name, value)
    before = [bytearray(b"\xff" * size) for _ in range(3)]  # so that memory which is not set is not zeros
    del before
    data, rng = np.random.default_rng().bytes(size), np.random.default_rng()
    (tmp_path / "weights").write_bytes(data)
    read, most = os.readv, max(1, size // 5)
    monkeypatch.setattr(os, "readv", lambda handle, to: read(handle, [to[0][: int(rng.integers(1, most + 1))]]))
    with Folder(tmp_path) as opened:
        found = folder.Sums()
        whole = opened.whole("weights", size, found)
        assert (whole.readonly, bytes(whole), found.hexdigest()) == (True, data, folder.sums(data))
        with pytest.raises(FormatError, match=f"weights has {size:,} bytes, and the manifest says {size + 1:,}"):
            opened.whole("weights", size + 1)


def test_a_file_that_is_cut_off_while_it_is_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, read = tmp_path / "weights", os.readv
    file.write_bytes(np.random.default_rng().bytes(5000))

    def cut(handle: int, to: list[memoryview]) -> int:
        os.truncate(file, 3000)
        return read(handle, to)

    monkeypatch.setattr(os, "readv", cut)
    with Folder(tmp_path) as opened, pytest.raises(FormatError, match=r"weights was cut off while it was read"):
        opened.whole("weights")


@pytest.mark.slow
def test_a_large_graph_is_sane(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 30,000 operations, each with as large an array as graphs hold, is within the bound in either form."""
    graph, rng = Graph(), np.random.default_rng(0)
    with graph:
        x = graph.placeholder((64,), np.float32)
        for _ in range(2000):
            x = ops.add(x, rng.standard_normal(64).astype(np.float32))
    data = graph_to_json(graph)
    monkeypatch.setattr(bounded, "MOST", bounded.MOST * len(graph) // 30_000)
    for form in (data, json_to_binary(data)):
        assert len(form) > 2**19
        assert len(read_graph("graph", form, {})) == len(graph)
