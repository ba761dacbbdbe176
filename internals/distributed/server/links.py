"""A trainer's connections to all servers: asking all at once, and asking again when a server was lost or went back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from internals.distributed.errors import (
    AuthenticationError,
    DeadlineExceeded,
    DistributedError,
    DuplicateName,
    PeerLost,
    ProtocolError,
    RemoteError,
)
from internals.distributed.server.placement import check_servers
from internals.distributed.transport import Endpoint, Message

PAUSE = 0.05


class ShardsMoved(DistributedError):
    """A trainer was lost, and who works on what has changed: look at ``client.shards``, do what is new, ask again."""


class RolledBack(DistributedError):
    """The servers are back at an earlier step, ``client.step``: pull, and go on from there."""


class Owner(Protocol):
    """Whose links these are."""

    endpoint: Endpoint
    step: int
    shards: list[int]
    clocks: dict[int, int]

    def refresh(self, lost: Sequence[str] = ()) -> None: ...

    def forget(self) -> None: ...


@dataclass
class Link:
    """One server, and what is known of it."""

    index: int
    name: str
    address: str
    generation: int = 0
    version: int = 0
    news: int = 0


class Links:
    """The servers of a job, in order; see `Client` for the parameters."""

    def __init__(
        self, owner: Owner, servers: Sequence[str], rank: int, token: str, *, deadline: float, patience: float
    ) -> None:
        if isinstance(servers, str):
            raise TypeError(f"Client: servers is a list of addresses; one alone is [{servers!r}]")
        check_servers("Client", len(servers))
        if not isinstance(rank, int) or isinstance(rank, bool) or rank < 0:
            raise ValueError(f"Client: rank={rank!r}; ranks are counted from 0")
        self._owner, self._endpoint = owner, owner.endpoint
        self._rank, self._token = rank, token
        self._deadline, self._patience = deadline, patience
        self._links = [Link(index, f"server:{index}", address) for index, address in enumerate(servers)]
        self.holding = False
        """Whether the servers were seen to have parameters."""
        self.mode = ""
        self._known = False
        self._rolled_back: str | None = None
        """What is to be told to who pushes or pulls next: that the step has changed."""

    def __len__(self) -> int:
        return len(self._links)

    def connect(self) -> None:
        """Get to know all servers."""
        for link in self._links:
            self._greet(link, time.monotonic() + self._patience)
        self._known = True

    def tell_clocks(self) -> None:
        """Let all servers know how far this trainer's shards are: one that came back has missed some of it."""
        for link in self._links:
            self._greet(link, time.monotonic() + self._patience)

    def ask(
        self,
        message: Callable[[int], Message],
        *,
        step: int | None = None,
        shard: int | None = None,
        dense: bool = False,
        tables: Sequence[str] = (),
        create: bool = True,
    ) -> list[Message]:
        """Ask all servers at once; their answers, in order.

        Parameters
        ----------
        message : callable
            ``message(server)``: what that one is asked.
        step, shard : int, optional
            Answers are values for this step; without one they are not waited for at a barrier.
        dense, tables, create
            Which values.
        """
        wanted = {
            "pull": step is not None, "next_step": step, "next_shard": shard, "values": dense, "tables": list(tables),
            "create": create, "token": self._token,
        }  # fmt: skip
        answers: dict[int, Message] = {}
        end = time.monotonic() + self._deadline
        bound = step is not None or message(0).kind == "push"
        while len(answers) < len(self._links):
            if bound:
                self._tell_rolled_back()
            due = [link for link in self._links if link.index not in answers]
            calls: dict[int, int] = {}
            try:
                for link in due:
                    one = message(link.index)
                    one.fields |= wanted | {"generation": link.generation, "news": link.news, "seen": link.version}
                    calls[link.index] = self._endpoint.start(link.name, one, max(0.0, end - time.monotonic()))
                for link in due:
                    answer = self._endpoint.finish(
                        calls.pop(link.index), max(0.0, end - time.monotonic()), list(calls.values())
                    )
                    redo = answer.fields.get("redo")
                    if redo == "moved":
                        link.news = answer.fields["news"]
                        self._owner.refresh(answer.fields["lost"])
                        raise ShardsMoved(f"lost {', '.join(answer.fields['lost'])}; look at shards, and ask again")
                    if redo:
                        raise PeerLost(link.name, "it does not know this trainer (any more)")
                    answers[link.index] = answer
            except PeerLost as lost:
                self._cancel(calls)
                self._recover(lost)
                end = time.monotonic() + self._deadline
            except DeadlineExceeded as error:
                self._cancel(calls)
                raise self._explained(link, step, error) from error
            except DistributedError:
                self._cancel(calls)
                raise
        self._note(answers)
        if bound:
            self._tell_rolled_back()
        return [answers[link.index] for link in self._links]

    def ask_first(self, message: Message) -> Message:
        """Ask the first server, which keeps what there is one of in a job."""
        while True:
            link = self._links[0]
            asked = message.fields | {"token": self._token, "generation": link.generation}
            try:
                answer = self._endpoint.call(link.name, Message(message.kind, asked), self._deadline)
                if not answer.fields.get("redo"):
                    return answer
                raise PeerLost(link.name, "it does not know this trainer (any more)")
            except PeerLost as lost:
                self._recover(lost)

    def leave(self, done: bool) -> None:
        """Say goodbye to all that are there."""
        for link in self._links:
            with suppress(DistributedError):
                message = Message("bye", {"done": done, "token": self._token})
                self._endpoint.call(link.name, message, min(self._deadline, 5.0))

    def _tell_rolled_back(self) -> None:
        if self._rolled_back:
            told, self._rolled_back = self._rolled_back, None
            raise RolledBack(told)

    def _note(self, answers: dict[int, Message]) -> None:
        fresh = False
        for link in self._links:
            told = answers[link.index].fields
            if "version" in told and "news" in told:
                link.version = told["version"]
                fresh = fresh or told["news"] != link.news
                link.news = told["news"]
        if fresh:
            self._owner.refresh()

    def _cancel(self, calls: dict[int, int]) -> None:
        """Give up waiting for answers: those that come all the same are dropped."""
        for call in calls.values():
            with suppress(DistributedError):
                self._endpoint.finish(call, 0.0)

    def _recover(self, lost: PeerLost) -> None:
        """Find all servers again, and note where they went back to a checkpoint."""
        before = [link.generation for link in self._links]
        end = time.monotonic() + self._patience
        while True:
            for link in self._links:
                self._greet(link, end, lost)
            steps = [link.version for link in self._links]
            if [link.generation for link in self._links] == before or self.mode != "sync":
                return
            if len(set(steps)) == 1 or time.monotonic() > end:
                break
            time.sleep(PAUSE)
        self._owner.forget()
        self._owner.step = max(steps)
        self._owner.refresh()
        self._rolled_back = f"{lost}; the servers are back at step {self._owner.step}"

    def _greet(self, link: Link, end: float, lost: PeerLost | None = None) -> None:
        """Connect to a server that may not be up yet, and get to know it."""
        clocks = {str(shard): clock for shard, clock in self._owner.clocks.items()}
        hello: dict[str, Any] = {
            "token": self._token, "rank": self._rank, "clocks": clocks,
            "servers": len(self._links), "index": link.index, "shards": self._owner.shards,
        }  # fmt: skip
        while True:
            try:
                self._endpoint.connect(link.name, link.address, max(0.1, end - time.monotonic()))
                told = self._endpoint.call(link.name, Message("hello", hello), max(0.1, end - time.monotonic())).fields
            except RemoteError as error:
                if error.kind != "LookupError":  # an endpoint whose server is not made yet answers nothing
                    raise
            except (AuthenticationError, ProtocolError):
                raise
            except DistributedError as error:
                if isinstance(error, DuplicateName) and error.final:
                    raise
                if time.monotonic() >= end:
                    raise self._absent(link, lost, error) from error
            else:
                if not told.get("redo"):
                    break
            if time.monotonic() >= end:
                raise self._absent(link, lost, None)
            time.sleep(PAUSE)
        if self.holding and not told["holds"]:
            raise PeerLost(
                link.name, "it came back without its parameters; start servers with checkpoint= to have them come back"
            )
        self.mode = told["mode"]
        link.generation, link.version = told["generation"], told["version"]
        if not self._known:
            # Later on news are only taken with what they are about: a pull that doesn't know them is told.
            link.news = told["news"]

    def _absent(self, link: Link, lost: PeerLost | None, error: Exception | None) -> DistributedError:
        where = f"{link.name} at {link.address}"
        if lost is None:
            return DeadlineExceeded(
                f"{self._endpoint.name}: {where} did not answer within {self._patience:g} s; is it started? ({error})"
            )
        return PeerLost(link.name, f"{where} did not come back within {self._patience:g} s ({lost})")

    def _explained(self, link: Link, step: int | None, error: DeadlineExceeded) -> DeadlineExceeded:
        """The error, with the names of those that a barrier waits for."""
        if step is None:
            return error
        text = f"{self._endpoint.name}: {link.name} did not answer within {self._deadline:g} s"
        with suppress(DistributedError):
            told = self._endpoint.call(link.name, Message("missing", {"step": step}), 2.0).fields
            if told["shards"]:
                pairs = zip(told["shards"], told["owners"], strict=True)
                lacking = ", ".join(f"data shard {shard} of {owner}" for shard, owner in pairs)
                text += f": it waits for step {step} of {lacking}"
        return DeadlineExceeded(text)
