"""A parameter server: it holds pieces of the parameters, takes in gradients, and gives away values.

All of its state belongs to one thread, the endpoint's, in which every handler runs; so there is no lock in it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from internals.distributed.errors import DistributedError, PeerLost
from internals.distributed.server.checkpoint import Checkpoints, Writer
from internals.distributed.server.consistency import Contribution, Synchronous, consistency
from internals.distributed.server.dense import MakeOptimizer
from internals.distributed.server.ownership import Ownership
from internals.distributed.server.placement import check_servers
from internals.distributed.server.recovery import agree_on_a_step, call_later
from internals.distributed.server.store import Store
from internals.distributed.server.table import TableSpec
from internals.distributed.transport import LATER, Endpoint, Message, Reply

log = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    """A pull that can't be answered yet."""

    message: Message
    reply: Reply


class Server:
    """One of the servers of a job.

    Parameters
    ----------
    endpoint : Endpoint
        Named ``server:<index>``.
    optimizer : callable
        Makes the optimizer of a piece: ``lambda parameters: Adam(parameters, lr=1e-3)``. The same on all servers.
    shards : int
        Data shards: how many gradients make a step. As a rule, one for each trainer.
    index, servers : int
        Which server this is, and of how many.
    mode : {"sync", "async", "ssp"}
        See `Synchronous`, `Asynchronous` and `BoundedStaleness`.
    backup : int
        Of ``"sync"``: the slowest few that are not waited for.
    staleness : int
        Of ``"ssp"``.
    checkpoint : path, optional
        A directory. A server that finds checkpoints of its own there goes on from them.
    every : int
        Steps between checkpoints.
    peers : mapping of name to address, optional
        The servers of the job; only asked when one comes back from a checkpoint.
    deadline : float
        Seconds, for peers.
    rejoin : float
        Seconds that trainers have, after a server came back from a checkpoint, to come back to it. Who is not there
        then counts as lost, and the others take over its shards.

    Attributes
    ----------
    version : int
        How often the parameters have moved. In ``"sync"`` that is the number of steps.

    Raises
    ------
    ValueError, TypeError
        A setting that makes no sense, or an optimizer that can't be made.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        optimizer: MakeOptimizer,
        shards: int,
        index: int = 0,
        servers: int = 1,
        mode: str = "sync",
        backup: int = 0,
        staleness: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 100,
        peers: Mapping[str, str] | None = None,
        deadline: float = 30.0,
        rejoin: float = 10.0,
    ) -> None:
        check_servers("Server", servers)
        if not isinstance(index, int) or not 0 <= index < servers:
            raise ValueError(f"Server: index={index!r}; of {servers} servers it is 0 to {servers - 1}")
        if not callable(optimizer):
            raise TypeError(
                f"Server: optimizer must be a function that makes one, got {type(optimizer).__name__}; pass "
                "lambda parameters: SGD(parameters, lr=0.1)"
            )
        if not isinstance(every, int) or every < 1:
            raise ValueError(f"Server: every={every!r}; steps between checkpoints, 1 or more")
        if checkpoint is not None and servers > 1 and mode == "sync" and len(peers or {}) < servers:
            raise ValueError(
                f"Server: peers={dict(peers or {})}; with checkpoints, pass the addresses of all {servers} servers: "
                "one that comes back has to agree with them on a step"
            )
        self.endpoint, self.index, self.servers = endpoint, index, servers
        self.version = 0
        self.generation = 0
        """Grows when the server goes back to a checkpoint, so that what was sent before that is told apart."""
        self._consistency = consistency(mode, shards, backup=backup, staleness=staleness)
        self._store = Store(optimizer, shards)
        self._trainers: dict[str, str] = {}
        """And the token by which each is known from another of its name."""
        self._left: dict[str, str] = {}
        """Trainers that are gone, and why."""
        self._ever: set[str] = set()
        """All trainers that were here."""
        self._owners = Ownership(shards)
        self._news = 0
        """How often it changed who works on what."""
        self._waiting: list[_Waiting] = []
        self._for_layout: list[Reply] = []
        self._stale: Counter[int] = Counter()
        self._done = threading.Event()
        self._failed: BaseException | None = None
        self._since_empty = time.monotonic()
        self._every = every
        self._checkpoints = Checkpoints(checkpoint, index, servers) if checkpoint is not None else None
        self._writer = Writer(self._checkpoints) if self._checkpoints else None
        self._unsaved: str | None = None
        """Why the last checkpoint could not be written."""
        self._loading = threading.Lock()
        self._ready = False
        for kind, handler in self._handlers().items():
            endpoint.on(kind, handler)
        endpoint.when_lost(self._lost)
        if self._checkpoints and self._checkpoints.steps():
            if isinstance(self._consistency, Synchronous):
                step, generation = agree_on_a_step(endpoint, self._checkpoints, peers or {}, deadline)
            else:
                step, generation = self._checkpoints.steps()[-1], 1
            self._load(step, generation)
            call_later(endpoint, Message("overdue"), rejoin, self._done)
        self._ready = True

    @property
    def mode(self) -> str:
        return self._consistency.name

    def serve(self, *, patience: float = 60.0) -> None:
        """Serve until every trainer has said that it is done.

        Parameters
        ----------
        patience : float
            Seconds to wait for a trainer when none is left that is alive.

        Raises
        ------
        PeerLost
            All trainers were lost, and none came back.
        DistributedError
            A step could not be taken, for which all trainers have ended.
        """
        while not self._done.wait(0.2):
            if self._failed is not None and not self._trainers:
                raise self._failed
            if self._left and not self._trainers and time.monotonic() - self._since_empty > patience:
                name, reason = next(iter(self._left.items()))
                raise PeerLost(name, f"{reason}; all trainers are lost and none came back within {patience:g} s")
        self.close()

    def close(self) -> None:
        """Finish writing the checkpoint that is due, and leave."""
        self._done.set()
        if self._writer:
            self._writer.close()
            self._writer = None
        self.endpoint.close()

    def stats(self) -> dict[str, Any]:
        """Counts, as plain data: version, gradients dropped as late, staleness of what was applied, tables, bytes."""
        return {
            "version": self.version,
            "generation": self.generation,
            "mode": self.mode,
            "clocks": list(self._consistency.clocks),
            "late": self._consistency.late,
            "repeated": self._consistency.repeated,
            "staleness": {str(apart): count for apart, count in sorted(self._stale.items())},
            "bytes": self._store.dense.nbytes,
            "tables": {
                name: {"rows": len(t), "created": t.created, "evicted": t.evicted, "bytes": t.nbytes}
                for name, t in self._store.tables.items()
            },
            "trainers": sorted(self._trainers),
            "lost": dict(self._left),
            "checkpoints": self._checkpoints.steps() if self._checkpoints else [],
            "unsaved": self._unsaved,
        }

    # Handlers, in the endpoint's thread.

    def _handlers(self) -> dict[str, Any]:
        return {
            "hello": self._hello, "layout": self._on_layout, "init": self._init, "table": self._table,
            "push": self._push, "pull": self._pull, "mine": self._mine, "missing": self._missing,
            "checkpoint": self._on_checkpoint, "stats": lambda message, reply: Message("", self.stats()),
            "bye": self._bye, "overdue": self._overdue, "saved": self._saved, "rollback": self._rollback,
        }  # fmt: skip

    def _hello(self, message: Message, reply: Reply) -> Message:
        if not self._ready:
            return Message("", {"redo": "wait"})
        who, told = message.source, message.fields
        if told["servers"] != self.servers or told["index"] != self.index:
            raise ValueError(
                f"{who} takes this for server {told['index']} of {told['servers']}, but it is {self.index} of "
                f"{self.servers}; give all processes the same list of servers"
            )
        known = self._trainers.get(who)
        if known is not None and known != told["token"]:
            raise ValueError(f"there is a trainer {who} here already; each needs a rank of its own")
        self._owners.check(who, told["rank"], told["clocks"])
        self._left.pop(who, None)
        self._ever.add(who)
        if known is None:
            self._trainers[who] = told["token"]
            if self._owners.join(who, told["rank"], told["shards"]):
                self._news += 1
                self._tell_waiting()
        for shard, clock in told["clocks"].items():
            self._catch_up(int(shard), clock)
        return Message(
            "",
            {
                "version": self.version, "generation": self.generation, "mode": self.mode, "news": self._news,
                "shards": self._consistency.shards, "holds": self._store.layout is not None,
            },
        )  # fmt: skip

    def _catch_up(self, shard: int, clock: int) -> None:
        """A server that came back on its own is behind: what it missed will not come again, so nobody waits for it."""
        if not isinstance(self._consistency, Synchronous):
            self._consistency.clocks[shard] = max(self._consistency.clocks[shard], clock)
            self._wake()

    def _stranger(self, message: Message) -> Message | None:
        """What to answer to who is not known here (any more), or speaks of what was before a checkpoint."""
        if self._failed is not None:
            raise self._failed
        known = self._trainers.get(message.source)
        if not self._ready or known is None or known != message.fields["token"]:
            return Message("", {"redo": "hello"})
        if message.fields["generation"] != self.generation:
            return Message("", {"redo": "hello"})
        return None

    def _on_layout(self, message: Message, reply: Reply) -> Message | object:
        if self._store.layout is None:
            self._for_layout.append(reply)
            return LATER
        return Message("", self._store.layout)

    def _init(self, message: Message, reply: Reply) -> Message | object:
        if not self._store.init(message):
            return Message("")
        for waiting in self._for_layout:
            waiting(Message("", self._store.layout or {}))
        self._for_layout.clear()
        if not self._writer:
            return Message("")
        # Before anybody trains: a server that dies from here on has something to come back from.
        self._save(lambda error: reply.fail(error) if error else reply())
        return LATER

    def _table(self, message: Message, reply: Reply) -> Message:
        self._store.make_table(message.fields["name"], TableSpec(**message.fields["spec"]), message.source)
        return Message("")

    def _push(self, message: Message, reply: Reply) -> Message | object:
        if stranger := self._stranger(message):
            return stranger
        contribution, seen = self._store.read(message), message.fields["seen"]
        if message.fields["pull"]:  # before anything moves: what is refused has not been pushed
            self._store.check_wanted(message)
        late = self._consistency.late
        for together in self._consistency.take(contribution):
            if not isinstance(self._consistency, Synchronous):
                self._stale[self.version - seen] += 1
            try:
                self._apply(together)
            except Exception as error:
                self._fail(error)
                raise
        self._wake()
        if message.fields["pull"]:
            return self._pull(message, reply)
        return Message("", {"version": self.version, "late": self._consistency.late > late})

    def _pull(self, message: Message, reply: Reply) -> Message | object:
        if stranger := self._stranger(message):
            return stranger
        self._store.check_wanted(message)
        superseded = [one for one in self._waiting if one.message.source == message.source]
        self._waiting = [one for one in self._waiting if one.message.source != message.source]
        for one in superseded:
            one.reply(Message("", {"redo": "superseded"}))
        if self._consistency.is_open(message.fields["next_shard"], message.fields["next_step"]):
            return self._values(message)
        if message.fields["news"] != self._news:
            return Message("", {"redo": "moved", "news": self._news, "lost": list(self._left)})
        self._waiting.append(_Waiting(message, reply))
        return LATER

    def _values(self, message: Message) -> Message:
        arrays = self._store.values(message, self.version)
        return Message("", {"version": self.version, "news": self._news}, arrays)

    def _mine(self, message: Message, reply: Reply) -> Message:
        """Which data shards a trainer works on, and their clocks. It may know of a loss before this server does."""
        for name in message.fields["lost"]:
            if name in self._trainers and name != message.source:
                self._lost(name, f"{message.source} says so")
        if stranger := self._stranger(message):
            return stranger
        shards = self._owners.of(message.source)
        return Message("", {"shards": shards, "clocks": [self._consistency.clocks[shard] for shard in shards]})

    def _missing(self, message: Message, reply: Reply) -> Message:
        shards = self._consistency.missing(message.fields["step"])
        owners = [self._owners.owner(shard) or "no trainer yet" for shard in shards]
        return Message("", {"shards": shards, "owners": owners})

    def _bye(self, message: Message, reply: Reply) -> Message:
        done = message.fields["done"]
        if self._trainers.pop(message.source, None) and not done:
            self._gone(message.source, "it left")
        self._waiting = [one for one in self._waiting if one.message.source != message.source]
        # A trainer that has not come yet will.
        if done and not self._trainers and len(self._ever) >= self._consistency.shards:
            self._done.set()
        return Message("")

    def _on_checkpoint(self, message: Message, reply: Reply) -> Message | object:
        if self._writer is None:
            raise ValueError("this server was started without a directory for checkpoints; pass checkpoint=...")
        step = self.version
        self._save(lambda error: reply.fail(error) if error else reply(Message("", {"step": step})))
        return LATER

    def _overdue(self, message: Message, reply: Reply) -> Message:
        """Those who are not back after a restart died while nobody counted them."""
        if self._owners.share_all():
            self._news += 1
            self._tell_waiting()
        return Message("")

    def _saved(self, message: Message, reply: Reply) -> Message:
        if self._writer:
            self._writer.drain()
        steps = self._checkpoints.steps() if self._checkpoints else []
        return Message("", {"steps": steps, "generation": self.generation})

    def _rollback(self, message: Message, reply: Reply) -> Message:
        self._load(message.fields["step"], message.fields["generation"])
        return Message("")

    def _lost(self, name: str, reason: str) -> None:
        if self._trainers.pop(name, None) is not None:
            self._gone(name, reason)

    def _gone(self, name: str, reason: str) -> None:
        self._left[name] = reason
        self._since_empty = time.monotonic()
        self._waiting = [one for one in self._waiting if one.message.source != name]
        self._owners.lose(name)
        self._news += 1
        self._tell_waiting()

    # What they have in common.

    def _apply(self, together: list[Contribution]) -> None:
        self._store.apply(together, self.version)
        self.version += 1
        if self._writer and self.version % self._every == 0:
            self._save()

    def _fail(self, error: Exception) -> None:
        """A step was half taken: nobody can go on from here, and everybody is told why."""
        self._failed = DistributedError(f"step {self.version} could not be taken ({type(error).__name__}: {error})")
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.reply.fail(self._failed)

    def _wake(self) -> None:
        """Answer the pulls that may be answered now."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if self._consistency.is_open(one.message.fields["next_shard"], one.message.fields["next_step"]):
                one.reply(self._values(one.message))
            else:
                self._waiting.append(one)

    def _tell_waiting(self, redo: str = "moved") -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.reply(Message("", {"redo": redo, "news": self._news, "lost": list(self._left)}))

    def _save(self, told: Callable[[Exception | None], None] | None = None) -> None:
        assert self._writer is not None
        plain, arrays = self._store.state()
        plain |= {"version": self.version, "mode": self.mode, "consistency": self._consistency.state()}

        def written(error: Exception | None) -> None:
            self._unsaved = str(error) if error else None
            if error:
                log.error("%s goes on without a checkpoint: %s", self.endpoint.name, error)
            if told:
                told(error)

        self._writer.save(self.version, plain, arrays, written)

    def _load(self, step: int, generation: int) -> None:
        if self._checkpoints is None:
            raise ValueError(f"{self.endpoint.name} has no checkpoints; pass checkpoint= on all servers, or on none")
        if self._writer:
            self._writer.drain()
        # While this server is being made, one that comes back at the same time may ask it to load in another thread.
        with self._loading:
            self._load_whole(step, generation)

    def _load_whole(self, step: int, generation: int) -> None:
        assert self._checkpoints is not None
        plain, arrays = self._checkpoints.load(step)
        if plain["mode"] != self.mode:
            raise ValueError(f"the checkpoint is of mode {plain['mode']!r}, this server runs {self.mode!r}")
        self._consistency.load(plain["consistency"])
        self._store.load(plain, arrays)
        self.version, self.generation = plain["version"], generation
        self._checkpoints.forget_after(step)
        self._tell_waiting("hello")
