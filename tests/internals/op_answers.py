"""One example of the op table, answered by us, by torch, by tensorflow, and by finite differences."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from op_examples import Example

from internals import Tensor, no_grad, ops
from internals.autodiff import grad
from internals.device import device, device_of
from internals.ops import TABLE


@dataclass
class Answer:
    """A result, and the gradients by the inputs that were asked for."""

    out: np.ndarray
    gradients: list[np.ndarray]


def attrs_of(example: Example, where: str = "cpu") -> dict[str, Any]:
    """All attributes, defaults included, with arrays on the device `where`."""
    full = dict(TABLE[example.case.op].attrs) | example.attrs
    if example.case.op == "transfer":
        full["source"] = where
    if "key" in full:
        full["key"] = _on_device(full["key"], where)
    return full


def _on_device(key: Any, where: str) -> Any:
    if isinstance(key, tuple):
        return tuple(_on_device(part, where) for part in key)
    return device(where).from_host(key) if isinstance(key, np.ndarray) else key


def to_host(x: Tensor) -> np.ndarray:
    return np.asarray(device_of(x.data).to_host(x.data))


def laid_out(array: np.ndarray, layout: str, where: str = "cpu") -> Tensor:
    """A tensor of these values in this memory layout."""
    with no_grad():
        if layout == "reversed" and array.ndim:
            return ops.flip(Tensor(np.flip(array).copy(), device=where))
        if layout == "transposed":
            return ops.transpose(Tensor(array.T.copy(), device=where))
        if layout == "stretched" and array.ndim:
            return ops.broadcast_to(Tensor(array[:1], device=where), shape=array.shape)
        return Tensor(array, device=where)


def call_row(example: Example, inputs: list[Any], where: str = "cpu") -> Any:
    """The row, on Tensors or on bare arrays."""
    op = TABLE[example.case.op]
    attrs = attrs_of(example, where)
    return op(inputs, **attrs) if op.variadic else op(*inputs, **attrs)


def call(example: Example, inputs: list[Any], where: str = "cpu") -> Any:
    """The row as a function of one result: the entries of several stand one after another."""
    out = call_row(example, inputs, where)
    if not TABLE[example.case.op].results:
        return out
    return ops.concat([ops.cast(ops.reshape(one, shape=(-1,)), dtype=str(out[0].dtype)) for one in out])


def ours(example: Example, where: str, *, create_graph: bool = False) -> Answer:
    inputs = [laid_out(array, example.layout, where) for array in example.inputs()]
    wrt = [inputs[i] for i in example.wrt()]
    if TABLE[example.case.op].differentiable:
        for x in wrt:
            x.requires_grad = True
    out = call(example, inputs, where)
    assert isinstance(out, Tensor)
    if not out.requires_grad:
        return Answer(to_host(out), [])
    cotangent = Tensor(example.cotangent(to_host(out)), device=out.device)
    found = grad(out, wrt, cotangent, create_graph=create_graph)
    for x, gradient in zip(wrt, found, strict=True):
        assert gradient.device is x.device
        assert not gradient.requires_grad or create_graph
    return Answer(to_host(out), [to_host(gradient) for gradient in found])


def torch_joined(out: Any) -> torch.Tensor:
    return torch.cat([one.reshape(-1).to(out[0].dtype) for one in out]) if isinstance(out, tuple | list) else out


def by_torch(example: Example) -> Answer:
    inputs = [torch.tensor(array) for array in example.inputs()]
    wrt = [inputs[i] for i in example.wrt()]
    for x in wrt:
        x.requires_grad_(True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # mse_loss of sizes it finds suspicious
        out = torch_joined(example.case.call("torch")(torch, *inputs, **attrs_of(example)))
    values = out.detach().numpy()
    if not out.requires_grad:
        return Answer(values, [])
    cotangent = torch.tensor(example.cotangent(values))
    found = torch.autograd.grad(out, wrt, cotangent, allow_unused=True)
    return Answer(
        values, [np.zeros_like(x.detach()) if g is None else g.numpy() for x, g in zip(wrt, found, strict=True)]
    )


def by_tensorflow(tf: Any, example: Example) -> Answer:
    inputs = [tf.constant(array) for array in example.inputs()]
    wrt = [inputs[i] for i in example.wrt()]
    with tf.GradientTape() as tape:
        for x in wrt:
            tape.watch(x)
        out = example.case.call("tf")(tf, *inputs, **attrs_of(example))
        if isinstance(out, tuple | list):
            out = tf.concat([tf.cast(tf.reshape(one, [-1]), out[0].dtype) for one in out], 0)
    values = out.numpy()
    if not TABLE[example.case.op].differentiable or not out.dtype.is_floating:
        return Answer(values, [])
    found = tape.gradient(out, wrt, tf.constant(example.cotangent(values)), unconnected_gradients="zero")
    return Answer(values, [tf.convert_to_tensor(gradient).numpy() for gradient in found])


def by_differences(example: Example, step: float = 1e-6) -> list[np.ndarray]:
    """Central differences of the kernel on bare NumPy arrays, summed up under the example's cotangent."""
    inputs = example.inputs()
    cotangent = example.cotangent(kernel(example, inputs))
    return [differences(lambda *arrays: kernel(example, arrays), inputs, i, cotangent, step) for i in example.wrt()]


def differences(
    function: Any, inputs: list[np.ndarray], position: int, cotangent: np.ndarray, step: float
) -> np.ndarray:
    """The gradient of ``sum(function(*inputs) * cotangent)`` by one input, entry by entry."""
    moved = [array.copy() for array in inputs]
    entries, result = moved[position], np.zeros(inputs[position].shape)
    for index in np.ndindex(entries.shape):
        before = entries[index].copy()
        entries[index] = before + step
        above = function(*moved).copy()  # it may be a view of what is about to move
        entries[index] = before - step
        below = function(*moved).copy()
        entries[index] = before
        result[index] = np.sum((above - below) / (2 * step) * cotangent)
    return result


ROUNDING = {"float16": (4e-3, 4e-3), "float32": (2e-5, 1e-5), "float64": (1e-9, 1e-11)}
"""Relative and absolute tolerance by dtype: sums in another order, transcendental functions of another library."""


def assert_close(got: np.ndarray, want: np.ndarray, what: str, tolerance: tuple[float, float] | None = None) -> None:
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    relative, absolute = tolerance or ROUNDING.get(want.dtype.name, (0, 0))
    np.testing.assert_allclose(got, want, rtol=relative, atol=absolute, equal_nan=True, err_msg=what)


def kernel(example: Example, arrays: Any) -> np.ndarray:
    """The row on bare arrays; the result on the host."""
    out = call(example, list(arrays))
    return np.asarray(device_of(out).to_host(out))
