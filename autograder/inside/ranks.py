"""Run a function as several ranks, each in a process of its own, and say how each of them ended.

Mounted in the sandbox as the module ``ranks``, for drivers. The ranks are forked once the notebook is loaded, and
joined by TCP connections over the sandbox's own loopback; where sockets are refused, by pairs that the kernel joins.
All of them end with the call, whatever they do.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from autograder import frames
    from autograder.inside.peers import KILLED, PeerLost, Peers, place
    from autograder.inside.plain import plain
    from autograder.inside.surroundings import redirect
    from autograder.inside.telling import Told, describe
else:
    import frames
    from peers import KILLED, PeerLost, Peers, place
    from plain import plain
    from surroundings import redirect
    from telling import Told, describe

_MOST = 8
"""Ranks; each is joined with each."""

Ended = dict[str, Any]


def run_ranks(
    function: Callable[[Peers], Any],
    size: int,
    *,
    conditions: Mapping[str, Any] | None = None,
    limit: float = 2.0,
) -> list[Ended]:
    """Call ``function(peers)`` once in each of `size` processes.

    Parameters
    ----------
    function : callable
        What it returns has to be plain data. It may be any closure: the processes are forked.
    size : int
    conditions : mapping, optional
        "seed": int; "delay": seconds by which a message may come later than the peer's message before it, drawn
        from the seed; "rendezvous": whether a send waits until it is received; "kill": ``[rank, n]``, dies before
        its n-th send or receive, counted from 0.
    limit : float
        Seconds that all of it may take. Ranks that wait for each other in vain are told at once.

    Returns
    -------
    list of dict
        How each rank ended, by rank, with one of these keys. "value": what the function returned; "error": what it
        raised, as `telling.describe` puts it, and "lost", the number of the peer, where it was `PeerLost`;
        "waits": "send" or "receive", in vain, with "for", the peers, "cell" and "line", and the rank's "note";
        "killed"; "died": how, in words; "runs": still at work after `limit`, with "cell" and "line" where known. A rank
        that then waited for one at work "waits". Those that returned, raised or waited in vain have
        "counts": ``counts["sent"][peer]`` is a number of messages and ``counts["bytes"][peer]`` of bytes in arrays
        sent; the first two have "log": ``["send" or "receive", peer, bytes]`` in order.
    """
    if not 1 <= size <= _MOST:
        raise ValueError(f"run_ranks: {size} ranks; 1 to {_MOST} can be run.")
    links = joined(size)
    controls = [socket.socketpair() for _ in range(size)]
    sys.stdout.flush()
    children: list[int] = []
    ended: list[Ended] = []
    try:
        for rank in range(size):
            pid = os.fork()
            if pid == 0:
                _be(rank, size, function, links, controls, conditions or {}, limit)
            children.append(pid)
        for _, own in controls:
            own.close()
        _close(links)
        ended = _watch([control for control, _ in controls], limit)
    finally:
        _close(links)
        _close([dict(enumerate(pair)) for pair in controls])
        statuses = _end(children, ended)
    for one, status in zip(ended, statuses, strict=True):
        if not one:
            one.update({"killed": True} if status == KILLED and conditions else {"died": _how(status)})
        sys.stdout.write(one.pop("printed", ""))
    return ended


def raise_first(ended: list[Ended]) -> None:
    """Raise the first error of a rank that is more than the loss of another rank, as the rank itself described it."""
    errors = {rank: one["error"] for rank, one in enumerate(ended) if "error" in one and "lost" not in one}
    for rank, error in errors.items():
        if len(errors) < len(ended) and error["message"]:
            error = {**error, "message": f"on rank {rank}: {error['message']}"}
        raise Told(error)


def joined(size: int, *, unix: bool = False) -> list[dict[int, socket.socket]]:
    """For each rank, its end of a connection with each other rank."""
    links: list[dict[int, socket.socket]] = [{} for _ in range(size)]
    listener = None if unix or size == 1 else _listener()
    for one in range(size):
        for other in range(one + 1, size):
            ends = _tcp_pair(listener) if listener else socket.socketpair()
            links[one][other], links[other][one] = ends
    if listener:
        listener.close()
    return links


def _close(links: list[dict[int, socket.socket]]) -> None:
    for ends in links:
        for link in ends.values():
            link.close()


def _listener() -> socket.socket | None:
    try:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return None  # a filter on system calls, in a sandbox without a network of its own
    try:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        return listener
    except OSError:
        listener.close()
        return None


def _tcp_pair(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    one = socket.create_connection(listener.getsockname(), timeout=5.0)
    while True:
        other, came_from = listener.accept()
        if came_from == one.getsockname():
            break
        other.close()  # outside a sandbox, another program may have found the port
    for end in (one, other):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one, other


# --- a rank ---------------------------------------------------------------------------------------


def _be(
    rank: int,
    size: int,
    function: Callable[[Peers], Any],
    links: list[dict[int, socket.socket]],
    controls: list[tuple[socket.socket, socket.socket]],
    conditions: Mapping[str, Any],
    limit: float,
) -> NoReturn:
    try:
        _end_after(limit)
        for number, (theirs, own) in enumerate(controls):
            theirs.close()
            if number != rank:
                own.close()
        for number, ends in enumerate(links):
            for link in ends.values() if number != rank else ():
                link.close()
        printed = redirect()
        control, peers = controls[rank][1], Peers(rank, size, links[rank], controls[rank][1], conditions)
        result: Ended
        _tell_before(limit, control, peers)
        try:
            result = {"value": plain(function(peers))}
        except BaseException as error:  # noqa: BLE001  whatever it raises is how this rank ends, exits included
            _end_after(limit)
            result = {"error": describe(error, sys.exc_info()[2], (), 0)}
            _end_after(limit)  # putting an error into words uses the same timer
            if isinstance(error, PeerLost):
                result["lost"] = error.peer
        _end_after(limit)  # from here on nothing else is told
        result |= {"counts": peers.counts, "log": peers.log}
        result["printed"] = "".join(f"[{rank}] {line}\n" for line in printed.text().splitlines())
        frames.write_frame(control, result)
        if "value" in result:
            peers.drain()
    finally:
        os._exit(0)


def _end_after(limit: float) -> None:
    """Even where no signal may be sent to this process, it ends some time after the limit."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limit + 2.0)


