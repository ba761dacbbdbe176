"""What one server holds of the dense parameters: pieces, and an optimizer's memory of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals.optim import Optimizer
from internals.tensor import Tensor, wrap

MakeOptimizer = Callable[[Iterable[Tensor]], Optimizer]
"""``lambda parameters: Adam(parameters, lr=1e-3)``: a server makes one for each piece it holds."""


@dataclass
class Held:
    """A piece, and what moves it.

    Attributes
    ----------
    begin, end : int
        Its place in the flattened parameter.
    shape : tuple of int
        Of the whole parameter.
    tensor : Tensor, shape (end - begin,)
    optimizer : Optimizer
    first : int
        A checksum of the values it was initialised with.
    """

    begin: int
    end: int
    shape: tuple[int, ...]
    tensor: Tensor
    optimizer: Optimizer
    first: int

    @property
    def values(self) -> np.ndarray:
        return self.tensor.data

    def __str__(self) -> str:
        return f"entries {self.begin} to {self.end} of {self.values.dtype} {self.shape}"


class DensePieces:
    """The dense half of a server. Not for several threads.

    Parameters
    ----------
    make_optimizer : callable
        Given a list of one Tensor, returns its optimizer. An optimizer's rule is entry-wise, so that pieces can be
        moved apart, and by several servers.
    """

    def __init__(self, make_optimizer: MakeOptimizer) -> None:
        self._make = make_optimizer
        self._held: dict[str, Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __getitem__(self, name: str) -> Held:
        return self._held[name]

    @property
    def nbytes(self) -> int:
        """Bytes of values; the optimizers' memory comes on top."""
        return sum(held.values.nbytes for held in self._held.values())

    def add(self, name: str, begin: int, shape: tuple[int, ...], values: np.ndarray, first: int) -> None:
        """Take in a piece; the values are copied."""
        if values.ndim != 1 or values.dtype.kind != "f":
            raise TypeError(f"parameter {name!r}: {values.dtype} {values.shape} can't be trained; expected floats")
        own = wrap(np.array(values))
        own.requires_grad = True
        self._held[name] = Held(begin, begin + values.size, shape, own, self._make([own]), first)

    def values(self) -> list[np.ndarray]:
        """All pieces, sorted by name; the arrays themselves."""
        return [self._held[name].values for name in sorted(self._held)]

    def check(self, name: str, gradient: np.ndarray, who: str) -> None:
        """Raise unless a gradient fits a piece.

        Raises
        ------
        LookupError, ValueError, TypeError
            Each names who sent it, the parameter, what came and what was expected.
        """
        held = self._held.get(name)
        if held is None:
            known = ", ".join(sorted(self._held)) or "none"
            raise LookupError(f"{who} pushed a gradient of {name!r}, which is not held here; held are {known}")
        if gradient.shape != held.values.shape:
            raise ValueError(
                f"{who} pushed {gradient.size} entries of a gradient of {name!r}, of which {held.values.size} are held "
                f"here ({held}); was it placed alike everywhere?"
            )
        if gradient.dtype != held.values.dtype:
            raise TypeError(
                f"{who} pushed a {gradient.dtype} gradient of {name!r}, which is {held.values.dtype}; convert it"
            )

    def apply(self, gradients: Mapping[str, np.ndarray]) -> None:
        """One step of the optimizer with these gradients; pieces without one stay as they are."""
        for name, gradient in gradients.items():
            held = self._held[name]
            held.tensor.grad = wrap(gradient)
            held.optimizer.step()
            held.tensor.grad = None  # it is a view of a message's memory

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Copies of everything, as plain data and arrays, to be written to a file."""
        plain: dict[str, Any] = {}
        arrays: dict[str, np.ndarray] = {}
        for number, (name, held) in enumerate(self._held.items()):
            saved = held.optimizer.state_dict()
            (group,) = saved["param_groups"]
            settings = {key: list(value) if isinstance(value, tuple) else value for key, value in group.items()}
            remembered = saved["state"].get(0, {})
            plain[name] = {
                "number": number, "begin": held.begin, "shape": list(held.shape), "first": held.first,
                "optimizer": type(held.optimizer).__name__, "settings": settings, "step": remembered.get("step"),
                "slots": [slot for slot in remembered if slot != "step"],
            }  # fmt: skip
            arrays[f"dense/{number}"] = held.values.copy()
            arrays |= {f"dense/{number}/{slot}": remembered[slot] for slot in plain[name]["slots"]}
        return plain, arrays

    def load(self, plain: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Be what `state` gave.

        Raises
        ------
        ValueError
            It is of another optimizer.
        """
        self._held.clear()
        for name, told in plain.items():
            self.add(name, told["begin"], tuple(told["shape"]), arrays[f"dense/{told['number']}"], told["first"])
            optimizer = self._held[name].optimizer
            if type(optimizer).__name__ != told["optimizer"]:
                raise ValueError(
                    f"the checkpoint was made with {told['optimizer']}, this server trains {name!r} with "
                    f"{type(optimizer).__name__}; start it with the same optimizer"
                )
            slots = {slot: arrays[f"dense/{told['number']}/{slot}"] for slot in told["slots"]}
            state = {0: {"step": told["step"], **slots}} if told["step"] is not None else {}
            settings = {
                key: tuple(value) if isinstance(value, list) and key != "params" else value
                for key, value in told["settings"].items()
            }
            optimizer.load_state_dict({"state": state, "param_groups": [settings]})


def weighted_mean(parts: Sequence[tuple[float, np.ndarray]], total: float) -> np.ndarray:
    """``sum(weight * part) / total``, in the order given, so that the result is the same to the last bit each time.

    Parameters
    ----------
    parts : sequence of (weight, array of one shape and dtype)
    total : float
        The weights of all that took part, those that had no such gradient among them.
    """
    if len(parts) == 1 and parts[0][0] == total:
        return parts[0][1]
    weight, first = parts[0]
    summed = np.multiply(first, first.dtype.type(weight / total))
    for weight, part in parts[1:]:
        summed += part * part.dtype.type(weight / total)
    return summed
