"""Real data that ships inside packages, so that nothing is downloaded."""

from __future__ import annotations

import ast
import codecs
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from internals.data.dataset import ArrayDataset


def digits() -> ArrayDataset:
    """1,797 handwritten digits: images, float32 in [0, 1], shape (8, 8), and classes (Alpaydin & Kaynak 1998)."""
    found = _sklearn("load_digits")()
    images = (found.images / 16).astype(np.float32)
    return ArrayDataset(images, found.target.astype(np.int64), classes=tuple(map(str, range(10))))


def iris() -> ArrayDataset:
    """150 flowers: 4 lengths and widths in cm, float32, and the species, 0 to 2 (Fisher 1936)."""
    return _table("load_iris")


def wine() -> ArrayDataset:
    """178 wines: 13 chemical and optical measurements, float32, and the cultivar, 0 to 2 (Aeberhard et al. 1992)."""
    return _table("load_wine")


def breast_cancer() -> ArrayDataset:
    """569 tumours: 30 measurements of cell nuclei, float32; 0 malignant, 1 benign (Wolberg et al. 1995)."""
    return _table("load_breast_cancer")


def diabetes() -> ArrayDataset:
    """442 patients: 10 measurements, standardised, and how ill they were a year later, float32 (Efron et al. 2004)."""
    found = _sklearn("load_diabetes")()
    return ArrayDataset(
        found.data.astype(np.float32), found.target.astype(np.float32), features=tuple(map(str, found.feature_names))
    )


def photographs() -> dict[str, np.ndarray]:
    """Two colour photographs, "china" and "flower": uint8, shape (427, 640, 3)."""
    found = _sklearn("load_sample_images")()
    return {Path(name).stem: image for name, image in zip(found.filenames, found.images, strict=True)}


def text(name: str, *, modules: Sequence[str] | None = None) -> str:
    """Text that comes with Python.

    Parameters
    ----------
    name : {"zen", "licence", "docstrings"}
        The Zen of Python (0.9 kB), the licence and history of Python (14 kB), or the docstrings of the standard
        library's modules, classes and functions (1 MB or so), which differ between Python's versions.
    modules : sequence of str, optional
        For "docstrings": only these, such as ``["random", "statistics"]``; all top-level ones unless given.
    """
    if name == "zen":
        return codecs.decode(_string_assigned(_library() / "this.py", "s"), "rot13") + "\n"
    if name == "licence":
        return (_library() / "LICENSE.txt").read_text(encoding="utf-8")
    if name == "docstrings":
        return "\n\n".join(_docstrings(modules)) + "\n"
    raise ValueError(f"text: there is no text called {name!r}; expected 'zen', 'licence' or 'docstrings'.")


def _docstrings(modules: Sequence[str] | None) -> list[str]:
    """Read from the source: importing a module would run it."""
    wanted = sorted(path.stem for path in _library().glob("*.py")) if modules is None else modules
    found = []
    for module in wanted:
        path = _library() / f"{module}.py"
        if not path.is_file():
            raise ValueError(f"text: the standard library has no top-level module {module!r} written in Python.")
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.append(ast.get_docstring(node) or "")
    return [docstring for docstring in found if docstring]


def _string_assigned(path: Path, name: str) -> str:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return str(ast.literal_eval(node.value))
    raise ValueError(f"text: {path} assigns no {name}.")


def _library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _table(loader: str) -> ArrayDataset:
    found = _sklearn(loader)()
    return ArrayDataset(
        found.data.astype(np.float32),
        found.target.astype(np.int64),
        features=tuple(map(str, found.feature_names)),
        classes=tuple(map(str, found.target_names)),
    )


def _sklearn(name: str) -> Callable[..., Any]:
    try:
        import sklearn.datasets
    except ImportError:
        raise ImportError("This data ships with scikit-learn: pip install scikit-learn") from None
    return getattr(sklearn.datasets, name)
