"""The book's page on security names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "book" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_what_the_page_names_is_there(file, test):
    assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.M)


def test_everything_that_is_said_to_be_defended_names_a_test():
    defended = PAGE[: PAGE.index("## What is not defended")]
    items = re.split(r"\n(?=- \*\*)", defended)[1:]
    assert len(items) >= 20
    assert [item for item in items if "::test_" not in item] == []
