"""The Keras-style front: models that find their shapes, are compiled, and fit themselves to data."""

from internals.front import callbacks, losses, metrics
from internals.front.callbacks import (
    Callback,
    CSVLogger,
    EarlyStopping,
    History,
    HistoryPlot,
    LambdaCallback,
    LearningRateScheduler,
    ModelCheckpoint,
    ProgressBar,
    TerminateOnNaN,
)
from internals.front.layer import Layer, set_random_seed
from internals.front.layers import (
    Activation,
    Add,
    Average,
    Concatenate,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    Maximum,
    Multiply,
    ReLU,
    Rescaling,
    Reshape,
    Softmax,
    Subtract,
)
from internals.front.model import Model, Sequential
from internals.front.saving import load
from internals.front.sequences import GRU, LSTM, MultiHeadAttention, SimpleRNN
from internals.front.symbol import Input, Symbol
from internals.front.windows import (
    AveragePooling2D,
    BatchNormalization,
    Conv2D,
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalMaxPooling2D,
    LayerNormalization,
    MaxPooling2D,
)

__all__ = [name for name in dir() if not name.startswith("_") and name[0].isupper()]
__all__ += ["callbacks", "load", "losses", "metrics", "set_random_seed"]
