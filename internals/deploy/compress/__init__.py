"""Smaller models: integers for reals, weights left out, shared or factored, and a small model taught by a large one."""

from internals.deploy.compress.calibrate import OBSERVERS, Entropy, MinMax, MovingAverage, Percentile, PerChannel
from internals.deploy.compress.distil import distillation_loss
from internals.deploy.compress.factor import LowRankLinear, low_rank, share
from internals.deploy.compress.fold import fold_norm, fold_norms
from internals.deploy.compress.layers import Linear4, QuantisedConv2d, QuantisedEmbedding, QuantisedLinear, nbytes
from internals.deploy.compress.optimise import Optimised, optimise
from internals.deploy.compress.prune import Pruner, channel_mask, cubic_schedule, magnitude_mask, sparse_nbytes
from internals.deploy.compress.quantise import (
    Recipe,
    calibrate,
    convert,
    prepare,
    prepare_training,
    quantise_model,
    quantise_tables,
)
from internals.deploy.compress.scale import INT4, INT8, NARROW_INT8, UINT8, Grid, Quantisation, affine, symmetric
from internals.deploy.compress.shrink import shrink

__all__ = [name for name in dir() if not name.startswith("_")]
