"""What a saved model says of itself: versions, signatures, variables, and each file with its size and checksum."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from internals.deploy.errors import FormatError
from internals.deploy.saved.bounded import read_json
from internals.deploy.saved.folder import ASSETS, check_name, checksum
from internals.deploy.saved.signature import TensorSpec

FORMAT = "internals.saved_model"
VERSION = 2
"""1: open sizes have no names, so that inputs which must have one batch size were not checked against each other; and
the manifest has no checksum of its own. 2: both."""
OP_SET = 1
"""Raised when a row of the op table changes what it computes."""
NAME = "saved_model.json"
LARGEST = 16 * 2**20


@dataclass
class Manifest:
    """The content of ``saved_model.json``.

    Attributes
    ----------
    graph : str
        The file that has the graph: ``graph.json`` or ``graph.bin``.
    operations : list of str
        What the graph uses.
    signatures : dict of str to dict
        ``inputs`` and ``outputs``: by name, the graph's node and the TensorSpec.
    variables : dict of str to bool
        Whether each is trained.
    files : dict of str to (int, str)
        Size and SHA-256.
    sums : dict of str to str
        The faster checksum of large files, `folder.Sums`; models of before have none.
    """

    graph: str
    operations: list[str]
    signatures: dict[str, dict[str, dict[str, tuple[str, TensorSpec]]]]
    variables: dict[str, bool]
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    sums: dict[str, str] = field(default_factory=dict)
    version: int = VERSION
    op_set: int = OP_SET

    def to_json(self) -> bytes:
        whole: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "op_set": self.op_set,
            "graph": self.graph,
            "operations": self.operations,
            "signatures": {
                name: {
                    side: {
                        key: {"node": node, "shape": list(spec.shape), "dtype": spec.dtype.name}
                        for key, (node, spec) in parts.items()
                    }
                    for side, parts in signature.items()
                }
                for name, signature in self.signatures.items()
            },
            "variables": {name: {"trainable": trained} for name, trained in self.variables.items()},
            "files": {
                name: {"bytes": size, "sha256": digest} | ({"sums": self.sums[name]} if name in self.sums else {})
                for name, (size, digest) in self.files.items()
            },
        }
        return json.dumps({**whole, "sha256": checksum(_canonical(whole))}, indent=1).encode()


def _canonical(whole: dict[str, Any]) -> bytes:
    return _SORTED.encode(whole).encode()


_SORTED = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def read_manifest(path: str, data: bytes) -> Manifest:
    """The manifest in these bytes.

    Raises
    ------
    FormatError
        It is damaged, of a newer version or op set, or names files that it may not.
    """
    try:
        whole = read_json(data)
        if not isinstance(whole, dict) or whole.get("format") != FORMAT:
            raise FormatError(f"it does not say that it is an {FORMAT!r}")
        _check_versions(whole)
        if whole["version"] > 1:
            told = whole.pop("sha256")
            if told != checksum(_canonical(whole)):
                raise FormatError("its checksum is another: it was damaged, or changed by hand")
        return _manifest(whole)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        what = str(error) if isinstance(error, FormatError) else repr(error)
        what = what.removeprefix("load: ")
        raise FormatError(f"load: {path}: {what.removesuffix('.')}.") from None


def _check_versions(whole: dict[str, Any]) -> None:
    for key, newest, what in (("version", VERSION, "format version"), ("op_set", OP_SET, "op set")):
        number = whole[key]
        if type(number) is not int or number < 1:
            raise FormatError(f"its {what} is {number!r}")
        if number > newest:
            raise FormatError(
                f"it is of {what} {number}, which is newer than this program: it reads up to {newest}. Update the "
                "program, or save the model with an older one"
            )


def _manifest(whole: dict[str, Any]) -> Manifest:
    files, sums = {}, {}
    for name, entry in whole["files"].items():
        check_name(name.removeprefix(f"{ASSETS}/"))
        size, digest = entry["bytes"], entry["sha256"]
        if type(size) is not int or size < 0 or not isinstance(digest, str):
            raise FormatError(f"the file {name!r} is said to have {size!r} bytes and the checksum {digest!r}")
        files[name] = size, digest
        if "sums" in entry:
            sums[name] = _text(entry["sums"])
    for name in (whole["graph"], "weights.safetensors"):
        if name not in files:
            raise FormatError(f"it names no file {name!r}")
    signatures = {
        name: {
            side: {key: (_text(part["node"]), _spec(name, key, part)) for key, part in signature[side].items()}
            for side in ("inputs", "outputs")
        }
        for name, signature in whole["signatures"].items()
    }
    if not signatures:
        raise FormatError("it has no signature, so that there is no way to call it")
    for name, sides in signatures.items():
        fed = [node for node, _ in sides["inputs"].values()]
        if not sides["outputs"] or len(set(fed)) < len(fed):
            raise FormatError(f"the signature {name} has no outputs, or two inputs for one node")
    return Manifest(
        graph=whole["graph"],
        operations=[_text(name) for name in whole["operations"]],
        signatures=signatures,
        variables={name: entry["trainable"] is True for name, entry in whole["variables"].items()},
        files=files,
        sums=sums,
        version=whole["version"],
        op_set=whole["op_set"],
    )


def _spec(signature: str, key: str, part: dict[str, Any]) -> TensorSpec:
    shape = part["shape"]
    if not isinstance(shape, list):
        raise FormatError(f"the shape of {key} of {signature} is {shape!r}")
    return TensorSpec(shape, part["dtype"])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise FormatError(f"a name is {value!r}")
    return value
