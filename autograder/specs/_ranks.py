"""How ranks ended that did not return, in words; for labs whose code runs as several processes.

What is read here came out of a sandbox: it may be any plain data, and what has not the right form raises.
"""

from __future__ import annotations

from typing import Any

Ended = dict[str, Any]


def not_returned(ranks: list[Ended], size: int) -> list[str]:
    """Sentences on ranks that gave no value, the most telling first; empty if all `size` of them did."""
    if not isinstance(ranks, list) or len(ranks) != size:
        return [f"There is no answer of each of the {size} ranks."]
    if all("value" in one for one in ranks):
        return []
    found = [_died(rank, one["died"]) for rank, one in enumerate(ranks) if "died" in one]
    found += [
        f"Rank {rank} was still at work when the time was up{_where(one)}: look for a loop that does not end."
        for rank, one in enumerate(ranks)
        if "runs" in one
    ]
    waiting = {rank: one for rank, one in enumerate(ranks) if "waits" in one}
    if waiting:
        found.append(_stuck(waiting, ranks))
    found += [
        f"Rank {rank} ended with {one['error']['type']}: {one['error']['message']}."
        for rank, one in enumerate(ranks)
        if "error" in one
    ]
    found += [f"Rank {rank} was killed." for rank, one in enumerate(ranks) if "killed" in one]
    return found or ["Not every rank gave an answer."]


def _died(rank: int, how: str) -> str:
    return f"Rank {rank} {how}; a function has to return its answer."


def _stuck(waiting: dict[int, Ended], ranks: list[Ended]) -> str:
    parts = [f"rank {rank} {_waits(one, ranks)}" for rank, one in sorted(waiting.items())]
    circle = all(set(one["for"]) & waiting.keys() for one in waiting.values())
    circle = circle and len(waiting) > 1 and not any("runs" in one for one in ranks)
    lead = "A deadlock, each waits for another: " if circle else "Waiting in vain: "
    return lead + "; ".join(parts) + "."


def _waits(one: Ended, ranks: list[Ended]) -> str:
    peers = one["for"]
    spoken = " or ".join(f"rank {peer}" for peer in peers) or "nobody"
    returned = [peer for peer in peers if "value" in ranks[peer]]
    after = ", which has returned" if returned == peers and len(peers) == 1 else ""
    where = _where(one)
    if one["waits"] == "send":
        return f"sends to {spoken}{after} and waits until it is received{where}"
    return f"waits for a message from {spoken}{after}{where}"


def _where(one: Ended) -> str:
    return f" (cell {one['cell']}, line {one['line']})" if one.get("cell") else ""


def sends(one: Ended) -> list[tuple[int, int]]:
    """``(to, bytes)`` of every message that a rank sent, in order."""
    return [(entry[1], entry[2]) for entry in one["log"] if entry[0] == "send"]
