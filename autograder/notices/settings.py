"""What an operator says about notices, in a TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from autograder.feedback.catalogue import LANGUAGES


class SettingsError(ValueError):
    """The file does not say what is needed, in one line."""


@dataclass(frozen=True)
class Mail:
    """An SMTP server, and how a learner's name becomes an address."""

    host: str
    sender: str
    """The address it comes from."""
    domain: str = ""
    """Learners' addresses are their name, an @, and this."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Addresses by name, before `domain`."""
    port: int = 587
    encryption: str = "starttls"
    """``starttls``, ``tls`` from the start, or ``none``: on this machine only."""
    user: str = ""
    password_file: str = ""

    def address_of(self, learner: str) -> str:
        """Where a learner's mail goes; "" where that is not known."""
        return self.addresses.get(learner) or (f"{learner}@{self.domain}" if self.domain else "")


@dataclass(frozen=True)
class Webhook:
    """A server that is told of every grade."""

    url: str
    secret_file: str
    """A file with the secret that signs each request."""
    allow_private: bool = False
    """Whether the address may be on this machine or in a private network."""


@dataclass(frozen=True)
class Settings:
    """Notices: by which ways, and what they may tell."""

    pages: str
    """The address of the pages as people reach them, such as ``https://hub.example.edu/services/grades/autograder/``."""
    mail: Mail | None = None
    webhook: Webhook | None = None
    language: str = "en"
    points: bool = False
    """Whether mail tells the points; mail is read by many machines on its way."""


Part = TypeVar("Part", Mail, Webhook)


def read(path: Path) -> Settings:
    """The settings in a file.

    Raises
    ------
    SettingsError
        It cannot be read, or something in it is missing, unknown or of another type.
    """
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: {getattr(error, 'strerror', None) or error}.") from None
    mail, webhook = _part(path, told, "mail", Mail), _part(path, told, "webhook", Webhook)
    _known(path, "", told, Settings)
    found = Settings(**told, mail=mail, webhook=webhook)
    if mail is None and webhook is None:
        raise SettingsError(f"{path}: neither [mail] nor [webhook]; give at least one of them.")
    if found.language not in LANGUAGES:
        raise SettingsError(f"{path}: language {found.language!r}; there are {', '.join(LANGUAGES)}.")
    if not found.pages.startswith(("https://", "http://")):
        raise SettingsError(f"{path}: pages: give the whole address, such as https://hub.example.edu/.../autograder/.")
    if mail and mail.encryption not in ("starttls", "tls", "none"):
        raise SettingsError(f"{path}: mail: encryption {mail.encryption!r}; there are starttls, tls and none.")
    if mail and mail.encryption == "none" and mail.host not in ("localhost", "127.0.0.1", "::1"):
        raise SettingsError(f"{path}: mail: without encryption only to this machine, not to {mail.host}.")
    secrets = {
        "mail: password_file": mail.password_file if mail else "",
        "webhook: secret_file": webhook.secret_file if webhook else "",
    }
    for where, name in secrets.items():
        if name and not (path.parent / name).is_file():
            raise SettingsError(f"{path}: {where}: there is no file {path.parent / name}; write the secret into it.")
    return found


def _part(path: Path, told: dict[str, Any], name: str, part: type[Part]) -> Part | None:
    given = told.pop(name, None)
    if given is None:
        return None
    if not isinstance(given, dict):
        raise SettingsError(f"{path}: {name} is not a table; write [{name}].")
    _known(path, f"{name}: ", given, part)
    return part(**given)


def _known(path: Path, where: str, given: dict[str, Any], part: type[Any]) -> None:
    there = {one.name: one for one in fields(part)}
    if unknown := sorted(set(given) - set(there)):
        raise SettingsError(f"{path}: {where}there is no {unknown[0]!r}; there are {', '.join(there)}.")
    types = {"str": str, "int": int, "bool": bool}
    for name, one in there.items():
        if name not in given:
            if one.default is one.default_factory:  # both say that nothing is assumed
                raise SettingsError(f"{path}: {where}{name} is missing.")
            continue
        wanted = types.get(str(one.type))
        if wanted and type(given[name]) is not wanted:
            raise SettingsError(f"{path}: {where}{name} is {given[name]!r}; give a {wanted.__name__}.")
