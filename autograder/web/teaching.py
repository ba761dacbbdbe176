"""What instructors and graders open."""

from __future__ import annotations

from autograder.web.page import LearnerPage

RULES: list[tuple[str, type[LearnerPage]]] = []
