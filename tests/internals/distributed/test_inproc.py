"""A network of threads that misbehaves on purpose, the same way each time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from internals.distributed.errors import DeadlineExceeded, PeerLost
from internals.distributed.transport import LATER, Faults, Message, Network

WAIT = 10.0


def joined(network: Network, *names: str) -> list[Any]:
    ends = [network.endpoint(name) for name in names]
    for place, end in enumerate(ends):
        for other in ends[:place]:
            end.connect(other.name, other.address)
    return ends


def test_messages_of_a_pair_keep_their_order_and_those_of_others_overtake() -> None:
    late = {("slow", "hub"): 0.06}
    network = Network(Faults(delay=lambda source, target, kind: late.get((source, target), 0.0), jitter=0.002))
    hub, slow, fast = joined(network, "hub", "slow", "fast")
    for number in range(20):
        slow.send("hub", Message("x", {"n": number}))
    for number in range(20):
        fast.send("hub", Message("x", {"n": number}))
    got = [(message.source, message.fields["n"]) for message in (hub.receive("x", None, WAIT) for _ in range(40))]
    assert got == [("fast", number) for number in range(20)] + [("slow", number) for number in range(20)]


@pytest.mark.parametrize("leave", ["close", "kill"])
def test_what_is_on_its_way_arrives_before_the_loss(leave: str) -> None:
    network = Network(Faults(delay=lambda *_: 0.05, jitter=0.01, seed=3))
    one, two = joined(network, "one", "two")
    for number in range(10):
        two.send("one", Message("x", {"n": number}))
    if leave == "close":
        two.close()
    else:
        network.kill("two")
    assert [one.receive("x", "two", WAIT).fields["n"] for _ in range(10)] == list(range(10))
    with pytest.raises(PeerLost, match="lost two: " + {"close": "it left", "kill": "killed"}[leave]):
        one.receive("x", "two", WAIT)


def test_a_delay_is_by_kind_too() -> None:
    network = Network(Faults(delay=lambda source, target, kind: 0.05 if kind == "late" else 0.0))
    one, two, three = joined(network, "one", "two", "three")
    two.send("one", Message("late"))
    three.send("one", Message("soon"))
    with pytest.raises(DeadlineExceeded):
        one.receive("late", None, 0.005)
    assert one.receive("soon", None, WAIT).source == "three"
    assert one.receive("late", None, WAIT).source == "two"


def test_the_same_seed_makes_the_same_delays() -> None:
    def due(seed: int) -> list[float]:
        network = Network(Faults(jitter=100.0, seed=seed))
        now = time.monotonic()
        return [round(network._due("a", f"b{number}", "x") - now, 1) for number in range(8)]

    assert due(1) == due(1)
    assert due(1) != due(2)


def test_a_killed_one_can_do_nothing_more_and_a_new_one_takes_its_name() -> None:
    network = Network()
    one, two = joined(network, "one", "two")
    two.on("never", lambda message, reply: LATER)
    call = one.start("two", Message("never"))
    network.kill("two")
    with pytest.raises(PeerLost, match="killed"):
        one.finish(call, WAIT)
    again = network.endpoint("two")
    again.connect("one", one.address)
    again.send("one", Message("x", {"n": 1}))
    assert one.receive("x", "two", WAIT).fields == {"n": 1}


def test_a_name_is_each_ones_own_and_the_dead_are_named() -> None:
    network = Network()
    network.endpoint("one")
    with pytest.raises(ValueError, match="there is an endpoint 'one' already"):
        network.endpoint("one")
    with pytest.raises(ValueError, match="no endpoint 'two' to kill; there are one"):
        network.kill("two")


def test_who_is_not_there_is_waited_for_until_the_deadline() -> None:
    network = Network()
    with pytest.raises(DeadlineExceeded, match="nobody named 'two' answers at inproc://two within 0.02 s"):
        network.endpoint("one").connect("two", "inproc://two", 0.02)
