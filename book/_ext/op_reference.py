"""``{op-reference}``: the reference of all operations, made from the op table when the site is built.

Each row gives its signature, what it says about itself, how dtypes are brought together, which inputs have a reverse
rule, what the tape keeps for it, and the row as it is written in ``internals/ops``. Nothing on that page is written by
hand, so nothing on it can differ from the code.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

DTYPES = {
    "promote": "inputs are brought to their common dtype",
    "number": "inputs are brought to their common dtype; booleans are refused",
    "float": "inputs are brought to their common floating dtype",
    "compare": "inputs are brought to their common dtype; the result is boolean",
    "branches": "the inputs that are chosen from are brought to their common dtype",
    "first": "the other inputs are brought to the dtype of the first",
    "own": "each input keeps its dtype",
}


def op_table(root: Path) -> dict[str, Any]:
    """Import the op table of the checkout at `root`."""
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    importlib.import_module("internals.ops")
    return importlib.import_module("internals.ops.table").TABLE


@cache
def written_rows(file: Path) -> dict[str, str]:
    """Find, for each op named in a module, the statement that adds its row, as it is written there.

    Where a function makes rows of a kind (``conv1d, conv1d_weight = convolutions(1)``), that is the function.
    """
    text = file.read_text(encoding="utf-8")
    body = ast.parse(text).body
    functions = {statement.name: statement for statement in body if isinstance(statement, ast.FunctionDef)}
    rows: dict[str, str] = {}
    for statement in body:
        for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
            if call.args and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str):
                source = ast.get_source_segment(text, statement)
                if source is not None and isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
                    rows.setdefault(call.args[0].value, source)
        made_by = getattr(getattr(statement, "value", None), "func", None)
        if isinstance(statement, ast.Assign) and isinstance(made_by, ast.Name) and made_by.id in functions:
            source = ast.get_source_segment(text, functions[made_by.id])
            for name in [n.id for target in statement.targets for n in ast.walk(target) if isinstance(n, ast.Name)]:
                if source is not None:
                    rows.setdefault(name, source)
    return rows


def facts(op: Any) -> list[tuple[str, str]]:
    """What the engine knows of a row, in words."""
    if not op.differentiable:
        rule = "none: the result has no derivative"
    else:
        without = [name for i, name in enumerate(op.inputs) if not op.has_rule(i)]
        rule = "yes" + (f", not for {', '.join(without)}" if without else "")
    if op.dtypes not in DTYPES:
        raise ExtensionError(f"op_reference: {op.name} has dtypes={op.dtypes!r}; say in DTYPES what that means")
    kept = ", ".join(op.saves)
    several = ", ".join(op.results) if isinstance(op.results, tuple) else "as many as the call asks for"
    results = [("results", several)] if op.results else []
    return [
        ("dtypes", DTYPES[op.dtypes]),
        ("broadcasts", "yes" if op.broadcasts else "no"),
        *results,
        ("reverse rule", rule),
        ("kept on the tape", kept if kept else "nothing but shapes" if op.differentiable else "nothing"),
        *([("memory", "a view where the layout allows it")] if getattr(op, "view", False) else []),
    ]


def plain_text(doc: str) -> nodes.paragraph:
    """Take a doc as it is (``0**0`` is no markup in it), but for names between backticks."""
    paragraph = nodes.paragraph()
    for i, piece in enumerate(re.split(r"`+", doc)):
        paragraph += nodes.literal(piece, piece) if i % 2 else nodes.Text(piece)
    return paragraph


class OpReference(SphinxDirective):
    """``{op-reference}``: one section per room of the op table, one entry per row."""

    def run(self) -> list[nodes.Node]:
        root = Path(self.env.srcdir)
        for file in sorted((root / "internals" / "ops").rglob("*.py")):
            self.env.note_dependency(str(file))
        rooms: dict[str, list[Any]] = {}
        table = op_table(root)
        for op in table.values():
            rooms.setdefault(op.room, []).append(op)
        differentiable = sum(op.differentiable for op in table.values())
        count = f"The table has {len(table)} rows, {differentiable} of them with a reverse rule."
        return [nodes.paragraph("", count), *[self.room(root, room, ops) for room, ops in rooms.items()]]

    def room(self, root: Path, room: str, ops: list[Any]) -> nodes.section:
        title = room.replace("_", " ").capitalize()
        section = nodes.section("", nodes.title(title, title), ids=[f"ops-{room}"], names=[f"ops {room}"])
        rows: dict[str, str] = {}
        for file in sorted((root / "internals").rglob(f"{room}.py")):
            self.env.note_dependency(str(file))
            rows |= written_rows(file)
        for op in sorted(ops, key=lambda op: op.name):
            section += self.entry(op, rows.get(op.name))
        return section

    def entry(self, op: Any, source: str | None) -> nodes.section:
        entry = nodes.section("", ids=[f"op-{op.name}"], names=[f"op {op.name}"], classes=["op"])
        title = nodes.title("", "", nodes.literal(op.name, op.name))
        entry += title
        signature = re.sub(r"<class '(?:numpy\.)?(\w+)'>", r"\1", op.signature())  # a dtype as a reader types it
        entry += nodes.literal_block(signature, signature, language="python")
        entry += plain_text(op.doc)
        fields = nodes.field_list(classes=["op-facts"])
        for name, value in facts(op):
            fields += nodes.field("", nodes.field_name("", name), nodes.field_body("", nodes.paragraph("", value)))
        entry += fields
        if source is None:
            raise ExtensionError(
                f"op_reference: no module called {op.room}.py under internals has the row of {op.name}"
            )
        lines = ["````{dropdown} The row, as it is written", "```python", *source.splitlines(), "```", "````"]
        self.state.nested_parse(StringList(lines, source=f"op {op.name}"), self.content_offset, entry)
        return entry


def setup(app: Sphinx) -> dict[str, object]:
    app.add_directive("op-reference", OpReference)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
