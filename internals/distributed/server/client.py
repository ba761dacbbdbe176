"""What a trainer talks to the servers through: push, pull, and both in one go, over all servers at once."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Mapping, Sequence
from operator import index
from types import TracebackType
from typing import Any

import numpy as np

from internals.distributed.errors import DistributedError
from internals.distributed.server.compression import Compression, Memory
from internals.distributed.server.gradients import NONFINITE, Outgoing, checked_gradients, split_rows
from internals.distributed.server.links import Links
from internals.distributed.server.placement import SPLIT, Layout, Piece, held_by, place
from internals.distributed.server.table import TableSpec
from internals.distributed.transport import Endpoint, Message


class Client:
    """One trainer's way to the parameters.

    Parameters
    ----------
    endpoint : Endpoint
        The trainer's, of a name of its own: ``trainer:<rank>``.
    servers : sequence of str
        The servers' addresses, in the order of their indices; the same on all trainers.
    rank : int
        Which data shard is this trainer's to begin with. One of ``shards`` or above is a spare: it has nothing to do
        until another is lost.
    how, split
        See `place`; the same on all trainers.
    compression : TopK or EightBit, optional
        Of dense gradients.
    nonfinite : {"refuse", "drop", "accept"}
        What to do with a gradient that has NaN or infinity in it: raise; send nothing, and count it in ``dropped``; or
        send it.
    deadline : float
        Seconds a wait lasts at most, for the others at a barrier too.
    patience : float
        Seconds to wait for a lost server to come back.

    Attributes
    ----------
    step : int
        Of the values in hand.
    values : dict of name to array
        What was pulled last; a pull writes into the same arrays.
    shards : list of int
        The data shards this trainer works on.
    clocks : dict of int to int
        The next step of each of them, where there is no barrier.
    mode : str
        The servers': ``"sync"``, ``"async"`` or ``"ssp"``.
    dropped : int
        Gradients that were not finite, and not sent.

    Raises
    ------
    DeadlineExceeded
        A server is not there; names it.
    ValueError
        No servers, or another number than they think themselves.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        servers: Sequence[str],
        *,
        rank: int = 0,
        how: str = "hash",
        split: int = SPLIT,
        compression: Compression | None = None,
        nonfinite: str = "refuse",
        deadline: float = 60.0,
        patience: float = 30.0,
    ) -> None:
        if nonfinite not in NONFINITE:
            raise ValueError(f"Client: nonfinite={nonfinite!r}; expected one of {', '.join(NONFINITE)}")
        self.endpoint, self.rank = endpoint, rank
        self.step = 0
        self.values: dict[str, np.ndarray] = {}
        self.shards: list[int] = []
        self.clocks: dict[int, int] = {}
        self.dropped = 0
        self._how, self._split = how, split
        self._compression, self._memory = compression, Memory()
        self._nonfinite = nonfinite
        self._layouts: dict[str, Layout] = {}
        self._pieces: dict[str, tuple[Piece, ...]] = {}
        self._tables: dict[str, TableSpec] = {}
        self._links = Links(self, servers, rank, uuid.uuid4().hex, deadline=deadline, patience=patience)
        self._links.connect()
        self.refresh()

    @property
    def name(self) -> str:
        return self.endpoint.name

    @property
    def mode(self) -> str:
        return self._links.mode

    def init(self, values: Mapping[str, Any] | None = None) -> None:
        """Give the parameters their first values; or, with None, wait until another trainer has.

        All trainers may pass values, which must be the same then. On servers that have come back from a checkpoint,
        nothing changes.

        Parameters
        ----------
        values : mapping of name to array, float16 to float64

        Raises
        ------
        RemoteError
            Another trainer has passed other values, shapes or dtypes; names the parameter and both.
        """
        if values is None:
            told = self._links.ask_first(Message("layout")).fields
            self._how, self._split = told["how"], told["split"]
            self._lay_out({name: Layout(tuple(shape), dtype) for name, (shape, dtype) in told["layouts"].items()})
            return
        arrays = {}
        for name, value in values.items():
            array = np.asarray(value)
            if not isinstance(name, str) or array.dtype.kind != "f":
                raise TypeError(
                    f"init: {self.name}: parameter {name!r} is {array.dtype} {array.shape}; names must be str, and "
                    "values float16, float32 or float64"
                )
            arrays[name] = array
        self._lay_out({name: Layout(array.shape, array.dtype.name) for name, array in arrays.items()})
        layouts = {name: [list(one.shape), one.dtype] for name, one in self._layouts.items()}
        common = {"layouts": layouts, "how": self._how, "split": self._split}

        def message(server: int) -> Message:
            held = held_by(self._pieces, server)
            parts = [np.ascontiguousarray(arrays[p.name]).reshape(-1)[p.begin : p.end] for p in held]
            pieces = [
                {"name": p.name, "begin": p.begin, "sum": zlib.crc32(part.data)}
                for p, part in zip(held, parts, strict=True)
            ]
            return Message("init", common | {"pieces": pieces}, parts)

        self._links.ask(message)

    def create_table(self, name: str, spec: TableSpec) -> None:
        """Make a sparse table, or agree with who has made it.

        Raises
        ------
        RemoteError
            It is there, with other settings.
        """
        self._tables[name] = spec
        self._links.ask(lambda server: Message("table", {"name": name, "spec": spec.plain()}))

    def pull(self, step: int | None = None, *, shard: int | None = None) -> dict[str, np.ndarray]:
        """The values for a step, waited for until the servers give them.

        Parameters
        ----------
        step : int, optional
            The one in hand, unless given.
        shard : int, optional
            The data shard the values are for. Without one they are for all, and have all updates from before `step`.

        Returns
        -------
        dict of name to array; `values`

        Raises
        ------
        ShardsMoved
            A trainer was lost, and this one has new shards to work on before anybody can go on; see ``shards``.
        RolledBack
            The servers are back at an earlier step; ``step`` is that one.
        DeadlineExceeded
            Names the data shards that are missing, and their trainers.
        """
        self._check_initialised("pull")
        step = self.step if step is None else index(step)
        return self._take_in(self._links.ask(lambda server: Message("pull"), step=step, shard=shard, dense=True))

    def push(
        self,
        gradients: Mapping[str, Any],
        *,
        shard: int | None = None,
        step: int | None = None,
        examples: float = 1.0,
        rows: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> bool:
        """Give the gradients of a data shard for a step.

        Parameters
        ----------
        gradients : mapping of name to array of the parameter's shape and dtype
            Of the *mean* loss over the batch. A parameter that is left out has none: zero.
        shard : int, optional
            This trainer's first, unless given.
        step : int, optional
        examples : float
            In the batch: the weight of these gradients in the mean over shards.
        rows : mapping of table to (ids, gradients), optional

        Returns
        -------
        bool
            Whether it was in time; False where backup made the step go on without it.

        Raises
        ------
        ValueError, TypeError, LookupError
            Names the parameter and this trainer.
        """
        outgoing = self._outgoing(gradients, shard, step, examples, rows)
        answers = self._links.ask(outgoing.message)
        return not any(answer.fields["late"] for answer in answers)

    def pushpull(
        self,
        gradients: Mapping[str, Any],
        *,
        shard: int | None = None,
        step: int | None = None,
        examples: float = 1.0,
        rows: Mapping[str, tuple[Any, Any]] | None = None,
        then: tuple[int | None, int] | None = None,
    ) -> dict[str, np.ndarray]:
        """`push`, and `pull` what is needed next, in one message each way.

        Parameters
        ----------
        then : (shard, step), optional
            What the values are for: the next step of this shard, unless given.
        """
        outgoing = self._outgoing(gradients, shard, step, examples, rows)
        next_shard, next_step = then or (outgoing.shard, outgoing.step + 1)
        return self._take_in(self._links.ask(outgoing.message, step=next_step, shard=next_shard, dense=True))

    def pull_rows(
        self, wanted: Mapping[str, Any], *, step: int | None = None, shard: int | None = None, create: bool = True
    ) -> dict[str, np.ndarray]:
        """Rows of sparse tables, and of nothing else.

        Parameters
        ----------
        wanted : mapping of table to ids, any shape
        create : bool
            Whether rows that nobody has touched are kept; pass False to look without changing anything.

        Returns
        -------
        dict of table to array of float32, shape (*ids.shape, dim)
        """
        step = self.step if step is None else step
        asked = {}
        for name, ids in wanted.items():
            spec = self._table(name)
            ids = spec.check_ids(ids, f"pull_rows: {self.name}: table {name!r}")
            unique, inverse = np.unique(ids, return_inverse=True)
            asked[name] = (unique, inverse.reshape(ids.shape), split_rows(unique, spec, len(self._links)))
        answers = self._links.ask(
            lambda server: Message("pull", {}, [unique[parts[server]] for unique, _, parts in asked.values()]),
            step=step, shard=shard, dense=False, tables=list(asked), create=create,
        )  # fmt: skip
        found = {}
        for number, (name, (unique, inverse, parts)) in enumerate(asked.items()):
            rows = np.empty((unique.size, self._tables[name].dim), np.float32)
            for part, answer in zip(parts, answers, strict=True):
                rows[part] = answer.arrays[number]
            found[name] = rows[inverse]
        return found

    def checkpoint(self) -> list[int]:
        """Have every server write a checkpoint now; returns when all are on disk, with their versions.

        Raises
        ------
        RemoteError
            A disk is full, or a server has no directory for checkpoints; names the server and the path. What it wrote
            before is as it was.
        """
        return [answer.fields["step"] for answer in self._links.ask(lambda server: Message("checkpoint"))]

    def stats(self) -> list[dict[str, Any]]:
        """What each server counted; see `Server.stats`."""
        return [answer.fields for answer in self._links.ask(lambda server: Message("stats"))]

    def refresh(self, lost: Sequence[str] = ()) -> None:
        """Ask which data shards are this trainer's now; `lost` are trainers that another server has lost."""
        told = self._links.ask_first(Message("mine", {"lost": list(lost)})).fields
        fresh = set(told["shards"]) - set(self.shards)
        self.shards = told["shards"]
        clocks = zip(told["shards"], told["clocks"], strict=True)
        self.clocks = {shard: max(clock, self.clocks.get(shard, 0)) for shard, clock in clocks}
        if fresh and self.mode != "sync":
            self._links.tell_clocks()

    def close(self, *, done: bool = True) -> None:
        """Say goodbye to the servers.

        Parameters
        ----------
        done : bool
            False: others take over this trainer's shards, as if it had been lost.
        """
        self._links.leave(done)
        self.endpoint.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(done=kind is None)

    def forget(self) -> None:
        """Training went back to a checkpoint: what compression left out belongs to steps that never were."""
        self._memory.clear()

    def _lay_out(self, layouts: dict[str, Layout]) -> None:
        self._pieces = place(layouts, len(self._links), self._how, split=self._split)
        self._layouts = layouts
        self.values = {name: np.empty(one.shape, one.dtype) for name, one in layouts.items()}
        self._links.holding = True

    def _table(self, name: str) -> TableSpec:
        if name not in self._tables:
            known = ", ".join(sorted(self._tables)) or "none"
            raise LookupError(f"{self.name}: there is no table {name!r}; create_table was called for {known}")
        return self._tables[name]

    def _check_initialised(self, what: str) -> None:
        if not self._layouts and not self._tables:
            raise DistributedError(
                f"{what}: {self.name} asks before the parameters are initialised; call init first, with None where "
                "another trainer has the values"
            )

    def _take_in(self, answers: list[Message]) -> dict[str, np.ndarray]:
        # Only when all are there: a trainer that has to repeat a step needs the values it had.
        for server, answer in enumerate(answers):
            for piece, part in zip(held_by(self._pieces, server), answer.arrays, strict=True):
                self.values[piece.name].reshape(-1)[piece.begin : piece.end] = part
        self.step = max(answer.fields["version"] for answer in answers) if self.mode == "sync" else self.step
        return self.values

    def _outgoing(
        self,
        gradients: Mapping[str, Any],
        shard: int | None,
        step: int | None,
        examples: float,
        rows: Mapping[str, tuple[Any, Any]] | None,
    ) -> Outgoing:
        self._check_initialised("push")
        if shard is None:
            if not self.shards:
                raise ValueError(f"push: {self.name} has no data shard of its own; say which one with shard=")
            shard = self.shards[0]
        if step is None:
            step = self.step if self.mode == "sync" else self.clocks.get(shard, 0)
        shard, step = index(shard), index(step)
        if not isinstance(examples, int | float | np.number) or not 0 <= examples < float("inf"):
            raise ValueError(f"push: {self.name}: examples={examples!r}; it is the size of a batch")
        who = f"push: {self.name}"
        checked, all_finite = checked_gradients(gradients, self._layouts, who, self._nonfinite)
        sparse = {}
        for name, (ids, values) in (rows or {}).items():
            found, finite = self._checked_rows(name, ids, values, who)
            sparse[name] = found
            all_finite = all_finite and finite
        if not all_finite and self._nonfinite == "drop":
            self.dropped += 1
            checked, sparse, examples = {}, {}, 0.0
        self.clocks[shard] = max(step + 1, self.clocks.get(shard, 0))
        outgoing = Outgoing(shard, step, float(examples))
        outgoing.fill(checked, sparse, self._pieces, self._tables, len(self._links), self._compression, self._memory)
        return outgoing

    def _checked_rows(self, name: str, ids: Any, values: Any, who: str) -> tuple[tuple[np.ndarray, np.ndarray], bool]:
        spec = self._table(name)
        ids, values = spec.check_ids(ids, f"{who}: table {name!r}"), np.asarray(values)
        if values.dtype != np.float32 or values.shape != (*ids.shape, spec.dim):
            raise ValueError(
                f"{who}: rows of table {name!r} are {values.dtype} {values.shape}; for ids {ids.shape} they must be "
                f"float32 {(*ids.shape, spec.dim)}"
            )
        finite = bool(np.isfinite(values).all())
        if not finite and self._nonfinite == "refuse":
            raise ValueError(f"{who}: the gradient of rows of table {name!r} is not finite; see nonfinite=")
        return (ids.reshape(-1), values.reshape(-1, spec.dim)), finite
