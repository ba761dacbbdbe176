"""Automatic differentiation. Importing it gives Tensors their `backward`."""

from internals.autodiff.forward import jvp
from internals.autodiff.gradcheck import GradcheckError, gradcheck
from internals.autodiff.tape import StaleTape, backward, grad, pullback, swap

__all__ = ["GradcheckError", "StaleTape", "backward", "grad", "gradcheck", "jvp", "pullback", "swap"]
