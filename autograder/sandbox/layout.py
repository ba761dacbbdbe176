"""What a sandbox may see: the interpreter, the lab's packages, and the worker. Nothing else."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
BOX_FILES = (_PACKAGE / "frames.py", *sorted((_PACKAGE / "inside").glob("[!_]*.py")), _PACKAGE / "worker.py")
"""Seen inside by their own names; the last one is run."""
_ALWAYS = ("numpy", "msgpack")
_SYSTEM_LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/lib32", "/lib", "/lib64", "/lib32", "/etc/ld.so.cache")
_NEVER = frozenset({"autograder", "internals", "labs", "torch", "tensorflow", "tensorflow_cpu"})


@dataclass(frozen=True)
class Layout:
    """Paths of the host that are visible, read-only, inside.

    Parameters
    ----------
    python : str
        The interpreter, without its virtual environment.
    trees : tuple of str
        Directories and files seen at their own path.
    masks : tuple of str
        Directories inside `trees` that look empty: where other packages are installed.
    packages : tuple of str
        Entries of site-packages directories, each seen by its own name in one directory of packages.
    """

    python: str
    trees: tuple[str, ...]
    masks: tuple[str, ...]
    packages: tuple[str, ...]


@functools.cache
def layout(packages: tuple[str, ...]) -> Layout:
    """The layout for a lab that names `packages` (distributions; their requirements come with them).

    Raises
    ------
    ValueError
        A distribution is not installed.
    """
    python = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    standard = {os.path.realpath(sysconfig.get_path(kind, vars=_base_variables())) for kind in ("stdlib", "platstdlib")}
    prefix_library = os.path.join(os.path.realpath(sys.base_prefix), "lib")
    trees = [python, *standard, prefix_library, *(path for path in _SYSTEM_LIBRARIES if os.path.exists(path))]
    return Layout(python, tuple(_outermost(trees)), tuple(_package_directories(trees)), tuple(_entries(packages)))


def _base_variables() -> dict[str, str]:
    return {
        "base": sys.base_prefix,
        "platbase": sys.base_exec_prefix,
        "installed_base": sys.base_prefix,
        "installed_platbase": sys.base_exec_prefix,
    }


def _outermost(paths: Iterable[str]) -> list[str]:
    """Without paths that lie in others, keeping symbolic links apart from what they point to."""
    kept: list[str] = []
    for path in sorted(set(paths), key=len):
        if not any(path == root or path.startswith(root + "/") for root in kept if not os.path.islink(root)):
            kept.append(path)
    return kept


def _package_directories(trees: Iterable[str]) -> list[str]:
    """Every site-packages and dist-packages directory in the trees."""
    found = set()
    for tree in trees:
        if not os.path.isdir(tree) or os.path.islink(tree):
            continue
        for directory in (
            tree,
            *(entry.path for entry in os.scandir(tree) if entry.name.startswith("python") and entry.is_dir()),
        ):
            for name in ("site-packages", "dist-packages"):
                candidate = os.path.join(directory, name)
                if os.path.isdir(candidate):
                    found.add(os.path.realpath(candidate))
    return sorted(found)


def _entries(packages: tuple[str, ...]) -> list[str]:
    """The top-level entries of site-packages that belong to `packages` and their requirements."""
    entries: set[str] = set()
    for distribution in _closure(packages + _ALWAYS):
        files = distribution.files
        if files is None:
            raise ValueError(
                f"{distribution.metadata['Name']}: installed without a list of its files; reinstall it with pip."
            )
        root = os.path.realpath(str(distribution.locate_file("")))
        for file in files:
            top = file.parts[0]
            if top not in ("..", "__pycache__", "/") and not top.endswith(".pth") and not file.is_absolute():
                entries.add(os.path.join(root, top))
    return sorted(entry for entry in entries if os.path.exists(entry))


def _closure(names: Iterable[str]) -> list[importlib.metadata.Distribution]:
    """The distributions of these names and, through their unconditional requirements, all they need."""
    found: dict[str, importlib.metadata.Distribution] = {}
    pending = [(_canonical(name), True) for name in names]
    while pending:
        name, wanted = pending.pop()
        if name in found or name.replace("-", "_") in _NEVER:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if wanted:
                raise ValueError(
                    f"the lab needs the package {name!r}, which is not installed; run `make serve`, "
                    f"or pip install {name}."
                ) from None
            continue
        found[name] = distribution
        for requirement in distribution.requires or ():
            specifier, _, marker = requirement.partition(";")
            # Markers for other platforms name packages that aren't installed, which is fine; extras are not followed.
            if "extra" not in marker:
                pending.append((_canonical(_name_of(specifier)), False))
    return list(found.values())


def _name_of(requirement: str) -> str:
    length = next(
        (index for index, letter in enumerate(requirement) if not (letter.isalnum() or letter in "-_.")),
        len(requirement),
    )
    return requirement[:length]


def _canonical(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(".", "-")
