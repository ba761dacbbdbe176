"""What a traced function does beside giving a result: writes into Tensors, random numbers, printing, updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, nn, no_grad, ops
from internals.trace import TraceError, function, gradient, show


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng().standard_normal(shape).astype(np.float32)


def test_running_statistics_move_at_every_call() -> None:
    nets = [nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()) for _ in range(2)]
    theirs = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.ReLU())
    traced = function(lambda x: nets[0](x))
    for size in (5, 5, 7, 5):
        values = random(size, 3)
        x, y = Tensor(values, requires_grad=True), Tensor(values, requires_grad=True)
        traced(x).sum().backward()
        nets[1](y).sum().backward()
        theirs(torch.tensor(values))
        np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())
        for (name, one), (_, other) in zip(nets[0].named_buffers(), nets[1].named_buffers(), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
            np.testing.assert_allclose(one.numpy(), theirs.state_dict()[name].numpy(), rtol=1e-4, atol=1e-6)
    assert nets[0][0].num_batches_tracked.item() == 4


def test_writes_are_seen_by_what_follows_and_come_in_order() -> None:
    count, seen = Tensor([0.0, 0.0]), Tensor([0.0, 0.0])

    @function
    def step(x: Any) -> Any:
        before = count + 0
        count.add_(x)
        seen.copy_(count)
        count[0] = 7.0
        return before, count * 1, seen * 1

    for _ in range(2):
        eager_count, eager_seen = Tensor(count), Tensor(seen)
        before, after, copied = step(Tensor([1.0, 2.0]))
        want_before = eager_count + 0
        eager_count.add_(Tensor([1.0, 2.0]))
        eager_seen.copy_(eager_count)
        eager_count[0] = 7.0
        for one, other in zip(
            (before, after, copied, count, seen),
            (want_before, eager_count, eager_seen, eager_count, eager_seen),
            strict=True,
        ):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_write_is_noticed_by_the_tape() -> None:
    w = Tensor([2.0])
    x = Tensor([3.0], requires_grad=True)
    y = x * w
    function(lambda: w.add_(1))()
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda w, x: w.add_(x), r"test_writes.py:\d+: in-place add.* requires a gradient.*no_grad"),
        (lambda w, x: w.detach().add_(x), r"shares its memory with another"),
        (lambda w, x: COUNT.add_(x), r"the result is float32\[2\] and does not fit a Tensor of int64\[2\]"),
        (lambda w, x: SHORT.add_(x), r"the result is float32\[2\] and does not fit a Tensor of float32\[1\]"),
    ],
)
def test_a_write_that_cannot_be_is_refused_with_its_line(write: Any, message: str) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TraceError, match=message):
        function(lambda x: write(w, x))(Tensor([1.0, 2.0]))


COUNT, SHORT = Tensor([1, 2]), Tensor([1.0])


def test_dropout_draws_a_mask_at_every_call_and_uses_it_backwards() -> None:
    nets = [nn.Dropout(0.5, rng=np.random.default_rng(3)) for _ in range(2)]
    traced = function(lambda x: nets[0](x) * 2)
    masks = set()
    for _ in range(4):
        leaves = [Tensor(np.ones(20, np.float32), requires_grad=True) for _ in range(2)]
        results = [traced(leaves[0]), nets[1](leaves[1]) * 2]
        for result in results:
            result.sum().backward()
        for one, other in ((results[0].detach(), results[1].detach()), (leaves[0].grad, leaves[1].grad)):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
        np.testing.assert_array_equal(results[0].detach().numpy(), leaves[0].grad.numpy())
        masks.add(leaves[0].grad.numpy().tobytes())
    assert len(masks) == 4
    assert len(traced.traces) == 1


def test_dropout_in_a_branch_of_the_graph() -> None:
    nets = [nn.Dropout(0.5, rng=np.random.default_rng(3)) for _ in range(2)]

    def dropped(x: Any, net: Any) -> Any:
        if x.sum() > 0:
            x = net(x)
        return x

    x = Tensor(np.ones(20, np.float32))
    for _ in range(3):
        np.testing.assert_array_equal(
            function(lambda x: function(dropped)(x, nets[0]))(x).numpy(), dropped(x, nets[1]).numpy()
        )


def test_print_is_done_once_and_show_at_every_call(capsys: pytest.CaptureFixture[str]) -> None:
    @function
    def shown(x: Any) -> Any:
        print("tracing", x)
        show(x, "x =")
        y = x * x
        if x > 1.5:
            y = show(y, "large")
        return y

    for value in (1.0, 2.0):
        x = Tensor(value, requires_grad=True)
        shown(x).backward()
        assert x.grad.item() == 2 * value
    assert capsys.readouterr().out.splitlines() == [
        "tracing <input_0: placeholder -> float32[]>",
        "x = 1.0",
        "x = 2.0",
        "large 4.0",
    ]
    assert show(3.0) == 3.0
    assert capsys.readouterr().out == "3.0\n"


def test_nothing_flows_through_no_grad_and_detach() -> None:
    w = Tensor([3.0], requires_grad=True)

    def cut(x: Any) -> Any:
        with no_grad():
            y = x * w
        return y * x + x.detach() * w

    found = []
    for run in (cut, function(cut)):
        w.grad, x = None, Tensor([2.0], requires_grad=True)
        run(x).sum().backward()
        found.append((x.grad.item(), w.grad.item()))
    assert found == [(6.0, 2.0)] * 2


def test_a_whole_training_step_is_a_graph() -> None:
    def trained(traces: bool) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        net = nn.Sequential(nn.Linear(3, 8, rng=rng), nn.Tanh(), nn.Linear(8, 2, rng=rng))
        velocities = [Tensor(np.zeros_like(p.detach().numpy())) for p in net.parameters()]

        def step(x: Any, labels: Any) -> Any:
            loss = ops.cross_entropy(net(x), labels)
            slopes = gradient(loss, net.parameters())
            with no_grad():
                for w, v, g in zip(net.parameters(), velocities, slopes, strict=True):
                    v.mul_(0.9)
                    v.add_(g)
                    w.sub_(v * 0.1)
            return loss.detach()

        run = function(step) if traces else step
        x, labels = Tensor(rng.standard_normal((16, 3)).astype(np.float32)), Tensor(rng.integers(0, 2, 16))
        losses = [run(x, labels).numpy() for _ in range(10)]
        assert losses[-1] < losses[0]
        return [*losses, *net.state_dict().values()]

    for one, other in zip(trained(True), trained(False), strict=True):
        np.testing.assert_array_equal(one, other)


def test_captured_tensors_alone_are_computed_at_every_call() -> None:
    """What meets no argument is no constant: w * 2 is part of the graph, and has a gradient at every call."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    traced = function(lambda x: x * (w * 2).sum())
    for shift in (0.0, 1.0):
        with no_grad():
            w += shift
        w.grad = None
        x = Tensor([1.0])
        found = traced(x)
        assert found.item() == (w * 2).sum().item()
        found.backward()
        assert w.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "write", [lambda x: x.__iadd__(1), lambda x: x.__isub__(1), lambda x: x.__imul__(2), lambda x: x.__itruediv__(2)]
)
def test_a_write_into_an_argument_is_refused(write: Any) -> None:
    with pytest.raises(TraceError, match=r"test_writes.py:\d+: in-place \w+ of an argument writes into the caller's"):
        function(lambda x: write(x))(Tensor([1.0]))


