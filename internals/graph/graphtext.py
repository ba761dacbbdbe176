"""A graph as text: a line for each node, to be read, compared and changed by hand.

::

    y : float32[?, 5] = matmul(x, w) on "sim:0" after (w) from "model.py:12"

Lines may come in any order, and what reads them finds one in which nodes can be made, or the cycle that has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from internals.graph.graph import Graph
from internals.graph.graphdef import FORMAT, VERSION, Reader, written
from internals.graph.node import GraphError


def to_text(graph: Graph) -> str:
    """A graph as text, a line for each node; see `to_json`."""
    whole = written(graph)
    lines = [f"# {FORMAT} {VERSION}", *map(_line, whole["nodes"])]
    for name, function in whole["functions"].items():
        names = [", ".join(map(_quoted, function[part])) for part in ("inputs", "outputs")]
        rest = {key: function[key] for key in ("captures", "name")}
        lines += ["", f"function {_quoted(name)}({names[0]}) -> ({names[1]}) {_json(rest)}"]
        lines += [f"    {_line(record)}" for record in function["nodes"]]
    return "\n".join(lines) + "\n"


def from_text(text: str) -> Graph:
    """The graph that `to_text` wrote; see `from_json`. Errors name the line."""
    nodes: list[dict[str, Any]] = []
    functions: dict[str, Any] = {}
    target = nodes
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parser = _Parser(line.strip(), number)
        if line.startswith("function "):
            name, function = parser.function()
            if name in functions:
                raise GraphError(f"from_text: line {number}: there is a function called {name!r} already.")
            functions[name] = function
            target = function["nodes"]
        else:
            (target if line[0].isspace() else nodes).append(parser.node())
    return Reader(functions).graph(nodes)


def _line(record: Mapping[str, Any]) -> str:
    inputs = ", ".join(_quoted(one["node"]) if isinstance(one, dict) and "node" in one else _json(one)
                       for one in record["inputs"])  # fmt: skip
    line = f"{_quoted(record['name'])} : {', '.join(record['type'])} = {record['op']}({inputs})"
    if "attrs" in record:
        line += f" {_json(record['attrs'])}"
    if "functions" in record:
        line += f" with {_json(record['functions'])}"
    if "device" in record:
        line += f" on {_json(record['device'])}"
    if "controls" in record:
        line += f" after ({', '.join(map(_quoted, record['controls']))})"
    return f"{line} from {_json(record['where'])}"


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


_PLAIN = re.compile(r"[A-Za-z_][\w/.\-]*")


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _json(name)


class _Parser:
    """One line of the text."""

    def __init__(self, line: str, number: int) -> None:
        self.line, self.number, self.at = line, number, 0

    def node(self) -> dict[str, Any]:
        record: dict[str, Any] = {"line": f"line {self.number}", "name": self._name("a name")}
        self._expect(":")
        found = re.compile(r"\s*(\w+\[[^\]]*\](?:, \w+\[[^\]]*\])*)?\s*(?==)").match(self.line, self.at)
        if found is None:
            self._fail("a dtype and shape, such as float32[?, 3]")
        self.at = found.end()
        record["type"] = re.findall(r"\w+\[[^\]]*\]", found.group(1) or "")
        self._expect("=")
        record["op"] = self._name("an operation")
        record["inputs"] = self._list(lambda: {"node": self._name("an input")} if self._is_name() else self._value())
        if self._peek("{"):
            record["attrs"] = self._value()
        for word, key in (("with", "functions"), ("on", "device"), ("after", "controls"), ("from", "where")):
            if self._peek(word):
                self.at += len(word)
                record[key] = self._list(lambda: self._name("a node")) if word == "after" else self._value()
        self._skip()
        if self.at < len(self.line):
            self._fail("the end of the line")
        return record

    def function(self) -> tuple[str, dict[str, Any]]:
        self.at = len("function ")
        name = self._name("the function's name")
        inputs = self._list(lambda: self._name("an input"))
        self._expect("->")
        outputs = self._list(lambda: self._name("an output"))
        return name, {"inputs": inputs, "outputs": outputs, "nodes": [], **self._value()}

    def _skip(self) -> None:
        while self.at < len(self.line) and self.line[self.at].isspace():
            self.at += 1

    def _peek(self, word: str) -> bool:
        self._skip()
        return self.line.startswith(word, self.at)

    def _is_name(self) -> bool:
        self._skip()
        found = _PLAIN.match(self.line, self.at)
        return self._peek('"') or (found is not None and found.group() not in ("true", "false", "null"))

    def _expect(self, word: str) -> None:
        if not self._peek(word):
            self._fail(repr(word))
        self.at += len(word)

    def _name(self, what: str) -> str:
        self._skip()
        if self._peek('"'):
            return str(self._value())
        found = _PLAIN.match(self.line, self.at)
        if found is None:
            self._fail(what)
        self.at = found.end()
        return found.group()

    def _value(self) -> Any:
        self._skip()
        try:
            value, self.at = json.JSONDecoder().raw_decode(self.line, self.at)
        except json.JSONDecodeError:
            self._fail("a value in JSON")
        return value

    def _list(self, one: Callable[[], Any]) -> list[Any]:
        self._expect("(")
        found: list[Any] = []
        while not self._peek(")"):
            if found:
                self._expect(",")
            found.append(one())
        self.at += 1
        return found

    def _fail(self, expected: str) -> NoReturn:
        rest = self.line[self.at : self.at + 24] or "the end"
        raise GraphError(f"from_text: line {self.number}: expected {expected}, got {rest!r}.")
