"""Random programs of views, in-place writes and operations, run on torch and on us: the same values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from in_place_cases import random
from test_in_place import Ours, Torchs, host

from internals import Tensor
from internals.autodiff import grad

# A step is (what to do, arguments); the tensors made so far have numbers. It is drawn by what torch's tensors allow.
Step = tuple[str, tuple[Any, ...]]

VIEWS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("row", lambda rng, t: int(rng.integers(-t.shape[0], t.shape[0]))),
    ("slice", lambda rng, t: tuple(_slice(rng, size) for size in t.shape)),
    ("transpose", lambda rng, t: tuple(int(i) for i in rng.permutation(t.ndim))),
    ("unsqueeze", lambda rng, t: int(rng.integers(0, t.ndim + 1))),
    ("reshape", lambda rng, t: _regrouped(rng, t.shape)),
]


def _slice(rng: np.random.Generator, size: int) -> slice:
    start = int(rng.integers(0, size))
    return slice(start, int(rng.integers(start + 1, size + 1)), int(rng.integers(1, 3)))


def _regrouped(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    size = int(np.prod(shape))
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    first = int(rng.choice(divisors))
    return (first, size // first)


def draw(rng: np.random.Generator, tensors: list[Any]) -> Step:
    """One step that makes sense for the tensors at hand."""
    which = int(rng.integers(0, len(tensors)))
    t = tensors[which]
    kind = str(rng.choice(["view", "view", "write", "write", "setitem", "op", "quiet", "detach", "constant"]))
    if kind == "view":
        name, arguments = VIEWS[int(rng.integers(0 if t.ndim else 3, len(VIEWS)))]
        return name, (which, arguments(rng, t))
    if kind == "op":
        return str(rng.choice(["mul", "sin", "sum", "square"])), (which,)
    if kind in ("detach", "quiet"):
        return kind, (which,)
    if kind == "constant":
        return kind, (int(rng.integers(0, 100)),)
    # Torch refuses to read and write memory that overlaps; we read first. So the source is elsewhere.
    here = t.untyped_storage().data_ptr()
    others = [
        i
        for i, other in enumerate(tensors)
        if (other.shape == t.shape or other.ndim == 0) and other.untyped_storage().data_ptr() != here
    ]
    other = int(rng.choice(others)) if others and rng.random() < 0.5 else None
    if kind == "setitem" and t.ndim:
        return kind, (which, tuple(_slice(rng, size) for size in t.shape), other)
    return str(rng.choice(["add_", "mul_", "sin_", "tanh_", "fill_", "copy_"])), (which, other)


def do(m: Any, tensors: list[Any], step: Step) -> Any:
    """Run a step; a new tensor or None comes back."""
    name, (first, *rest) = step
    if name == "constant":
        return m.const(random(3, 4, seed=first))
    t = tensors[first]
    if name in ("row", "slice"):
        return t[rest[0]]
    if name == "transpose":
        return t.permute(rest[0]) if t.ndim else None
    if name in ("unsqueeze", "reshape"):
        return getattr(t, name)(rest[0])
    if name == "mul":
        return t * 1.25
    if name == "sin":
        return m.sin(t)
    if name == "square":
        return t * t
    if name == "sum":
        return t.sum()
    if name == "detach":
        return t.detach()
    if name == "quiet":
        with m.no_grad():
            t.mul_(0.5)
        return None
    if name == "setitem":
        key, other = rest
        value = 0.25 if other is None else tensors[other].sum() * 0.1
        t[key] = value
        return None
    (other,) = rest
    if name in ("sin_", "tanh_"):
        getattr(t, name)()
    elif name == "fill_":
        t.fill_(0.5)
    else:
        getattr(t, name)(1.5 if other is None else tensors[other])
    return None


def tried(m: Any, tensors: list[Any], step: Step) -> Any:
    """What a step gives, or the error with which it is refused."""
    try:
        return do(m, tensors, step)
    except (RuntimeError, ValueError, TypeError) as error:
        return error


def gradient(m: Any, out: Any, x: Any, start: np.ndarray) -> Any:
    """Of one tensor by the leaf: the array, None where it does not depend on it, or "refused"."""
    if not out.requires_grad:
        return None
    ask = grad if m.__class__ is Ours else torch.autograd.grad
    try:
        found = ask(out, x, m.const(start), retain_graph=True, allow_unused=True)
    except RuntimeError:
        return "refused"
    found = found[0] if isinstance(found, tuple) else found
    return None if found is None else host(found)


def run(seed: int, length: int) -> tuple[list[Step], int]:
    """Run a random program on both, and compare all there is. The steps, and how many gradients were compared."""
    rng = np.random.default_rng(seed)
    ours, torchs = Ours(), Torchs()
    leaf = random(3, 4, seed=seed)
    x, t = ours.leaf(leaf), torchs.leaf(leaf)
    mine: list[Any] = [x, x * 2.0]
    theirs: list[Any] = [t, t * 2.0]
    steps: list[Step] = []
    for _ in range(length):
        step = draw(rng, theirs)
        steps.append(step)
        got, want = tried(ours, mine, step), tried(torchs, theirs, step)
        for other in theirs:
            _ = other.grad_fn  # torch renews a view's history when asked for it, and forgets to before some writes
        assert isinstance(got, Exception) == isinstance(want, Exception), f"{steps}: {got!r}, torch {want!r}"
        if isinstance(got, Tensor):
            mine.append(got)
            theirs.append(want)
    compared = 0
    for number, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        note = f"tensor {number} of {steps}"
        np.testing.assert_allclose(host(a), host(b), rtol=1e-4, atol=1e-5, err_msg=note)
        assert a.requires_grad == b.requires_grad, note
        start = random(*b.shape, seed=number)
        one, other = gradient(ours, a, x, start), gradient(torchs, b, t, start)
        if isinstance(one, str) or isinstance(other, str) or one is None or other is None:
            assert type(one) is type(other), f"{note}: {one}, torch {other}"
        else:
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4, err_msg=note)
            compared += 1
    return steps, compared


@pytest.mark.slow
def test_random_programs_as_torch() -> None:
    compared = sum(run(seed, length=1 + seed % 25)[1] for seed in range(1500))
    assert compared > 5000
