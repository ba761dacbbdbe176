"""What hooks do to a cotangent on its way back."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.ops.spec import Spec
from internals.tensor import Tensor, wrap
from internals.tensor.hooks import hooks


def passed(entry: Any, cotangent: Any) -> Any:
    """A cotangent after the hooks of an entry of the tape: a bare array or a Tensor, as it came.

    Raises
    ------
    TypeError, RuntimeError
        A hook returned something that can't stand for the gradient it was given.
    """
    recorded = type(cotangent) is Tensor
    for function in list(hooks[entry].values()):
        given = cotangent if recorded else wrap(np.asarray(cotangent) if np.isscalar(cotangent) else cotangent)
        came = function(given)
        if came is None:
            continue
        if not isinstance(came, Tensor):
            raise TypeError(
                f"register_hook: a hook returned {type(came).__name__}; expected a tensor, or None to change nothing."
            )
        if came.shape != given.shape or came.dtype != given.dtype or came.device is not given.device:
            raise RuntimeError(
                f"register_hook: a hook returned {Spec(came.shape, came.dtype)} on {came.device} for a gradient of "
                f"{Spec(given.shape, given.dtype)} on {given.device}; they must agree."
            )
        cotangent = came if recorded else came.data
    return cotangent
