"""Devices: where arrays live, what moves between them, and what is refused."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from internals import DeviceError, Tensor, cuda_is_available, device, no_grad, ops
from internals.device import Sim, SimArray, device_of, shares_memory


def random(*shape: int) -> np.ndarray:
    return np.asarray(np.random.default_rng(sum(shape) + 3).standard_normal(shape)).astype(np.float32)


@pytest.fixture
def sim() -> Sim:
    """A simulated accelerator that counts from here."""
    place = device("sim:7")
    assert isinstance(place, Sim)
    if place.counters.allocated:
        gc.collect()
    place.reset()
    return place


# Names


def test_names() -> None:
    assert device("cpu").name == "cpu"
    assert device("sim") is device("sim:0")
    assert device("sim:01") is device("sim:1")
    assert device(device("sim:1")) is device("sim:1")
    assert str(device("sim:1")) == "sim:1"
    assert repr(device("cpu")) == "device('cpu')"


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "sim:-1", "", "cpu:0", "sim:1:2"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(
        DeviceError, match=rf"device: {re.escape(repr(name))} is not a device; there are 'cpu', 'cuda:0'"
    ):
        device(name)


def test_a_name_of_another_type() -> None:
    with pytest.raises(TypeError, match="device: expected a name .* got int"):
        device(0)  # type: ignore[arg-type]


def test_arrays_of_no_device() -> None:
    with pytest.raises(TypeError, match="list is not an array"):
        device_of([1, 2])


@pytest.mark.skipif(cuda_is_available(), reason="there is a GPU here")
@pytest.mark.parametrize(
    "ask", [lambda: device("cuda"), lambda: Tensor([1.0], device="cuda:1"), lambda: Tensor([1.0]).to("cuda")]
)
def test_cuda_without_a_gpu_is_one_clear_error(ask: Callable[[], Any]) -> None:
    with pytest.raises(DeviceError, match=r"device: cuda .*(pip install cupy-cuda12x|Use 'cpu', or 'sim:0')") as caught:
        ask()
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.gpu
def test_cuda_index_that_is_not_there() -> None:
    with pytest.raises(DeviceError, match=r"cuda:99 does not exist; this machine has \d+"):
        device("cuda:99")


# No mixing

BINARY = [operator.add, operator.mul, operator.matmul, operator.lt, operator.pow, ops.maximum, ops.mse]


@pytest.mark.parametrize("operation", BINARY, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("left", "right"), [("cpu", "sim:0"), ("sim:0", "cpu"), ("sim:0", "sim:1")])
@pytest.mark.parametrize("recorded", [False, True])
def test_tensors_of_two_devices(operation: Callable[[Any, Any], Any], left: str, right: str, recorded: bool) -> None:
    x, y = Tensor(random(3), device=left, requires_grad=recorded), Tensor(random(3), device=right)
    with pytest.raises(DeviceError, match=rf"(?=.*{left})(?=.*{right}).*[Mm]ove"):
        operation(x, y)


@pytest.mark.parametrize(
    "operation", [operator.add, operator.mul, operator.matmul, operator.lt], ids=lambda f: f.__name__
)
def test_numpy_arrays_and_tensors_of_a_device(operation: Callable[[Any, Any], Any]) -> None:
    x = Tensor(random(3), device="sim:0")
    for left, right in ((x, random(3)), (random(3), x)):
        with pytest.raises(DeviceError, match=r"(?=.*cpu)(?=.*sim:0)"):
            operation(left, right)


@pytest.mark.parametrize(
    "operation", [operator.add, operator.mul, operator.matmul, operator.lt], ids=lambda f: f.__name__
)
def test_bare_arrays_of_two_devices(operation: Callable[[Any, Any], Any], sim: Sim) -> None:
    x, other = sim.from_host(random(3)), device("sim:0").from_host(random(3))
    for left, right in ((x, random(3)), (random(3), x)):
        with pytest.raises(DeviceError, match=r"a NumPy array of shape \(3,\) met an array on sim:7"):
            operation(left, right)
    with pytest.raises(DeviceError, match=r"sim:7 and sim:0 can't be mixed"):
        operation(x, other)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: ops.concat([x, y]),
        lambda x, y: ops.where(x > 0, x, y),
        lambda x, y: ops.gather(x, Tensor([0, 0, 0]), axis=0),
        lambda x, y: x.__iadd__(y),
        lambda x, y: x.__setitem__(0, y[0]),
        lambda x, y: ops.cross_entropy(x, Tensor(1)),
        lambda x, y: x[Tensor([0])],
    ],
    ids=["concat", "where", "gather", "+=", "setitem", "cross_entropy", "getitem"],
)
def test_other_ways_to_mix(call: Callable[[Tensor, Tensor], Any]) -> None:
    with pytest.raises(DeviceError, match=r"(?=.*cpu)(?=.*sim:0)"):
        call(Tensor(random(3), device="sim:0"), Tensor(random(3)))


def test_python_numbers_live_everywhere(sim: Sim) -> None:
    x = Tensor(random(3), device=sim)
    sim.reset()
    y = 1.0 - ops.maximum(x * 2, 0.5) ** 2
    assert y.device is sim
    assert sim.counters.to_device == 0


# The host can't read it


@pytest.mark.slow
@pytest.mark.parametrize(
    "read",
    [
        np.asarray,
        np.sum,
        float,
        int,
        bool,
        list,
        iter,
        lambda a: np.zeros(3, np.float32).__setitem__(0, a),
        lambda a: [1][a],
    ],
)
def test_the_host_cannot_read_device_memory(read: Callable[[Any], Any], sim: Sim) -> None:
    array = sim.from_host(random(1))
    with pytest.raises((ValueError, TypeError)):  # a DeviceError is a ValueError, and NumPy may put its own around it
        read(array)
    assert sim.counters.to_host == 0


@pytest.mark.slow
def test_numpy_of_a_device_tensor_is_refused(sim: Sim) -> None:
    x = Tensor(random(2), device=sim)
    for read in (x.numpy, lambda: np.asarray(x), lambda: np.add(random(2), x)):
        with pytest.raises((DeviceError, TypeError)):
            read()
    with pytest.raises(DeviceError, match=r"sim:7.*to\('cpu'\)"):
        x.numpy()


# Counting


@pytest.mark.slow
def test_transfers_are_counted_exactly(sim: Sim) -> None:
    x = Tensor(random(3, 4), device=sim)
    assert (sim.counters.to_device, sim.counters.to_device_bytes) == (1, 48)
    y = (x * 2 + 1).sum()
    assert (sim.counters.to_device, sim.counters.to_host) == (1, 0)
    y.item()
    assert (sim.counters.to_host, sim.counters.to_host_bytes) == (1, 4)
    x.to("cpu")
    assert (sim.counters.to_host, sim.counters.to_host_bytes) == (2, 52)
    x.to(sim)
    x.to("sim:0")
    assert (sim.counters.to_device, sim.counters.to_host) == (1, 3)


@pytest.mark.slow
def test_a_training_step_moves_nothing(sim: Sim) -> None:
    w, b = Tensor(random(4, 3), device=sim, requires_grad=True), Tensor(random(3), device=sim, requires_grad=True)
    x, target = Tensor(random(5, 4), device=sim), Tensor(np.array([0, 1, 2, 1, 0]), device=sim)
    sim.reset()
    ops.cross_entropy(ops.relu(x @ w) + b, target).backward()
    with no_grad():
        w -= w.grad * 0.1
    assert (sim.counters.to_device, sim.counters.to_host) == (0, 0)
    assert w.grad.device is sim


@pytest.mark.slow
def test_memory_is_counted_and_released(sim: Sim) -> None:
    start = sim.counters.allocated
    x = Tensor(random(10, 10), device=sim)
    assert sim.counters.allocated - start == 400
    y = x + x
    assert sim.counters.allocated - start == 800
    view = y.T[2:]
    assert sim.counters.allocated - start == 800
    del y
    assert sim.counters.allocated - start == 800  # the view keeps it alive
    del view, x
    assert sim.counters.allocated == start
    assert sim.counters.peak - start == 800


@pytest.mark.slow
def test_launches_count_kernels_and_not_views(sim: Sim) -> None:
    x = Tensor(random(3, 4), device=sim)
    sim.reset()
    for view in (x.T, x[1:], x.reshape(12), ops.flip(x), x.broadcast_to(2, 3, 4), x.unsqueeze(0)):
        assert view.device is sim
    assert sim.counters.launches == 0
    _ = x + 1
    _ = x @ x.T
    assert sim.counters.launches == 2


@pytest.mark.slow
def test_reset_keeps_live_memory(sim: Sim) -> None:
    start = sim.counters.allocated
    x = Tensor(random(10), device=sim)
    sim.reset()
    assert (sim.counters.to_device, sim.counters.launches) == (0, 0)
    assert sim.counters.allocated == sim.counters.peak == start + 40
    del x
    assert sim.counters.allocated == start


# Moving


@pytest.mark.slow
def test_to_and_back_is_differentiable(sim: Sim) -> None:
    x = Tensor(random(3), requires_grad=True)
    y = x.to(sim)
    assert y.device is sim
    (y * y).cpu().sum().backward()
    assert x.grad.device.name == "cpu"
    np.testing.assert_allclose(x.grad.numpy(), 2 * random(3), rtol=1e-6)


@pytest.mark.slow
def test_a_copy_on_a_device_is_a_copy(sim: Sim) -> None:
    host = random(3)
    array = sim.from_host(host)
    host[0] = 100
    back = sim.to_host(array)
    assert back[0] != 100
    back[1] = 100
    assert sim.to_host(array)[1] != 100


@pytest.mark.slow
def test_shares_memory(sim: Sim) -> None:
    a = sim.from_host(random(3, 4))
    assert shares_memory(a, a.T)
    assert not shares_memory(a, a + 1)
    assert not shares_memory(a, sim.to_host(a))
    assert isinstance(a.T, SimArray)


@pytest.mark.slow
def test_layout_survives_a_transfer(sim: Sim) -> None:
    host = random(3, 4).T
    assert sim.from_host(host).strides == host.strides


# Layout


def spread(array: np.ndarray) -> np.ndarray:
    return np.broadcast_to(array + 1, (2, *array.shape))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        lambda a: a + 1,
        lambda a: np.asfortranarray(a),
        lambda a: (a + 1).T,
        lambda a: (a + 1)[::-1],
        lambda a: (a + 1)[1:, ::-2],
        lambda a: (a + 1)[..., 1],
        spread,
        lambda a: (a > 0)[:, ::2],
        lambda a: (a.astype(complex) * 1j).imag,
        lambda a: a.astype(np.float16)[:0],
        lambda a: np.frombuffer(a.tobytes(), np.int32),
        lambda a: a.sum(),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_result_keeps_the_layout_that_numpy_gave_it(
    kernel: Callable[[np.ndarray], np.ndarray], turned: bool, sim: Sim
) -> None:
    host = random(4, 6).T[::-1] if turned else random(4, 6)
    there = sim.from_host(host)
    got, want = sim.xp._launch(kernel, (there,), {}), np.asarray(kernel(np.array(host, order="K")))
    assert got.strides == want.strides
    assert (got.base is None) == (want.base is None or want.dtype == np.int32)
    assert got.flags.writeable == (want.flags.writeable or want.dtype == np.int32)
    np.testing.assert_array_equal(sim.to_host(got), want)
    assert got.dtype == want.dtype


@pytest.mark.slow
def test_the_base_of_a_view_is_the_array_that_owns_the_memory(sim: Sim) -> None:
    array = sim.from_host(random(3, 4))
    assert array.base is None
    assert array.T[1:].base is array
    assert (array + 1).base is None


@pytest.mark.slow
def test_bfloat16_lies_in_device_memory_too(sim: Sim) -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    host = random(3, 5).astype(bfloat16)
    array = sim.from_host(host)
    assert array.nbytes == 30
    np.testing.assert_array_equal(sim.to_host(array[1:] * array[1:]), host[1:] * host[1:])


@pytest.mark.slow
def test_functions_in_modules_of_numpy_work_there_too(sim: Sim) -> None:
    matrix = random(3, 3)
    values, vectors = sim.xp.linalg.eigh(sim.from_host(matrix @ matrix.T))
    assert isinstance(values, SimArray)
    assert vectors.device is sim
    with pytest.raises(DeviceError, match="a NumPy array of shape"):
        sim.xp.linalg.inv(matrix)
    result = sim.xp.linalg.svd(sim.from_host(matrix))
    np.testing.assert_allclose(sim.to_host(result.S), np.linalg.svd(matrix).S, rtol=1e-6)


# Copies


@pytest.mark.slow
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda array: pickle.loads(pickle.dumps(array))], ids=["deepcopy", "pickle"]
)
def test_copies_of_arrays_and_devices(copied: Callable[[Any], Any], sim: Sim) -> None:
    assert copied(sim) is sim
    assert copied(device("cpu")) is device("cpu")
    array = sim.from_host(random(3, 4).T)
    other = copied(array)
    assert other.device is sim
    assert other.strides == array.strides
    assert not shares_memory(other, array)
    np.testing.assert_array_equal(sim.to_host(other), random(3, 4).T)


@pytest.mark.slow
@pytest.mark.parametrize("what", [[1.0], None, "abc"])
def test_what_is_no_array_is_not_copied_to_a_device(what: Any, sim: Sim) -> None:
    with pytest.raises(TypeError, match="sim:7: from_host takes a NumPy array, got"):
        sim.from_host(what)


# Import


@pytest.mark.slow
def test_importing_internals_brings_none_of_the_heavy_ones() -> None:
    code = "import sys, internals, internals.nn, internals.optim, internals.autodiff; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"torch", "tensorflow", "cupy", "scipy", "sklearn", "pandas"} & set(done.stdout.split())
    assert "numpy" in done.stdout.split()
