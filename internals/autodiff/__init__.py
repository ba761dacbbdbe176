"""Automatic differentiation. Importing it gives Tensors their `backward`."""

from internals.autodiff.anomaly import AnomalyError, detect_anomaly
from internals.autodiff.checkpoint import CheckpointError, checkpoint, checkpoint_sequential
from internals.autodiff.custom import custom_vjp
from internals.autodiff.forward import jvp
from internals.autodiff.gradcheck import GradcheckError, gradcheck, gradgradcheck
from internals.autodiff.recorded import vjp
from internals.autodiff.tape import StaleTape, backward, grad, pullback, swap
from internals.autodiff.transforms import gradient, hessian, hvp, jacobian, value_and_grad
from internals.autodiff.vmap import vmap

__all__ = [
    "AnomalyError",
    "CheckpointError",
    "GradcheckError",
    "StaleTape",
    "backward",
    "checkpoint",
    "checkpoint_sequential",
    "custom_vjp",
    "detect_anomaly",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "gradient",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "pullback",
    "swap",
    "value_and_grad",
    "vjp",
    "vmap",
]
