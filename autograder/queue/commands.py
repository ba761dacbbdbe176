"""The commands of the queue: ``worker``, ``queue``, ``regrade``, ``loadtest``.

Nothing of the database is imported before a command runs.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.gradebook.commands import By, Where, known_lab, opened, who
from autograder.output import WRONG_USE, Refusal, printable, say

if TYPE_CHECKING:
    from autograder.queue.executors import Executor
    from autograder.queue.kubernetes import Cluster
    from autograder.queue.states import JobView

Number = Annotated[list[int], typer.Argument(metavar="JOB...", help="Their numbers, as `queue watch` shows them.")]


def worker(
    executor: Annotated[
        str, typer.Option("--executor", metavar="KIND", help="pool, process (in this one), dask or kubernetes.")
    ] = "pool",
    slots: Annotated[int, typer.Option("--slots", min=0, max=1024, help="Gradings at a time; 0: as suits.")] = 0,
    scheduler: Annotated[str, typer.Option("--scheduler", metavar="ADDRESS", help="Of Dask: tcp://host:8786.")] = "",
    cluster: Annotated[
        Path | None, typer.Option("--cluster", metavar="FILE", help="Of Kubernetes: see `queue manifests`.")
    ] = None,
    lease: Annotated[float, typer.Option("--lease", min=1, help="Seconds until others take it for dead.")] = 30.0,
    limit: Annotated[float, typer.Option("--limit", min=1, help="Seconds a grading may take in all.")] = 900.0,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when nothing is left to grade.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing of single gradings.")] = False,
    gradebook: Where = "",
) -> None:
    """Grade what is in the queue, until stopped. SIGTERM or Ctrl-C: finish what is at work; twice: give it back."""
    from autograder.gradebook import GradebookError
    from autograder.queue.worker import Worker

    chosen = _executor(executor, slots, scheduler, cluster)
    working = Worker(
        gradebook,
        chosen,
        lease=lease,
        limit=limit,
        until_empty=until_empty,
        tell=(lambda sentence: None) if quiet else (lambda sentence: say(printable(sentence))),
    )
    asked = 0

    def stop(number: int, frame: Any) -> None:
        nonlocal asked
        asked += 1
        working.stop(at_once=asked > 1)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    say(f"Grading with {chosen.slots} at a time ({executor}).")
    try:
        graded = working.run()
    except GradebookError as error:
        raise Refusal(str(error)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    say(f"{graded} graded, {working.failed} not.")


def _executor(kind: str, slots: int, scheduler: str, cluster: Path | None) -> Executor:
    import os

    if scheduler and kind != "dask":
        raise Refusal(f"--scheduler is for --executor dask, not {kind}.")
    if cluster and kind != "kubernetes":
        raise Refusal(f"--cluster is for --executor kubernetes, not {kind}.")
    if kind == "pool":
        from autograder.queue.executors.pool import Pool

        return Pool(slots or min(os.cpu_count() or 1, 16))
    if kind == "process":
        from autograder.queue.executors.here import Here

        return Here(slots or 1)
    if kind == "dask":
        from autograder.queue.executors.dask import Dask

        try:
            return Dask(scheduler, slots or None)
        except (ImportError, ConnectionError) as error:
            raise Refusal(str(error)) from None
    if kind == "kubernetes":
        from autograder.queue.executors.jobs import Jobs

        if cluster is None:
            raise Refusal("--executor kubernetes: which cluster? Give --cluster FILE.toml.")
        try:
            return Jobs(_cluster(cluster), slots or 10)
        except FileNotFoundError as error:
            raise Refusal(str(error)) from None
    raise Refusal(f"--executor {kind}: there is no such; there are pool, process, dask and kubernetes.")


def _cluster(path: Path) -> Cluster:
    from autograder.queue.kubernetes import Cluster, ClusterError

    try:
        return Cluster.read(path)
    except ClusterError as error:
        raise Refusal(str(error)) from None


queue_app = typer.Typer(
    help="What waits to be graded.",
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


@queue_app.command()
def watch(
    follow: Annotated[bool, typer.Option("--follow", help="Show it anew every second, until Ctrl-C.")] = False,
    done: Annotated[bool, typer.Option("--done", help="Show what is done, too.")] = False,
    lab: Annotated[str, typer.Option("--lab", help="Only this lab.")] = "",
    learner: Annotated[str, typer.Option("--learner", help="Only theirs.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=0, help="At most so many; 0: all.")] = 50,
    gradebook: Where = "",
) -> None:
    """Show the queue in the order in which it is graded."""
    from autograder.queue import views

    with opened(gradebook) as book:
        while True:
            numbers = views.counts(book)
            say(", ".join(f"{count} {_NAMES[state]}" for state, count in numbers.items()))
            states = views.STATES if done else ("leased", "waiting", "parked")
            for one in views.watch(book, states=states, lab=lab or None, learner=learner or None, limit=limit):
                say(_line(one))
            if not follow:
                return
            time.sleep(1.0)


_NAMES = {"waiting": "waiting", "leased": "being graded", "done": "done", "parked": "parked"}


def _line(one: JobView) -> str:
    where = f"job {one.id}: submission {one.submission_id}, {one.lab}, {printable(one.learner)}: {_NAMES[one.state]}"
    if one.state == "leased":
        where += f" by {one.holder}"
    if one.not_before is not None:
        where += f" until {one.not_before:%Y-%m-%d %H:%M:%S} UTC"
    if one.parked_by:
        where += f" by {printable(one.parked_by)}"
    where += f", {one.reason}" if one.reason != "handed in" else ""
    where += f", try {one.tries}" if one.tries > 1 else ""
    return where + (f". {printable(one.fault)}" if one.fault else "")


@queue_app.command()
def retry(
    jobs: Number,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="For the audit.")] = "",
    by: By = "",
    gradebook: Where = "",
) -> None:
    """Try parked jobs again, and delayed ones at once."""
    from autograder.queue import decisions

    with opened(gradebook) as book:
        for number in jobs:
            decisions.retry(book, number, by=who(by), why=reason)
            say(f"job {number}: waiting")


@queue_app.command()
def park(
    jobs: Number,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the audit.")],
    by: By = "",
    gradebook: Where = "",
) -> None:
    """Leave jobs undone until somebody retries them."""
    from autograder.queue import decisions

    with opened(gradebook) as book:
        for number in jobs:
            decisions.park(book, number, by=who(by), reason=reason)
            say(f"job {number}: parked")


@queue_app.command()
def manifests(
    cluster: Annotated[Path, typer.Argument(metavar="FILE", help='TOML: image = "registry/name:tag", namespace, ...')],
) -> None:
    """Print what has to stand in a Kubernetes cluster for gradings as Jobs: `... | kubectl apply -f -`."""
    from autograder.queue import kubernetes

    try:
        say(kubernetes.to_yaml(kubernetes.standing(_cluster(cluster))).rstrip("\n"))
    except ImportError as error:
        raise Refusal(str(error)) from None


def regrade(
    lab: Annotated[str, typer.Option("--lab", help="Only this lab.")] = "",
    learner: Annotated[str, typer.Option("--learner", help="Only theirs.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Everything that was ever handed in.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the audit.")] = "",
    practice: Annotated[bool, typer.Option("--practice", help="In practice mode.")] = False,
    by: By = "",
    gradebook: Where = "",
) -> None:
    """Have what was handed in graded by the present spec. A worker must be running."""
    from autograder.queue import adding

    if everything == bool(lab or learner):
        raise Refusal("regrade: give --lab, --learner or both, or else --all.")
    if lab:
        known_lab(lab)
    with opened(gradebook) as book:
        found = adding.regrade(
            book,
            lab or None,
            learner or None,
            by=who(by),
            why=reason,
            mode="practice" if practice else "official",
        )
    say(
        f"{found.enqueued} to be graded, {found.standing} graded by the present spec already, "
        f"{found.waiting} in the queue already, {found.parked} parked."
    )
    if found.unknown:
        say(f"Left as they are: {', '.join(found.unknown)}, which this autograder does not have.")
        raise typer.Exit(WRONG_USE)


def loadtest(
    learners: Annotated[int, typer.Option("--learners", min=1, max=5000, help="In the class.")] = 500,
    each: Annotated[int, typer.Option("--each", min=1, max=20, help="How often each of them hands in.")] = 3,
    workers: Annotated[int, typer.Option("--workers", min=0, max=2000, help="0: as many as are needed.")] = 0,
    wait: Annotated[float, typer.Option("--wait", min=0.5, help="Seconds that 95 in 100 may wait.")] = 60.0,
    lab: Annotated[str, typer.Option("--lab", help="Of which the grading times are measured.")] = "lab05_tape",
    seconds: Annotated[
        str, typer.Option("--seconds", metavar="A,B,...", help="Grading times to use, in place of measuring them.")
    ] = "",
    count: Annotated[int, typer.Option("--count", min=1, max=200, help="Gradings to measure.")] = 12,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the arrivals.")] = 1,
    gradebook: Annotated[
        str,
        typer.Option("--gradebook", metavar="WHERE", help="An empty one to fill; a file for this run, if not given."),
    ] = "",
) -> None:
    """Try a deadline hour on the real queue: throughput, waits, and how many workers classes need."""
    import os
    import statistics
    import tempfile

    from autograder import loadtest as trying
    from autograder.gradebook import queries
    from autograder.spec import load_lab

    spec = load_lab(known_lab(lab))
    try:
        notebook = trying.solution_of(spec)
        times = [float(part) for part in seconds.split(",")] if seconds else []
    except FileNotFoundError as error:
        raise Refusal(str(error)) from None
    except ValueError:
        raise Refusal(f"--seconds {seconds!r}: give seconds, as 1.5,2,0.8.") from None
    if not all(0 < one < 86400 for one in times):
        raise Refusal(f"--seconds {seconds}: a grading takes more than 0 s and less than a day.")
    with (
        tempfile.TemporaryDirectory(prefix="autograder-loadtest-") as home,
        opened(gradebook or os.path.join(home, "gradebook.sqlite")) as book,
    ):
        if queries.counts(book) != (0, 0):
            raise Refusal(f"loadtest: {book.where} is in use; name an empty gradebook, which will be filled.")
        if not times:
            times = _measured(trying, spec, notebook, count)
        load = trying.Load(learners, each, seed)
        middle, slow = statistics.median(times), trying.percentile(times, 0.95)
        say(f"A grading takes {middle:.2f} s at the median, {slow:.2f} s at the 95th percentile.")
        try:
            chosen = workers or trying.needed(load, times, wait).workers
            done = trying.run(load, chosen, times, trying.Real(book, spec, notebook))
            classes = sorted({30, 100, 300, 1000, learners})
            needs = [(n, trying.needed(trying.Load(n, each, seed), times, wait, done.queue)) for n in classes]
        except ValueError as error:
            raise Refusal(f"loadtest: {error}.") from None
    say(
        f"{learners} learners, {each} submissions each in the hour before the deadline, {chosen} workers, real queue:\n"
        f"  throughput: {done.throughput} graded in the best minute; all {len(done.waits)} were graded "
        f"{max(done.end - trying.HOUR, 0):.0f} s after the deadline\n"
        f"  wait: {statistics.median(done.waits):.1f} s at the median, {trying.percentile(done.waits, 0.95):.1f} s "
        f"at the 95th percentile, {max(done.waits):.1f} s at most\n"
        f"  the queue itself takes {1000 * done.queue:.1f} ms for a submission: at most "
        f"{60 / done.queue:.0f} in a minute\n"
        f"Workers by which 95 in 100 wait for at most {wait:g} s:"
    )
    for row in trying.table(needs):
        say(row)


def _measured(trying: Any, spec: Any, notebook: bytes, count: int) -> list[float]:
    import os

    from autograder import sandbox
    from autograder.oracles.starting import launch_all

    launch_all()
    try:
        sandbox.best(mode="official")
        mode = "official"
    except sandbox.SandboxUnavailable:
        mode = "practice"
    slots = min(os.cpu_count() or 1, 8)
    say(f"Measuring {count} gradings of {spec.name}, {slots} at a time, {mode}.")
    try:
        found: list[float] = trying.measured(spec, notebook, slots=slots, count=count, mode=mode)
    except RuntimeError as error:
        raise Refusal(str(error)) from None
    return found


def add_to(app: typer.Typer) -> None:
    """Make these commands of the program."""
    app.add_typer(queue_app, name="queue")
    app.command()(worker)
    app.command()(regrade)
    app.command()(loadtest)
