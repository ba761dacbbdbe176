"""Every public op refuses nonsense: by the right kind of error, naming the op, what came and what was expected."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from bad_sequences import SEQUENCES_WRONG

from internals import DeviceError, Tensor, ops
from internals.ops import TABLE


def row(length: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=length).astype("f")


def of(*shape: int, dtype: Any = np.float32, where: str = "cpu") -> Tensor:
    return Tensor(np.ones(shape, dtype), device=where)


def ids(*values: Any) -> Tensor:
    return Tensor(np.array(values))


BROADCAST = [name for name, op in TABLE.items() if op.broadcasts and op.inputs == ("x", "y") and name != "matmul"]
REDUCE = ["sum", "mean", "max", "min", "logsumexp", "any", "all", "prod", "argmax", "argmin"]
POOL = ["max_pool2d", "max_pool2d_index", "avg_pool2d"]
NORMALISE = ["normalise", "rms_normalise"]
ORDER = ["argsort", "sort", "topk"]
MATRIX = ["inverse", "det", "slogdet", "cholesky", "eigh"]

WRONG: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    *SEQUENCES_WRONG,
    *[(name, lambda op=TABLE[name]: op(of(2, 3), of(4)), ValueError,
        r"\(2, 3\) and \(4,\).*3 and 4") for name in BROADCAST],
    *[(name, lambda op=TABLE[name]: op(of(2), of(2, where="sim")), DeviceError, "cpu and sim:0") for name in BROADCAST],
    *[(name, lambda op=TABLE[name]: op(of(2, 3), axis=2), ValueError, "axis 2 .* 2 dimensions") for name in REDUCE],
    *[(name, lambda op=TABLE[name]: op(of(2, 3), axis=-3), ValueError, "axis -3 ") for name in REDUCE],
    *[(name, lambda op=TABLE[name]: op(of(2, 3), axis=1.0), TypeError, r"float|1\.0") for name in REDUCE],
    *[(name, lambda op=TABLE[name]: op(of(2, 3), axis=(0, 0)), ValueError,
        r"\(0, 0\) .*twice") for name in REDUCE[:-3]],
    *[(name, lambda op=TABLE[name]: op(of(2, 3), axis=(0, 1)), TypeError,
        r"one integer, got \(0, 1\)") for name in REDUCE[-3:]],
    *[(name, lambda op=TABLE[name]: op(of(0, 3), axis=0), ValueError, r"\(0, 3\)") for name in ("max", "min",
        "argmax", "argmin")],
    ("atan2", lambda: ops.atan2(of(2, 3), of(4)), ValueError, r"\(2, 3\) and \(4,\)"),
    ("lerp", lambda: ops.lerp(of(2), of(2), of(3)), ValueError, r"\(2,\) and \(2,\) and \(3,\)"),
    ("floor_divide", lambda: ids(3) // 0, ValueError, "integer was divided by 0"),
    ("remainder", lambda: ops.remainder(ids(3), 0), ValueError, "integer was divided by 0"),
    ("leaky_relu", lambda: ops.leaky_relu(of(2), slope="steep"), TypeError, "slope must be a number, got str"),
    ("elu", lambda: ops.elu(of(2), alpha=None), TypeError, "alpha must be a number, got NoneType"),
    *[(name, lambda op=TABLE[name]: op(of(2, 3), axis=2), ValueError, "axis 2 .* 2 dimensions")
      for name in ("var", "std", "norm", "cumsum", "cumprod")],
    *[(name, lambda op=TABLE[name]: op(of(2, 3), correction="n"), TypeError, "number, got str")
      for name in ("var", "std")],
    ("norm", lambda: ops.norm(of(2), p=3), ValueError, "1, 2 or infinity, got 3"),
    ("norm", lambda: ops.norm(of(0, 2), p=float("inf"), axis=0), ValueError, r"\(0, 2\) .*axis 0"),
    ("cumsum", lambda: ops.cumsum(of(2, 3), axis=None), TypeError, "axis must be an integer, got NoneType"),
    ("take", lambda: ops.take(of(3), of(2)), TypeError, "integer dtype, got float32"),
    ("take", lambda: ops.take(of(3, 2), ids(0, 3)), IndexError, "index 3 .*size 3"),
    ("take", lambda: ops.take(of(3, 2), ids(0), axis=2), ValueError, "axis 2 "),
    ("untake", lambda: ops.untake(of(3), of(3), axis=0, size=4), TypeError, "integer dtype, got float32"),
    ("untake", lambda: ops.untake(of(3), ids(0, 1), axis=0, size=4), ValueError, r"\(3,\) .*\(2,\) at axis 0"),
    ("untake", lambda: ops.untake(of(), ids(0, 1), axis=0, size=4), ValueError, r"\(\) .*fewer axes.*\(2,\)"),
    ("untake", lambda: ops.untake(of(2), ids(0, 9), axis=0, size=4), IndexError, "index 9 .*size 4"),
    *[(name, lambda op=TABLE[name]: op(of(3)), ValueError, r"two axes or more, got shape \(3,\)")
      for name in ("tril", "triu", "diagonal")],
    *[(name, lambda op=TABLE[name]: op(of(3, 3), 0.5), TypeError, "k|offset must be an integer, got 0.5")
      for name in ("tril", "triu", "diagonal")],
    ("diag_embed", lambda: ops.diag_embed(of()), ValueError, "0-d"),
    ("diag_embed", lambda: ops.diag_embed(of(3), shape=(2, 4)), ValueError, r"3 entries .*diagonal 0 .*\(2, 4\)"),
    ("roll", lambda: ops.roll(of(3), shift=1.5), TypeError, "shift must be an integer, got 1.5"),
    ("roll", lambda: ops.roll(of(2, 3), shift=(1, 2), axis=0), ValueError, r"\(1, 2\) and axis 0"),
    ("roll", lambda: ops.roll(of(3), shift=1, axis=1), ValueError, "axis 1 "),
    ("pad", lambda: ops.pad(of(2, 3), width=-1), ValueError, "width .*negative, got -1"),
    ("pad", lambda: ops.pad(of(2, 3), width=[(1, 1)]), ValueError, r"each of the 2 axes, got \[\(1, 1\)\]"),
    ("pad", lambda: ops.pad(of(2), width=[(1, 0.5)]), TypeError, r"width .*integer, got 0\.5"),
    ("repeat", lambda: ops.repeat(of(2), repeats=-1, axis=0), ValueError, "repeats .*negative, got -1"),
    ("repeat", lambda: ops.repeat(of(2), repeats=2, axis=1), ValueError, "axis 1 "),
    ("tile", lambda: ops.tile(of(2), reps=(2, -1)), ValueError, "reps .*negative, got -1"),
    ("tile", lambda: ops.tile(of(2), reps="2"), TypeError, "reps .*integer, got '2'"),
    ("einsum", lambda: ops.einsum([of(2, 3), of(4, 2)], "ij,jk"), ValueError, "j is 3 in one operand and 4 in another"),
    ("einsum", lambda: ops.einsum([of(2, 3), of(1, 2)], "ij,jk"), ValueError, "j is 3 in one operand and 1 in another"),
    ("einsum", lambda: ops.einsum([of(2, 2)], "ii->i"), ValueError, "i stands twice in 'ii'.*diagonal"),
    ("einsum", lambda: ops.einsum([of(2, 2)], "ij->jj"), ValueError, "j stands twice in 'jj'"),
    ("einsum", lambda: ops.einsum([of(2, 2)], "ij->k"), ValueError, "the result has k"),
    ("einsum", lambda: ops.einsum([of(2, 2)], "...j"), ValueError, "Name every axis"),
    ("einsum", lambda: ops.einsum([of(2, 2)], "i1"), ValueError, "single letters"),
    ("einsum", lambda: ops.einsum([of(2, 2)], "i"), ValueError, r"'i' names 1 axes.*\(2, 2\)"),
    ("einsum", lambda: ops.einsum([of(2)], "i,i"), ValueError, "for 2 operands, got 1"),
    ("einsum", lambda: ops.einsum([of(2)], 3), TypeError, "string such as .*got 3"),
    ("outer", lambda: ops.outer(of(2, 3), of(3)), ValueError, r"\(2, 3\) and \(3,\)"),
    ("tensordot", lambda: ops.tensordot(of(2, 3), of(4), axes=1), ValueError, r"\[1\] of shape \(2, 3\) and \[0\]"),
    ("tensordot", lambda: ops.tensordot(of(2, 3), of(3)), ValueError, r"2 axes of shapes \(2, 3\) and \(3,\)"),
    ("tensordot", lambda: ops.tensordot(of(2), of(2), axes="all"), TypeError, "pair .*'all'"),
    ("clip", lambda: ops.clip(of(2)), ValueError, "low nor high"),
    ("where", lambda: ops.where(of(2), of(2), of(2)), TypeError, "boolean, got float32"),
    ("where", lambda: ops.where(of(2, dtype=bool), of(3), of(2)), ValueError, "3 and 2|2 and 3"),
    ("cast", lambda: ops.cast(of(2), dtype="float31"), TypeError, "float31"),
    *[("cast", lambda dtype=dtype: ops.cast(of(2), dtype=dtype), TypeError,
        "not supported") for dtype in ("complex64", "S3", object, "M8[s]")],
    ("to", lambda: of(2).to("float31"), TypeError, "to: 'float31' is not a dtype"),
    ("to", lambda: of(2).to(None), TypeError, "to: None is not a dtype"),
    ("Tensor", lambda: Tensor([1], dtype="float31"), TypeError, "Tensor: 'float31' is not a dtype"),
    ("Tensor", lambda: Tensor([float("nan")], dtype="int64"), TypeError, "can't become int64"),
    ("getitem", lambda: of(2)[[[0], [0, 1]]], IndexError, "must be regular"),
    ("getitem", lambda: ops.getitem(of(2, 3), key=(0, 7)), IndexError, "7.*out of bounds.*size 3"),
    ("getitem", lambda: ops.getitem(of(2, 3), key=(0, 0, 0)), IndexError, r"2-dimensional.*\(2, 3\)"),
    ("unindex", lambda: ops.unindex(of(4), key=0, shape=(2, 3)), ValueError, r"\(4,\) and \(3,\)"),
    ("index_put", lambda: ops.index_put(of(2, 3), of(4), key=0), ValueError, r"\(4,\)|3 and 4"),
    ("index_put", lambda: ops.index_put(of(2, 3), 1.0, key=5), IndexError, r"5.*\(2, 3\)"),
    ("index_put", lambda: ops.index_put(of(3), of(1, 3), key=slice(None)), ValueError, r"\(1, 3\).*\(3,\)"),
    ("gather", lambda: ops.gather(of(2, 3), of(2, 3), axis=0), TypeError, "integer dtype, got float32"),
    ("gather", lambda: ops.gather(of(2, 3), ids(0), axis=0), ValueError, r"\(1,\).*\(2, 3\)"),
    ("gather", lambda: ops.gather(of(3), ids(5), axis=0), IndexError, "5.*size 3"),
    ("gather", lambda: ops.gather(of(3), ids(0), axis=1), ValueError, "axis 1 "),
    ("scatter_add", lambda: ops.scatter_add(of(2), of(2), axis=0, size=3), TypeError, "float32"),
    ("scatter_add", lambda: ops.scatter_add(of(2), ids(0, 9), axis=0, size=3), IndexError, "9.*size 3"),
    ("scatter_add", lambda: ops.scatter_add(of(2, 2), ids(0, 1), axis=0, size=3), ValueError, r"\(2,\).*\(2, 2\)"),
    ("one_hot", lambda: ops.one_hot(of(2), size=3), TypeError, "float32"),
    ("one_hot", lambda: ops.one_hot(ids(1), size=-1), ValueError, "-1"),
    ("reshape", lambda: ops.reshape(of(2, 3), shape=(4, 2)), ValueError, r"6 entries .*\(4, 2\), which has 8"),
    ("reshape", lambda: ops.reshape(of(2, 3), shape=(-1, -1)), ValueError, r"\(-1, -1\)"),
    ("reshape", lambda: ops.reshape(of(2, 3), shape=(-1, 4)), ValueError, "6 entries"),
    ("reshape", lambda: ops.reshape(of(2, 3), shape=10**30), ValueError, "6 entries"),
    ("reshape", lambda: ops.reshape(of(0), shape=(2**32, 2**32)), ValueError, "0 entries"),
    ("reshape", lambda: ops.reshape(of(2, 3), shape=(2.0, 3)), TypeError, "integers, got float"),
    ("transpose", lambda: ops.transpose(of(2, 3), axes=(0,)), ValueError, r"\(0,\) .*\(2, 3\)"),
    ("transpose", lambda: ops.transpose(of(2, 3), axes=(0, 0)), ValueError, "twice"),
    ("transpose", lambda: ops.transpose(of(2, 3), axes=(0, 2)), ValueError, "axis 2 "),
    ("broadcast_to", lambda: ops.broadcast_to(of(2, 3), shape=(3,)), ValueError, r"\(2, 3\) .*\(3,\)"),
    ("broadcast_to", lambda: ops.broadcast_to(of(2, 3), shape=(4, 3)), ValueError, r"2 and 4|\(4, 3\)"),
    ("expand_dims", lambda: ops.expand_dims(of(2, 3), axis=4), ValueError, "axis 4 "),
    ("squeeze", lambda: ops.squeeze(of(2, 1), axis=0), ValueError, r"\(2, 1\) has size 2"),
    ("squeeze", lambda: ops.squeeze(of(2, 1), axis=5), ValueError, "axis 5 "),
    ("flip", lambda: ops.flip(of(2, 3), axis=2), ValueError, "axis 2 "),
    ("concat", lambda: ops.concat([of(2, 3), of(2, 4)]), ValueError, r"\(2, 3\) and \(2, 4\)"),
    ("concat", lambda: ops.concat([of(2), of(2, 1)]), ValueError, r"\(2,\) and \(2, 1\)"),
    ("concat", lambda: ops.concat([]), ValueError, "at least one"),
    ("concat", lambda: ops.concat([of()]), ValueError, "0-d"),
    ("concat", lambda: ops.concat(of(2, 3)), TypeError, "list or tuple of tensors"),
    ("concat", lambda: ops.concat([of(2)], axis=1), ValueError, "axis 1 "),
    ("concat", lambda: ops.concat([of(2), of(2, where="sim")]), DeviceError, "cpu and sim:0"),
    ("stack", lambda: ops.stack([of(2), of(3)]), ValueError, r"\(2,\) and \(3,\)"),
    ("stack", lambda: ops.stack([]), ValueError, "at least one"),
    ("stack", lambda: ops.stack([of(2)], axis=3), ValueError, "axis 3 "),
    ("matmul", lambda: ops.matmul(of(32, 784), of(256, 10)), ValueError,
        r"\(32, 784\) @ \(256, 10\): inner sizes 784 and 256"),
    ("matmul", lambda: ops.matmul(of(3), of(4)), ValueError, "3 and 4"),
    ("matmul", lambda: ops.matmul(of(), of(4)), ValueError, r"\(\) @ \(4,\).*0-d"),
    ("matmul", lambda: ops.matmul(of(2, 3, 4), of(5, 4, 3)), ValueError, r"\(2,\) and \(5,\)"),
    ("matmul", lambda: of(2, 3) @ 2.0, ValueError, r"\(2, 3\) @ \(\)"),
    ("softmax", lambda: ops.softmax(of(2, 3), axis=2), ValueError, "axis 2 "),
    ("softmax", lambda: ops.softmax(of()), ValueError, "axis -1 .*no axes"),
    ("log_softmax", lambda: ops.log_softmax(of(2, 3), axis=2), ValueError, "axis 2 "),
    ("cross_entropy", lambda: ops.cross_entropy(of(4, 3), ids(0, 1)), ValueError, r"\(4, 3\) .*\(4,\), got \(2,\)"),
    ("cross_entropy", lambda: ops.cross_entropy(of(2, 3), of(2)), TypeError, "integer dtype, got float32"),
    ("cross_entropy", lambda: ops.cross_entropy(of(2, 3), ids(0, 3)), ValueError, "0 to 3.*0 to 2"),
    ("cross_entropy", lambda: ops.cross_entropy(of(2, 3), ids(-1, 0)), ValueError, "-1 to 0.*0 to 2"),
    ("cross_entropy", lambda: ops.cross_entropy(of(), Tensor(0)), ValueError, r"\(\)"),
    ("cross_entropy", lambda: ops.cross_entropy(of(1, 3), ids(0), reduction="avg"), ValueError,
        "'avg' is not one of mean, sum, none"),
    ("mse", lambda: ops.mse(of(3), of(3, 1)), ValueError, r"\(3,\) and \(3, 1\)"),
    ("mse", lambda: ops.mse(of(3), of(3), reduction="avg"), ValueError, "'avg'"),
    ("binary_cross_entropy", lambda: ops.binary_cross_entropy(of(3), of(1)), ValueError, r"\(3,\) .*\(1,\)"),
    ("binary_cross_entropy", lambda: ops.binary_cross_entropy(of(3), of(3), reduction=""), ValueError, "''"),
    ("products_of_others", lambda: ops.products_of_others(of(2, 3), axis=2), ValueError, "axis 2 "),
    ("conv2d", lambda: ops.conv2d(of(3, 8, 8), of(4, 3, 3, 3)), ValueError, r"\(3, 8, 8\).*4 axes, \(batch"),
    ("conv2d", lambda: ops.conv2d(of(1, 3, 8, 8), of(4, 2, 3, 3)), ValueError, r"3 channels.* is for 2"),
    ("conv2d", lambda: ops.conv2d(of(1, 4, 8, 8), of(3, 2, 3, 3), groups=2), ValueError, "3 output .*2 groups"),
    ("conv2d", lambda: ops.conv2d(of(1, 1, 4, 4), of(1, 1, 3, 3), dilation=2), ValueError,
        r"\(3, 3\) \(dilation \(2, 2\)\) does not fit .*\(4, 4\)"),
    ("conv2d", lambda: ops.conv2d(of(1, 1, 4, 4), of(1, 1, 3, 3), stride=0), ValueError, "stride must be 1 or more.*0"),
    ("conv2d", lambda: ops.conv2d(of(1, 1, 4, 4), of(1, 1, 3, 3), padding="same"), TypeError, "padding .*'same'"),
    ("conv2d", lambda: ops.conv2d(of(1, 1, 4, 4), of(1, 1, 3, 3), groups=0), ValueError, "groups .*0"),
    ("conv2d", lambda: ops.conv2d(of(1, 1, 4, 4), of(1, 1, 3, 3, where="sim")), DeviceError, "cpu and sim:0"),
    ("conv1d", lambda: ops.conv1d(of(1, 1, 4), of(1, 1, 3), stride=(1, 1)), ValueError, r"stride .*\(1, 1\)"),
    ("conv_transpose1d", lambda: ops.conv_transpose1d(of(1, 1, 2), of(1, 1, 2), padding=2), ValueError, r"\(-1,\)"),
    ("conv_transpose2d", lambda: ops.conv_transpose2d(of(1, 3, 4, 4), of(2, 3, 3, 3)), ValueError,
        "3 channels.* is for 2"),
    ("conv_transpose2d", lambda: ops.conv_transpose2d(of(1, 2, 4, 4), of(2, 3, 3, 3), output_padding=1), ValueError,
        r"output_padding \(1, 1\) .*stride \(1, 1\)"),
    ("conv1d_weight", lambda: ops.conv1d_weight(of(1, 3, 4), of(1, 2, 2), size=3, groups=2), ValueError, "3 input"),
    ("conv2d_weight", lambda: ops.conv2d_weight(of(1, 3, 8, 8), of(1, 4, 8, 8), size=3), ValueError,
        r"\(1, 4, 8, 8\).*batch 1 and size \(6, 6\)"),
    *[(name, lambda op=TABLE[name]: op(of(2, 4, 4), window=2), ValueError, r"\(2, 4, 4\); expected \(batch, channels")
        for name in POOL],
    *[(name, lambda op=TABLE[name]: op(of(1, 1, 4, 4), window=5), ValueError, r"\(5, 5\) .*\(4, 4\)") for name in POOL],
    *[(name, lambda op=TABLE[name]: op(of(1, 1, 4, 4), window=2, padding=2), ValueError, "half") for name in POOL],
    *[(name, lambda op=TABLE[name]: op(of(1, 1, 4, 4), window=0.5), TypeError, r"window .*0\.5") for name in POOL],
    ("pick2d", lambda: ops.pick2d(of(1, 1, 4, 4), of(1, 1, 2, 2), window=2), TypeError, "integer dtype, got float32"),
    ("pick2d", lambda: ops.pick2d(of(1, 1, 4, 4), ids(0), window=2), ValueError, r"\(1,\); .*\(1, 1, 2, 2\)"),
    ("unpool2d", lambda: ops.unpool2d(of(1, 1, 2, 2), ids(0), window=2, size=4), ValueError, r"\(1,\); .*\(1, 1, 2,"),
    ("avg_unpool2d", lambda: ops.avg_unpool2d(of(1, 1, 3, 3), window=2, size=4), ValueError,
        r"\(1, 1, 3, 3\).*\(4, 4\); that is \(2, 2\)"),
    ("avg_pool2d", lambda: ops.avg_pool2d(of(1, 1, 3, 3), window=2, count_include_pad=2), TypeError, "got 2"),
    ("pad_same", lambda: ops.pad_same(of(3), window=2), ValueError, r"\(3,\); expected \(batch"),
    ("pad_same", lambda: ops.pad_same(of(1, 1, 3), window=0), ValueError, "window must be 1 or more"),
    ("adaptive_avg_pool2d", lambda: ops.adaptive_avg_pool2d(of(1, 1, 2, 2), size=0), ValueError, "size .*0"),
    ("adaptive_avg_pool2d", lambda: ops.adaptive_avg_pool2d(of(1, 1, 0, 2), size=1), ValueError, r"\(1, 1, 0, 2\)"),
    ("adaptive_avg_unpool2d", lambda: ops.adaptive_avg_unpool2d(of(2, 2), size=1), ValueError, r"\(2, 2\)"),
    *[(name, lambda op=TABLE[name]: op(of(2, 3), axis=2), ValueError, "axis 2 ") for name in NORMALISE],
    *[(name, lambda op=TABLE[name]: op(of(2, 3), axis=1, eps=-1), ValueError, "eps .*-1") for name in NORMALISE],
    *[(name, lambda op=TABLE[name]: op(of(2, 3), axis=2, **({"k": 1} if op.name == "topk" else {})), ValueError,
        "axis 2 .* 2 dimensions") for name in ORDER],
    *[(name, lambda op=TABLE[name]: op(of(), **({"k": 1} if op.name == "topk" else {})), ValueError, "no axes")
      for name in ORDER],
    ("topk", lambda: ops.topk(of(2, 3), 4), ValueError, r"k is 4, .*\(2, 3\) has 3 entries"),
    ("topk", lambda: ops.topk(of(2, 3), -1), ValueError, "k is -1"),
    ("topk", lambda: ops.topk(of(2, 3), 1.0), TypeError, r"integer, got 1\.0"),
    ("clamp", lambda: ops.clamp(of(2), of(3), 1.0), ValueError, r"\(2,\) and \(3,\) and \(\)"),
    ("clip", lambda: ops.clip(of(2), low=of(2)), TypeError, "numbers, got Tensor. Use clamp"),
    ("scatter", lambda: ops.scatter(of(3), of(2), of(2), axis=0), TypeError, "integer dtype, got float32"),
    ("scatter", lambda: ops.scatter(of(3), ids(0, 1), of(3), axis=0), ValueError, r"\(3,\) .*index, \(2,\)"),
    ("scatter", lambda: ops.scatter(of(3), ids(0), of(1, dtype=np.float64), axis=0), TypeError,
        "float64 and x float32"),
    ("scatter", lambda: ops.scatter(of(3), ids(7), of(1), axis=0), IndexError, "7 .*size 3"),
    ("split", lambda: ops.split(of(4), 0), ValueError, "positive, got 0"),
    ("split", lambda: ops.split(of(4), [1, 2]), ValueError, r"\[1, 2\] .*\(4,\)"),
    ("split", lambda: ops.split(of(4), "4"), ValueError, "'4'"),
    ("chunk", lambda: ops.chunk(of(4), 0), ValueError, "positive integer, got 0"),
    ("unbind", lambda: ops.unbind(of(4), axis=1), ValueError, "axis 1 "),
    ("index_add", lambda: ops.index_add(of(3, 2), ids(0), of(2, 2)), ValueError, r"\(2, 2\) .*expected \(1, 2\)"),
    *[(name, lambda op=TABLE[name]: op(of(3)), ValueError, r"two axes or more, got shape \(3,\)")
      for name in (*MATRIX, "qr", "svd")],
    *[(name, lambda op=TABLE[name]: op(of(2, 2, dtype=np.float16)), TypeError, r"float16.*to\('float32'\)")
      for name in (*MATRIX, "qr", "svd")],
    *[(name, lambda op=TABLE[name]: op(of(2, 3)), ValueError, r"square matrices, got shape \(2, 3\)")
      for name in MATRIX],
    *[(name, lambda op=TABLE[name]: op(of(2, 3), of(3, 1)), ValueError, r"square matrices, got shape \(2, 3\)")
      for name in ("solve", "triangular_solve")],
    *[(name, lambda op=TABLE[name]: op(of(3, 3), of(2, 1)), ValueError, r"\(3, 3\) has 3 rows.*\(2, 1\) has 2")
      for name in ("solve", "triangular_solve")],
    *[(name, lambda op=TABLE[name]: op(of(2, 3, 3), of(4, 3, 1)), ValueError, r"\(2,\) and \(4,\)")
      for name in ("solve", "triangular_solve")],
    ("solve", lambda: ops.solve(of(3, 3), of()), ValueError, r"\(\) is no right-hand side"),
    ("solve", lambda: ops.solve(of(3, 3), of(3)), ValueError, "singular.*multiple of the identity"),
    ("triangular_solve", lambda: ops.triangular_solve(of(3, 3), of(3)), ValueError, r"matrices.*\(3,\)"),
    ("triangular_solve", lambda: ops.triangular_solve(of(3, 3) * 0.0, of(3, 1)), ValueError, "singular"),
    ("inverse", lambda: ops.inverse(of(3, 3)), ValueError, "singular"),
    ("cholesky", lambda: ops.cholesky(-of(3, 3)), ValueError, "not positive definite"),
    ("svd", lambda: ops.svd(of(2, 2) * float("nan")), ValueError, "did not settle. Check x for NaN"),
    ("lstsq", lambda: ops.lstsq(of(2, 3), of(2, 1)), ValueError, r"\(2, 3\) has fewer rows"),
    *[(name, lambda op=TABLE[name]: op(of(3), of(3, 1)), ValueError, r"\(3,\) and \(3, 1\)")
      for name in ("l1", "huber", "kl_div")],
    *[(name, lambda op=TABLE[name]: op(of(3), of(3), reduction="avg"), ValueError, "'avg'")
      for name in ("l1", "huber", "kl_div")],
    ("kl_div", lambda: ops.kl_div(of(), of(), reduction="batchmean"), ValueError, "no batch"),
    ("huber", lambda: ops.huber(of(3), of(3), delta=0), ValueError, "positive number, got 0"),
    ("nll", lambda: ops.nll(of(2, 3), ids(0, 3)), ValueError, "0 to 3.*0 to 2"),
    ("nll", lambda: ops.nll(of(2, 3), ids(0, -1), ignore_index=-2), ValueError, "-1 to 0.*0 to 2 .*ignore_index is -2"),
    ("nll", lambda: ops.nll(of(2, 3, dtype=int), ids(0, 1)), TypeError, "floating, got int64"),
    ("cross_entropy", lambda: ops.cross_entropy(of(2, 3), ids(0, 1), ignore_index="pad"), TypeError,
        "integer, got 'pad'"),
    ("cross_entropy", lambda: ops.cross_entropy(of(2, 3), ids(0, 1), label_smoothing=2), ValueError, "0 and 1, got 2"),
    ("cross_entropy", lambda: ops.cross_entropy(of(2, 3), ids(0, 5), ignore_index=0), ValueError, "5 to 5.*0 to 2"),
    ("weighted_cross_entropy", lambda: ops.weighted_cross_entropy(of(2, 3), ids(0, 1), of(2)), ValueError,
        r"3 classes .*\(2,\)"),
    ("weighted_cross_entropy", lambda: ops.weighted_cross_entropy(of(), Tensor(0), of(1)), ValueError, r"\(\)"),
    ("soft_cross_entropy", lambda: ops.soft_cross_entropy(of(2, 3), of(2)), ValueError, r"\(2, 3\) .*\(2,\)"),
    ("soft_cross_entropy", lambda: ops.soft_cross_entropy(of(2), of(2), reduction="avg"), ValueError, "'avg'"),
    ("weighted_binary_cross_entropy", lambda: ops.weighted_binary_cross_entropy(of(2), of(3), 1.0), ValueError,
        r"\(2,\) .*\(3,\)"),
    ("weighted_binary_cross_entropy", lambda: ops.weighted_binary_cross_entropy(of(2), of(2), of(3, 1)), ValueError,
        r"\(3, 1\) does not broadcast to \(2,\)"),
    ("ctc", lambda: ops.ctc(of(4, 3), ids([1]), ids(4), ids(1)), ValueError, r"\(4, 3\); expected \(time"),
    ("ctc", lambda: ops.ctc(of(0, 1, 3), ids([1]), ids(4), ids(1)), ValueError, r"\(0, 1, 3\)"),
    ("ctc", lambda: ops.ctc(of(4, 1, 3, dtype=np.float16), ids([1]), ids(4), ids(1)), TypeError, "float16"),
    ("ctc", lambda: ops.ctc(of(4, 1, 3), ids(1), ids(4), ids(1)), ValueError, r"targets .*\(1,\); .*\(1, labels\)"),
    ("ctc", lambda: ops.ctc(of(4, 1, 3), of(1, 1), ids(4), ids(1)), TypeError, "targets .*float32"),
    ("ctc", lambda: ops.ctc(of(4, 1, 3), ids([1]), ids(4, 4), ids(1)), ValueError, r"input_lengths .*\(2,\)"),
    ("ctc", lambda: ops.ctc(of(4, 1, 3), ids([1]), ids(5), ids(1)), ValueError, "input lengths .* 5; expected 0 to 4"),
    ("ctc", lambda: ops.ctc(of(4, 1, 3), ids([1]), ids(4), ids(2)), ValueError, "target lengths .* 2; expected 0 to 1"),
    ("ctc", lambda: ops.ctc(of(4, 1, 3), ids([3]), ids(4), ids(1)), ValueError, "labels go from 3 to 3"),
    ("ctc", lambda: ops.ctc(of(4, 1, 3), ids([0]), ids(4), ids(1)), ValueError, "without the blank, which is 0"),
    ("ctc", lambda: ops.ctc(of(4, 1, 3), ids([1]), ids(4), ids(1), blank=3), ValueError, "blank .*0 to 2, got 3"),
    ("dropout", lambda: ops.dropout(of(2), p=1.5, seed=0), ValueError, r"\[0, 1\], got 1\.5"),
    ("dropout", lambda: ops.dropout(of(2), p=0.5, seed=-1), ValueError, "seed .*-1"),
    ("batch_norm", lambda: ops.batch_norm(of(2)), ValueError, r"\(2,\)"),
    ("layer_norm", lambda: ops.layer_norm(of(2), ndim=2), ValueError, r"ndim is 2.*\(2,\)"),
    ("group_norm", lambda: ops.group_norm(of(2, 3, 4), 2), ValueError, r"\(2, 3, 4\).* 2 equal groups"),
    ("pow", lambda: ops.pow(ids(2), ids(-1)), ValueError, "negative integer powers"),
    ("mul", lambda: of(2) * 10**400, OverflowError, "mul: .*too large"),
    ("neg", lambda: ops.neg(10**400), OverflowError, "1329 bits"),
    ("stack", lambda: ops.stack([of(), 10**400]), OverflowError, "1329 bits"),
    ("stack", lambda: ops.stack([of().to("sim:0"), 10**400]), OverflowError, "1329 bits"),
    ("add", lambda: of(2) + np.array([1j, 2]), TypeError, "complex128"),
    ("add", lambda: of(2) + np.array(["a", "b"]), TypeError, "<U1"),
    ("exp", lambda: ops.exp(np.array(["a"])), TypeError, "<U1"),
    ("maximum", lambda: ops.maximum(of(1), np.datetime64("2020-01-01")), TypeError, "datetime64"),
    ("broadcast_to", lambda: ops.broadcast_to(of(2), 1.5), TypeError, r"shape=1.5 .*broadcast_to\(x, shape\)"),
    ("transpose", lambda: ops.transpose(of(2), 1.5), TypeError, r"axes=1.5 .*transpose\(x, axes=None\)"),
    ("one_hot", lambda: ops.one_hot(ids(1), "x"), TypeError, r"size='x'.*one_hot\(index, size, dtype="),
    ("sum", lambda: ops.sum(of(2), keepdims="x"), TypeError, r"keepdims='x'.*sum\(x, axis=None, keepdims=False\)"),
    ("concat", lambda: ops.concat([of(1).to("sim:0")], axis={}), TypeError, "axis must be an integer, got dict"),
    ("getitem", lambda: ops.getitem(of(2).to("sim:0"), np.array([0])), DeviceError, "a NumPy array .*sim:0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "call", "error", "message"), WRONG, ids=[f"{case[0]}-{i}" for i, case in enumerate(WRONG)]
)
def test_wrong_shapes_axes_dtypes_devices(
    name: str, call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        call()
    said = str(caught.value)
    assert type(caught.value) is error
    assert said.startswith(f"{name}: "), said
    assert re.search(message, said), said
    assert "\n" not in said


@pytest.mark.parametrize("name", TABLE)
def test_what_is_no_array_at_all(name: str) -> None:
    """The error names the op and the type that came."""
    op = TABLE[name]
    attrs = {attr: 0 for attr, default in op.attrs.items() if default is not None}
    for thing, good, position in product([None, "text", {}, object()], [of(3), row(3)], range(op.arity)):
        inputs = [thing if i == position else good for i in range(op.arity)]
        if isinstance(good, np.ndarray) and op.arity > 1 and position > 0:
            continue  # NumPy's own functions say it then
        with pytest.raises(TypeError, match=rf"^{name}: .*{type(thing).__name__}"):
            op(inputs, **attrs) if op.variadic else op(*inputs, **attrs)


def required(name: str) -> list[str]:
    return [attr for attr, default in TABLE[name].attrs.items() if default is inspect.Parameter.empty]


@pytest.mark.parametrize("name", TABLE)
def test_wrong_calls(name: str) -> None:
    """Too few inputs, too many, a missing and an unknown attribute."""
    op = TABLE[name]
    inputs = [[of(2)]] if op.variadic else [of(2)] * op.arity
    if not op.variadic:
        with pytest.raises(
            TypeError, match=rf"^{name}: takes {op.arity} inputs \({', '.join(op.inputs)}\), got {op.arity - 1}"
        ):
            op(*inputs[1:])
    with pytest.raises(
        TypeError, match=rf"^{name}: takes at most {len(op.attrs)} attributes .*got {len(op.attrs) + 1}"
    ):
        op(*inputs, *[0] * (len(op.attrs) + 1))
    with pytest.raises(
        TypeError, match=rf"^{name}: unknown attribute colour; it takes {', '.join(op.attrs) or 'none'}"
    ):
        op(*inputs, **dict.fromkeys(required(name), 0), colour=1)
    for attr in required(name):
        with pytest.raises(TypeError, match=rf"^{name}: attribute .*{attr}.* is missing"):
            op(*inputs)


def test_every_row_that_can_be_given_a_wrong_shape_is() -> None:
    """Rows with one input, no attributes and no demands have nothing to refuse; test_quantised_rows has the others."""
    free = {name for name, op in TABLE.items() if op.arity == 1 and not op.attrs and not op.variadic}
    free |= {name for name, op in TABLE.items() if op.room == "quantise"}
    assert set(TABLE) - free - {case[0] for case in WRONG} == {"transfer"}


def test_operators_with_none() -> None:
    x = of(2)
    assert (x == None) is False  # noqa: E711 - that is what is tested
    assert (x != None) is True  # noqa: E711
    with pytest.raises(TypeError, match="^add: NoneType"):
        x + None
    with pytest.raises(TypeError, match="^add: NoneType"):
        None + x


def test_an_error_leaves_nothing_behind() -> None:
    """After a refusal the tensors are as they were, and what was recorded still works."""
    x = Tensor(np.ones(3, np.float32), requires_grad=True)
    y = x * 2.0
    version = y.version
    for attempt in (
        lambda: y + of(2),
        lambda: y.__iadd__(of(2)),
        lambda: y.__setitem__(0, of(2)),
        lambda: y.reshape(5),
    ):
        with pytest.raises(ValueError, match=r"\(2,\)|3 entries"):
            attempt()
    assert y.version == version
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2, 2])
