"""Saved models that are cut off, damaged, of another version or hostile: an error that says what, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from internals import nn
from internals.deploy import FormatError, Signature, TensorSpec, load, save
from internals.deploy.saved.folder import ROW, checksum, sums
from internals.deploy.saved.manifest import NAME, _canonical

SPEC = {"serve": Signature({"x": TensorSpec(("batch", 3))}, ("y",))}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    for form in ("json", "binary"):
        save(folder / form, model, SPEC, form=form, assets={"labels.txt": b"one two"})
    return folder


@pytest.fixture(params=["json", pytest.param("binary", marks=pytest.mark.slow)])
def model(request: pytest.FixtureRequest, models: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(models / request.param, tmp_path / "model"))


@pytest.fixture
def text_model(models: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(models / "json", tmp_path / "model"))


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest, and give it the checksums that it then should have: what a forger would do."""
    whole = json.loads((path / NAME).read_bytes())
    whole.pop("sha256")
    change(whole)
    for name, entry in whole["files"].items() if isinstance(whole.get("files"), dict) else ():
        file = path / name
        if isinstance(entry, dict) and file.is_file() and ".." not in name:
            data = file.read_bytes()
            entry |= {"bytes": len(data), "sha256": checksum(data)} | ({"sums": sums(data)} if "sums" in entry else {})
    (path / NAME).write_text(json.dumps({**whole, "sha256": checksum(_canonical(whole))}))


