"""What learners read, in their language: the messages of ``catalogues/*.toml``, by key.

A message may name values in braces, and may have forms: ``one`` where `count` is 1, ``other`` for the rest.
The language is that of the context (`speaking`); else the one that the environment asks for, as gettext reads it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

CATALOGUES = Path(__file__).parent / "catalogues"
LANGUAGES = {"en": "English", "zh": "中文"}
"""The languages there are, by their own names."""
VARIABLES = ("AUTOGRADER_LANGUAGE", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")

Message = str | dict[str, str]

_chosen: ContextVar[str] = ContextVar("language", default="")


@cache
def messages(language: str) -> dict[str, Message]:
    """Every message of a language by its key, such as ``"verdict.right"``."""
    read = tomllib.loads((CATALOGUES / f"{language}.toml").read_text(encoding="utf-8"))
    return {f"{area}.{name}": message for area, found in read.items() for name, message in found.items()}


def known(tag: str) -> str:
    """The language of ours that a tag such as ``zh-CN`` or ``zh_CN.UTF-8`` asks for; "" if it is none."""
    start = tag.strip().replace("_", "-").split(".")[0].split("-")[0].lower()
    return start if start in LANGUAGES else ""


def language() -> str:
    """The language that is spoken now."""
    if _chosen.get():
        return _chosen.get()
    for variable in VARIABLES:
        for tag in os.environ.get(variable, "").split(":"):
            if tag.strip():
                return known(tag) or "en"
    return "en"


def speak(tag: str) -> None:
    """Say everything in this language from now on, in this task; one that is not ours changes nothing."""
    if known(tag):
        _chosen.set(known(tag))


@contextmanager
def speaking(tag: str) -> Iterator[None]:
    """Say everything in this language meanwhile, in this thread or task; one that is not ours changes nothing."""
    before = _chosen.set(known(tag) or _chosen.get())
    try:
        yield
    finally:
        _chosen.reset(before)


def wanted(header: str) -> str:
    """The language of ours that an ``Accept-Language`` header prefers; "" if it names none (RFC 9110, 12.5.4)."""
    best, weight = "", 0.0
    for entry in header.split(","):
        tag, _, quality = entry.partition(";")
        try:
            given = float(quality.strip().removeprefix("q=")) if quality.strip() else 1.0
        except ValueError:
            continue
        if known(tag) and given > weight:
            best, weight = known(tag), given
    return best


def say(key: str, **values: Any) -> str:
    """The message of that key in the language of now, with its values put in.

    Raises
    ------
    KeyError
        No catalogue has such a message, or it names a value that is not given.
    """
    found = messages(language())[key]
    if isinstance(found, dict):
        found = found["one" if values["count"] == 1 and "one" in found else "other"]
    return found.format(**values)
