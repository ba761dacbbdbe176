"""Where on this machine the gradebook lies, and whose it is."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import platformdirs


def home() -> Path:
    """The folder for what must not be lost: ``AUTOGRADER_HOME``, or the user's data folder."""
    given = os.environ.get("AUTOGRADER_HOME")
    return (
        Path(given).expanduser().absolute()
        if given
        else Path(platformdirs.user_data_path("autograder", appauthor=False))
    )


def default_url() -> str:
    """The gradebook used when none is named."""
    return sqlite_url(home() / "gradebook.sqlite")


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path.absolute()}"


def url_of(where: str | os.PathLike[str] | None) -> str:
    """A database address from an address, a file name or nothing."""
    if where is None or where == "":
        return default_url()
    text = os.fspath(where)
    for scheme in ("postgres://", "postgresql://"):
        if text.startswith(scheme):  # as hosts hand it out; it names no driver
            return f"postgresql+psycopg://{text.removeprefix(scheme)}"
    return text if "://" in text else sqlite_url(Path(text).expanduser())


def learner_name() -> str:
    """Who is at work: the JupyterHub user, or the user of this machine."""
    if hub_user := os.environ.get("JUPYTERHUB_USER"):
        return hub_user
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user id that has no name
        return f"user-{os.getuid()}"
