"""Compare derivatives with finite differences, in float64: both modes, in random directions or entry by entry.

In one random direction t a wrong entry of a Jacobian shows unless its error happens to be orthogonal to t, which has
probability zero; so two runs of the function for each direction replace two for each entry. Only where a direction
disagrees are the entries tried one by one, to name the worst.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals.autodiff.forward import jvp
from internals.autodiff.recorded import Recorded, vjp
from internals.autodiff.tape import grad
from internals.device import device_of
from internals.tensor import Tensor


class GradcheckError(AssertionError):
    """A derivative and the finite differences disagree; the message has the worst entry.

    Attributes
    ----------
    input : int
    index : tuple of int
        The entry of the input.
    got, expected : float
        The gradient there, and what central differences give.
    """

    def __init__(self, message: str, input: int, index: tuple[int, ...], got: float, expected: float) -> None:
        super().__init__(message)
        self.input, self.index, self.got, self.expected = input, index, got, expected


@dataclass(frozen=True)
class _Tolerance:
    step: float
    relative: float
    absolute: float

    def excess(self, got: Any, expected: Any) -> Any:
        """How far two values are further apart than allowed; infinite where one of them alone is NaN."""
        with np.errstate(invalid="ignore"):
            over = np.abs(got - expected) - (self.absolute + self.relative * np.abs(expected))
        agree = (np.isnan(got) & np.isnan(expected)) | (got == expected)
        return np.where(agree, -np.inf, np.where(np.isnan(over), np.inf, over))


def gradcheck(
    function: Callable[..., Any],
    inputs: Sequence[Tensor],
    *,
    step: float = 1e-6,
    relative: float = 1e-5,
    absolute: float = 1e-7,
    full: bool = False,
    forward: bool = True,
    directions: int = 2,
    rng: np.random.Generator | None = None,
) -> None:
    """Check the derivatives of a function against central differences, in reverse and in forward mode.

    Parameters
    ----------
    function : callable
        Takes the inputs as Tensors and returns a Tensor of any shape, or a tuple or list of them.
    inputs : sequence of Tensors
        Those that require a gradient are checked; they must be float64, on any device.
    step : float
        Half the distance between the two points of a difference.
    relative, absolute : float
        ``|derivative - difference| <= absolute + relative * |difference|`` must hold. In a random direction the
        bound grows with the square root of the number of entries, as the rounding errors do.
    full : bool
        Compare every entry of every input's gradient, rather than random directions: as many pairs of runs as the
        inputs have entries.
    forward : bool
        Check `jvp` too: against the differences, and against the gradient, <g, J t> = <J^T g, t> (the dot-product test,
        Claerbout 1992), which holds to rounding. Not for a function that calls `grad` or `backward` itself.
    directions : int
        How many random directions, each with a cotangent of its own.
    rng : numpy.random.Generator, optional
        Where directions and cotangents come from; a fresh one otherwise.

    Raises
    ------
    GradcheckError
        Names the input, the worst entry, both values and their relative error.
    TypeError
        An input to be checked is not float64; differences in float32 say little.
    ValueError
        No input requires a gradient, or no result depends on one.
    """
    rng = rng or np.random.default_rng()
    inputs = list(inputs)
    checked = _checked("gradcheck", inputs)
    tolerance = _Tolerance(step, relative, absolute)
    for _ in range(1 if full else directions):
        results = _results(function(*inputs))
        moving = [out for out in results if out.requires_grad]
        if not moving:
            raise ValueError("gradcheck: no result depends on an input that requires a gradient.")
        cotangents = [rng.standard_normal(out.shape).astype(out.dtype) for out in results]
        starts = [Tensor(g, device=o.device) for g, o in zip(cotangents, results, strict=True) if o.requires_grad]
        found = grad(moving, [inputs[i] for i in checked], starts, allow_unused=True)
        gradients = [
            np.zeros(inputs[i].shape) if one is None else _host(one) for i, one in zip(checked, found, strict=True)
        ]
        probe = _Probe(function, inputs, checked, cotangents, step)
        if full:
            _compare_entries(probe, gradients, tolerance)
        else:
            _compare_directions(probe, gradients, tolerance, rng)
        if forward:
            _compare_forward(probe, gradients, tolerance, rng)


def gradgradcheck(function: Callable[..., Any], inputs: Sequence[Tensor], **options: Any) -> None:
    """Check second derivatives: `gradcheck` of the gradient, by the inputs and by the cotangent.

    Parameters
    ----------
    function, inputs, **options
        As `gradcheck`. The rules' own derivatives are what is checked.

    Raises
    ------
    GradcheckError, TypeError, ValueError
        As `gradcheck`. The inputs are counted first, then a cotangent for each result.
    """
    options["rng"] = options.get("rng") or np.random.default_rng()
    forward = options.pop("forward", True)
    inputs = list(inputs)
    checked = _checked("gradgradcheck", inputs)
    cotangents = [
        Tensor(options["rng"].standard_normal(out.shape), device=out.device, requires_grad=True)
        for out in _results(function(*inputs))
        if out.requires_grad
    ]
    n = len(inputs)

    def by_tape(*given: Any) -> Any:
        outs = [out for out in _results(function(*given[:n])) if out.requires_grad]
        wrt = [given[i] for i in checked]
        found = grad(outs, wrt, given[n:], create_graph=True, allow_unused=True)
        return [one for one in found if one is not None]

    def by_vjp(*given: Any) -> Any:
        def moving(*values: Any) -> Any:
            points = list(given[:n])
            for i, value in zip(checked, values, strict=True):
                points[i] = value
            return tuple(out for out in _results(function(*points)) if isinstance(out, Recorded))

        return vjp(moving, *[given[i] for i in checked])[1](tuple(given[n:]))

    gradcheck(by_tape, [*inputs, *cotangents], forward=False, **options)
    if forward:
        gradcheck(by_vjp, [*inputs, *cotangents], **options)


class _Probe:
    """A function at a point, with a cotangent for its results: what differences and tangents make of it."""

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: list[Tensor],
        checked: list[int],
        cotangents: list[np.ndarray],
        step: float,
    ) -> None:
        self.function, self.inputs, self.checked = function, inputs, checked
        self.cotangents, self.step = cotangents, step
        self.host = [_host(inputs[i]) for i in checked]

    def difference(self, tangents: Sequence[np.ndarray]) -> float:
        """<g, J t> by central differences."""
        ends = []
        for signed in (self.step, -self.step):
            there = list(self.inputs)
            for i, x, t in zip(self.checked, self.host, tangents, strict=True):
                # Recorded like the first: the function may itself take gradients.
                there[i] = Tensor(x + signed * t, device=self.inputs[i].device, requires_grad=True)
            ends.append([_host(out) for out in _results(self.function(*there))])
        return float(
            sum(
                np.sum((above - below) / (2 * self.step) * g)
                for above, below, g in zip(*ends, self.cotangents, strict=True)
                if above.dtype.kind not in "biu"
            )
        )

    def along(self, position: int, index: tuple[int, ...]) -> float:
        """The difference along one entry of one input."""
        tangents = [np.zeros(x.shape) for x in self.host]
        tangents[position][index] = 1
        return self.difference(tangents)

    def pushed(self, tangents: Sequence[np.ndarray]) -> float:
        """<g, J t> by forward mode."""
        moved = [Tensor(t, device=self.inputs[i].device) for i, t in zip(self.checked, tangents, strict=True)]

        def of_these(*values: Any) -> Any:
            full = list(self.inputs)
            for i, value in zip(self.checked, values, strict=True):
                full[i] = value
            return tuple(_results(self.function(*full)))

        _, out = jvp(of_these, [self.inputs[i] for i in self.checked], moved)
        return float(
            sum(
                np.sum(_host(tangent) * g)
                for tangent, g in zip(out, self.cotangents, strict=True)
                if tangent.dtype.kind not in "biu"
            )
        )


def _compare_directions(
    probe: _Probe, gradients: list[np.ndarray], tolerance: _Tolerance, rng: np.random.Generator
) -> None:
    for position in range(len(gradients)):
        tangents = [np.zeros(x.shape) for x in probe.host]
        tangents[position] = rng.standard_normal(probe.host[position].shape)
        got = float(np.sum(gradients[position] * tangents[position]))
        expected = probe.difference(tangents)
        wide = np.sqrt(max(probe.host[position].size, 1))
        if tolerance.excess(got / wide, expected / wide) > 0:
            _compare_entries(probe, gradients, tolerance)
            raise GradcheckError(
                f"gradcheck: input {probe.checked[position]}: along a random direction the gradient gives {got:.10g}, "
                f"central differences {expected:.10g} (step {probe.step:g}, relative error "
                f"{_relative(got, expected):.2g}), though each entry alone is within the tolerance.",
                probe.checked[position],
                (),
                got,
                expected,
            )


def _compare_entries(probe: _Probe, gradients: list[np.ndarray], tolerance: _Tolerance) -> None:
    """Raise for the entry that is furthest off, if one is."""
    worst: tuple[float, int, tuple[int, ...], float, float] | None = None
    for position, gradient in enumerate(gradients):
        for index in np.ndindex(gradient.shape):
            got, expected = float(gradient[index]), probe.along(position, index)
            excess = float(tolerance.excess(got, expected))
            if excess > 0 and (worst is None or excess > worst[0]):
                worst = excess, probe.checked[position], index, got, expected
    if worst is not None:
        _, which, index, got, expected = worst
        raise GradcheckError(
            f"gradcheck: input {which}, entry {tuple(map(int, index))}: the gradient is {got:.10g}, central "
            f"differences give {expected:.10g} (step {probe.step:g}, relative error {_relative(got, expected):.2g}).",
            which,
            tuple(map(int, index)),
            got,
            expected,
        )


def _compare_forward(
    probe: _Probe, gradients: list[np.ndarray], tolerance: _Tolerance, rng: np.random.Generator
) -> None:
    tangents = [rng.standard_normal(x.shape) for x in probe.host]
    forward = probe.pushed(tangents)
    backward = float(sum(np.sum(g * t) for g, t in zip(gradients, tangents, strict=True)))
    size = float(sum(np.sum(np.abs(g * t)) for g, t in zip(gradients, tangents, strict=True)))
    if not (abs(forward - backward) <= 1e-9 * size + 1e-12 or np.isnan([forward, backward]).all()):
        raise GradcheckError(
            f"gradcheck: forward and reverse mode disagree: <g, J t> is {forward:.10g}, <J^T g, t> is {backward:.10g} "
            f"(relative error {_relative(forward, backward):.2g}); central differences give "
            f"{probe.difference(tangents):.10g}.",
            probe.checked[0],
            (),
            forward,
            backward,
        )


def _checked(name: str, inputs: Sequence[Any]) -> list[int]:
    """The positions of the inputs that require a gradient."""
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: input {i} is {type(x).__name__}; expected a Tensor.")
        if x.requires_grad and x.dtype != np.float64:
            raise TypeError(
                f"{name}: input {i} is {x.dtype}; finite differences need float64: in float32 a difference over a step "
                "small enough to be a derivative is mostly rounding. Cast it: x.to('float64')."
            )
    checked = [i for i, x in enumerate(inputs) if x.requires_grad]
    if not checked:
        raise ValueError(f"{name}: no input requires a gradient, so there is nothing to check.")
    return checked


def _results(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple | list) else [out]


def _host(tensor: Tensor) -> np.ndarray:
    return np.asarray(device_of(tensor.data).to_host(tensor.data))


def _relative(got: float, expected: float) -> float:
    return abs(got - expected) / max(abs(got), abs(expected), np.finfo(float).tiny)
