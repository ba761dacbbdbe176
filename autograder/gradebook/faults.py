"""What can go wrong with a gradebook, each said in one line with what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError


class GradebookError(RuntimeError):
    """The gradebook could not do what was asked. Nothing that was in it is lost."""


class GradebookTooNew(GradebookError):
    """The gradebook was written by a newer autograder."""


def shown(url: str) -> str:
    """The address without its password; for SQLite, the file."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return url.split("@")[-1]
    return (
        (parsed.database or "")
        if parsed.get_backend_name() == "sqlite"
        else parsed.render_as_string(hide_password=True)
    )


_SIGNS = [
    (
        "read-only",
        "the file or its folder is read-only. Get the right to write there, or set AUTOGRADER_HOME to another folder",
    ),
    (
        "permission denied",
        "you may not write there. Get the right to, or set AUTOGRADER_HOME to another folder",
    ),
    (
        "file exists",
        "a file stands where its folder should be. Move that file, or set AUTOGRADER_HOME to another folder",
    ),
    (
        "not a directory",
        "a file stands where its folder should be. Move that file, or set AUTOGRADER_HOME to another folder",
    ),
    ("no space left", "the disk is full. Free some space and try again"),
    ("file too large", "the disk's quota is used up. Free some space and try again"),
    (
        "readonly",
        "the file or its folder is read-only. Get the right to write there, or set AUTOGRADER_HOME to another folder",
    ),
    (
        "unable to open",
        "the file cannot be opened. Check that its folder exists and that you may write there, or set AUTOGRADER_HOME",
    ),
    ("disk is full", "the disk is full. Free some space and try again"),
    ("disk i/o", "the disk is full, over its quota, or failing. Free some space and try again"),
    ("database is locked", "another program has kept it locked for too long. Close it and try again"),
    (
        "not a database",
        "the file is not a gradebook, or is damaged. Move it away to start a new one, and keep it: it may be rescued",
    ),
    (
        "malformed",
        "the file is damaged. Move it away to start a new one, and keep it: it may be rescued",
    ),
    ("password authentication", "the server refused the user or the password. Check the address"),
    ("connection refused", "no server answers there. Check the address, and that PostgreSQL is running"),
    ("could not translate host", "there is no such host. Check the address"),
    ("failed to resolve host", "there is no such host. Check the address"),
    ("lock timeout", "another program has kept it locked for too long. Close it and try again"),
    ("terminating connection", "the server is shutting down. Try again in a while"),
    ("server closed the connection", "the server went away. Try again in a while"),
    ("unique constraint", "somebody else made the same change at the same moment. Look at it, and try again"),
    ("no such table", "the file is an SQLite database but not a gradebook, or is damaged. Name another file"),
    ("already exists", "the file is an SQLite database with other tables in it. Name another file"),
]


def in_words(error: BaseException) -> str:
    """The fault, and what to do about it.

    Of a chain of errors the first that is known: a database that gives up a transaction lets what is being undone on
    the way out fail, too.
    """
    first = _text(error)
    current: BaseException | None = error
    while current is not None:
        for sign, words in _SIGNS:
            if sign in _text(current).lower():
                return words
        current = current.__cause__ or current.__context__
    return first.splitlines()[0] if first else type(error).__name__


def _text(error: BaseException) -> str:
    return str(getattr(error, "orig", None) or error).strip()


@contextmanager
def one_line(url: str, doing: str) -> Iterator[None]:
    """Turn a database's or disk's own error into a GradebookError that says what was being done, and where."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:  # sqlite3's own come from the driver, asked directly
        raise GradebookError(f"gradebook {shown(url)}: could not {doing}: {in_words(error)}.") from error
