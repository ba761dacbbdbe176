"""The interpreter keeps to what a browser's Python has: 3.8, and NumPy 1.17. tests/book/test_edge.py runs it there."""

import ast
from pathlib import Path

import pytest

from internals.deploy.lite import runtime

ROOT = Path(__file__).resolve().parents[4]
FILES = [*sorted(Path(runtime.__file__).parent.glob("*.py")), ROOT / "book" / "_static" / "edge" / "session.py"]
LATER = {
    "broadcast_shapes": "NumPy 1.20", "sliding_window_view": "NumPy 1.20", "permute_dims": "NumPy 2",
    "concat": "NumPy 2", "pairwise": "Python 3.10", "removeprefix": "Python 3.9", "removesuffix": "Python 3.9",
    "bit_count": "Python 3.10", "randbytes": "Python 3.9", "lcm": "Python 3.9", "tomllib": "Python 3.11",
}  # fmt: skip


def too_new(source: str) -> list[str]:
    """What a file uses that came later; a syntax that did is a SyntaxError."""
    found = []
    for node in ast.walk(ast.parse(source, feature_version=(3, 8))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "zip" and node.keywords:
                found.append(f"line {node.lineno}: zip(strict=) is of Python 3.10")
            if node.func.id == "isinstance" and any(isinstance(one, ast.BinOp) for one in node.args):
                found.append(f"line {node.lineno}: unions in isinstance are of Python 3.10")
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name in LATER:
            found.append(f"line {node.lineno}: {name} is of {LATER[name]}")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_that_came_later(file):
    assert too_new(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "zip(a, b, strict=True)",
        "isinstance(a, str | bytes)",
        "np.broadcast_shapes(a)",
        "itertools.pairwise(a)",
        "x.removeprefix('a')",
    ],
)
def test_what_came_later_is_found(source):
    assert len(too_new(source)) == 1


def test_a_later_syntax_is_refused():
    with pytest.raises(SyntaxError):
        too_new("match a:\n    case 1: pass")
