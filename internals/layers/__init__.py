"""The layer style of Caffe and the first PaddlePaddle: layers with forward and backward written out, and no tape."""

from internals.layers import costs, dense, image, mixed, networks, recurrent_group, sequence
from internals.layers.argument import Argument, Form, Parameter
from internals.layers.check import topological_order
from internals.layers.config import ConfigError
from internals.layers.costs import SoftmaxWithLoss
from internals.layers.dense import FullyConnected
from internals.layers.evaluators import AUC, ClassificationError, Evaluator, PrecisionRecall
from internals.layers.image import Convolution, Pool
from internals.layers.layer import ACTIVATIONS, LAYERS, Layer, layer, pull, swap
from internals.layers.machine import GradientMachine, shares
from internals.layers.net import Net
from internals.layers.optimizer import Momentum, update
from internals.layers.provider import DataProvider
from internals.layers.sequence import batch_of

__all__ = [name for name in dir() if not name.startswith("_")]
