"""Saving a model as a directory, and loading and running it without the code that made it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from internals.deploy.errors import FormatError
from internals.deploy.saved import manifest as manifests
from internals.deploy.saved.arrays import arrays_in
from internals.deploy.saved.folder import (
    ASSETS,
    Folder,
    Sums,
    check_name,
    check_size,
    checksum,
    checksum_of_file,
    sums,
    write_folder,
)
from internals.deploy.saved.graphfile import (
    graph_to_json,
    json_to_binary,
    operations_of,
    read_graph,
    unknown_operations,
)
from internals.deploy.saved.manifest import Manifest, read_manifest
from internals.deploy.saved.module import LoadedModule
from internals.deploy.saved.signature import Signature, TensorSpec, fitted
from internals.deploy.saved.sources import Content, Ends, content_of, frozen
from internals.graph import Graph, Node, Session
from internals.graph.graph import CONSTANT, VARIABLE
from internals.nn.weights import array_bytes

WEIGHTS = "weights.safetensors"
FORMS = {"json": "graph.json", "binary": "graph.bin"}
SMALL = 64
"""Entries of an array that is written in the graph's own file; a larger one is among the weights."""
LARGEST_GRAPH = 64 * 2**20
PASSES = ("share", "reuse")
"""How loaded graphs are rewritten before they run: not a bit of the results changes."""


class BoundSignature(Signature):
    """A signature of a loaded model: called with arrays by name, it gives a dict of arrays by name.

    Attributes
    ----------
    inputs, results : mapping of str to TensorSpec
    """

    def __init__(self, name: str, ends: Ends, session: Session) -> None:
        sides = {side: {key: spec for key, (_, spec) in part.items()} for side, part in ends.items()}
        super().__init__(sides["inputs"], tuple(sides["outputs"]), None, sides["outputs"])
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "nodes", ends)
        object.__setattr__(self, "_session", session)

    name: str
    nodes: Ends
    _session: Session

    def __call__(self, /, **arrays: Any) -> dict[str, np.ndarray]:
        """Run it.

        Raises
        ------
        SignatureError
            An input is missing, unknown, or of another shape or dtype.
        """
        given = fitted(self.name, self.inputs, arrays)
        feeds = {node: given[key] for key, (node, _) in self.nodes["inputs"].items()}
        found = self._session.run([node for node, _ in self.nodes["outputs"].values()], feeds)
        return {key: np.asarray(value) for key, value in zip(self.nodes["outputs"], found, strict=True)}

    def __repr__(self) -> str:
        return f"<signature {self.name}{self}>"


class SavedModel:
    """A model that was loaded.

    Attributes
    ----------
    signatures : dict of str to BoundSignature
    variables : dict of str to array
        Read-only. They are in memory: what happens to the files after loading changes nothing.
    trainable : tuple of str
        The variables that are trained; none in a frozen model.
    graph : Graph
        All signatures; a signature's `nodes` says which of its nodes are its ends.
    assets : dict of str to Path
    version : int
        Of the format in which it was found.
    """

    def __init__(self, content: Content, *, path: Path | None = None, version: int = manifests.VERSION) -> None:
        self._content, self.path, self.version = content, path, version
        self.graph, self.variables, self.assets = content.graph, content.values, dict(content.assets)
        self.trainable = tuple([name for name, trained in content.trainable.items() if trained])
        self.session = Session(self.graph, passes=PASSES)
        self.session.values.update(content.values)
        self.signatures = {name: BoundSignature(name, ends, self.session) for name, ends in content.signatures.items()}

    def content(self) -> Content:
        """What `save` writes; variables have the values that they have now."""
        values = {name: np.asarray(self.session.values.get(name, value)) for name, value in self.variables.items()}
        return Content(self.graph, self._content.signatures, values, self._content.trainable, self.assets)

    def freeze(self) -> SavedModel:
        """The same model with its variables made constants."""
        return SavedModel(frozen(self.content()), path=self.path, version=self.version)

    def module(self, signature: str | None = None) -> LoadedModule:
        """A signature as a Module, to be trained further: its parameters are copies of the variables.

        Raises
        ------
        ValueError
            There is no such signature; or it is not said which of several.
        """
        return LoadedModule(self._content, self.signature(signature).name, self.session.values)

    def signature(self, name: str | None = None) -> BoundSignature:
        """The signature of a name, or the only one.

        Raises
        ------
        ValueError
            There is none, or several and it is not said which.
        """
        if name is None and len(self.signatures) == 1:
            return next(iter(self.signatures.values()))
        if name not in self.signatures:
            asked = "which signature?" if name is None else f"there is no signature {name!r}."
            raise ValueError(f"SavedModel: {asked} There are {', '.join(self.signatures)}.")
        return self.signatures[name]

    def take(self, module: LoadedModule) -> None:
        """Give the variables the values that a module was trained to; what signatures then compute with."""
        for name, value in module.values().items():
            self.session.values[name] = value
        self.variables = {name: self.session.values[name] for name in self.variables}

    def __repr__(self) -> str:
        told = "; ".join(f"{name}{signature}" for name, signature in self.signatures.items())
        return f"<saved model of {len(self.graph)} nodes and {len(self.variables)} variables: {told}>"


