"""Optimizers, schedules for their step size, gradient clipping, averaged weights, and mixed precision."""

from internals.optim.adam import Adam, AdamW, Lion
from internals.optim.adaptive import AdaGrad, RMSProp
from internals.optim.autocast import autocast
from internals.optim.average import ExponentialMovingAverage
from internals.optim.chain import ChainedScheduler, SequentialLR
from internals.optim.clip import clip_grad_norm, clip_grad_value
from internals.optim.one_cycle import OneCycleLR
from internals.optim.optimizer import Optimizer
from internals.optim.plateau import ReduceLROnPlateau
from internals.optim.precision import LossScaler, MasterWeights
from internals.optim.schedule import (
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    Schedule,
    StepLR,
)
from internals.optim.sgd import SGD

__all__ = [
    "SGD",
    "AdaGrad",
    "Adam",
    "AdamW",
    "ChainedScheduler",
    "CosineAnnealingLR",
    "ExponentialLR",
    "ExponentialMovingAverage",
    "LambdaLR",
    "LinearLR",
    "Lion",
    "LossScaler",
    "MasterWeights",
    "MultiStepLR",
    "OneCycleLR",
    "Optimizer",
    "RMSProp",
    "ReduceLROnPlateau",
    "Schedule",
    "SequentialLR",
    "StepLR",
    "autocast",
    "clip_grad_norm",
    "clip_grad_value",
]
