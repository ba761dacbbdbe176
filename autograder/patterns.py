"""Which cases fail: what the failing ones have in common and the passing ones don't."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from autograder.evidence import named_arrays
from autograder.spec import Inputs

Arrays = list[np.ndarray]


def pattern(outcomes: Sequence[tuple[Inputs, bool]]) -> list[str]:
    """A sentence on the one trait of the inputs that tells failing cases from passing ones; empty if none does.

    Parameters
    ----------
    outcomes : pairs of (inputs, whether the case passed)
    """
    failing = [list(map(np.asarray, dict(named_arrays(inputs)).values())) for inputs, passed in outcomes if not passed]
    passing = [list(map(np.asarray, dict(named_arrays(inputs)).values())) for inputs, passed in outcomes if passed]
    if not failing or not passing:
        return []
    options = [(inputs, passed) for inputs, passed in outcomes]
    for name, has in TRAITS.items():
        if all(map(has, failing)) and not any(map(has, passing)):
            return [f"It goes wrong exactly when {name}."]
    for sentence in _by_option(options):
        return [sentence]
    for name, has in TRAITS.items():
        # Telling only if most passing cases lack it: else everything that fails has it because everything has it.
        if len(failing) >= 2 and all(map(has, failing)) and 4 * sum(map(has, passing)) <= len(passing):
            return [f"It goes wrong only when {name}, though not every time."]
    return []


def _by_option(outcomes: Sequence[tuple[Inputs, bool]]) -> list[str]:
    """Whether all failing cases share one value of an input that is a word, such as ``op="matmul"``."""
    words = {name for inputs, _ in outcomes for name, value in inputs.items() if isinstance(value, str)}
    found = []
    for name in sorted(words):
        failing = {inputs.get(name) for inputs, passed in outcomes if not passed}
        passing = {inputs.get(name) for inputs, passed in outcomes if passed}
        if len(failing) == 1 and len(failing | passing) > 1:
            (value,) = failing
            found.append(
                f"Only {name} = {value!r} goes wrong"
                + ("." if failing.isdisjoint(passing) else ", and not every time.")
            )
    return found


def _any(test: Callable[[np.ndarray], bool]) -> Callable[[Arrays], bool]:
    return lambda arrays: any(test(array) for array in arrays)


def _stretched(arrays: Arrays) -> bool:
    """Two inputs of different shapes that broadcast together."""
    shapes = {array.shape for array in arrays}
    if len(shapes) < 2:
        return False
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def _stretched_axis(arrays: Arrays) -> bool:
    """An axis of size 1 beside a longer one at the same place from the right."""
    most = max((array.ndim for array in arrays), default=0)
    for place in range(1, most + 1):
        sizes = {array.shape[-place] for array in arrays if array.ndim >= place}
        if 1 in sizes and len(sizes) > 1:
            return True
    return False


def _ranks_differ(arrays: Arrays) -> bool:
    return len({array.ndim for array in arrays}) > 1


TRAITS: dict[str, Callable[[Arrays], bool]] = {
    "an input has size 0": _any(lambda array: array.size == 0),
    "an input is 0-d": _any(lambda array: array.ndim == 0),
    "every input is 0-d": lambda arrays: bool(arrays) and all(array.ndim == 0 for array in arrays),
    "an input has a negative stride": _any(lambda array: any(stride < 0 for stride in array.strides)),
    "an input is a broadcast view (stride 0)": _any(
        lambda array: any(stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True))
    ),
    "an input is not contiguous in memory, as a transposed view": _any(lambda array: not array.flags.c_contiguous),
    "the inputs are float32": _any(lambda array: array.dtype == np.float32),
    "the inputs are integers": _any(lambda array: array.dtype.kind in "iu"),
    "an axis of size 1 is stretched by broadcasting": _stretched_axis,
    "the inputs have different numbers of axes": _ranks_differ,
    "inputs of different shapes are broadcast": _stretched,
    "an input has one entry": _any(lambda array: array.size == 1),
    "an input is 1-D": _any(lambda array: array.ndim == 1),
    "an input is a batch (3 or more axes)": _any(lambda array: array.ndim >= 3),
    "an input has 2 or more axes": _any(lambda array: array.ndim >= 2),
    "an input holds NaN or infinity": _any(lambda array: array.dtype.kind in "fc" and not np.isfinite(array).all()),
    "an input holds a zero": _any(lambda array: array.dtype.kind in "biufc" and bool((array == 0).any())),
    "the same array comes twice": lambda arrays: any(
        one.shape == other.shape and one.size > 0 and np.array_equal(one, other)
        for place, one in enumerate(arrays)
        for other in arrays[:place]
    ),
}
