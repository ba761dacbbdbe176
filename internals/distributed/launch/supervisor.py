"""Watching a job on one machine: start its processes, pass on what they say and what they are told, end them all."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from internals.distributed.launch.descendants import adopt_orphans, die_with_parent, end_descendants, reap
from internals.distributed.launch.job import Job, Place, places
from internals.distributed.launch.logs import KEPT, Lines, Output

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the job, after the processes have been told."""
ONE_MORE = signal.SIGUSR1
"""Starts one more rank of an elastic job."""
SHOWN = 10
"""Lines of the process that failed first, in the summary."""
LINGER = 10.0
"""Seconds, beyond the grace, that ranks of an elastic job have to end once one has ended well."""
BLAMING = b"PeerLost"
"""Who says this at its end did not fail on its own account: another did, and may not have been found yet."""


@dataclass
class Running:
    """A process that was started."""

    place: Place
    process: subprocess.Popen[bytes]
    pipes: list[Lines]
    last: deque[bytes]
    since: float
    code: int | None = None
    stopped: bool = False
    """Whether it was told to end, so that how it ends says nothing."""

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self.since

    @property
    def failed(self) -> bool:
        return bool(self.code) and not self.stopped


class Supervisor:
    """Runs one job to its end; `run` is called once, in a process that has started nothing else.

    Parameters
    ----------
    job : Job
    output : Output
    orphaned : int
        A pipe whose other end the launcher holds: it closes when the launcher dies, however it dies.
    heard : sequence of int
        The signals to listen to; they are blocked until it does.
    """

    def __init__(self, job: Job, output: Output, orphaned: int, heard: Sequence[int]) -> None:
        self._job = job
        self._heard = heard
        self._output = output
        self._orphaned = orphaned
        self._selector = selectors.DefaultSelector()
        self._running: list[Running] = []
        self._signals: deque[int] = deque()
        self._attempt = 0
        self._restarts_left = job.restarts
        self._rendezvous: Any = None
        self._alone = False
        self._done: float | None = None
        """When the first rank ended well."""

    def run(self) -> int:
        """Start the job and watch it; the exit code is 0, or that of the process that failed first."""
        adopt_orphans()
        self._listen()
        try:
            if self._job.elastic:
                from internals.distributed.launch.rendezvous import serve

                least, most = self._job.least or 1, self._job.most or 1
                self._rendezvous = serve(least, most, expected=self._job.processes, secret=self._job.secret)
            self._start()
            return self._watch()
        except OSError as error:
            self.say(f"{error}")
            return 1
        finally:
            if self._rendezvous is not None:
                self._rendezvous.close()
            self._end()

    def say(self, text: str) -> None:
        """Tell the user something of the launcher's own."""
        self._output.write(f"launch: {text}\n".encode(), error=True)

    # Starting

    def _listen(self) -> None:
        woken, wake = os.pipe()
        for end in (woken, wake):
            os.set_blocking(end, False)
        for number in self._heard:
            signal.signal(number, lambda number, frame: self._signals.append(number))
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._heard)
        self._selector.register(woken, selectors.EVENT_READ, "woken")
        self._selector.register(self._orphaned, selectors.EVENT_READ, "orphaned")

    def _start(self) -> None:
        address = self._rendezvous.address if self._rendezvous else ""
        for place in places(self._job, os.environ, attempt=self._attempt, rendezvous=address):
            self._start_one(place)

    def _start_one(self, place: Place) -> None:
        process = subprocess.Popen(
            self._job.command,
            env={**os.environ, **place.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=die_with_parent(),  # noqa: PLW1509  two system calls, which take no lock
        )
        assert process.stdout is not None
        assert process.stderr is not None
        last: deque[bytes] = deque(maxlen=KEPT)
        prefix = self._output.prefix(place.name, place.number)
        pipes = [
            Lines(os.dup(stream.fileno()), prefix, self._output, last, error=error)
            for stream, error in ((process.stdout, False), (process.stderr, True))
        ]
        process.stdout.close()
        process.stderr.close()
        for pipe in pipes:
            self._selector.register(pipe.pipe, selectors.EVENT_READ, pipe)
        self._running.append(Running(place, process, pipes, last, time.monotonic()))

    # Watching

    def _watch(self) -> int:
        while True:
            self._listen_for(1.0)
            if self._output.broken:
                return self._stop_all(signal.SIGTERM, 128 + signal.SIGPIPE)
            if self._alone:
                return self._stop_all(signal.SIGTERM, 1)
            while self._signals:
                number = self._signals.popleft()
                if number == ONE_MORE:
                    self._grow()
                else:
                    return self._stop_all(number, 128 + number)
            failed = [one for one in self._reap() if one.failed]
            if failed:
                code = self._replace(failed) if self._job.elastic else self._fail(self._cause(failed))
                if code is not None:
                    return code
            elif not self._alive():
                return 0
            elif (self._job.servers and not self._alive("trainer")) or self._lingering():
                return self._stop_all(signal.SIGTERM, 0)

    def _listen_for(self, seconds: float) -> None:
        """Show what is said, until a child ends, a signal comes or the launcher dies, or for some seconds."""
        for key, _ in self._selector.select(seconds):
            if key.data == "woken":
                with contextlib.suppress(BlockingIOError):
                    os.read(key.fd, 4096)
            elif key.data == "orphaned":
                self._alone = True
            elif not key.data.read():
                self._let_go(key.data)

    def _let_go(self, pipe: Lines) -> None:
        self._selector.unregister(pipe.pipe)
        pipe.end()

    def _reap(self) -> list[Running]:
        """The processes of the job that have ended since; what they had started on their own is not of interest."""
        codes = dict(reap())
        ended = [one for one in self._running if one.code is None and one.process.pid in codes]
        for one in ended:
            one.code = one.process.returncode = codes[one.process.pid]
            if one.code == 0 and self._done is None:
                self._done = time.monotonic()
        return ended

    def _alive(self, role: str | None = None) -> list[Running]:
        return [one for one in self._running if one.code is None and role in (None, one.place.role)]

    def _lingering(self) -> bool:
        """Whether an elastic job is done, and ranks are left all the same: lost to the others, stopped or stuck."""
        if not self._job.elastic or self._done is None:
            return False
        if time.monotonic() - self._done < LINGER + self._job.grace:
            return False
        self.say(f"the job is done; {', '.join(one.place.name for one in self._alive())} did not end with it")
        return True

    # What a failure leads to

    def _cause(self, failed: list[Running]) -> Running:
        """The one that the others may have died of; it may end a little later than they do."""
        end = time.monotonic() + 2.0
        while all(self._blames_another(one) for one in failed) and time.monotonic() < end and self._alive():
            self._listen_for(0.05)
            failed += [one for one in self._reap() if one.failed]
        return min(failed, key=lambda one: ((one.code or 0) >= 0, self._blames_another(one)))

    def _blames_another(self, one: Running) -> bool:
        self._drain(one)
        return any(BLAMING in line for line in list(one.last)[-3:])

    def _fail(self, one: Running) -> int | None:
        """Start all again, or end the job: then its exit code is returned."""
        told = f"{one.place.name} (pid {one.process.pid}) {_told(one.code or 0)} after {one.seconds:.1f} s"
        if self._restarts_left:
            self._restarts_left -= 1
            self.say(f"{told}; all are started again ({self._restarts_left} more times after this)")
            if stopped := self._stop_all(signal.SIGTERM, 0):
                return stopped
            end_descendants()
            self._running.clear()
            self._attempt += 1
            self._start()
            return None
        others = len(self._alive())
        self.say(told + (f"; the other {others} are stopped" if others > 1 else "; the other is stopped" * others))
        self._stop_all(signal.SIGTERM, 0)
        self._drain(one)
        if one.last:
            self.say(f"the last lines of {one.place.name}:")
            for line in list(one.last)[-SHOWN:]:
                self._output.write(b"    " + line + b"\n", error=True)
        return _exit_code(one)

    def _replace(self, failed: list[Running]) -> int | None:
        """Go on with others in the place of those that failed, or with fewer; end the job where too few are left."""
        for one in failed:
            told = f"{one.place.name} (pid {one.process.pid}) {_told(one.code or 0)} after {one.seconds:.1f} s"
            left = len(self._alive())
            if self._done is not None:
                self.say(f"{told}; the job is done without it")
            elif self._restarts_left:
                self._restarts_left -= 1
                self.say(f"{told}; another is started in its place ({self._restarts_left} more after this)")
                self._start_one(self._another(one.place))
            elif left >= (self._job.least or 1):
                self.say(f"{told}; the job goes on with {left}")
            else:
                self.say(f"{told}; {left} are left of at least {self._job.least}, the job ends")
                self._stop_all(signal.SIGTERM, 0)
                return _exit_code(one)
        return None

    def _another(self, place: Place) -> Place:
        number = 1 + max(one.place.number for one in self._running)
        return Place(place.role, number, {**place.variables, "LOCAL_RANK": str(number), "RANK": str(number)})

    def _grow(self) -> None:
        if not self._job.elastic or len(self._alive()) >= (self._job.most or 1):
            self.say(f"no rank is added: {len(self._alive())} are running, at most {self._job.most or 'as many'}")
            return
        self._start_one(self._another(self._alive()[0].place))

    # Ending

    def _stop_all(self, number: int, code: int) -> int:
        """Pass a signal on, wait, and kill who does not go; a second signal ends the waiting."""
        for one in self._alive():
            one.stopped = True
            _signal_group(one, number)
        end = time.monotonic() + self._job.grace
        while self._alive() and time.monotonic() < end:
            self._listen_for(min(0.1, max(0.0, end - time.monotonic())))
            self._reap()
            if any(one in PASSED_ON for one in self._signals):
                code = 128 + self._signals[0]
                break
        for one in self._alive():
            self.say(f"{one.place.name} did not end within {self._job.grace:g} s of being asked to; it is killed")
            _signal_group(one, signal.SIGKILL)
        end = time.monotonic() + 5.0
        while self._alive() and time.monotonic() < end:
            self._listen_for(0.05)
            self._reap()
        return code

    def _end(self) -> None:
        """Leave no process, show what was said last."""
        for one in self._alive():
            _signal_group(one, signal.SIGKILL)
        left = end_descendants()
        for one in self._running:
            self._drain(one)
        if left:
            self.say(f"processes {', '.join(map(str, left))} could not be killed")

    def _drain(self, one: Running) -> None:
        for pipe in one.pipes:
            with contextlib.suppress(KeyError):
                self._selector.get_key(pipe.pipe)
                pipe.read()
                self._let_go(pipe)


def _exit_code(one: Running) -> int:
    """As a shell has it: 128 and the number of the signal."""
    code = one.code or 0
    return code if code >= 0 else 128 - code


def _told(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"was ended by {name}"


def _signal_group(one: Running, number: int) -> None:
    """To all of a process's own group: the shell scripts and loaders that it has started get it too."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(one.process.pid, number)


def supervise(job: Job) -> int:
    """Run a job under a supervisor process of its own; the exit code is the job's.

    The launcher itself only waits: when it is killed, even by SIGKILL, its end of a pipe closes and the supervisor
    ends the job; when the supervisor is killed, its ranks die with it and the launcher sweeps up the rest.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    colours = sys.stdout.isatty() and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    output = Output(sys.stdout.buffer, sys.stderr.buffer, colours=colours)
    adopt_orphans()
    orphaned, held = os.pipe()
    heard = [number for number in (*PASSED_ON, ONE_MORE) if signal.getsignal(number) != signal.SIG_IGN]
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)  # until somebody is there to hear them
    pid = os.fork()
    if pid == 0:
        # A group of its own: what the terminal sends comes once, by way of the launcher.
        os.setpgid(0, 0)
        os.close(held)
        code = 1
        try:
            code = Supervisor(job, output, orphaned, heard).run()
        finally:
            os._exit(code)
    os.close(orphaned)

    def pass_on(number: int, frame: object) -> None:
        _kill(pid, number)
        if number in PASSED_ON:  # a supervisor that is stuck, since nobody reads what it writes, is ended in the end
            signal.alarm(math.ceil(job.grace) + 10)

    before = {number: signal.signal(number, pass_on) for number in heard}
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, lambda number, frame: _kill(pid, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
    try:
        _, status = os.waitpid(pid, 0)
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(held)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        end_descendants()
        output.write(f"launch: the supervisor {_told(code)}; the job was ended\n".encode(), error=True)
        return 128 - code
    return code


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
