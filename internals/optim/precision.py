"""Training in half precision: a scale that keeps small gradients in float16's range, and float32 master weights.

float16 has nothing below 6e-8. `LossScaler` multiplies the loss, and so every gradient, and divides before the step.
bfloat16 has the range of float32 and wants no scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from internals import ops
from internals.device import device_of
from internals.optim.autocast import is_half
from internals.optim.optimizer import Optimizer
from internals.tensor import Tensor, no_grad


class LossScaler:
    """Multiply the loss, so that small gradients stay above float16's smallest number; find the factor while training.

    ::

        scaler.scale(loss).backward()
        scaler.step(optimizer)      # divides the gradients; leaves the step out if one is infinite or NaN
        scaler.update()             # a smaller scale after such a step, a larger one after many good ones

    Parameters
    ----------
    init_scale : float
    growth_factor, backoff_factor : float
        Above 1 and in (0, 1).
    growth_interval : int
        So many good steps in a row, and the scale grows. It does not grow past float32's range.
    enabled : bool
        False makes every method do nothing but hand on, so that a training loop can be written once.

    Notes
    -----
    To clip gradients, call ``unscale(optimizer)`` first: a scaled gradient has no meaningful norm. One `update` may
    follow the steps of several optimizers.

    References
    ----------
    Micikevicius et al. (2018), Mixed precision training, §3.2. Step for step as torch.amp.GradScaler.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        *,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not 0 < init_scale < math.inf:
            raise ValueError(f"LossScaler: init_scale must be positive and finite, got {init_scale}.")
        if not growth_factor > 1 or not 0 < backoff_factor < 1:
            raise ValueError(
                "LossScaler: growth_factor must be above 1 and backoff_factor in (0, 1), got "
                f"{growth_factor} and {backoff_factor}."
            )
        if not isinstance(growth_interval, int) or growth_interval < 1:
            raise ValueError(f"LossScaler: growth_interval must be a positive integer, got {growth_interval!r}.")
        self._scale, self.growth_factor, self.backoff_factor = float(init_scale), growth_factor, backoff_factor
        self.growth_interval, self.enabled, self._good_steps = growth_interval, enabled, 0
        self._seen: dict[Optimizer, bool] = {}  # of the optimizers since the last update: whether gradients were finite
        self._stepped: set[Optimizer] = set()

    @property
    def value(self) -> float:
        """The scale; 1 where the scaler is not enabled."""
        return self._scale if self.enabled else 1.0

    def scale(self, loss: Any) -> Any:
        """The loss, or each of several, times the scale, in float32: in float16 the product would soon be infinite."""
        if not self.enabled:
            return loss
        if isinstance(loss, list | tuple):
            return type(loss)([self.scale(one) for one in loss])
        if not isinstance(loss, Tensor):
            raise TypeError(f"LossScaler: scale wants a Tensor, or several, got {type(loss).__name__}.")
        return ops.mul(loss.to(np.float32) if is_half(loss) else loss, self._scale)

    def unscale(self, optimizer: Optimizer) -> None:
        """Divide the gradients by the scale, in place; `step` does so unless it was done.

        Raises
        ------
        RuntimeError
            It was done since the last `update`, or the optimizer has stepped.
        TypeError
            A gradient is in half precision, in which dividing would lose what scaling saved.
        """
        if not self.enabled:
            return
        if optimizer in self._stepped:
            raise RuntimeError("LossScaler: unscale after step; call update() between two steps.")
        if optimizer in self._seen:
            raise RuntimeError("LossScaler: these gradients were unscaled already; call update() after each step.")
        gradients = [parameter.grad for parameter in optimizer.parameters if parameter.grad is not None]
        for gradient in gradients:
            if is_half(gradient):
                raise TypeError(
                    f"LossScaler: a gradient is {gradient.dtype}, and divided by the scale it would be 0 again. Train "
                    "float32 parameters inside autocast, or keep MasterWeights."
                )
        finite = True
        for gradient in gradients:
            place, data = device_of(gradient.data), gradient.data
            place.xp.multiply(data, 1 / self._scale, out=data)
            gradient.storage.version += 1
            finite = finite and bool(place.to_host(place.xp.all(place.xp.isfinite(data))))
        self._seen[optimizer] = finite

    def step(self, optimizer: Optimizer) -> bool:
        """Unscale, and let the optimizer step if all gradients are finite.

        Returns
        -------
        bool
            Whether it stepped.
        """
        if not self.enabled:
            optimizer.step()
            return True
        if optimizer in self._stepped:
            raise RuntimeError("LossScaler: this optimizer has stepped since the last update(); call that first.")
        if optimizer not in self._seen:
            self.unscale(optimizer)
        self._stepped.add(optimizer)
        if self._seen[optimizer]:
            optimizer.step()
        return self._seen[optimizer]

    def update(self) -> None:
        """Change the scale by what the steps since the last update found.

        Raises
        ------
        RuntimeError
            There was none.
        """
        if not self.enabled:
            return
        if not self._seen:
            raise RuntimeError("LossScaler: update before any step or unscale; there is nothing to judge the scale by.")
        if not all(self._seen.values()):
            self._scale, self._good_steps = self._scale * self.backoff_factor, 0
        else:
            self._good_steps += 1
            if self._good_steps == self.growth_interval:
                grown = self._scale * self.growth_factor
                self._scale = grown if grown <= _LARGEST else self._scale
                self._good_steps = 0
        self._seen.clear()
        self._stepped.clear()

    def state_dict(self) -> dict[str, Any]:
        """The scale, its settings, and how many good steps there were; empty where it is not enabled."""
        if not self.enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": self._good_steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave, or torch.amp.GradScaler's."""
        if not self.enabled:
            return
        if state.keys() != self.state_dict().keys():
            raise ValueError(
                f"LossScaler: load_state_dict: got {', '.join(map(str, state)) or 'nothing'}; expected "
                f"{', '.join(self.state_dict())}. Was it saved by a scaler that was not enabled?"
            )
        self._scale = float(state["scale"])
        self.growth_factor, self.backoff_factor = state["growth_factor"], state["backoff_factor"]
        self.growth_interval, self._good_steps = state["growth_interval"], state["_growth_tracker"]


