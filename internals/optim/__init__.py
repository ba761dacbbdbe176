"""Optimizers."""

from internals.optim.sgd import SGD

__all__ = ["SGD"]
