"""What gradient, vjp, jvp, jacobian, hvp and vmap refuse, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from internals import Tensor, grad, ops
from internals.autodiff import gradient, hvp, jacobian, jvp, vjp, vmap

X = Tensor([1.0, 2.0])
WHOLE = Tensor([1, 2])

WRONG: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("gradient of a vector", lambda: gradient(lambda x: x * 2)(X), TypeError, r"returned float32\[2\]; a gradient"),
    ("gradient of nothing", lambda: gradient(lambda x: None)(X), TypeError, "vjp: the function returned NoneType"),
    ("gradient of a number", lambda: gradient(lambda x: 3.0)(X), TypeError, "returned float"),
    ("gradient of integers", lambda: gradient(lambda x: x.sum())(WHOLE), TypeError, "argument 0 is int64"),
    ("gradient of two", lambda: gradient(lambda x: (x.sum(), x))(X), TypeError, r"returned \(\*, \*\)"),
    ("no such argument", lambda: gradient(lambda x: x.sum(), 1)(X), ValueError, "argnums 1 names argument 1"),
    ("argument twice", lambda: gradient(lambda x: x.sum(), (0, -1))(X), ValueError, "none twice"),
    ("no argument", lambda: gradient(lambda x: x.sum(), ())(X), ValueError, "at least one"),
    ("aux missing", lambda: gradient(lambda x: x.sum(), has_aux=True)(X), TypeError, r"must return \(out, aux\)"),
    ("argument a list", lambda: gradient(lambda x: x.sum())([1.0]), TypeError, "argument 0 is float"),
    ("mode", lambda: jacobian(lambda x: x, mode="sideways"), ValueError, "'reverse' or 'forward', got 'sideways'"),
    ("integer result", lambda: jacobian(lambda x: ops.argmax(x))(X), TypeError, "a result is int64"),
    ("integer result", lambda: jacobian(ops.argmax, mode="forward")(X), TypeError, "a result is int64"),
    ("hvp order", lambda: hvp(lambda x: x.sum(), X, X, over="none"), ValueError, "over is 'forward' or 'reverse'"),
    ("hvp vector", lambda: hvp(lambda x: x.sum(), X, Tensor([1.0])), ValueError, "tangent 0 is"),
    ("hvp vector", lambda: hvp(lambda x: x.sum(), X, Tensor([1.0]), over="reverse"), ValueError, "cotangent is"),
    ("cotangent", lambda: vjp(lambda x: x * 2, X)[1](Tensor([1.0])), ValueError, r"cotangent is float32\[1\]"),
    ("cotangents", lambda: vjp(lambda x: x * 2, X)[1]((X, X)), ValueError, "1 tensors, but the cotangent 2"),
    ("cotangent dtype", lambda: vjp(lambda x: x * 2, X)[1](WHOLE), ValueError, "cotangent is int64"),
    ("cotangent a number", lambda: vjp(lambda x: x.sum(), X)[1](1.0), ValueError, "cotangent is float"),
    ("jvp numbers", lambda: jvp(lambda x: x, [X], [X, X]), ValueError, "1 primals need as many"),
    ("jvp of a list", lambda: jvp(lambda x: x, [[1.0]], [[1.0]]), TypeError, "must be tensors, got float"),
    ("jvp of integers", lambda: jvp(lambda x: x, WHOLE, WHOLE), TypeError, "primal 0 is int64"),
    ("vjp device", lambda: vjp(lambda x: x * 2, X)[1](X.to("sim:0")), ValueError, "cotangent is on sim:0"),
    ("jvp device", lambda: jvp(lambda x: x * 2, X, X.to("sim:0")), ValueError, "tangent 0 is on sim:0"),
    ("a write", lambda: gradient(lambda x: X.clone().__setitem__(0, x[0]))(X), TypeError, "be written into"),
    ("an update of a tensor", lambda: gradient(lambda x: X.clone().__iadd__(x))(X), TypeError, "can't be written into"),
    ("numpy inside", lambda: gradient(lambda x: x.numpy())(X), AttributeError, "no 'numpy' here"),
    ("np function inside", lambda: gradient(lambda x: np.median(x))(X), TypeError, "can't become a NumPy array"),
    ("np array of it", lambda: gradient(lambda x: np.asarray(x))(X), TypeError, "can't become a NumPy array"),
    ("backward inside", lambda: gradient(lambda x: x.sum().backward())(X), AttributeError, "no 'backward' here"),
    ("a hook inside", lambda: gradient(lambda x: x.register_hook(print))(X), AttributeError, "hooks are for Tensors"),
    ("a write", lambda: gradient(lambda x: x.__setitem__(0, 1.0))(X), TypeError, "can't be written to"),
    ("grad of a function", lambda: grad(lambda x: x, X), TypeError, "use autodiff.gradient"),
    ("grad inside", lambda: gradient(lambda x: grad(x.sum(), x))(X), TypeError, "got Recorded"),
    ("vmap randomness", lambda: vmap(lambda x: x, randomness="error"), ValueError, "'same' or 'different'"),
    ("vmap of nothing", lambda: vmap(lambda x: x, in_axes=None)(X), ValueError, "no argument is batched"),
    ("vmap axis", lambda: vmap(lambda x: x, in_axes=1)(X), ValueError, "axis 1 is out of range"),
    ("vmap axes", lambda: vmap(lambda x: x, in_axes=(0, 0))(X), ValueError, "for 2 arguments, got 1"),
    ("vmap sizes", lambda: vmap(lambda x, y: x)(X, Tensor([1.0])), ValueError, "one number of examples"),
    ("vmap of 0-d", lambda: vmap(lambda x: x)(Tensor(1.0)), ValueError, "axis 0 is out of range"),
    ("vmap of a number", lambda: vmap(lambda x, y: x)(X, 1.0), TypeError, "an argument is float"),
    ("vmap axis kind", lambda: vmap(lambda x: x, in_axes=0.5)(X), TypeError, "integers or None"),
    ("vmap tree", lambda: vmap(lambda x: x, in_axes=({"a": 0},))(X), ValueError, "structure"),
    ("vmap branch", lambda: vmap(lambda x: x if x > 0 else -x)(X), TypeError, "can't branch"),
    ("vmap item", lambda: vmap(lambda x: x.item())(X), TypeError, "can't branch"),
    ("vmap result", lambda: vmap(lambda x: 3.0)(X), TypeError, "returned float"),
    ("vmap out axis", lambda: vmap(lambda x: x, out_axes=2)(X), ValueError, "axis 2 is out of range"),
    ("vmap out None", lambda: vmap(lambda x: x, out_axes=None)(X), ValueError, "differs between examples"),
    ("no tensors", lambda: jacobian(lambda p: X)([]), ValueError, "hold no tensor to differentiate by"),
    ("argnums", lambda: gradient(lambda x: x.sum(), "x")(X), ValueError, "argnums 'x'"),
    ("vmap mask", lambda: vmap(lambda x: x[x > 0])(Tensor([[1.0], [2.0]])), TypeError, "for a mask"),
    ("vmap index", lambda: vmap(lambda i: X[i])(WHOLE), TypeError, "for an index, ops.take"),
    ("index device", lambda: gradient(lambda x: x[Tensor([0], device="sim:0")].sum())(X), ValueError, "on sim:0"),
    ("vmap shapes", lambda: vmap(lambda x: x @ X)(Tensor([[1.0, 2, 3]])), ValueError, r"\(3,\) @ \(2,\)"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "call", "kind", "says"), WRONG, ids=[f"{i}-{one[0]}" for i, one in enumerate(WRONG)])
def test_what_is_wrong_is_said(what: str, call: Callable[[], Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()
