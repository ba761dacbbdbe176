"""The models that chapters define, as they define them, and those of the zoo: in onnxruntime, and read again."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_onnxruntime import run_onnx

from internals import Tensor, nn, no_grad
from internals.deploy import Signature, TensorSpec
from internals.deploy.onnx import from_onnx, to_onnx

CHAPTERS = Path(__file__).parents[4] / "chapters"
CELL = re.compile(r"```\{code-cell\}[^\n]*\n(.*?)```", re.S)
MODELS: dict[tuple[str, str], tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    # chapter and class: the arguments that the chapter gives it, and the shape of its input
    ("06", "Gate"): ((), (2,)),
    ("12", "Classifier"): ((), ("batch", 64)),
    ("19", "Reader"): ((np.random.default_rng(0),), ("batch", 1, 8, 8)),
    ("22", "Reader"): ((np.random.default_rng(0),), ("batch", 1, 8, 8)),
}
WITHOUT = {
    ("12", "Parts"): "it has no forward; its parts are listed",
    ("12", "Tied"): "it has no forward; its parameters are listed",
    ("16", "Branches"): "text says which half of it is called",
    ("18", "Stage"): "it sleeps as long as a device would work",
}
ZOO: set[str] = set()
"""Models of `internals.zoo` that a test here exports."""


def statements_of(chapter: str) -> list[ast.stmt]:
    (path,) = CHAPTERS.glob(f"{chapter}_*.md")
    found: list[ast.stmt] = []
    for cell in CELL.findall(path.read_text(encoding="utf-8")):
        if ":tags: [pytorch]" not in cell and ":tags: [tensorflow]" not in cell:
            found += ast.parse("\n".join(line for line in cell.split("\n") if not re.match(r":\s*\w", line))).body
    return found


def modules_in(statements: list[ast.stmt]) -> Iterator[str]:
    for one in statements:
        if isinstance(one, ast.ClassDef) and any(ast.unparse(base) == "nn.Module" for base in one.bases):
            yield one.name


def class_of(chapter: str, name: str, folder: Path) -> Any:
    """A class of a chapter, with what it imports of internals and the functions before it, as a file that has lines."""
    kept: list[ast.stmt] = []
    for one in statements_of(chapter):
        light = isinstance(one, ast.Import | ast.ImportFrom) and ast.unparse(one).split()[1].startswith(
            ("internals", "numpy")
        )
        if light or isinstance(one, ast.FunctionDef) or getattr(one, "name", "") == name:
            kept.append(one)
        if getattr(one, "name", "") == name:
            break
    path = folder / f"of_chapter_{chapter}.py"
    path.write_text(ast.unparse(ast.Module(kept, [])), encoding="utf-8")
    return runpy.run_path(str(path))[name]


def test_every_model_of_a_chapter_is_here() -> None:
    numbers = [path.name[:2] for path in sorted(CHAPTERS.glob("[0-9]*.md"))]
    found = {(number, name) for number in numbers for name in modules_in(statements_of(number))}
    assert found == {*MODELS, *WITHOUT}


def test_every_model_of_the_zoo_is_here() -> None:
    """There may be no such room yet; a model that comes into it is missed here."""
    there: set[str] = set()
    if importlib.util.find_spec("internals.zoo") is not None:
        zoo = importlib.import_module("internals.zoo")
        for one in pkgutil.walk_packages(zoo.__path__, "internals.zoo."):
            classes = [value for value in vars(importlib.import_module(one.name)).values() if isinstance(value, type)]
            there |= {
                value.__name__ for value in classes if issubclass(value, nn.Module) and value.__module__ == one.name
            }
    assert there == ZOO


@pytest.mark.slow
@pytest.mark.parametrize(("chapter", "name"), MODELS)
def test_a_chapter_model_in_onnxruntime(chapter: str, name: str, tmp_path: Path) -> None:
    arguments, shape = MODELS[chapter, name]
    model = class_of(chapter, name, tmp_path)(*arguments)
    model.eval()
    proto = to_onnx(model, {"serve": Signature({"x": TensorSpec(shape)}, ("y",))})
    importlib.import_module("onnx").checker.check_model(proto, full_check=True)
    for batch in (1, 6):
        x = np.random.default_rng(batch).standard_normal([batch if one == "batch" else one for one in shape])
        with no_grad():
            wanted = model(Tensor(x.astype(np.float32))).numpy()
        for one in (proto, to_onnx(from_onnx(proto))):
            (came,) = run_onnx(one, {"x": x.astype(np.float32)})
            np.testing.assert_allclose(came, wanted, rtol=1e-5, atol=1e-5)
