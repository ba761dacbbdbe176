"""Sentences and comparisons that the judges of ``lab13_parameter_server`` share."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.compare import compare
from autograder.spec import Tolerance

NEAR = Tolerance(relative=1e-6, absolute=1e-7)


def near(one: Any, other: Any) -> bool:
    return not compare(np.asarray(one), np.asarray(other), NEAR)


def numbers(array: Any) -> str:
    return np.array2string(np.asarray(array), precision=4, separator=", ", threshold=6)


def listed(trainers: Any) -> str:
    """``trainers 0, 1 and 3``."""
    found = [str(number) for number in sorted(trainers)]
    return f"trainer {found[0]}" if len(found) == 1 else f"trainers {', '.join(found[:-1])} and {found[-1]}"
