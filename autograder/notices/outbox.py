"""Messages that are to go out, kept on the disk until they are gone: one file each, written before anything is sent.

A message that does not get through is tried again, later each time, and put aside after a week. What is sent just
before the machine fails may be sent twice, under the same key; nothing is lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

FIRST_PAUSE, LONGEST_PAUSE = 30.0, 6 * 3600.0
GIVE_UP = 7 * 86400.0
"""Seconds after which a message is put aside."""


class NotSent(Exception):
    """A message did not get through, in one line; `final` where trying again cannot help."""

    def __init__(self, words: str, *, final: bool = False) -> None:
        super().__init__(words)
        self.final = final


class Later(Exception):
    """It is not time for this message yet."""


@dataclass(frozen=True)
class Message:
    key: str
    """Names it for good: the same key is never put in twice."""
    way: str
    """``mail`` or ``webhook``."""
    content: dict[str, Any]
    since: float
    """When it was put in, in seconds since 1970."""
    tries: int = 0
    not_before: float = 0.0
    fault: str = ""


class Outbox:
    """A folder of messages. One process works on it at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("waiting", "sent", "aside"):
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether this process has the outbox to itself meanwhile."""
        with open(self.folder / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True

    @property
    def seen(self) -> int | None:
        """The number of the last grade that was looked at; None before the first look."""
        try:
            return int((self.folder / "seen").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    @seen.setter
    def seen(self, number: int) -> None:
        self._write(self.folder / "seen", str(number))

    def put(self, key: str, way: str, content: dict[str, Any]) -> bool:
        """Keep a message to be sent; whether it is new. When this returns, it is on the disk."""
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,120}", key):
            raise ValueError(f"outbox: {key!r} cannot name a message; give letters, digits, dots and dashes.")
        if any((self.folder / state / f"{key}.json").exists() for state in ("waiting", "sent", "aside")):
            return False
        self._keep(Message(key, way, content, time.time()))
        return True

    def waiting(self) -> list[Message]:
        """What is to be sent, oldest first."""
        found = []
        for path in (self.folder / "waiting").glob("*.json"):
            with contextlib.suppress(OSError, ValueError, TypeError):  # a file of somebody else's making
                found.append(Message(**json.loads(path.read_text(encoding="utf-8"))))
        return sorted(found, key=lambda message: (message.since, message.key))

    def work(self, send: Callable[[Message], None], *, clock: Callable[[], float] = time.time) -> tuple[int, int]:
        """Send what is due; how many went out, and how many did not.

        `send` raises `NotSent` where a message did not get through, and `Later` where its time has not come.
        """
        went = failed = 0
        for message in self.waiting():
            if message.not_before > clock():
                continue
            try:
                send(message)
            except Later:
                continue
            except NotSent as error:
                failed += 1
                self._failed(message, error, clock())
            else:
                went += 1
                self._move(message, "sent")
        return went, failed

    def _failed(self, message: Message, error: NotSent, moment: float) -> None:
        tries = message.tries + 1
        pause = min(FIRST_PAUSE * 2.0 ** (tries - 1), LONGEST_PAUSE)
        after = replace(message, tries=tries, fault=str(error), not_before=moment + pause)
        self._keep(after)
        if error.final or moment - message.since > GIVE_UP:
            self._move(after, "aside")

    def _keep(self, message: Message) -> None:
        self._write(self.folder / "waiting" / f"{message.key}.json", json.dumps(asdict(message), ensure_ascii=False))

    def _move(self, message: Message, state: str) -> None:
        name = f"{message.key}.json"
        os.replace(self.folder / "waiting" / name, self.folder / state / name)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        with open(beside, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
