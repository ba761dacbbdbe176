"""Weights in files: what others read, and what a kill, a full disk or a read-only folder leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from internals import Tensor, nn
from internals.nn.weights import load_arrays, load_weights, replace_file, save_arrays, save_weights

ROOT = Path(__file__).resolve().parents[2]
DTYPES = [
    "float64", "float32", "float16", "bfloat16", "bool", "int64", "int32", "int16", "int8",
    "uint64", "uint32", "uint16", "uint8",
]  # fmt: skip


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return np.random.default_rng(len(dtype)).uniform(0, 3, shape).astype(kind)


def model(seed: int) -> nn.Sequential:
    rng = np.random.default_rng(seed)
    return nn.Sequential(nn.Conv2d(2, 3, 3, rng=rng), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 4, rng=rng))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 3, 4)], ids=str)
def test_arrays_come_back(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    given = values(dtype, shape)
    save_arrays(tmp_path / "x", {"x": given, "turned": given.T, "swapped": given.astype(given.dtype)}, note="here")
    arrays, metadata = load_arrays(tmp_path / "x")
    assert metadata == {"note": "here"}
    for name, expected in (("x", given), ("turned", given.T), ("swapped", given)):
        assert arrays[name].dtype == expected.dtype
        np.testing.assert_array_equal(arrays[name], expected)
        arrays[name][...] = 0  # the caller's own


def test_big_endian_arrays_are_turned(tmp_path: Path) -> None:
    save_arrays(tmp_path / "x", {"x": np.arange(4, dtype=">f4")})
    np.testing.assert_array_equal(load_arrays(tmp_path / "x")[0]["x"], np.arange(4, dtype=np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_reads_what_is_written_and_the_other_way_round(tmp_path: Path, dtype: str) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    given = values(dtype, (2, 3))
    save_arrays(tmp_path / "ours", {"x": given})
    theirs = load_file(tmp_path / "ours")["x"]
    assert theirs.dtype == getattr(torch, dtype)
    np.testing.assert_array_equal(theirs.to(torch.float64).numpy(), given.astype(np.float64))
    save_file({"x": theirs}, tmp_path / "theirs")
    np.testing.assert_array_equal(load_arrays(tmp_path / "theirs")[0]["x"], given)


def test_a_module_goes_to_torch(tmp_path: Path) -> None:
    """The same names; the weight of Linear is the transpose."""
    import torch
    from safetensors.torch import load_file

    ours = model(0).eval()
    save_weights(ours, tmp_path / "x")
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Flatten(), torch.nn.Linear(12, 4)
    ).eval()
    state = load_file(tmp_path / "x")
    state["3.weight"] = state["3.weight"].T
    theirs.load_state_dict(state)
    x = np.random.default_rng(1).normal(size=(5, 2, 4, 4)).astype(np.float32)
    expected = theirs(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(ours(Tensor(x)).detach().numpy(), expected, atol=1e-6)


def test_a_module_comes_back(tmp_path: Path) -> None:
    one, other = model(0), model(1)
    save_weights(one, tmp_path / "x", made_by="a test")
    load_weights(other, tmp_path / "x")
    for name, value in one.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name], value)
    metadata = load_arrays(tmp_path / "x")[1]
    assert metadata == {"format": "internals", "version": "1", "made_by": "a test"}


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def garbled(path: Path) -> None:
    path.write_bytes(b"\x00" * 40)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [cut_off, garbled, emptied])
def test_a_broken_file_is_refused(tmp_path: Path, harm: Any) -> None:
    path = tmp_path / "x"
    save_weights(model(0), path)
    harm(path)
    into = model(1)
    before = into.state_dict()
    with pytest.raises(ValueError, match=r"/x is no safetensors file, or only a part of one"):
        load_weights(into, path)
    for name, value in into.state_dict().items():
        np.testing.assert_array_equal(before[name], value)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    save_weights(nn.Linear(2, 3), tmp_path / "x")
    with pytest.raises(ValueError, match=r"/x is of another model: .*shape \(2, 4\).*\(2, 3\)"):
        load_weights(nn.Linear(2, 4), tmp_path / "x")
    with pytest.raises(ValueError, match="missing: 0.bias"):
        load_weights(nn.Sequential(nn.Linear(2, 3)), tmp_path / "x")


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        load_arrays(tmp_path / "none")
    with pytest.raises(TypeError, match="x is complex64, which safetensors has not"):
        save_arrays(tmp_path / "x", {"x": np.zeros(2, np.complex64)})
    with pytest.raises(FileNotFoundError, match="can't write .* bytes to .*/no/x: No such file"):
        save_arrays(tmp_path / "no" / "x", {"x": np.zeros(2)})
    with pytest.raises(OSError, match="can't write"):
        save_arrays(tmp_path, {"x": np.zeros(2)})
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match="pip install safetensors"):
        save_arrays(tmp_path / "x", {"x": np.zeros(2)})


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    path = tmp_path / "x"
    replace_file(path, b"one")
    usual = tmp_path / "usual"
    usual.write_bytes(b"")
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o640)
    (tmp_path / "link").symlink_to(path)
    replace_file(tmp_path / "link", b"two")
    assert (tmp_path / "link").is_symlink()
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o640)
    assert [one.name for one in sorted(tmp_path.iterdir())] == ["link", "usual", "x"]


def test_a_read_only_folder_is_one_clear_error() -> None:
    folder = Path(tempfile.mkdtemp(prefix="read-only-"))
    path = folder / "x"
    path.write_bytes(b"old")
    user = os.geteuid()
    try:
        folder.chmod(0o555)
        if user == 0:  # root may write anywhere
            os.seteuid(65534)
        with pytest.raises(PermissionError, match="can't write 3 bytes to .*/x; the file that was there is unchanged"):
            replace_file(path, b"new")
    finally:
        os.seteuid(user)
        folder.chmod(0o755)
    assert path.read_bytes() == b"old"
    assert [one.name for one in folder.iterdir()] == ["x"]
    path.unlink()
    folder.rmdir()


FULL = """
import resource, sys
import numpy as np
from internals.nn.weights import save_arrays
path = sys.argv[1]
save_arrays(path, {"x": np.ones(100)})
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
try:
    save_arrays(path, {"x": np.zeros(100_000)})