_LARGEST = float(np.finfo(np.float32).max)


class MasterWeights:
    """float32 copies of a half-precision model's parameters: the optimizer moves the copies, the model follows.

    A step is often less than a thousandth of its weight, which is as much as float16 can tell apart: added to the half
    number it would be lost, and so would all steps like it::

        masters = MasterWeights(model.parameters())
        optimizer = Adam(masters.parameters)
        ...
        masters.take_gradients()
        optimizer.step()
        masters.write_back()

    Parameters
    ----------
    parameters : iterable of Tensors
        Leaves; those that are not in half precision are their own masters.

    Attributes
    ----------
    parameters : list of Tensors
        The float32 leaves.

    References
    ----------
    Micikevicius et al. (2018), Mixed precision training, §3.1.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        if isinstance(parameters, Tensor):
            raise TypeError("MasterWeights: parameters are given as a list; one tensor alone is [tensor].")
        self.model = list(parameters)
        self.parameters = [
            Tensor(parameter.data, dtype=np.float32, requires_grad=True) if is_half(parameter) else parameter
            for parameter in self.model
        ]

    def take_gradients(self) -> None:
        """Move the model's gradients to the masters, as float32."""
        with no_grad():
            for half, master in self._pairs():
                master.grad = None if half.grad is None else half.grad.detach().to(np.float32)
                half.grad = None

    def write_back(self) -> None:
        """Round the masters into the model."""
        for half, master in self._pairs():
            half.data[...] = master.data.astype(half.dtype)
            half.storage.version += 1

    def _pairs(self) -> list[tuple[Tensor, Tensor]]:
        return [(h, m) for h, m in zip(self.model, self.parameters, strict=True) if h is not m]
