"""The gradient machine: shares, fixed order, callbacks, faults; momentum; providers and evaluators."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from layer_nets import TWINS, Twin

from internals import optim
from internals.layers import (
    AUC,
    ClassificationError,
    DataProvider,
    Form,
    FullyConnected,
    GradientMachine,
    Momentum,
    Net,
    Parameter,
    PrecisionRecall,
    batch_of,
    shares,
    swap,
    topological_order,
)

MODELS = pytest.mark.parametrize("twin", [pytest.param(twin, id=twin.name) for twin in TWINS])


def made(twin: Twin, examples: int, threads: int) -> tuple[GradientMachine, dict[str, Any]]:
    rng = np.random.default_rng(5)
    return GradientMachine(Net(twin.config, rng=rng), threads=threads), twin.batch(rng, examples)


def gradients(machine: GradientMachine) -> dict[str, np.ndarray]:
    return {name: one.gradient for name, one in machine.net.parameters.items() if not one.static}


@pytest.mark.parametrize("threads", range(1, 7))
@pytest.mark.parametrize("examples", [1, 2, 5, 6, 7, 12])
def test_shares_are_even_and_none_is_empty(examples: int, threads: int) -> None:
    found = shares(examples, threads)
    sizes = [end - begin for begin, end in found]
    assert len(found) == min(examples, threads)
    assert [begin for begin, _ in found[1:]] == [end for _, end in found[:-1]]
    assert (found[0][0], found[-1][1]) == (0, examples)
    assert max(sizes) - min(sizes) <= 1 <= min(sizes)


@MODELS
@pytest.mark.parametrize(("examples", "threads"), [(7, 2), (7, 3), (3, 5), (8, 4)])
def test_threads_give_the_whole_batchs_mean(twin: Twin, examples: int, threads: int) -> None:
    if "norm" in twin.name:
        pytest.skip("normalises each share by itself")
    (one, batch), (several, _) = made(twin, examples, 1), made(twin, examples, threads)
    with one, several:
        assert several.forward_backward(batch) == pytest.approx(one.forward_backward(batch), rel=1e-5)
        for name, gradient in gradients(one).items():
            assert np.allclose(gradients(several)[name], gradient, rtol=1e-4, atol=1e-6), name


@MODELS
def test_one_thread_is_forward_and_backward_to_the_bit(twin: Twin) -> None:
    (one, batch), (other, _) = made(twin, 6, 1), made(twin, 6, 1)
    loss = one.forward_backward(batch)
    other.forward(batch)
    other.backward()
    assert loss == other.net.loss()
    assert all(np.array_equal(g, gradients(other)[name]) for name, g in gradients(one).items())


def test_the_result_does_not_depend_on_which_thread_is_first() -> None:
    """Shares are slowed down in turn; the sum of float32 numbers would differ if it followed the clock."""
    twin, found = TWINS[0], []
    for slow in (None, 0, 1, 2):

        class Slow(FullyConnected):
            late = slow

            def backward(self, g: Any, x: Any) -> None:
                if self.late is not None and threading.current_thread().name.endswith(str(self.late)):
                    time.sleep(0.02)
                super().backward(g, x)

        with swap(fc=Slow):
            machine, batch = made(twin, 11, 3)
        with machine:
            machine.forward_backward(batch)
            found.append(gradients(machine))
    for other in found[1:]:
        assert all(np.array_equal(g, other[name]) for name, g in found[0].items())


@pytest.mark.parametrize("threads", [1, 3])
def test_the_callback_comes_once_for_each_parameter_as_soon_as_it_is_complete(threads: int) -> None:
    machine, batch = made(TWINS[0], 9, threads)
    seen: list[str] = []

    def callback(parameter: Parameter) -> None:
        assert parameter.gradient is not None
        seen.append(parameter.name)

    with machine:
        machine.forward_backward(batch, callback)
    assert seen == machine.completion
    assert seen == ["out.weight", "out.bias", "more.weight", "more.bias", "hidden.weight", "hidden.bias"]
    assert machine.completion.index("more.weight") < machine.completion.index("hidden.weight")


@pytest.mark.parametrize("threads", [1, 2])
def test_updating_in_the_callback_is_updating_afterwards(threads: int) -> None:
    """A parameter whose gradient is complete is read by no layer any more, also where several layers share it."""
    for twin in (TWINS[0], TWINS[3]):
        (during, batch), (after, _) = made(twin, 8, threads), made(twin, 8, threads)
        rule = Momentum(0.1, momentum=0.9)
        with during, after:
            for _ in range(4):
                during.forward_backward(batch, rule)
                after.forward_backward(batch)
                Momentum(0.1, momentum=0.9).step(after.net.parameters.values())
        for name, one in during.net.parameters.items():
            assert np.array_equal(one.value, after.net.parameters[name].value), name


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_a_fault_in_one_thread_reaches_the_caller_and_the_next_batch_is_right(where: str) -> None:
    class Faulty(FullyConnected):
        armed = True

    def fail(self: Faulty, *args: Any) -> Any:
        if Faulty.armed and len(args[-1].value) == 3:
            raise FloatingPointError("a fault in one share")
        return getattr(FullyConnected, where)(self, *args)

    setattr(Faulty, where, fail)
    with swap(fc=Faulty):
        machine, batch = made(TWINS[0], 7, 2)
    with machine:
        with pytest.raises(FloatingPointError, match="in one share"):
            machine.forward_backward(batch)
        Faulty.armed = False
        machine.forward_backward(batch)
        whole, _ = made(TWINS[0], 7, 2)
        with whole:
            whole.forward_backward(batch)
            assert all(np.array_equal(g, gradients(whole)[name]) for name, g in gradients(machine).items())


def test_dropout_has_a_mask_for_each_step_and_share_that_the_seed_brings_back() -> None:
    text = """layer { name: "x" type: "data" shape: 20 }  layer { name: "y" type: "data" shape: 2 }
    layer { name: "drop" type: "dropout" bottom: "x" }  layer { name: "out" type: "fc" bottom: "drop" size: 2 }
    layer { name: "loss" type: "square_error" bottom: ["out", "y"] }"""
    rng = np.random.default_rng(0)
    batch = {"x": np.ones((6, 20), "f"), "y": rng.standard_normal((6, 2)).astype("f")}
    losses = []
    for seed in (1, 1, 2):
        with GradientMachine(Net(text, rng=np.random.default_rng(0)), threads=2, seed=seed) as machine:
            losses.append([machine.forward_backward(batch) for _ in range(2)])
            masks = [replica.arguments["drop"].value != 0 for replica in machine.replicas]
            assert not np.array_equal(*masks)
    assert losses[0] == losses[1] != losses[2]
    assert losses[0][0] != losses[0][1]


def test_steps_from_many_threads_at_once_do_not_meet() -> None:
    machine, batch = made(TWINS[0], 6, 1)
    loss, expected = machine.step(batch)
    found: list[Any] = []
    workers = [threading.Thread(target=lambda: found.append(machine.step(batch))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 8
    for its_loss, its_gradients in found:
        assert its_loss == loss
        assert all(np.array_equal(its_gradients[name], g) for name, g in expected.items())


def test_swapped_parts_are_used() -> None:
    twin, used = TWINS[0], set()

    def order(layers: Any) -> list[str]:
        used.add("order")
        return topological_order(layers)

    def run(step: Any, batch: Any, threads: int) -> Any:
        used.add(f"forward_backward with {threads}")
        return step(batch)

    def update(parameter: Parameter, lr: float, momentum: float, decay: float) -> None:
        used.add("update")

    with swap(order=order, forward_backward=run, update=update):
        machine, batch = made(twin, 6, 3)
        loss = machine.forward_backward(batch, Momentum(0.1))
    plain, _ = made(twin, 6, 1)
    assert loss == plain.forward_backward(batch)
    assert used == {"order", "forward_backward with 3", "update"}
    assert all(np.array_equal(g, gradients(plain)[name]) for name, g in gradients(machine).items())


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_momentum_is_that_of_optim_while_the_step_size_stays(momentum: float, decay: float) -> None:
    from internals import Tensor

    rng = np.random.default_rng(0)
    start = rng.standard_normal(4)
    mine, theirs = Parameter("w", start.copy()), Tensor(start.copy(), requires_grad=True)
    rule = Momentum(0.1, momentum=momentum, decay=decay)
    other = optim.SGD([theirs], lr=0.1, momentum=momentum, weight_decay=decay)
    for _ in range(5):
        g = rng.standard_normal(4)
        mine.gradient, theirs.grad = g, Tensor(g)
        rule(mine)
        other.step()
    assert np.allclose(mine.value, theirs.detach().numpy(), rtol=1e-12)


def test_each_parameter_has_its_own_multipliers() -> None:
    net = Net(
        """layer { name: "x" type: "data" shape: 2 }  layer { name: "y" type: "data" shape: 2 }
        layer { name: "out" type: "fc" bottom: "x" size: 2
          weight { lr_mult: 2 decay_mult: 0.5 }  bias { lr_mult: 0 value: 3.0 } }
        layer { name: "loss" type: "square_error" bottom: ["out", "y"] }"""
    )
    weight, bias = net.parameters["out.weight"], net.parameters["out.bias"]
    before = weight.value.copy()
    GradientMachine(net).forward_backward(
        {"x": np.ones((2, 2), "f"), "y": np.ones((2, 2), "f")}, Momentum(0.1, decay=0.2)
    )
    assert np.allclose(weight.value, before - 0.1 * 2 * (weight.gradient + 0.2 * 0.5 * before), rtol=1e-6)
    assert bias.value.tolist() == [3.0, 3.0]


def test_all_threads_see_an_update() -> None:
    machine, batch = made(TWINS[0], 6, 2)
    with machine:
        machine.forward_backward(batch, Momentum(0.5))
        after = machine.forward_backward(batch)
    fresh = GradientMachine(Net(TWINS[0].config), threads=2)
    for name, one in machine.net.parameters.items():
        fresh.net.parameters[name].value = one.value
    with fresh:
        assert fresh.forward_backward(batch) == after


def test_a_provider_gives_each_example_once_and_mixes_as_its_seed_says() -> None:
    examples = [{"x": [float(i), 1.0], "words": [i] * (i % 3 + 1), "label": i} for i in range(7)]
    inputs = {"x": Form((2,)), "words": Form(ids=7, sequence=True), "label": Form(ids=7)}
    plain = list(DataProvider(lambda: iter(examples), inputs, batch_size=3))
    assert [batch["label"].ids.tolist() for batch in plain] == [[0, 1, 2], [3, 4, 5], [6]]
    assert plain[0]["words"].ids.tolist() == [0, 1, 1, 2, 2, 2]
    assert plain[0]["words"].starts.tolist() == [0, 1, 3, 6]
    assert (plain[0]["x"].value.dtype, plain[0]["x"].value.shape) == (np.float32, (3, 2))
    assert len(list(DataProvider(examples, inputs, batch_size=3, drop_last=True))) == 2
    seen = []
    for seed in (1, 1, 2):
        provider = DataProvider(examples, inputs, batch_size=3, shuffle=True, seed=seed)
        seen.append([[i for batch in provider for i in batch["label"].ids.tolist()] for _ in range(2)])
    assert seen[0] == seen[1] != seen[2]
    assert seen[0][0] != seen[0][1]
    assert sorted(seen[0][0]) == list(range(7))


@pytest.mark.parametrize("classes", [2, 4])
def test_evaluators_as_scikit_learn(classes: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(classes)
    out, label = np.round(rng.standard_normal((60, classes)), 1), rng.integers(0, classes, 60)
    error, macro = ClassificationError("out", "label"), PrecisionRecall("out", "label")
    one, area = PrecisionRecall("out", "label", positive=1), AUC("out", "label")
    for rows in np.array_split(np.arange(60), 4):
        arguments = {"out": batch_of([out[rows]], ids=False), "label": batch_of([label[rows]], ids=True)}
        for evaluator in (error, macro, one, *([area] if classes == 2 else [])):
            evaluator.add(arguments)
    guess = out.argmax(1)
    assert error.result() == pytest.approx(1 - metrics.accuracy_score(label, guess))
    for evaluator, average in ((macro, {"average": "macro"}), (one, {"average": None, "labels": [1]})):
        expected = metrics.precision_recall_fscore_support(label, guess, zero_division=0, **average)[:3]
        assert list(evaluator.result().values()) == pytest.approx([float(np.ravel(value)[0]) for value in expected])
    if classes == 2:
        assert area.result() == pytest.approx(metrics.roc_auc_score(label, out[:, 1]))  # with ties
    error.start()
    assert np.isnan(error.result())
    assert np.isnan(AUC("out", "label").result())
    with pytest.raises(ValueError, match="there is no layer 'label'"):
        error.add({"out": batch_of([out], ids=False)})
    with pytest.raises(ValueError, match="one integer label for each row"):
        error.add({"out": batch_of([out], ids=False), "label": batch_of([label[:3]], ids=True)})
