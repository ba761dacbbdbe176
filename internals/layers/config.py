"""A net as text: read into entries that remember where they stand, so that every later error can say so.

The format is that of Caffe's prototxt files: fields ``key: value`` and groups ``key { ... }``, in any order; a key that
stands twice is a list, and ``[a, b]`` is one too. A dict of the same shape is read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class ConfigError(ValueError):
    """A configuration that can't be a net; the message begins with the line and column, or the layer of a dict.

    Attributes
    ----------
    line, column : int or None
        Counted from 1; None where the configuration was no text.
    """

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(f"{place}: {message}" if str(place) else message)
        self.line, self.column = place.line, place.column


@dataclass(frozen=True)
class Place:
    """Where something stands: in a text, or in a dict by words."""

    line: int | None = None
    column: int | None = None
    words: str = ""

    def __str__(self) -> str:
        return self.words if self.line is None else f"line {self.line}, column {self.column}"


@dataclass
class Group:
    """Fields of one pair of braces, and where each stands."""

    place: Place
    fields: dict[str, list[Any]] = field(default_factory=dict)
    places: dict[str, list[Place]] = field(default_factory=dict)

    def where(self, key: str) -> Place:
        return self.places[key][0] if key in self.places else self.place

    def add(self, key: str, value: Any, place: Place) -> None:
        self.fields.setdefault(key, []).append(value)
        self.places.setdefault(key, []).append(place)


@dataclass
class Entry:
    """One layer of a configuration."""

    name: str
    type: str
    bottoms: list[str]
    settings: dict[str, Any]
    group: Group
    bottom_places: list[Place]


TOKEN = re.compile(
    r"(?P<space>[ \t\r]+|\#[^\n]*)|(?P<newline>\n)|(?P<string>\"[^\"\n]*\"|'[^'\n]*')"
    r"|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))|(?P<word>[A-Za-z_]\w*)|(?P<mark>[{}:\[\],;])"
)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    place: Place


def _tokens(text: str) -> Iterator[_Token]:
    line, begin, at = 1, 0, 0
    while at < len(text):
        place = Place(line, at - begin + 1)
        found = TOKEN.match(text, at)
        if found is None:
            if text[at] in "\"'":
                raise ConfigError(
                    "a string that does not end on its line; close it with the quote it began with.", place
                )
            word = re.match(r"[^\s{}:\[\],;]+", text[at:])
            raise ConfigError(
                f"{(word.group() if word else text[at])!r} is neither a word, a number nor a string.", place
            )
        kind = found.lastgroup or ""
        at = found.end()
        if kind == "newline":
            line, begin = line + 1, at
        elif kind != "space":
            yield _Token(kind, found.group(), place)
    yield _Token("end", "", Place(line, at - begin + 1))


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0

    def take(self) -> _Token:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def group(self, opened: Place | None, place: Place) -> Group:
        """Fields up to the closing brace, or to the end of the text."""
        found = Group(place)
        while True:
            token = self.take()
            if token.text == "}" and token.kind == "mark" and opened is not None:
                return found
            if token.kind == "end":
                if opened is None:
                    return found
                raise ConfigError(
                    f"the text ends, but the brace of line {opened.line} is not closed; add a }}.", opened
                )
            if token.kind == "mark" and token.text in ",;":
                continue
            if token.kind != "word":
                raise ConfigError(f"expected the name of a field, got {token.text!r}.", token.place)
            colon = self.next.text == ":" and self.next.kind == "mark"
            if colon:
                self.take()
            if self.next.text == "{" and self.next.kind == "mark":
                found.add(token.text, self.group(self.take().place, token.place), token.place)
            elif colon:
                value, place_of_value = self.value()
                for one in value if isinstance(value, list) else [value]:
                    found.add(token.text, one, place_of_value)
            else:
                shown = self.next.text or "the end of the text"
                raise ConfigError(f"expected : or {{ after {token.text!r}, got {shown!r}.", self.next.place)

    def value(self) -> tuple[Any, Place]:
        token = self.take()
        if token.kind == "string":
            return token.text[1:-1], token.place
        if token.kind == "number":
            return (int(token.text) if re.fullmatch(r"[-+]?\d+", token.text) else float(token.text)), token.place
        if token.kind == "word":
            return {"true": True, "false": False}.get(token.text, token.text), token.place
        if token.text == "[":
            entries: list[Any] = []
            while not (self.next.text == "]" and self.next.kind == "mark"):
                if self.next.kind == "end":
                    raise ConfigError("the text ends inside a list; add a ].", token.place)
                entries.append(self.value()[0])
                if self.next.text == ",":
                    self.take()
            self.take()
            return entries, token.place
        raise ConfigError(f"expected a value, got {token.text or 'the end of the text'!r}.", token.place)


def parse(text: str) -> Group:
    """Read a text into groups.

    Raises
    ------
    ConfigError
        With the line and column at which it stops making sense.
    """
    return _Parser(text).group(None, Place(1, 1))


def group_of(given: Mapping[str, Any], place: Place) -> Group:
    """A dict as a group, all of which stands at one place."""
    found = Group(place)
    for key, value in given.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            found.add(key, group_of(one, place) if isinstance(one, Mapping) else one, place)
    return found


def _plain(value: Any) -> Any:
    """A group as a dict; fields that stand once as they are."""
    if isinstance(value, Group):
        return {key: _one(values) for key, values in value.fields.items()}
    return value


def _one(values: Sequence[Any]) -> Any:
    return _plain(values[0]) if len(values) == 1 else [_plain(value) for value in values]


def read(config: str | Mapping[str, Any]) -> tuple[str, list[Entry]]:
    """A net's name and the entries of its layers, from a text or a dict.

    Raises
    ------
    TypeError
        It is neither.
    ConfigError
        A layer has no name or type, or something that is not a layer stands beside the layers.
    """
    if isinstance(config, str):
        whole = parse(config)
    elif isinstance(config, Mapping):
        whole = Group(Place())
        for key, value in config.items():
            if key == "layer":
                for i, one in enumerate(value if isinstance(value, list | tuple) else [value]):
                    called = f" ({one['name']!r})" if isinstance(one, Mapping) and "name" in one else ""
                    place = Place(words=f"layer {i}{called}")
                    whole.add("layer", group_of(one, place) if isinstance(one, Mapping) else one, place)
            else:
                whole.add(key, value, Place(words=key))
    else:
        raise TypeError(f"a net is built from a text or a dict, got {type(config).__name__}.")
    for key in whole.fields:
        if key not in ("name", "layer"):
            raise ConfigError(f"{key!r} stands beside the layers; there may be a name, and layers.", whole.where(key))
    entries = [
        entry_of(one, place)
        for one, place in zip(whole.fields.get("layer", []), whole.places.get("layer", []), strict=True)
    ]
    if not entries:
        raise ConfigError(
            'there is no layer; a net has at least one, such as layer { name: "x" type: "data" shape: 4 }.', whole.place
        )
    return str(whole.fields.get("name", ["net"])[0]), entries


def entry_of(group: Any, place: Place) -> Entry:
    """A layer's entry; layers inside it stay groups, which know their lines."""
    if not isinstance(group, Group):
        raise ConfigError(f"a layer is a group of fields in braces, got {group!r}.", place)
    for key in ("name", "type"):
        values = group.fields.get(key, [])
        if len(values) != 1 or not isinstance(values[0], str) or not values[0]:
            what = "no" if not values else "more than one" if len(values) > 1 else "no word as its"
            raise ConfigError(f"a layer has {what} {key}.", group.where(key))
    projections = [one for one in group.fields.get("projection", []) if isinstance(one, Group)]
    bottoms, places = list(group.fields.get("bottom", [])), list(group.places.get("bottom", []))
    for one in projections:
        for key in ("type", "bottom"):
            if len(one.fields.get(key, [])) != 1:
                raise ConfigError(f"a projection has one {key}.", one.where(key))
        bottoms.append(one.fields["bottom"][0])
        places.append(one.where("bottom"))
    for bottom, at in zip(bottoms, places, strict=True):
        if not isinstance(bottom, str):
            raise ConfigError(f"a bottom is the name of a layer, got {bottom!r}.", at)
    settings = {key: _one(values) for key, values in group.fields.items() if key not in ("name", "type", "bottom")}
    if "layer" in settings:
        settings["layer"] = group.fields["layer"]
    return Entry(group.fields["name"][0], group.fields["type"][0], bottoms, settings, group, places)