def _tell_before(limit: float, control: socket.socket, peers: Peers) -> None:
    """Shortly before the time is up, say where this rank is: at work, or waiting for whom."""

    def tell(number: int, frame: object) -> None:
        _end_after(limit)
        if not peers.telling:
            frames.write_frame(control, {"late": True, **place(), **peers.waiting, "note": plain(peers.note)})

    signal.signal(signal.SIGALRM, tell)
    signal.setitimer(signal.ITIMER_REAL, 0.9 * limit)


# --- who started them -----------------------------------------------------------------------------


def _watch(controls: list[socket.socket], limit: float) -> list[Ended]:
    """How each rank ended; empty for one that has ended without a word."""
    deadline = time.monotonic() + limit
    ended: dict[int, Ended] = {}
    waits: dict[int, Ended] = {}
    late: dict[int, Ended] = {}
    poll, rank_of = select.poll(), {}
    for rank, control in enumerate(controls):
        poll.register(control, select.POLLIN)
        rank_of[control.fileno()] = rank
    while len(ended) < len(controls):
        left = deadline - time.monotonic()
        for descriptor, _ in poll.poll(left * 1000) if left > 0 else ():
            rank = rank_of[descriptor]
            try:
                said = frames.read_frame(descriptor, timeout=max(0.1, deadline - time.monotonic()))
            except (EOFError, OSError, frames.FrameError):
                said = {}
            if "late" in said:
                late[rank] = said
            elif "waits" in said:
                waits[rank] = said
            else:
                ended[rank] = said
                poll.unregister(descriptor)
        known = {**waits, **ended}
        vain = {rank: one for rank, one in waits.items() if rank not in ended and _in_vain(rank, one, known)}
        if left <= 0 or len(ended) + len(vain) == len(controls):
            overdue = _overdue([rank for rank in range(len(controls)) if rank not in ended and rank not in vain], late)
            return [{**vain, **overdue, **ended}[rank] for rank in range(len(controls))]
    return [ended[rank] for rank in range(len(controls))]


def _overdue(ranks: list[int], late: dict[int, Ended]) -> dict[int, Ended]:
    """How ranks ended that were not done in time: those at work, and those that waited for them."""
    busy = {rank for rank in ranks if "waits" not in late.get(rank, {})}
    where = {rank: {key: value for key, value in late.get(rank, {}).items() if key != "late"} for rank in ranks}
    # Where all wait, something was on its way: then none of them waited in vain.
    return {
        rank: where[rank] if busy and rank not in busy else {"runs": True, **_place_of(where[rank])} for rank in ranks
    }


def _place_of(report: Ended) -> Ended:
    return {key: report[key] for key in ("cell", "line") if report.get("cell")}


def _in_vain(rank: int, report: Ended, known: dict[int, Ended]) -> bool:
    """Whether nothing that this rank waits for was on its way when the others last said what they had sent.

    Reports may be old. But if that holds for all that are at work, none of them is: the first to go on would have got
    something which the sender's report counts.
    """
    given, got = ("received", "taken") if report["waits"] == "send" else ("sent", "arrived")
    for peer in report["for"]:
        counts = known.get(peer, {}).get("counts")
        # Of one that is gone, the rank that waits will hear.
        if counts is None or "error" in known[peer] or counts[given][rank] != report["counts"][got][peer]:
            return False
    return True


def _end(children: list[int], ended: list[Ended]) -> list[int]:
    """End all of them; gives their exit codes, negative for a signal."""
    codes, deadline = [], time.monotonic() + 5.0
    for pid, one in zip(children, ended or [{}] * len(children), strict=True):
        # One that closed its side without a word is ending, and how is of interest.
        patience = time.monotonic() + (1.0 if ended and not one else 0.0)
        done, status = os.waitpid(pid, os.WNOHANG)
        while not done and time.monotonic() < deadline:
            if time.monotonic() >= patience:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.0002)
            done, status = os.waitpid(pid, os.WNOHANG)
        codes.append(os.waitstatus_to_exitcode(status) if done else -signal.SIGKILL)
    return codes


def _how(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended its process (exit status {code})"
