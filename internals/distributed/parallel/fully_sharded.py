"""A module of which each rank holds a part: parameters are put together for the moment in which they are used."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from internals.autodiff.hooks import after_backward
from internals.distributed import collectives
from internals.distributed.collectives import Work
from internals.distributed.group import Group
from internals.distributed.parallel.buckets import Bucket, Named
from internals.distributed.parallel.sharded_optimizer import clip_shards
from internals.distributed.parallel.wrapped import check_same, checked, on_the_cpu
from internals.nn import Module
from internals.tensor import Tensor, wrap

NAME = "FullyShardedDataParallel"


class Unit:
    """Some of a module's parameters, which are gathered and let go together.

    Attributes
    ----------
    shard : Tensor, shape (n,)
        This rank's part of them; what the optimizer moves.
    """

    def __init__(self, name: str, bucket: Bucket, flat: np.ndarray, group: Group) -> None:
        self.name, self.bucket = name, bucket
        self.shard = Tensor(bucket.part(flat, group.rank, group.size), requires_grad=True)
        self.whole: np.ndarray | None = None
        self.gradients: np.ndarray | None = None
        self.left: set[int] = set()
        self.version = self.shard.version


class FullyShardedDataParallel(Module):
    """Data parallel training in which each rank holds a p-th of parameters, gradients and optimizer state.

    The parameters of a unit are gathered before its forward, let go after it, gathered again before its backward, and
    let go when its gradients are known, which are reduce-scattered. Between, they are NaN and take no memory.

    Parameters
    ----------
    module : Module
        On the cpu, the same on every rank. Its parameters are rank 0's.
    group : Group
    units : sequence of str, optional
        Dotted names of parts of the module, each a unit; its direct children unless given. What is in none of them is
        a unit of its own, gathered for the whole of the forward.

    Attributes
    ----------
    peak_parameter_bytes : int
        The most bytes of parameters there were on this rank at one time, shards included.

    Raises
    ------
    TypeError, ValueError, MismatchError
        See `DistributedDataParallel`; ValueError also for a part that is not there, or a parameter in two units.

    Notes
    -----
    `parameters()` gives the shards: build the optimizer on them, after wrapping. Its rule must be entry-wise, as all in
    `internals.optim` are. Every rank runs the same units in the same order. What keeps a view of a parameter from
    forward to backward keeps the unit's memory too.

    References
    ----------
    Rajbhandari et al. (2020), ZeRO, §5.3 (stage 3). Zhao et al. (2023), PyTorch FSDP: experiences on scaling fully
    sharded data parallel.
    """

    def __init__(self, module: Module, group: Group, *, units: Sequence[str] | None = None) -> None:
        named = checked(NAME, module, group, 1)
        on_the_cpu(NAME, named)
        check_same(NAME, named, group)
        self.module, self._group = module, group
        for _, value in [*module.named_parameters(), *module.named_buffers()]:
            collectives.broadcast(value, 0, group=group)
        self._parameter_bytes = self.peak_parameter_bytes = 0
        self._works: list[tuple[Unit, Work]] = []
        self._ending = False
        self._units: list[Unit] = []
        for name, part, inside in _split(module, named, units):
            for dtype in dict.fromkeys(parameter.dtype for _, parameter in inside):
                bucket = Bucket([one for one in inside if one[1].dtype == dtype], parts=group.size)
                unit = Unit(name, bucket, bucket.collect_values(), group)
                self._count(unit.shard.nbytes)
                self._units.append(unit)
                self._let_go(unit)
                self._watch(unit, part)

    def forward(self, *inputs: Any, **settings: Any) -> Any:
        return self.module(*inputs, **settings)

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """This rank's shards, one or more for each unit."""
        for unit in self._units:
            yield f"{prefix}{unit.name or 'rest'}.{unit.bucket.dtype.name}", unit.shard

    @contextmanager
    def gathered(self) -> Iterator[Module]:
        """The module with all parameters whole, to look at; what is written to them is lost. Every rank calls it."""
        for unit in self._units:
            self._gather(unit)
        try:
            yield self.module
        finally:
            for unit in self._units:
                self._let_go(unit)

    def state_dict(self) -> dict[str, np.ndarray]:
        """The module's, whole, on every rank. Every rank calls it."""
        with self.gathered() as module:
            return module.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Take values for the whole module, the same on every rank; each keeps its part. Every rank calls it."""
        with self.gathered() as module:
            module.load_state_dict(state, strict=strict)
            for unit in self._units:
                assert unit.whole is not None
                unit.shard.data[...] = unit.bucket.part(unit.whole, self._group.rank, self._group.size)
                unit.shard.storage.version += 1

    def clip_grad_norm(self, max_norm: float) -> float:
        """Scale the gradients so that their norm, over all parameters, is at most `max_norm`; returns what it was.

        Every rank calls it: a shard's own norm says little.
        """
        return clip_shards(self.parameters(), self._group, max_norm)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of parameters on this rank now."""
        return self._parameter_bytes

    def _watch(self, unit: Unit, part: Module) -> None:
        me = weakref.ref(self)  # the tape's table of hooks must not keep the parameters alive

        def hook(place: int) -> Callable[[Tensor], None]:
            def came(_: Tensor) -> None:
                wrapper = me()
                if wrapper is not None:
                    wrapper._come(unit_of(), place)

            return came

        held = weakref.ref(unit)

        def unit_of() -> Unit:
            found = held()
            assert found is not None
            return found

        for place, parameter in enumerate(unit.bucket.parameters):
            parameter.register_post_accumulate_grad_hook(hook(place))
        part.register_forward_pre_hook(lambda module, inputs: self._gather(unit))
        part.register_forward_hook(lambda module, inputs, outputs: self._after_forward(unit, outputs))

    def _gather(self, unit: Unit) -> None:
        if unit.whole is not None:
            return
        whole = unit.bucket.empty()
        collectives.all_gather(unit.shard.detach(), into=whole, group=self._group)
        unit.whole = whole
        self._count(whole.nbytes)
        changed, unit.version = unit.version != unit.shard.version, unit.shard.version
        for place, parameter in enumerate(unit.bucket.parameters):
            parameter.data = unit.bucket.view(whole, place)
            parameter.storage.version += changed

    def _let_go(self, unit: Unit) -> None:
        if unit.whole is not None:
            self._count(-unit.whole.nbytes)
        unit.whole = None
        for parameter in unit.bucket.parameters:
            parameter.data = np.broadcast_to(np.array(np.nan, parameter.dtype), parameter.shape)

    def _after_forward(self, unit: Unit, outputs: Any) -> None:
        for output in _tensors(outputs):
            if output.node is not None:
                output.register_hook(lambda cotangent: self._gather(unit))
        self._let_go(unit)

    def _come(self, unit: Unit, place: int) -> None:
        if not self._ending:
            self._ending = True
            after_backward(self._end)
        if unit.gradients is None:
            unit.gradients = unit.bucket.empty()
            unit.left = set(range(len(unit.bucket.parameters)))
        unit.bucket.collect_gradient(unit.gradients, place)
        unit.bucket.parameters[place].grad = None
        unit.left.discard(place)
        if not unit.left:
            self._send(unit)

    def _send(self, unit: Unit) -> None:
        assert unit.gradients is not None
        work = collectives.reduce_scatter(unit.gradients, "mean", group=self._group, asynchronous=True)
        self._works.append((unit, work))
        unit.gradients = None
        self._let_go(unit)

    def _end(self) -> None:
        self._ending = False
        for unit in self._units:
            if unit.gradients is not None:
                for place in unit.left:
                    unit.bucket.view(unit.gradients, place)[...] = 0
                self._send(unit)
            self._let_go(unit)
        works, self._works = self._works, []
        for unit, work in works:
            mine = work.wait()
            if unit.shard.grad is None:
                unit.shard.grad = wrap(mine)
            else:
                unit.shard.grad.data += mine

    def _count(self, nbytes: int) -> None:
        self._parameter_bytes += nbytes
        self.peak_parameter_bytes = max(self.peak_parameter_bytes, self._parameter_bytes)


def _split(module: Module, named: list[Named], units: Sequence[str] | None) -> list[tuple[str, Module, list[Named]]]:
    """(name, part, its parameters) of each unit, and of what is left."""
    parts = dict(module.named_modules())
    names = [name for name, _ in module.named_children()] if units is None else list(units)
    unknown = [name for name in names if name not in parts or not name]
    if unknown:
        raise ValueError(f"{NAME}: the module has no part {unknown[0]!r}; it has {', '.join(filter(None, parts))}")
    owner: dict[int, str] = {}
    found = []
    for name in names:
        inside = [(f"{name}.{inner}", one) for inner, one in parts[name].named_parameters() if one.requires_grad]
        for inner, parameter in inside:
            if id(parameter) in owner:
                raise ValueError(
                    f"{NAME}: {inner} is in the unit {owner[id(parameter)]!r} and in {name!r}; a parameter belongs to "
                    "one unit: make one of both, or leave it to the whole module by naming neither"
                )
            owner[id(parameter)] = name
        if inside:
            found.append((name, parts[name], inside))
    rest = [one for one in named if id(one[1]) not in owner]
    return [*found, ("", module, rest)] if rest else found


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