def save(
    path: str | os.PathLike[str],
    source: Any,
    signatures: Mapping[str, Signature] | None = None,
    *,
    assets: Mapping[str, str | os.PathLike[str] | bytes] | None = None,
    form: str = "json",
    freeze: bool = False,
    overwrite: bool = False,
) -> None:
    """Write a model as a directory that can be loaded and run without the code that made it.

    Parameters
    ----------
    path : path
    source : Module, Keras-style model, layers.Net, function, Graph, Session or SavedModel
        A Module is saved as it evaluates. Of a Graph, variables have their initial values; of a Session, those they
        have now.
    signatures : mapping of str to Signature
        The ways to call it. A Keras-style model, a Net and a SavedModel have their own.
    assets : mapping of str to (path or bytes)
        Files that belong to the model, such as a vocabulary.
    form : {"json", "binary"}
        Of the graph's file.
    freeze : bool
        Write variables as constants: smaller to load, and not to be trained.
    overwrite : bool
        Take the place of a saved model that is there, in one step.

    Raises
    ------
    TypeError, ValueError
        It can't be saved, or not with these signatures; SignatureError and GraphError say why.
    FileExistsError, OSError
        It could not be written; what was at `path` is unchanged.

    Examples
    --------
    >>> save("digits", model, {"serve": Signature({"image": TensorSpec(("batch", 64))})})
    """
    if form not in FORMS:
        raise ValueError(f"save: form must be one of {', '.join(FORMS)}, got {form!r}.")
    content = content_of(source, signatures)
    content = frozen(content) if freeze else content
    made = encoded(content, form)
    files: dict[str, bytes | Path] = {**made}
    for name, value in {**content.assets, **(assets or {})}.items():
        check_name(name)
        if not isinstance(value, bytes | str | os.PathLike):
            raise TypeError(f"save: the asset {name} is a path or bytes, got {type(value).__name__}.")
        files[f"{ASSETS}/{name}"] = value if isinstance(value, bytes) else Path(value)
    sizes = {
        name: checksum_of_file(value) if isinstance(value, Path) else (len(value), checksum(value))
        for name, value in files.items()
    }
    ends = {
        name: {side: {k: (node.name, spec) for k, (node, spec) in part.items()} for side, part in one.items()}
        for name, one in content.signatures.items()
    }
    quick = {WEIGHTS: sums(made[WEIGHTS])}
    described = Manifest(FORMS[form], operations_of(content.graph), ends, content.trainable, sizes, quick)
    write_folder(Path(path), {**files, manifests.NAME: described.to_json()}, overwrite=overwrite, marker=manifests.NAME)


def encoded(content: Content, form: str) -> dict[str, bytes]:
    """The graph and the weights of a model as the bytes of their files."""
    arrays: dict[str, np.ndarray] = dict(content.values)
    names = {id(node.attrs["initial"]): node.name for node in content.graph.variables}
    names |= {id(node.attrs["value"]): node.name for node in content.graph.nodes if node.op is CONSTANT}

    def put(array: np.ndarray) -> str | None:
        variable = names.get(id(array), "")
        if variable not in content.values and array.size <= SMALL:
            return None
        name = variable or f"array_{len(arrays)}"
        arrays.setdefault(name, array)
        return name

    graph = graph_to_json(content.graph, put)
    return {
        FORMS[form]: json_to_binary(graph) if form == "binary" else graph,
        WEIGHTS: array_bytes(arrays, format="internals"),
    }


