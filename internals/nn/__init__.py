"""Models: modules, losses and where parameters start."""

from internals.nn import init
from internals.nn.activations import (
    ELU,
    GELU,
    Identity,
    LeakyReLU,
    LogSoftmax,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from internals.nn.attention import MultiheadAttention, TransformerBlock
from internals.nn.containers import ModuleDict, ModuleList, Sequential
from internals.nn.conv import (
    AdaptiveAvgPool2d,
    AvgPool2d,
    Conv1d,
    Conv2d,
    ConvTranspose1d,
    ConvTranspose2d,
    Flatten,
    MaxPool2d,
)
from internals.nn.linear import Embedding, Linear
from internals.nn.losses import (
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
)
from internals.nn.module import Module
from internals.nn.normalise import BatchNorm1d, BatchNorm2d, Dropout, GroupNorm, LayerNorm, RMSNorm
from internals.nn.positions import LearnedPositions, SinusoidalPositions
from internals.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from internals.ops import binary_cross_entropy, cross_entropy, mse, relu

__all__ = [
    "ELU",
    "GELU",
    "GRU",
    "LSTM",
    "RNN",
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GroupNorm",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "LearnedPositions",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2d",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "NLLLoss",
    "RMSNorm",
    "RNNCell",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SinusoidalPositions",
    "Softmax",
    "Softplus",
    "Tanh",
    "TransformerBlock",
    "binary_cross_entropy",
    "cross_entropy",
    "init",
    "mse",
    "relu",
]
