"""The op table. ``TABLE[name]`` is a row; each row is also a function of this package."""

from internals.ops.activations import elu, erf, gelu, gelu_slope, gelu_tanh, leaky_relu, silu, softsign
from internals.ops.arrange import diag_embed, diagonal, pad, repeat, roll, tile, tril, triu
from internals.ops.attention import attention, scaled_dot_product
from internals.ops.classification import cross_entropy, nll, soft_cross_entropy, weighted_cross_entropy
from internals.ops.contract import einsum, outer, tensordot
from internals.ops.conv import (
    conv1d,
    conv1d_weight,
    conv2d,
    conv2d_weight,
    conv_transpose1d,
    conv_transpose2d,
    pad_same,
)
from internals.ops.ctc import ctc
from internals.ops.decompose import cholesky, eigh, lstsq, qr, svd
from internals.ops.dropout import dropout
from internals.ops.elementwise import (
    abs,
    add,
    cast,
    ceil,
    clip,
    clone,
    cos,
    div,
    equal,
    exp,
    expm1,
    floor,
    greater,
    greater_equal,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mul,
    neg,
    not_equal,
    ones_like,
    pow,
    reciprocal,
    relu,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    softplus,
    sqrt,
    square,
    sub,
    tanh,
    where,
    zeros_like,
)
from internals.ops.functions import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    clamp,
    cosh,
    exp2,
    floor_divide,
    hypot,
    isfinite,
    isinf,
    lerp,
    log2,
    log10,
    logaddexp,
    masked_fill,
    remainder,
    sinh,
    tan,
    trunc,
)
from internals.ops.index import gather, getitem, index_put, one_hot, scatter, scatter_add, unindex
from internals.ops.linalg import matmul
from internals.ops.linear import linear
from internals.ops.lookup import index_add, take, untake
from internals.ops.loss import (
    binary_cross_entropy,
    huber,
    kl_div,
    l1,
    log_softmax,
    mse,
    smooth_l1,
    softmax,
    weighted_binary_cross_entropy,
)
from internals.ops.normalise import batch_norm, group_norm, layer_norm, normalise, rms_norm, rms_normalise
from internals.ops.order import argsort, sort, topk
from internals.ops.pool import (
    adaptive_avg_pool2d,
    adaptive_avg_unpool2d,
    avg_pool2d,
    avg_unpool2d,
    max_pool2d,
    max_pool2d_index,
    pick2d,
    unpool2d,
)
from internals.ops.quantise import conv2d_integer, dequantise, fake_quantise, matmul_integer, quantise
from internals.ops.recurrent import gru, lstm, rnn
from internals.ops.reduce import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    logsumexp,
    max,
    mean,
    min,
    prod,
    products_of_others,
    sum,
)
from internals.ops.rules import pull, unbroadcast
from internals.ops.scan import cumprod, cumsum
from internals.ops.seed import draw_seed
from internals.ops.shape import (
    broadcast_to,
    chunk,
    concat,
    expand_dims,
    flip,
    moveaxis,
    reshape,
    split,
    squeeze,
    stack,
    swapaxes,
    transpose,
    unbind,
)
from internals.ops.solve import det, inverse, slogdet, solve, triangular_solve
from internals.ops.spec import Spec, broadcast_shapes, explain_broadcast, promote
from internals.ops.statistics import norm, std, var
from internals.ops.swapping import swap, swap_jvp, swap_kernels
from internals.ops.table import TABLE, Op, row, style

__all__ = [name for name in dir() if not name.startswith("_")]