def test_a_write_into_an_argument_in_a_loop_is_refused() -> None:
    def grown(x: Any) -> Any:
        while x.sum() < 9:
            x += 1
        return x

    def grown_apart(x: Any) -> Any:
        x = x * 1
        while x.sum() < 9:
            x += 1
        return x

    with pytest.raises(TraceError, match="in-place add of an argument"):
        function(grown)(Tensor([1.0]))
    assert function(grown_apart)(Tensor([1.0])).item() == 9.0


def test_a_write_into_what_was_made_inside_is_one_for_it_alone() -> None:
    def summed(x: Any) -> Any:
        total = x * 0
        for _ in range(3):
            total += x
        total *= 2
        return total

    assert function(summed)(Tensor([1.0, 2.0])).tolist() == summed(Tensor([1.0, 2.0])).tolist() == [6.0, 12.0]


# Writes in place into what is computed: right where nobody else has it, refused where somebody may


def alone(x: Any) -> Any:
    y = x * 2
    y += 1
    if x.sum() > 0:
        y *= 3
    for _ in range(2):
        y -= x
    return y


def alias(x: Any) -> Any:
    y = x * 2
    z = y
    y += 1
    return y + z


def alias_by_a_branch(x: Any) -> Any:
    y, z = x * 2, x * 3
    either = y if x.sum() > 0 else z
    either += 1
    return y + z


def alias_by_a_nested_branch(x: Any) -> Any:
    y, z = x * 2, x * 3
    either = (y if x.sum() > 1 else z) if x.sum() > 0 else x * 4
    y += 1
    return y + z + either


def alias_by_a_loop(x: Any) -> Any:
    y, z = x * 2, x * 3
    while z.sum() < 100:
        y *= 2
        z = z + 1
        y = z
    return y + z


def alias_before_a_branch(x: Any) -> Any:
    y = x * 2
    z = y
    if x.sum() > 0:
        y += 1
    return y + z


def alias_of_an_argument_of_a_function(x: Any) -> Any:
    def moved(inner: Any) -> Any:
        inner += 1
        return inner

    y = x * 2
    return moved(y) + y


def view(x: Any) -> Any:
    y = x * 2
    row = y[:1]
    y += 1
    return y + row


def view_itself(x: Any) -> Any:
    y = x * 2
    row = y[:1]
    row += 1
    return y


@pytest.mark.parametrize(
    "program",
    [alias, alias_by_a_branch, alias_by_a_nested_branch, alias_by_a_loop, alias_before_a_branch,
     alias_of_an_argument_of_a_function, view, view_itself],
    ids=lambda program: program.__name__,
)  # fmt: skip
def test_a_write_into_what_somebody_else_has_is_refused(program: Any) -> None:
    """Eager code changes both; a graph would change one, and say nothing."""
    with pytest.raises(TraceError, match=r"test_writes.py:\d+: in-place .* (at once|shares its memory)"):
        function(program)(Tensor([1.0, 2.0]))


def test_a_write_into_what_nobody_else_has_is_what_it_is_in_python() -> None:
    for values in ([1.0, 2.0], [-1.0, -2.0]):
        assert function(alone)(Tensor(values)).tolist() == alone(Tensor(values)).tolist()