def load(path: str | os.PathLike[str], *, verify: bool | str = True) -> SavedModel:
    """Read a directory that `save` wrote; no code of it is run.

    Parameters
    ----------
    path : path
    verify : bool or "sha256"
        Compare every file with its checksum: the weights with one that is as fast as memory is read
        (`internals.deploy.saved.folder.Sums`), or with their SHA-256. Without, only the weights are not compared.

    Raises
    ------
    FormatError
        A file is missing, cut off, damaged or hostile; or of a newer version, or with an operation that this program
        does not have. Names the file.
    OSError
        There is no such directory, or it can't be read.
    """
    if verify not in (True, False, "sha256"):
        raise ValueError(f"load: verify must be True, False or 'sha256', got {verify!r}.")
    folder_path = path if isinstance(path, Path) else Path(path)
    while True:
        with Folder(folder_path) as folder:
            try:
                return _loaded(folder_path, folder, verify)
            except FormatError:
                if not folder.is_replaced:
                    raise


def _loaded(folder_path: Path, folder: Folder, verify: bool | str) -> SavedModel:
    named = f"{folder_path}{os.sep}"
    described = read_manifest(named + manifests.NAME, folder.read(manifests.NAME, manifests.LARGEST))
    missing = unknown_operations(described.operations)
    if missing:
        raise FormatError(f"load: {folder_path} uses {', '.join(missing)}, which this program does not have.")
    graph_bytes = folder.read(described.graph, LARGEST_GRAPH)
    _check(folder_path, described, described.graph, len(graph_bytes), checksum(graph_bytes))
    for name in described.files.keys() - {described.graph, WEIGHTS}:
        # Before they are read: a file with a hole in it may have any size.
        _check(folder_path, described, name, folder.size(name), "")
    told = described.sums.get(WEIGHTS) if verify is True else None
    found = Sums() if told else None
    data = folder.whole(WEIGHTS, described.files[WEIGHTS][0], found)
    _check(folder_path, described, WEIGHTS, len(data), checksum(data) if verify and not told else "")
    if found is not None and found.hexdigest() != told:
        raise FormatError(f"load: {folder_path / WEIGHTS} is damaged: its checksum is not the one in the manifest.")
    assets = {}
    for name in described.files:
        if name.startswith(f"{ASSETS}/"):
            _check(folder_path, described, name, *folder.digest(name))
            assets[name.removeprefix(f"{ASSETS}/")] = folder_path / name
    arrays = arrays_in(named + WEIGHTS, data)
    graph = read_graph(named + described.graph, graph_bytes, arrays)
    values, ends = _values(folder_path, graph, described, arrays), _ends(folder_path, graph, described)
    content = Content(graph, ends, values, described.variables, assets)
    return SavedModel(content, path=folder_path, version=described.version)


def _check(path: Path, described: Manifest, name: str, size: int, digest: str) -> None:
    """Compare a file with what the manifest says; an empty digest is not compared."""
    expected, told = described.files[name]
    check_size(path, name, size, expected)
    if digest and digest != told:
        raise FormatError(f"load: {path / name} is damaged: its checksum is not the one in the manifest.")


def _values(path: Path, graph: Graph, described: Manifest, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [node.name for node in graph.nodes if node.op is VARIABLE]
    if set(names) != described.variables.keys():
        wrong = ", ".join(sorted(set(names) ^ described.variables.keys()))
        raise FormatError(f"load: {path}: {wrong}: in the graph and not in the manifest, or the other way round.")
    values = {}
    for name in names:
        if name not in arrays:
            raise FormatError(f"load: {path / WEIGHTS} has no {name}, a variable of the graph.")
        values[name] = arrays[name]
    return values


def _ends(path: Path, graph: Graph, described: Manifest) -> dict[str, Ends]:
    found: dict[str, Ends] = {}
    for name, signature in described.signatures.items():
        found[name] = {}
        for side, part in signature.items():
            ends = found[name][side] = {}
            for key, (node, spec) in part.items():
                ends[key] = _end(path, graph, f"{name}, {key}", node, spec), spec
    return found


def _end(path: Path, graph: Graph, what: str, node: str, spec: TensorSpec) -> Node:
    found = graph.by_name.get(node)
    if found is None:
        raise FormatError(f"load: {path}: {what}: the graph has no node called {node!r}.")
    fits = not isinstance(found.dtype, tuple) and found.dtype == spec.dtype and len(found.shape) == len(spec.shape)
    if fits:
        for a, b in zip(found.shape, spec.shape, strict=True):
            fits = fits and (a == b or a is None or not isinstance(b, int))
    if not fits:
        raise FormatError(f"load: {path}: {what} is said to be {spec}, but in the graph it is {found!r}.")
    return found
