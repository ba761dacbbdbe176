"""Data, sharded, tensor and pipeline parallelism for one model on one cluster: what a step takes, and what must fit.

The counts are those of the papers: Megatron-LM (Shoeybi et al. 2019) for tensor parallelism, GPipe and PipeDream (Huang
et al. 2019, Narayanan et al. 2021) for pipelines, ZeRO (Rajbhandari et al. 2020) for sharded states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from internals.distributed.costs.model import Costs
from internals.distributed.costs.predict import all_gather, all_reduce, reduce_scatter, send


@dataclass(frozen=True)
class Model:
    """A transformer, as far as sending and keeping are concerned.

    Attributes
    ----------
    layers, width, context : int
        Of a sequence of `context` tokens; each layer has 12 width² parameters.
    vocabulary : int
    value_bytes : int
        Of an activation, a parameter and a gradient: 2 in half precision.
    state_bytes : int
        Of the optimizer, for each parameter: 12 for Adam with float32 weights beside those of half precision.
    """

    layers: int
    width: int
    context: int = 1024
    vocabulary: int = 50304
    value_bytes: int = 2
    state_bytes: int = 12

    @property
    def parameters(self) -> int:
        return 12 * self.layers * self.width**2 + self.vocabulary * self.width

    @property
    def operations(self) -> float:
        """Floating-point operations of a step, for each sequence: 6 for each parameter and token, attention apart."""
        return 6.0 * self.parameters * self.context + 12.0 * self.layers * self.width * self.context**2

    @property
    def activation(self) -> float:
        """Bytes of what one layer hands to the next, for one sequence."""
        return float(self.context * self.width * self.value_bytes)

    @property
    def kept(self) -> float:
        """Bytes that one layer keeps for the backward pass, for one sequence, where attention does not keep its scores:
        34 for each token and feature in half precision (Korthikanti et al. 2023, section 4.1)."""
        return 17.0 * self.activation


@dataclass(frozen=True)
class Cluster:
    """Devices, and what they are joined by.

    Attributes
    ----------
    devices : int
    rate : float
        Floating-point operations per second of a device that are reached in training.
    memory : float
        Bytes of each.
    inside, between : Costs
        Of messages inside a machine, and between machines.
    per_machine : int
        Devices of a machine.
    """

    devices: int
    rate: float
    memory: float
    inside: Costs
    between: Costs
    per_machine: int = 8

    def costs(self, size: int) -> Costs:
        """Of a group of `size` neighbours: a machine's own, where it fits into one."""
        return self.inside if size <= self.per_machine else self.between


@dataclass(frozen=True)
class Estimate:
    """What a way of training takes.

    Attributes
    ----------
    strategy : str
    seconds : float
        Of a step.
    compute, communication, idle : float
        Its parts, in seconds.
    memory : float
        Bytes on the fullest device.
    fits : bool
    """

    strategy: str
    compute: float
    communication: float
    idle: float
    memory: float
    fits: bool

    @property
    def seconds(self) -> float:
        return self.compute + self.communication + self.idle


def estimate(
    strategy: str, model: Model, cluster: Cluster, batch: int, *, micro_batches: int | None = None
) -> Estimate:
    """What a step on `batch` sequences takes, with all devices used in one way.

    Parameters
    ----------
    strategy : str
        "data", "sharded" (parameters, gradients and states: ZeRO-3), "tensor" or "pipeline" (1F1B).
    batch : int
        Sequences of all devices together.
    micro_batches : int, optional
        Of a pipeline; one sequence each unless given.

    Raises
    ------
    ValueError
        No such strategy, or it can't be cut so: fewer layers than stages, fewer sequences than devices.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"estimate: there is no strategy {strategy!r}; one of {', '.join(STRATEGIES)}")
    if not isinstance(batch, int) or batch < 1:
        raise ValueError(f"estimate: a batch of {batch!r}; expected 1 or more sequences")
    compute, communication, idle, memory = STRATEGIES[strategy](model, cluster, batch, micro_batches or batch)
    return Estimate(strategy, compute, communication, idle, memory, memory <= cluster.memory)


Parts = tuple[float, float, float, float]


def _compute(model: Model, cluster: Cluster, batch: int) -> float:
    return model.operations * batch / (cluster.devices * cluster.rate)


def _states(model: Model) -> float:
    """Bytes of parameters, gradients and the optimizer's states."""
    return float(model.parameters * (2 * model.value_bytes + model.state_bytes))


def _own_batch(cluster: Cluster, batch: int) -> int:
    if batch % cluster.devices:
        raise ValueError(f"estimate: {batch} sequences do not divide over {cluster.devices} devices")
    return batch // cluster.devices


def _data(model: Model, cluster: Cluster, batch: int, micro_batches: int) -> Parts:
    size, own = cluster.devices, _own_batch(cluster, batch)
    compute = _compute(model, cluster, batch)
    sent = all_reduce(cluster.costs(size), model.parameters * model.value_bytes, size)
    exposed = max(sent - compute * 2 / 3, sent / model.layers)  # all but the last bucket beside the backward pass
    return compute, exposed, 0.0, _states(model) + own * model.layers * model.kept


def _sharded(model: Model, cluster: Cluster, batch: int, micro_batches: int) -> Parts:
    size, own = cluster.devices, _own_batch(cluster, batch)
    compute = _compute(model, cluster, batch)
    costs, nbytes = cluster.costs(size), model.parameters * model.value_bytes / model.layers
    layer = 2 * all_gather(costs, nbytes, size) + reduce_scatter(costs, nbytes, size)
    sent = model.layers * layer
    exposed = max(sent - compute, layer)  # each layer's parameters come while the one before it computes
    gathered = 2 * nbytes
    return compute, exposed, 0.0, _states(model) / size + gathered + own * model.layers * model.kept


def _tensor(model: Model, cluster: Cluster, batch: int, micro_batches: int) -> Parts:
    size = cluster.devices
    compute = _compute(model, cluster, batch)
    one = all_reduce(cluster.costs(size), batch * model.activation, size)
    kept = batch * model.layers * model.kept * (5 + 12 / size) / 17  # what is outside the pairs is whole on each
    return compute, 4 * model.layers * one, 0.0, _states(model) / size + kept


def _pipeline(model: Model, cluster: Cluster, batch: int, micro_batches: int) -> Parts:
    stages = cluster.devices
    if stages > model.layers:
        raise ValueError(f"estimate: {model.layers} layers can't be cut into {stages} stages")
    if batch % micro_batches:
        raise ValueError(f"estimate: {batch} sequences do not divide into {micro_batches} micro-batches")
    compute = _compute(model, cluster, batch)
    idle = compute * (stages - 1) / micro_batches
    size = batch // micro_batches
    # A stage waits for the first micro-batch and for the last cotangent; the others come while it computes.
    crossing = send(cluster.costs(stages), size * model.activation)
    sent = 2 * (stages - 1) * crossing
    kept = min(stages, micro_batches) * size * (model.layers / stages) * model.kept
    return compute, sent, idle, _states(model) / stages + kept


STRATEGIES: dict[str, Callable[[Model, Cluster, int, int], Parts]] = {
    "data": _data,
    "sharded": _sharded,
    "tensor": _tensor,
    "pipeline": _pipeline,
}