def with_graph(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    whole = json.loads((path / "graph.json").read_bytes())
    found = change(whole)
    text = json.dumps(whole if found is None else found).replace('"DEEP"', DEEP)
    (path / "graph.json").write_text(text)
    rewritten(path, lambda one: None)


@pytest.mark.parametrize("name", [NAME, "graph", "weights.safetensors", "assets/labels.txt"])
@pytest.mark.parametrize("damage", ["cut off", "one bit", "longer", "empty", "gone", "a folder"])
def test_a_damaged_file_is_named(model: Path, name: str, damage: str) -> None:
    name = next(one.name for one in model.iterdir() if one.name.startswith("graph")) if name == "graph" else name
    file = model / name
    data = bytearray(file.read_bytes())
    if damage == "one bit":
        data[len(data) // 2] ^= 4
    file.unlink()
    if damage == "a folder":
        file.mkdir()
    elif damage != "gone":
        keep = {"cut off": data[:-3], "longer": data + b" x", "empty": b""}
        file.write_bytes(keep.get(damage, data))
    with pytest.raises(FormatError, match=f"(?s){name.rpartition('/')[2]}"):
        load(model)


def test_the_fast_checksum_sees_damage() -> None:
    rng = np.random.default_rng()
    data = bytearray(rng.bytes(1100 * ROW + 5))
    whole = sums(bytes(data))
    assert sums(bytes(data)) == whole
    seen = {whole}

    def changed(change: Callable[[bytearray], Any]) -> None:
        other = bytearray(data)
        change(other)
        found = sums(bytes(other))
        assert found not in seen
        seen.add(found)

    for _ in range(30):
        at, other, bit = int(rng.integers(len(data))), int(rng.integers(len(data) - 4 * ROW)), 1 << int(rng.integers(8))
        changed(lambda d, at=at, bit=bit: d.__setitem__(at, d[at] ^ bit))
        changed(lambda d, at=other: d.__setitem__(slice(at, at + 512), bytes(512)))
        changed(lambda d, at=other: d.__setitem__(slice(at, at + 16), d[at + 8 : at + 16] + d[at : at + 8]))
    for at in (0, 3, 1023, 1098):  # blocks in the wrong order, as a disk may have them
        one, two = data[at * ROW : (at + 1) * ROW], data[(at + 1) * ROW : (at + 2) * ROW]
        changed(lambda d, at=at, swapped=two + one: d.__setitem__(slice(at * ROW, (at + 2) * ROW), swapped))


@pytest.mark.parametrize("size", [0, 1, ROW - 1, ROW, 3 * ROW + 8, 1024 * ROW - 1, 1024 * ROW, 1025 * ROW + 1])
def test_the_fast_checksum_of_files_that_were_saved_stays(size: int) -> None:
    """The SHA-256 of the sums along rows and down columns, of words whose first byte counts least."""
    data = np.random.default_rng().bytes(size)
    rows = np.frombuffer(data + bytes(-size % ROW), "<u8").reshape(-1, ROW // 8)
    assert sums(data) == checksum(rows.sum(1).tobytes() + rows.sum(0).tobytes())


@pytest.mark.parametrize("verify", [True, "sha256", False])
def test_how_weights_are_verified(text_model: Path, verify: Any) -> None:
    """One checksum or the other sees a weight that was changed; without, it is not looked for."""
    whole = json.loads((text_model / NAME).read_bytes())
    assert set(whole["files"]["weights.safetensors"]) == {"bytes", "sha256", "sums"}
    file = text_model / "weights.safetensors"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(bytes(data))
    if verify:
        with pytest.raises(FormatError, match=r"weights.safetensors is damaged"):
            load(text_model, verify=verify)
    else:
        load(text_model, verify=verify)
    with pytest.raises(ValueError, match="verify must be True, False or 'sha256'"):
        load(text_model, verify="md5")


@pytest.mark.parametrize("change", ["cut off", "written over", "gone"])
def test_what_happens_to_the_files_after_loading_changes_nothing(text_model: Path, change: str) -> None:
    """What copies files over a model in use cuts them off first: a mapped file would end the process."""
    x = np.random.default_rng().standard_normal((5, 3)).astype("float32")
    before = load(text_model).signatures["serve"](x=x)["y"]
    loaded = load(text_model)  # none of whose weights has been looked at
    file = text_model / "weights.safetensors"
    size = file.stat().st_size
    if change == "gone":
        shutil.rmtree(text_model)
    else:
        os.truncate(file, 0)
    if change == "written over":
        file.write_bytes(np.random.default_rng().bytes(size))
    np.testing.assert_array_equal(loaded.signatures["serve"](x=x)["y"], before)


def test_weights_larger_than_memory_are_refused_before_memory_is_asked_for(
    text_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = text_model / "weights.safetensors"
    monkeypatch.setattr("internals.deploy.saved.folder.memory", lambda: file.stat().st_size - 1)
    with pytest.raises(FormatError, match="weights.safetensors has .* bytes; more than .* are refused"):
        load(text_model)
    monkeypatch.setattr("internals.deploy.saved.folder.memory", lambda: file.stat().st_size)
    load(text_model)


# What a forger could write


DEEP = "[" * 5000 + "]" * 5000


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else 1


def chain(count: int) -> dict[str, Any]:
    """Functions that use the next one twice: a few lines, and a program without end."""
    node = {
        "op": "placeholder",
        "inputs": [],
        "type": ["float32[2]"],
        "attrs": {"shape": {"tuple": [2]}, "dtype": {"dtype": "float32"}},
    }
    functions = {}
    for i in range(count):
        body = [{**node, "name": "x"}]
        for j in range(2) if i + 1 < count else ():
            body.append({"name": f"c{j}", "op": "call", "inputs": [{"node": "x"}], "type": ["float32[2]"],
                         "functions": {"function": f"f{i + 1}"}})  # fmt: skip
        functions[f"f{i}"] = {"name": f"f{i}", "inputs": ["x"], "outputs": ["x"], "captures": 0, "nodes": body}
    return functions


def set_attr(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(graph: dict[str, Any]) -> None:
        graph["nodes"][0].setdefault("attrs", {})[key] = value

    return change


GRAPHS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "an unknown operation": (lambda g: g["nodes"][-1].update(op="teleport"), "no operation called 'teleport'"),
    "an input less": (lambda g: g["nodes"][-1].update(inputs=g["nodes"][-1]["inputs"][:1]), "inputs .*, got 1"),
    "an attribute more": (lambda g: g["nodes"][-1].update(attrs={"speed": 1}), "unknown attribute speed"),
    "a value of a terabyte": (
        lambda g: g["nodes"].append({"name": "big", "op": "tile", "inputs": [{"node": g["nodes"][0]["name"]}],
                                     "attrs": {"reps": {"tuple": [10**6, 10**6]}}}), "big: tile.*are refused"),
    "a cycle": (lambda g: g["nodes"][-1].update(inputs=[{"node": g["nodes"][-1]["name"]}] * 3), "cycle"),
    "a name twice": (lambda g: g["nodes"].append(dict(g["nodes"][0])), "already"),
    "a node that is missing": (lambda g: g["nodes"][-1].update(inputs=[{"node": "nobody"}] * 3), "no node is called"),
    "another shape than is said": (lambda g: g["nodes"][-1].update(type=["float32[7, 7]"]), "is said to be"),
    "deep nesting": (set_attr("depth", "DEEP"), "nested more than|recursion"),
    "deep nesting beside the nodes": (lambda g: g.update(more=[nested(63)]), "nested more than 64"),
    "deep nesting in a node": (lambda g: g["nodes"][1].update(more=nested(63)), "nested more than 64"),
    "deep nesting in an attribute": (set_attr("depth", nested(61)), "nested more than 64"),
    "deep nesting in a function": (
        lambda g: g["functions"].update(f={"nodes": [], "more": nested(62)}), "nested more than 64"),
    "no nodes": (lambda g: g.pop("nodes") and None, "missing or of the wrong kind"),
    "nodes that are text": (lambda g: g.update(nodes="abc"), "wrong kind"),
    "inputs that are a number": (lambda g: g["nodes"][-1].update(inputs=7), "wrong kind"),
    "a list": (lambda g: [], "in place of a graph"),
    "another format": (lambda g: g.update(format="tensorflow"), "'tensorflow'"),
    "a newer version": (lambda g: g.update(version=99), "version 99"),
    "a function in a circle": (
        lambda g: g["functions"].update({"f0": {"name": "f0", "inputs": [], "outputs": [], "captures": 0, "nodes": [
            {"name": "c", "op": "call", "inputs": [], "functions": {"function": "f0"}}]}})
        or g["nodes"].append({"name": "c", "op": "call", "inputs": [], "functions": {"function": "f0"}}),
        "in a circle|uses itself"),
    "functions that multiply": (
        lambda g: g["functions"].update(chain(60)) or g["nodes"].append(
            {"name": "c", "op": "call", "inputs": [{"node": g["nodes"][0]["name"]}], "functions": {"function": "f0"}}),
        "come to more than"),
    "an array of an absurd shape": (set_attr("value", {"array": ["float32", [10**9, 10**9], "AAAA"]}), "can't be read"),
    "an array that is kept nowhere": (set_attr("value", {"kept": "nothing"}), "is missing"),
    "an array of Python objects": (set_attr("value", {"array": ["O", [1], "AAAAAAAAAAA="]}), "can't be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_a_forged_graph(text_model: Path, name: str) -> None:
    change, message = GRAPHS[name]
    with_graph(text_model, change)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=f"(?s)graph.json.*({message})"):
            load(text_model)
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


def x_of(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["signatures"]["serve"]["inputs"]["x"]
    return found


MANIFESTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a newer version": (lambda m: m.update(version=3), "format version 3, which is newer"),
    "a newer op set": (lambda m: m.update(op_set=2), "op set 2, which is newer"),
    "a version that is text": (lambda m: m.update(version="2"), "format version is '2'"),
    "another format": (lambda m: m.update(format="onnx"), "does not say"),
    "an operation of the future": (lambda m: m["operations"].append("teleport"), "uses teleport"),
    "a file outside": (lambda m: m["files"].update({"../secret": {"bytes": 1, "sha256": ""}}), "'../secret'"),
    "an asset outside": (lambda m: m["files"].update({"assets/../../x": {"bytes": 1, "sha256": ""}}), "leads|no file"),
    "an absolute file": (lambda m: m["files"].update({"/etc/passwd": {"bytes": 1, "sha256": ""}}), "leads out"),
    "a graph outside": (lambda m: m.update(graph="/etc/passwd"), "names no file"),
    "no weights": (lambda m: m["files"].pop("weights.safetensors"), "weights.safetensors"),
    "no signatures": (lambda m: m.pop("signatures"), "signatures"),
    "a signature without outputs": (
        lambda m: m["signatures"]["serve"].update(outputs={}), "serve has no outputs"),
    "two inputs for one node": (
        lambda m: m["signatures"]["serve"]["inputs"].update(z=x_of(m)), "two inputs for one node"),
    "signatures that are none": (lambda m: m["signatures"].clear(), "no signature"),
    "a variable more": (lambda m: m["variables"].update(ghost={"trainable": True}), "ghost"),
    "an input of another shape": (lambda m: x_of(m).update(shape=["batch", 9]), "serve, x"),
    "an input of another dtype": (lambda m: x_of(m).update(dtype="int64"), "serve, x"),
    "an input that is no node": (lambda m: x_of(m).update(node="z"), "no node called 'z'"),
    "an absurd size": (lambda m: x_of(m).update(shape=[10**30, 3]), "a size must be"),
    "a shape that is text": (lambda m: x_of(m).update(shape="abc"), "shape of x"),
    "files that are a list": (lambda m: m.update(files=[]), "AttributeError"),
}  # fmt: skip


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_forged_manifest(text_model: Path, name: str) -> None:
    change, message = MANIFESTS[name]
    rewritten(text_model, change)
    with pytest.raises(FormatError, match=f"(?s)model.*({message})"):
        load(text_model)


def header(**arrays: Any) -> bytes:
    text = json.dumps(arrays).encode()
    return len(text).to_bytes(8, "little") + text


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
WEIGHTS = {
    "a header longer than the file": (10**12).to_bytes(8, "little") + b"{}",
    "no header": b"abc",
    "no JSON": (3).to_bytes(8, "little") + b"abc",
    "arrays that overlap": header(a=F32, b=F32) + bytes(8),
    "a gap": header(a={**F32, "data_offsets": [4, 12]}) + bytes(12),
    "past the end": header(a={**F32, "shape": [10**9], "data_offsets": [0, 4 * 10**9]}) + bytes(8),
    "a shape that does not fit": header(a={**F32, "shape": [3]}) + bytes(8),
    "a negative size": header(a={**F32, "shape": [-2]}) + bytes(8),
    "a dtype of its own": header(a={**F32, "dtype": "OBJ"}) + bytes(8),
    "more than it says": header(a=F32) + bytes(9),
    "other arrays": header(a=F32) + bytes(8),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_forged_weights(text_model: Path, name: str) -> None:
    (text_model / "weights.safetensors").write_bytes(WEIGHTS[name])
    rewritten(text_model, lambda whole: None)
    with pytest.raises(FormatError, match="weights.safetensors|is missing"):
        load(text_model)


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize("name", ["weights.safetensors", NAME, "assets/labels.txt"])
def test_links_and_pipes_are_refused(text_model: Path, tmp_path: Path, name: str, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes((text_model / name).read_bytes())
    (text_model / name).unlink()
    (text_model / name).symlink_to(secret) if kind == "link" else os.mkfifo(text_model / name)
    with pytest.raises(FormatError, match=name):
        load(text_model)


@pytest.mark.parametrize("path", ["nowhere", "file"])
def test_no_directory(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=path):
        load(tmp_path / path)


def mutated(rng: np.random.Generator, data: bytes) -> bytes:
    found = bytearray(data)
    kind = rng.integers(5)
    at = int(rng.integers(len(found)))
    if kind == 0:
        found[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del found[at:]
    elif kind == 2:
        found[at : at + int(rng.integers(1, 9))] = rng.bytes(int(rng.integers(0, 9)))
    elif kind == 3:  # a part twice, or moved
        other = int(rng.integers(len(found)))
        found[at:at] = found[other : other + int(rng.integers(1, 60))]
    else:  # a number that is another
        digits = [i for i, byte in enumerate(found) if 48 <= byte < 58] or [at]
        found[digits[int(rng.integers(len(digits)))]] = int(rng.integers(48, 58))
    return bytes(found)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("count", [3, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("forged", [False, True], ids=["damaged", "forged"])
def test_fuzzed_files(model: Path, forged: bool, count: int) -> None:
    """Whatever is changed, with the right checksums or without: an error of one kind, or a model that runs."""
    rng = np.random.default_rng(1)
    names = [NAME, "weights.safetensors", next(one.name for one in model.iterdir() if one.name.startswith("graph"))]
    originals = {name: (model / name).read_bytes() for name in names}
    x = np.ones((2, 3), np.float32)
    answer = load(model).signatures["serve"](x=x)["y"]
    loaded = 0
    tracemalloc.start()
    for _ in range(count):
        name = names[int(rng.integers(len(names)))]
        (model / name).write_bytes(mutated(rng, originals[name]))
        try:
            if forged and name != NAME:
                rewritten(model, lambda whole: None)
            found = load(model)
            loaded += 1
            came = found.signatures["serve"](x=x)["y"]
            assert forged or np.array_equal(came, answer), "damage that the checksums did not see"
        except (FormatError, KeyError):  # KeyError: the signature has another name now
            pass
        except (ValueError, MemoryError):
            assert forged
        finally:
            for each in names:
                (model / each).write_bytes(originals[each])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 128 * 2**20
    assert loaded < count


# Saving


def test_what_is_there_is_not_replaced_unasked(models: Path, tmp_path: Path) -> None:
    path = shutil.copytree(models / "json", tmp_path / "model")
    before = {one.name: one.read_bytes() for one in Path(path).iterdir() if one.is_file()}
    with pytest.raises(FileExistsError, match="overwrite=True"):
        save(path, nn.Linear(3, 2), SPEC)
    assert {one.name: one.read_bytes() for one in Path(path).iterdir() if one.is_file()} == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="no saved model"):
        save(tmp_path / "mine", nn.Linear(3, 2), SPEC, overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_a_save_that_fails_leaves_what_was_there(models: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(models / "json", tmp_path / "model"))
    before = load(path).signatures["serve"](x=np.eye(3, dtype=np.float32))["y"]
    with pytest.raises(FileNotFoundError):
        save(path, nn.Linear(3, 2), SPEC, assets={"labels.txt": tmp_path / "missing"}, overwrite=True)
    assert np.array_equal(load(path).signatures["serve"](x=np.eye(3, dtype=np.float32))["y"], before)
    assert [one.name for one in tmp_path.iterdir()] == ["model"]


def test_what_a_killed_save_left_goes_with_the_next(tmp_path: Path) -> None:
    left = tmp_path / ".model.0123456789abcdef.part"
    left.mkdir()
    (left / "graph.json").write_text("{")
    save(tmp_path / "model", nn.Linear(3, 2), SPEC)
    assert [one.name for one in tmp_path.iterdir()] == ["model"]


@pytest.mark.slow
def test_whoever_loads_while_another_saves_finds_a_whole_model(tmp_path: Path) -> None:
    path = tmp_path / "model"
    models = [nn.Linear(3, 2), nn.Linear(3, 2)]
    x = np.random.default_rng().standard_normal((4, 3)).astype(np.float32)
    save(path, models[0], SPEC)
    answers = [None, None]
    for i, one in enumerate(models):
        save(tmp_path / f"alone_{i}", one, SPEC)
        answers[i] = load(tmp_path / f"alone_{i}").signatures["serve"](x=x)["y"]
    done = threading.Event()

    def replace() -> None:
        for i in range(40):
            save(path, models[i % 2], SPEC, overwrite=True)
        done.set()

    writer = threading.Thread(target=replace)
    writer.start()
    seen = set()
    while not done.is_set():
        found = load(path).signatures["serve"](x=x)["y"]
        seen.add(next(i for i, one in enumerate(answers) if np.array_equal(one, found)))
    writer.join(60)
    assert seen == {0, 1}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["alone_0", "alone_1", "model"]
