"""Passwords of a class, for a hub without an identity provider: one JSON file, a salted scrypt hash for each name.

Who belongs to the class, and as what, stands in the gradebook; here is only by what they prove who they are.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from classroom.places import NAME

# RFC 7914, with the cost that OWASP's password storage cheat sheet asks for: 128 MB and about 0.4 s for one try.
COST, BLOCK, PARALLEL = 2**17, 8, 1
SALT_BYTES, HASH_BYTES = 16, 32
HASHED_AT_ONCE = 2
SHORTEST, LONGEST = 8, 1024
# No letters or digits that are mistaken for one another when read from paper.
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


class AccountError(ValueError):
    """Why an account can't be made or changed, in one line."""


def new_password() -> str:
    """A password that can be read out: four groups of four, 79 bits."""
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(4))


def hashed(password: str, *, cost: int = COST) -> str:
    """A salted hash, with what it takes to verify it: ``scrypt$n$r$p$salt$hash``."""
    salt = secrets.token_bytes(SALT_BYTES)
    digest = _scrypt(password, salt, cost, BLOCK, PARALLEL)
    parts = (base64.b64encode(value).decode() for value in (salt, digest))
    return f"scrypt${cost}${BLOCK}${PARALLEL}${'$'.join(parts)}"


def verified(password: str, stored: str) -> bool:
    """Whether the hash is that of the password; a hash that can't be read is nobody's."""
    try:
        kind, cost, block, parallel, salt, digest = stored.split("$")
        if kind != "scrypt" or len(password) > LONGEST:
            return False
        made = _scrypt(password, base64.b64decode(salt), int(cost), int(block), int(parallel))
        return hmac.compare_digest(made, base64.b64decode(digest))
    except (ValueError, TypeError):
        return False


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    memory = 128 * cost * block * parallel * 2
    data = password.encode(errors="surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=cost, r=block, p=parallel, maxmem=memory, dklen=HASH_BYTES)


class Accounts:
    """The file of accounts. Every change is on the disk when it returns, and no reader sees half of one."""

    def __init__(self, file: Path, *, cost: int = COST) -> None:
        self.file, self.cost = file, cost

    def names(self) -> list[str]:
        return sorted(self._read())

    def set(self, name: str, password: str) -> None:
        """Give a person a password, in place of the one they had.

        Raises
        ------
        AccountError
            The name or the password can't be one.
        """
        if fault := self.fault(name):
            raise AccountError(fault)
        if not SHORTEST <= len(password) <= LONGEST:
            raise AccountError(f"a password of {len(password)} characters; give {SHORTEST} to {LONGEST}.")
        stored = hashed(password, cost=self.cost)
        with self._changing() as known:
            known[name] = stored

    @staticmethod
    def fault(name: str) -> str:
        """Why nobody can log in by that name; "" where one can."""
        if NAME.fullmatch(name):
            return ""
        return (
            f"{name[:60]!r} cannot be a login name; give up to 64 lower-case letters, digits and . _ @ + -, "
            "of which the first is a letter or digit."
        )

    def make(self, names: Sequence[str]) -> dict[str, str]:
        """Give each of these people a new password; all are stored at once, or none.

        Raises
        ------
        AccountError
            A name can't be one.
        """
        if fault := next(filter(None, map(self.fault, names)), ""):
            raise AccountError(fault)
        made = {name: new_password() for name in names}
        with ThreadPoolExecutor(HASHED_AT_ONCE) as pool:
            stored = dict(zip(made, pool.map(lambda one: hashed(one, cost=self.cost), made.values()), strict=True))
        with self._changing() as known:
            known.update(stored)
        return made

    def remove(self, name: str) -> bool:
        """Take a person's password away; whether there was one."""
        with self._changing() as known:
            return known.pop(name, None) is not None

    def verify(self, name: str, password: str) -> bool:
        """Whether this is the person's password. Takes as long for a name that nobody has."""
        stored = self._read().get(name)
        if stored is None:
            hashed(password[:LONGEST], cost=self.cost)
            return False
        return verified(password, stored)

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise AccountError(f"{self.file} is damaged ({error}); restore it from a copy, or remove it.") from error
        if not isinstance(found, dict):
            raise AccountError(f"{self.file} is damaged (no table); restore it from a copy, or remove it.")
        return {str(name): str(stored) for name, stored in found.items()}

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self.file.with_suffix(".lock"), "a+b", opener=_private) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = self._read()
            yield known
            beside = self.file.with_suffix(".new")
            with open(beside, "w", encoding="utf-8", opener=_private) as file:
                json.dump(known, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.file)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
