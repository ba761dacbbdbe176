"""``python -m benchmarks.grading_queue [URL]``: what the queue takes beside the grading, and what it can carry.

Each step of a submission's way (stored, enqueued, taken, kept, recorded) by itself, then by several workers at once,
each a process, whose grading takes no time. In a file, or at the address that is given, which must be an empty
database. Medians; then a deadline hour with the grading times that are given here, as ``autograder loadtest`` runs it.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

from autograder.gradebook import open_gradebook
from autograder.gradebook.store import Gradebook
from autograder.loadtest import Load, Real, graded, percentile, run, solution_of
from autograder.queue import holders, taking
from autograder.queue.adding import enqueue, regrade
from autograder.queue.limits import RateLimit
from autograder.queue.views import counts, watch
from autograder.spec import load_lab
from benchmarks.machine import machine, written

LAB = "lab05_tape"
COUNT, WORKERS = 300, 4
SECONDS = (1.3, 1.5, 1.6, 1.8, 2.4)
"""Grading times of lab 5 on two cores, two at a time, as ``autograder loadtest`` measures them."""


def hand_in(book: Gradebook, number: int) -> int:
    data = solution_of(load_lab(LAB)) + b"\n" * number
    return book.submit(data, lab=LAB, learner=f"learner{number % 50}", filename="a.ipynb", source="x").submission_id


def steps(book: Gradebook) -> dict[str, float]:
    """Seconds of each step, at the median."""
    lab = load_lab(LAB)
    seconds: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        seconds[name].append(time.perf_counter() - began)

    for number in range(COUNT):
        with timed("store a submission of 100 KB"):
            submission = hand_in(book, number)
        with timed("put it into the queue"):
            enqueue(book, submission, limit=RateLimit(0))
    with timed(f"show the first 50 of {COUNT}"):
        watch(book, limit=50)
    for _ in range(COUNT):
        with timed("take it"):
            [lease] = taking.claim(book, holders.me())
        with timed("keep it"):
            taking.beat(book, [lease])
        with timed("record its grade"):
            taking.finish(book, lease, graded(lab, lease.work.sha256))
    with timed("look into an empty queue"):
        taking.claim(book, holders.me())
    return {name: statistics.median(values) for name, values in seconds.items()}


def carry(where: str, go: Event) -> None:
    """A worker whose grading takes no time."""
    lab = load_lab(LAB)
    with open_gradebook(where) as book:
        go.wait()
        while leases := taking.claim(book, holders.me()):
            for lease in leases:
                taking.finish(book, lease, graded(lab, lease.work.sha256))


def together(where: str) -> float:
    """Submissions a second through the queue with several workers."""
    with open_gradebook(where) as book:
        for number in range(COUNT, 2 * COUNT):
            enqueue(book, hand_in(book, number), limit=RateLimit(0))
    context = multiprocessing.get_context("spawn")
    go = context.Event()
    workers = [context.Process(target=carry, args=(where, go)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    time.sleep(3)  # until they have imported what they need
    go.set()
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - began
    with open_gradebook(where) as book:
        if counts(book)["done"] != 2 * COUNT:
            raise SystemExit("benchmarks: some were not graded")
    return COUNT / seconds


def measure(where: str) -> list[tuple[str, str]]:
    with open_gradebook(where) as book:
        rows = [(name, f"{1000 * seconds:.1f} ms") for name, seconds in steps(book).items()]
    rows.append((f"{WORKERS} workers at once, grading in no time", f"{together(where):.0f} a second"))
    with open_gradebook(where) as book:
        began = time.perf_counter()
        found = regrade(book, by="bench", mode="practice")
        rows.append((f"ask for a regrade of {found.enqueued}", f"{time.perf_counter() - began:.2f} s"))
    return rows


def hour(where: str, workers: int) -> str:
    with open_gradebook(where) as book:
        done = run(Load(), workers, SECONDS, Real(book, load_lab(LAB), solution_of(load_lab(LAB))))
    return (
        f"500 learners hand in 3 times each in the hour before the deadline, {workers} workers: half wait "
        f"{statistics.median(done.waits):.1f} s, 95 in 100 at most {percentile(done.waits, 0.95):.1f} s, "
        f"{done.throughput} are graded in the best minute."
    )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        rows = measure(sys.argv[1] if len(sys.argv) > 1 else str(Path(home, "steps.sqlite")))
        lines = [f"`python -m benchmarks.grading_queue` on {machine()}; medians.", ""]
        lines += ["| what | measured |", "|---|---|"]
        lines += [f"| {what} | {measured} |" for what, measured in rows]
        lines += ["", hour(str(Path(home, "hour.sqlite")), 3)]
    print("\n".join(lines))
    if len(sys.argv) < 2:  # what another database gives is only shown
        written("grading_queue", lines, {"rows": rows, "hour": lines[-1]})


if __name__ == "__main__":
    main()
