"""Deadlines, late rules, and what they leave of a mark: data and arithmetic, no database."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

POLICIES = ("best", "last")
UNITS = {"hour": 3600, "day": 86400}
_SPANS = {"m": 60, "h": 3600, "d": 86400}


class PolicyError(ValueError):
    """A deadline or a rule that cannot be meant, in one line."""


@dataclass(frozen=True)
class LateRule:
    """What is taken off a mark that was earned late.

    Attributes
    ----------
    fraction : float
        Taken off what was earned, per unit of time that has begun; in [0, 1].
    unit : str
        ``"hour"`` or ``"day"``; a day is 24 hours, whatever the clocks of the zone do.
    cap : float
        The most that is taken off; in [0, 1].
    grace : int
        Seconds after the deadline that cost nothing. After them, the time from the deadline on counts.
    zero_after : int or None
        Seconds after the deadline after which nothing is earned.
    """

    fraction: float = 0.0
    unit: str = "day"
    cap: float = 1.0
    grace: int = 0
    zero_after: int | None = None

    def __post_init__(self) -> None:
        for name in ("fraction", "cap"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise PolicyError(f"late rule: {name} is {value:g}; give a part from 0 to 1 (0 % to 100 %).")
        if self.unit not in UNITS:
            raise PolicyError(f"late rule: unit {self.unit!r}; give hour or day.")
        if self.grace < 0 or (self.zero_after is not None and self.zero_after < self.grace):
            raise PolicyError(
                f"late rule: grace of {self.grace} s and zero after {self.zero_after} s; "
                "the grace must not be negative, nor outlast the time after which nothing is earned."
            )

    def kept(self, late: timedelta) -> float:
        """The part of a mark that is left, in [0, 1], for work that came `late` after the deadline."""
        seconds = late.total_seconds()
        if seconds <= self.grace:
            return 1.0
        if self.zero_after is not None and seconds > self.zero_after:
            return 0.0
        return 1.0 - min(self.cap, self.fraction * math.ceil(seconds / UNITS[self.unit]))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LateRule:
        return cls(**json.loads(text))

    @classmethod
    def parse(cls, words: str) -> LateRule:
        """The rule in words: ``10%/day``, then any of ``max 50%``, ``grace 15m``, ``zero 7d``; ``none`` for none.

        Raises
        ------
        PolicyError
            The words are not understood, or a number is out of range.
        """
        text = " ".join(words.lower().replace(",", " ").split())
        if text in ("none", ""):
            return cls()
        match = re.fullmatch(
            r"(?:(?P<percent>\d+(?:\.\d+)?) ?% ?/ ?(?P<unit>hour|day))?"
            r"(?: ?max (?P<cap>\d+(?:\.\d+)?) ?%)?(?: ?grace (?P<grace>\d+[mhd]))?(?: ?zero (?P<zero>\d+[mhd]))?",
            text,
        )
        if match is None:
            raise PolicyError(
                f'late rule {words!r} is not understood. Give it as in "10%/day max 50% grace 15m zero 7d", or none.'
            )
        got = match.groupdict()
        return cls(
            fraction=float(got["percent"] or 0) / 100,
            unit=got["unit"] or "day",
            cap=float(got["cap"] or 100) / 100,
            grace=span(got["grace"]) if got["grace"] else 0,
            zero_after=span(got["zero"]) if got["zero"] else None,
        )

    def __str__(self) -> str:
        parts = [f"{100 * self.fraction:g}%/{self.unit}"] if self.fraction else []
        parts += [f"max {100 * self.cap:g}%"] if self.cap < 1 else []
        parts += [f"grace {_spelled(self.grace)}"] if self.grace else []
        parts += [f"zero {_spelled(self.zero_after)}"] if self.zero_after is not None else []
        return " ".join(parts) or "none"


def _spelled(seconds: int) -> str:
    """The seconds as `span` reads them, in the largest unit of which they are a whole number."""
    unit = next((unit for unit in "dh" if seconds and seconds % _SPANS[unit] == 0), "m")
    return f"{seconds // _SPANS[unit]}{unit}"


def span(text: str) -> int:
    """The seconds in ``15m``, ``2h`` or ``7d``."""
    match = re.fullmatch(r"(\d+)([mhd])", text.strip().lower())
    if match is None:
        raise PolicyError(f"a time of {text!r} is not understood; give minutes, hours or days: 15m, 2h, 7d.")
    return int(match[1]) * _SPANS[match[2]]


def zone_named(name: str) -> ZoneInfo:
    """The time zone of that name in the IANA database."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not there; not a name; a folder of zones
        raise PolicyError(
            f"time zone {name!r} is not known; give a name such as Europe/Berlin, Asia/Shanghai or UTC."
        ) from None


def moment(text: str, zone: str) -> datetime:
    """The moment, in UTC, that `text` names on the clocks of `zone`.

    An offset in the text goes before the zone. A time that the clocks show twice is the later one, which costs
    no learner anything; one that they skip is refused.

    Raises
    ------
    PolicyError
        Not a date and time; no such time in that zone; no such zone.
    """
    there = zone_named(zone)
    try:
        given = datetime.fromisoformat(text.strip())
    except ValueError:
        raise PolicyError(f"{text!r} is not a date and time; give it as 2026-03-29T23:59.") from None
    if len(text.strip()) <= len("2026-03-29"):
        raise PolicyError(f"{text!r} has no time of day; give it as 2026-03-29T23:59.")
    try:
        if given.tzinfo is not None:
            return given.astimezone(UTC)
        found = given.replace(tzinfo=there, fold=1).astimezone(UTC)
        if found.astimezone(there).replace(tzinfo=None) != given:
            raise PolicyError(f"{text}: the clocks of {zone} skip this time on that day; give another.")
    except OverflowError:
        raise PolicyError(f"{text}: too near the end of the calendar; give a date of this century.") from None
    return found


def shown(when: datetime | None, zone: str) -> str:
    """The moment on the clocks of `zone`, to the minute, with its offset."""
    return "" if when is None else when.astimezone(zone_named(zone)).isoformat(" ", "minutes")