except OSError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "x")], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "can't write 800,0" in done.stdout
    assert "the file that was there is unchanged: File too large" in done.stdout
    np.testing.assert_array_equal(load_arrays(tmp_path / "x")[0]["x"], np.ones(100))
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


def test_many_threads_may_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "x"

    def write(number: int) -> None:
        for _ in range(10):
            save_arrays(path, {"x": np.full(1000, number)})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            assert len(set(load_arrays(path)[0]["x"].tolist())) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


SAVES = """
import sys, time
import numpy as np
from internals.nn.weights import load_arrays, save_arrays
path, first = sys.argv[1], int(sys.argv[2])
for number in range(first, 10**9):
    save_arrays(path, {"a": np.full((400, 250), number), "b": np.full(7, number, np.float32)}, number=str(number))
    print(number, flush=True)
"""


@pytest.mark.slow
def test_kill_9_during_a_save_never_corrupts_the_last_one(tmp_path: Path) -> None:
    """40 processes that save in a loop, each killed at a moment of chance."""
    path, rng = tmp_path / "x", np.random.default_rng(0)
    last, seen, during = 0, set(), 0
    for _ in range(40):
        running = subprocess.Popen(
            [sys.executable, "-c", SAVES, str(path), str(last + 1)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert running.stdout is not None
        running.stdout.readline()  # it has begun
        time.sleep(rng.uniform(0, 0.03))
        running.send_signal(signal.SIGKILL)
        printed = [last + 1, *(int(line) for line in running.communicate()[0].split())]
        arrays, metadata = load_arrays(path)
        number = int(metadata["number"])
        assert set(arrays) == {"a", "b"}
        assert all((array == number).all() for array in arrays.values())
        assert number in (printed[-1], printed[-1] + 1), "the last one that was said to be saved, or the one after"
        during += len(list(tmp_path.iterdir())) > 1
        seen.add(number - last)
        last = number
    assert during > 0, "none was killed while it wrote"
    for part in tmp_path.glob(".x.*"):
        os.utime(part, (0, 0))
    save_arrays(path, {"a": np.zeros(1)})
    assert [one.name for one in tmp_path.iterdir()] == ["x"], "what killed processes left behind is gone"
