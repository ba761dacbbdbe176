"""Deadlines and late rules: what is taken off, and which moment is meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from autograder.gradebook.policy import LateRule, PolicyError, moment, shown

MINUTE, HOUR, DAY = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1))


@pytest.mark.parametrize(
    ("words", "late", "kept"),
    [
        ("none", 300 * DAY, 1.0),
        ("10%/day", timedelta(0), 1.0),
        ("10%/day", timedelta(seconds=1), 0.9),
        ("10%/day", DAY, 0.9),
        ("10%/day", DAY + timedelta(seconds=1), 0.8),
        ("10%/day", 30 * DAY, 0.0),
        ("10%/day max 25%", 30 * DAY, 0.75),
        ("2.5%/hour", 3 * HOUR - MINUTE, 0.925),
        ("10%/day grace 15m", 15 * MINUTE, 1.0),
        ("10%/day grace 15m", 16 * MINUTE, 0.9),
        ("10%/day grace 25h", DAY + 2 * HOUR, 0.8),
        ("10%/day max 25% zero 7d", 7 * DAY, 0.75),
        ("10%/day max 25% zero 7d", 7 * DAY + MINUTE, 0.0),
        ("zero 0m", MINUTE, 0.0),
        ("zero 0m", timedelta(0), 1.0),
        ("grace 10m zero 10m", 10 * MINUTE, 1.0),
    ],
)
def test_what_lateness_leaves(words, late, kept):
    rule = LateRule.parse(words)
    assert rule.kept(late) == pytest.approx(kept)
    assert LateRule.from_json(rule.to_json()) == rule
    assert LateRule.parse(str(rule)) == rule
    assert str(rule) == words


@pytest.mark.parametrize(
    "words", ["10", "10%", "10%/week", "-5%/day", "120%/day", "max 200%", "grace -3m", "grace 2h zero 1h", "10%/day; x"]
)
def test_rules_that_cannot_be_meant(words):
    with pytest.raises(PolicyError, match="late rule"):
        LateRule.parse(words)


@pytest.mark.parametrize(
    ("text", "zone", "utc"),
    [
        ("2026-03-28T23:59", "Europe/Berlin", "2026-03-28T22:59"),
        ("2026-03-29T23:59", "Europe/Berlin", "2026-03-29T21:59"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T01:30"),
        ("2026-10-05 23:59", "Asia/Shanghai", "2026-10-05T15:59"),
        ("2026-10-05T23:59-04:00", "Asia/Shanghai", "2026-10-06T03:59"),
        ("2026-10-05T23:59Z", "Asia/Kathmandu", "2026-10-05T23:59"),
        ("2026-10-05T23:59", "Asia/Kathmandu", "2026-10-05T18:14"),
    ],
    ids=["winter", "summer", "shown twice: the later", "no summer time", "offset first", "Z first", "three quarters"],
)
def test_the_moment_that_is_meant(text, zone, utc):
    assert moment(text, zone) == datetime.fromisoformat(utc).replace(tzinfo=UTC)
    assert moment(shown(moment(text, zone), zone), "UTC") == moment(text, zone)


@pytest.mark.parametrize(
    ("text", "zone", "words"),
    [
        ("2026-03-29T02:30", "Europe/Berlin", "skip this time"),
        ("2026-03-29", "Europe/Berlin", "no time of day"),
        ("tomorrow", "UTC", "not a date"),
        ("2026-02-30T12:00", "UTC", "not a date"),
        ("", "UTC", "not a date"),
        ("2026-03-29T12:00", "Mars/Olympus", "time zone"),
        ("2026-03-29T12:00", "", "time zone"),
        ("2026-03-29T12:00", "../../etc/passwd", "time zone"),
        ("2026-03-29T12:00", "Europe", "time zone"),
        ("9999-12-31T23:59", "America/New_York", "end of the calendar"),
    ],
)
def test_moments_that_are_none(text, zone, words):
    with pytest.raises(PolicyError, match=words) as error:
        moment(text, zone)
    assert "\n" not in str(error.value)
