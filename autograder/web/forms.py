"""What was typed into a form, as what is meant; or what is wrong with it, in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from autograder.gradebook import policy
from autograder.gradebook.policy import LateRule, PolicyError


class FormError(ValueError):
    """Something that was typed cannot be meant, in one sentence for who typed it."""


@dataclass(frozen=True)
class Form:
    """The fields of one form.

    Parameters
    ----------
    read : callable, ``read(name) -> str``
        What was typed into a field; "" where it is empty or was not sent.
    """

    read: Callable[[str], str]

    def text(self, name: str) -> str:
        return self.read(name).strip()

    def needed(self, name: str, what: str) -> str:
        text = self.text(name)
        if not text:
            raise FormError(f"{what} is missing.")
        return text

    def number(self, name: str, what: str) -> float:
        text = self.needed(name, what)
        try:
            value = float(text.replace(",", "."))
        except ValueError:
            raise FormError(f"{what}: {text[:40]!r} is not a number; give one such as 7 or 2.5.") from None
        if value != value or abs(value) > 1e9:
            raise FormError(f"{what}: {text[:40]!r} is not a number of points.")
        return value

    def whole(self, name: str, what: str) -> int:
        value = self.number(name, what)
        if value != int(value) or value < 0:
            raise FormError(f"{what}: {value:g} is not a whole number.")
        return int(value)

    def zone(self, name: str = "zone", default: str = "") -> str:
        return str(self._meant(policy.zone_named, self.text(name) or default or self.needed(name, "The time zone")))

    def moment(self, name: str, what: str, zone: str) -> datetime | None:
        """A moment on the clocks of `zone`; None where the field is empty."""
        text = self.text(name)
        return self._meant(lambda typed: policy.moment(typed, zone), text, what) if text else None

    def late_rule(self, name: str = "late") -> LateRule:
        return self._meant(LateRule.parse, self.text(name) or "none")

    @staticmethod
    def _meant(read: Callable[[str], Any], text: str, what: str = "") -> Any:
        try:
            return read(text)
        except PolicyError as error:
            raise FormError(f"{what}: {error}" if what else str(error)) from None
