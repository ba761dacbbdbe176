"""Executed outputs are reused only while what they were computed from is unchanged.

jupyter-cache knows a notebook by its own code cells. It cannot see that a page imports ``internals``: after a change
there, it would publish the old outputs. So the cache lives in a folder named after a digest of everything the pages
run on: the files under ``cache_key_paths`` and the installed versions of ``cache_key_packages``. A new digest is an
empty cache, and, since Sphinx sees a changed setting, every page is read again. A change in the extensions themselves
makes Sphinx read every page again too, from the same cache.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

KEPT = 3  # caches; so that going back to the last commit costs nothing
NOT_SOURCE = {".pyc", ".pyo", ".so"}


def digest(root: Path, paths: list[str], packages: list[str]) -> str:
    """Name the state of `paths` (files and folders under `root`) and of the installed `packages`."""
    state = hashlib.sha256()
    for path in paths:
        top = root / path
        if not top.exists():
            raise FileNotFoundError(f"cache_key_paths: {top} does not exist; correct the list in _config.yml")
        files = [top] if top.is_file() else [f for f in top.rglob("*") if f.is_file()]
        for file in sorted(files):
            if file.suffix in NOT_SOURCE:
                continue
            state.update(f"{file.relative_to(root).as_posix()}\0{file.stat().st_size}\0".encode())
            state.update(file.read_bytes())
    for package in packages:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            version = "absent"
        state.update(f"{package}=={version}\0".encode())
    return state.hexdigest()[:16]


def prune(caches: Path, current: str, kept: int = KEPT) -> None:
    """Keep `current` and the most recently used other caches, `kept` in all."""
    others = sorted((c for c in caches.iterdir() if c.is_dir() and c.name != current), key=lambda c: c.stat().st_mtime)
    for stale in others[: max(len(others) - (kept - 1), 0)]:
        shutil.rmtree(stale)


def use_keyed_cache(app: Sphinx, config: Config) -> None:
    caches = Path(app.outdir).parent / ".jupyter_cache"
    key = digest(Path(app.srcdir), config.cache_key_paths, config.cache_key_packages)
    (caches / key).mkdir(parents=True, exist_ok=True)
    os.utime(caches / key)
    prune(caches, key)
    config.nb_execution_cache_path = str(caches / key)
    config.cache_key_extensions = digest(Path(__file__).parent, ["."], [])


# Frameworks say less, and none looks for a GPU: a page must come out the same wherever it is built.
KERNEL_SETTINGS = {
    "CUDA_VISIBLE_DEVICES": "",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}


def prepare_kernels(app: Sphinx, config: Config) -> None:
    """Set what the kernels inherit; ``import internals`` must find this checkout, and no other."""
    inherited = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != str(app.srcdir)]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(app.srcdir), *inherited])
    os.environ.update(KERNEL_SETTINGS)


def setup(app: Sphinx) -> dict[str, object]:
    app.add_config_value("cache_key_paths", [], "", types=[list])
    app.add_config_value("cache_key_packages", [], "", types=[list])
    app.add_config_value("cache_key_extensions", "", "env", types=[str])
    app.connect("config-inited", use_keyed_cache)
    app.connect("config-inited", prepare_kernels)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
