"""What gets into the queue: each grading once, learners by turns, within their rate, on each database."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta

import pytest
from queue_work import FREE, LAB, SPEC, hand_in, said

from autograder.gradebook import GradebookError
from autograder.gradebook.audit import trail
from autograder.queue import adding, decisions, states, taking
from autograder.queue.adding import enqueue, regrade
from autograder.queue.grading import Fault
from autograder.queue.limits import RateLimit
from autograder.queue.states import LEARNER, REGRADE
from autograder.queue.views import counts, job_of, watch


def take(book):
    """The next job, as a worker gets it."""
    [lease] = taking.claim(book, "me")
    return lease


def order(book):
    """Whose work is graded, in order, and with what text."""
    found = []
    while leases := taking.claim(book, "me"):
        work = leases[0].work
        found.append((work.learner, work.data.decode()))
        taking.finish(book, leases[0], said(work.data))
    return found


def test_asked_for_again_it_is_the_same_job(book):
    first, *others = [hand_in(book, "ada", "one") for _ in range(3)]
    assert others == [first, first]
    assert counts(book)["waiting"] == 1
    assert {hand_in(book, "ada", "one", mode="practice").id, hand_in(book, "ada", "one", spec_version="new").id} == {
        first.id + 1,
        first.id + 2,
    }


def finished(book, lease):
    taking.finish(book, lease, said("one"))


def unsettled(book, lease):
    late = said("one")
    late.tasks[0].verdict, late.tasks[0].cause = "failed", "time"
    taking.finish(book, lease, late)


AGAIN = [
    (lambda book, lease: None, "leased"),
    (finished, "done"),
    (unsettled, "waiting"),
    (lambda book, lease: taking.fail(book, lease, Fault("a sandbox that is gone", final=True)), "waiting"),
    (lambda book, lease: decisions.park(book, lease.job_id, by="grace", reason="copied"), "parked"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("came", "state"), AGAIN, ids=["at work", "graded", "unsettled", "parked by the queue", "parked by a person"]
)
def test_what_asking_again_does(book, came, state):
    hand_in(book, "ada", "one")
    came(book, take(book))
    again = hand_in(book, "ada", "one")
    assert (again.id, again.state) == (1, state)
    assert (again.tries, again.fault) == ((0, "") if state == "waiting" else (1, "copied" if state == "parked" else ""))


@pytest.mark.slow
def test_graded_already_it_is_done(book):
    receipt = book.submit(b"one", lab=LAB, learner="ada", filename="a.ipynb", source="test")
    book.record(receipt.submission_id, said("one"))
    assert enqueue(book, receipt.submission_id, spec_version=SPEC).state == "done"
    assert taking.claim(book, "me") == []


@pytest.mark.slow
@pytest.mark.parametrize("missing", [7, 2**31 - 1, 0, -1])
def test_no_such_submission(book, missing):
    with pytest.raises(GradebookError, match=f"there is no submission {missing} to grade"):
        enqueue(book, missing)


@pytest.mark.slow
def test_a_lab_that_is_not_there(book):
    receipt = book.submit(b"one", lab="lab98_gone", learner="ada", filename="a.ipynb", source="test")
    with pytest.raises(GradebookError, match=r"cannot be graded here: .*lab98_gone"):
        enqueue(book, receipt.submission_id)


def test_who_hands_in_often_lets_others_go_first(book):
    for text in ("1", "2", "3", "4"):
        hand_in(book, "ada", text)
    hand_in(book, "bob", "1")
    assert order(book)[:2] == [("ada", "1"), ("bob", "1")]
    hand_in(book, "ada", "5")
    hand_in(book, "eve", "1")
    hand_in(book, "ada", "6")
    hand_in(book, "eve", "2")
    assert order(book) == [("ada", "5"), ("eve", "1"), ("ada", "6"), ("eve", "2")]


@pytest.mark.slow
def test_nobody_starves_and_nobody_gets_two_turns_while_another_waits_for_one(book):
    """Work comes and goes at random. Between two gradings of the same learner, none of those who waited all along
    was graded twice more."""
    draw = random.Random(7)
    waiting: Counter[str] = Counter()
    overtaken: Counter[tuple[str, str]] = Counter()
    for number in range(50):
        for _ in range(draw.randrange(4)):
            who = draw.choice(["hog", "hog", "hog", "ada", "bob", "eve"])
            hand_in(book, who, f"{number} {draw.random()}")
            waiting[who] += 1
        for lease in taking.claim(book, "me"):
            taking.finish(book, lease, said(lease.work.data))
            waiting[lease.work.learner] -= 1
            for other in waiting:
                overtaken[other, lease.work.learner] += waiting[other] > 0
            for other in list(waiting):
                overtaken[lease.work.learner, other] = 0
    assert max(overtaken.values()) <= 2
    assert waiting["hog"] > 10


@pytest.mark.slow
def test_who_waits_goes_before_a_regrade(book):
    for text in ("a", "b"):
        hand_in(book, "ada", text, priority=REGRADE, reason="regrade")
    hand_in(book, "bob", "c")
    soon = hand_in(book, "ada", "b")
    assert (soon.priority, soon.reason) == (LEARNER, "handed in")
    assert hand_in(book, "ada", "b", priority=REGRADE, reason="regrade").priority == LEARNER
    assert order(book) == [("ada", "b"), ("bob", "c"), ("ada", "a")]


@pytest.mark.slow
def test_beyond_the_rate_it_waits_and_nothing_is_refused(book, monkeypatch):
    limit, start = RateLimit(2, 60.0), states.now()
    moment = start

    def put_clock(seconds):
        nonlocal moment
        moment = start + timedelta(seconds=seconds)

    for module in (adding, taking, decisions):
        monkeypatch.setattr(module, "database_time", lambda session: moment)
    first = []
    for second, text in enumerate(["1", "2", "3", "4", "5"]):
        put_clock(second)
        first.append(hand_in(book, "ada", text, limit=limit).not_before)
    assert [when and (when - start).total_seconds() for when in first] == [None, None, 60, 61, 120]
    assert hand_in(book, "bob", "1", limit=limit).not_before is None
    assert len(order(book)) == 3
    put_clock(60.5)
    assert order(book) == [("ada", "3")]
    put_clock(121)
    assert [text for _, text in order(book)] == ["4", "5"]


@pytest.mark.parametrize("given", [(-1, 60), (1, 0), (1, -3), (1, float("nan")), (1, 1e9)], ids=str)
def test_a_rate_that_cannot_be_meant(given):
    with pytest.raises(GradebookError, match="rate limit: .* give a count from 0"):
        RateLimit(*given)


@pytest.mark.slow
def test_a_regrade_takes_all_that_the_present_spec_has_not_graded(book):
    version = adding.version_of(book, LAB)
    for learner, text in [("ada", "standing"), ("ada", "old"), ("bob", "queued"), ("bob", "parked"), ("eve", "new")]:
        hand_in(book, learner, text, spec_version="old" if text == "old" else version)
    book.submit(b"gone", lab="lab98_gone", learner="eve", filename="a.ipynb", source="test")
    book.record(1, said("standing", spec_version=version))
    book.record(2, said("old", spec_version="old"))
    decisions.park(book, job_of(book, 4).id, by="grace", reason="copied")
    found = regrade(book, by="grace", why="the rules changed")
    assert found == adding.Regrading(enqueued=1, standing=1, waiting=2, parked=1, unknown=("lab98_gone",))
    again = regrade(book, by="grace")
    assert (again.enqueued, again.waiting) == (0, 3)
    job = job_of(book, 2)
    assert (job.state, job.priority, job.spec_version) == ("waiting", REGRADE, version)
    assert job.reason == "regrade by grace: the rules changed"
    change = trail(book, what="regrade")[-1]
    assert (change.who, change.why, change.new["enqueued"]) == ("grace", "the rules changed", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "expected"),
    [({"lab": LAB}, 2), ({"learner": "ada"}, 2), ({"lab": LAB, "learner": "ada"}, 1), ({"learner": "grace"}, 0)],
    ids=["a lab", "a learner", "both", "one who handed nothing in"],
)
def test_a_regrade_of_a_part(book, asked, expected):
    for learner, lab in [("ada", LAB), ("ada", "lab06_rules"), ("bob", LAB)]:
        book.submit(f"{learner} {lab}".encode(), lab=lab, learner=learner, filename="a.ipynb", source="test")
    from autograder.gradebook import roster

    roster.enrol(book, "grace", by="root", roles=["instructor"])
    assert regrade(book, **asked, by="grace").enqueued == expected
    assert all(view.lab == asked.get("lab", view.lab) for view in watch(book))


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{"lab": "lab98_gone"}, {"learner": "nobody"}], ids=str)
def test_a_regrade_of_what_is_not_there(book, asked):
    with pytest.raises(GradebookError, match=next(iter(asked.values()))):
        regrade(book, **asked, by="grace")


@pytest.mark.slow
def test_a_large_regrade_takes_turns_too(book, monkeypatch):
    monkeypatch.setattr(adding, "AT_A_TIME", 3)
    version = adding.version_of(book, LAB)
    for number in range(5):
        hand_in(book, "ada", f"{number}", spec_version="old")
    hand_in(book, "bob", "0", spec_version="old")
    for lease in taking.claim(book, "me", limit=9):
        taking.finish(book, lease, said(lease.work.data, spec_version="old"))
    assert regrade(book, by="grace").enqueued == 6
    views = [view for view in watch(book) if view.spec_version == version]
    assert [view.learner for view in views] == ["ada", "bob", "ada", "ada", "ada", "ada"]
    assert [view.ahead for view in views] == list(range(6))


@pytest.mark.slow
def test_a_regrade_into_which_somebody_hands_in(book, monkeypatch):
    """Their job appears between the look and the insert; it stands, and the rest is added all the same."""
    version = adding.version_of(book, LAB)
    for learner in ("ada", "bob", "eve"):
        book.submit(learner.encode(), lab=LAB, learner=learner, filename="a.ipynb", source="test")
    looked = adding._rows

    def looks_and_is_late(session, submissions, mode):
        found = looked(session, submissions, mode)
        values = adding._fresh(2, 2, version, mode, LEARNER, 1, "handed in", states.now())
        session.execute(adding.insert(adding.Row).values(**values))
        return found

    monkeypatch.setattr(adding, "_rows", looks_and_is_late)
    found = regrade(book, by="grace")
    assert (found.enqueued, found.waiting) == (2, 1)
    assert [(one.submission_id, one.priority) for one in watch(book)] == [(2, LEARNER), (1, REGRADE), (3, REGRADE)]


@pytest.mark.slow
def test_parking_and_trying_again_are_in_the_audit(book):
    job = hand_in(book, "ada", "one")
    decisions.park(book, job.id, by="grace", reason="a copy of bob's")
    assert taking.claim(book, "me") == []
    decisions.retry(book, job.id, by="alan", why="it is not")
    assert take(book).tries == 1
    changes = trail(book, what="queue", learner="ada", lab=LAB)
    assert [(one.who, one.why, one.new["state"]) for one in changes] == [
        ("alan", "it is not", "waiting"),
        ("grace", "a copy of bob's", "parked"),
    ]


REFUSED = [
    (lambda book: decisions.retry(book, 9, by="grace"), "there is no job 9"),
    (lambda book: decisions.park(book, 9, by="grace", reason="x"), "there is no job 9"),
    (lambda book: decisions.park(book, 1, by="grace", reason="  "), "needs a reason"),
    (lambda book: decisions.retry(book, 1, by="grace"), "a worker is at it"),
    (lambda book: decisions.retry(book, 2, by="grace"), "it is done"),
    (lambda book: decisions.park(book, 2, by="grace", reason="x"), "job 2 is done"),
    (lambda book: decisions.park(book, 1, by=" ", reason="x"), "who makes it"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_decisions_that_are_refused(book, call, words):
    for text in ("one", "two"):
        hand_in(book, "ada", text)
    leases = taking.claim(book, "me", limit=2)
    taking.finish(book, leases[1], said("two"))
    with pytest.raises(GradebookError, match=words):
        call(book)
    assert counts(book) == {"waiting": 0, "leased": 1, "done": 1, "parked": 0}


@pytest.mark.slow
def test_watching(book):
    for number, learner in enumerate(["ada", "bob", "ada", "eve"]):
        hand_in(book, learner, f"{number}", limit=FREE)
    taking.finish(book, take(book), said("0"))
    [lease] = taking.claim(book, "me")
    decisions.park(book, 4, by="grace", reason="copied")
    told = [(one.submission_id, one.learner, one.state, one.ahead, one.filename) for one in watch(book)]
    assert told == [
        (2, "bob", "leased", None, "bob.ipynb"),
        (3, "ada", "waiting", 0, "ada.ipynb"),
        (4, "eve", "parked", None, "eve.ipynb"),
    ]
    everything = watch(book, states=states.STATES)
    assert [one.submission_id for one in everything] == [2, 3, 4, 1]
    assert [watch(book, states=states.STATES, limit=2, offset=start) for start in (0, 2, 4)] == [
        everything[:2],
        everything[2:],
        [],
    ]
    assert [one.submission_id for one in watch(book, learner="ada", states=states.STATES)] == [3, 1]
    assert watch(book, lab="lab06_rules") == []
    assert job_of(book, 99) is None
    assert lease.job_id == 2
