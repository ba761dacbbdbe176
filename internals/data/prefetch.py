"""Making items before they are asked for, in threads or in processes.

A planner, one thread, hands recipes to the workers in turn, and is never more than `ahead` items before the consumer.
The consumer takes the items in the order of the plan, so it does not matter who is fastest.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any, NamedTuple

from internals.data.reader import Plan, Reader, checked_size, name_item
from internals.data.stages import Stage

_FORK = "fork" in multiprocessing.get_all_start_methods()
_PATIENCE = 1.0
"""Seconds that a worker or planner is given to end by itself."""


class Prefetch(Stage):
    """The items of the reader before it, made ahead of time.

    Parameters
    ----------
    before : Reader
    workers : int
        How many items are made at once.
    processes : bool
        Make them in processes: Python code of several processes runs at once, but each item is copied from the worker
        to the consumer. Threads copy nothing, and run at once only while NumPy computes or files are read. Where the
        system can, processes are forked, and any function will do; elsewhere functions must be picklable.
    ahead : int, optional
        How many items may be waiting or in the making, which bounds the memory; twice `workers` unless given.

    Raises
    ------
    Exception
        While iterating, what a worker raised; its notes name the item and the worker, and its cause has the worker's
        traceback. Iteration ends there.
    RuntimeError
        A worker process was killed; says by what, and which item it was making.

    When iteration ends, is left, or fails, the workers end; worker processes also when the consumer is killed.
    """

    def __init__(self, before: Reader, workers: int, processes: bool, ahead: int | None) -> None:
        super().__init__(before)
        self.workers, self.processes = checked_size("prefetch", "workers", workers), processes
        self.ahead = 2 * self.workers if ahead is None else checked_size("prefetch", "ahead", ahead)

    make, make_batch = Reader.make, Reader.make_batch

    def __repr__(self) -> str:
        return repr(self.before)  # a place in this reader is one in the reader without workers

    def plan(self, epoch: int, start: int = 0) -> Plan:
        crew: _Threads | _Processes
        crew = (_Processes if self.processes else _Threads)(self.before.make, min(self.workers, self.ahead))
        planner = _Planner(self.before.plan(epoch, start), crew, self.ahead)
        planner.start()
        position, finished = start, False
        try:
            while (pending := planner.orders.get()) is not None:
                if isinstance(pending, BaseException):
                    raise pending
                try:
                    item = pending.result()
                except Exception as error:
                    name_item(error, f"while making item {position} of epoch {epoch} of {self!r}, in {pending.worker}")
                    raise
                planner.slots.release()
                position += 1
                yield item
            finished = True
        finally:
            planner.stop()
            crew.close(finished)


class _Planner(threading.Thread):
    """Walks through the plan; `orders` then has, in order, what will be the items, and None or an error at the end."""

    def __init__(self, plan: Plan, crew: _Threads | _Processes, ahead: int) -> None:
        super().__init__(name="prefetch-planner", daemon=True)
        self.recipes, self.crew = plan, crew
        self.orders: SimpleQueue[Any] = SimpleQueue()
        self.slots = threading.Semaphore(ahead)
        self.stopped = False

    def run(self) -> None:
        try:
            recipes = iter(self.recipes)
            while True:
                self.slots.acquire()
                if self.stopped:
                    break
                try:
                    recipe = next(recipes)
                except StopIteration:
                    break
                self.orders.put(self.crew.submit(recipe))
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            self.orders.put(error)
        self.orders.put(None)

    def stop(self) -> None:
        self.stopped = True
        self.slots.release()
        self.join(_PATIENCE)  # a plan that waits, for a line from a network say, can't be woken; the thread is a daemon


class _Order:
    """An item that a thread is making."""

    def __init__(self, future: Any, worker: str) -> None:
        self.future, self.worker = future, worker

    def result(self) -> Any:
        return self.future.result()


class _Threads:
    def __init__(self, make: Callable[[Any], Any], workers: int) -> None:
        self.make = make
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix="prefetch")

    def submit(self, recipe: Any) -> _Order:
        return _Order(self.pool.submit(self._made, recipe), "a worker thread")

    def _made(self, recipe: Any) -> Any:
        try:
            return self.make(recipe)
        except StopIteration as error:  # would end the consumer's loop as if the data were at its end
            raise RuntimeError("prefetch: the function raised StopIteration.") from error

    def close(self, finished: bool) -> None:
        self.pool.shutdown(wait=finished, cancel_futures=True)


class _Worker(NamedTuple):
    process: Any
    connection: Connection


class _Processes:
    """Each worker has a pipe of its own, so that one that dies leaves no lock behind."""

    def __init__(self, make: Callable[[Any], Any], workers: int) -> None:
        context = multiprocessing.get_context("fork" if _FORK else "spawn")
        self.workers: list[_Worker] = []
        self.submitted = 0
        try:
            for number in range(workers):
                self._start(context, make, number)
        except BaseException:
            self.close(finished=False)
            raise

    def _start(self, context: Any, make: Callable[[Any], Any], number: int) -> None:
        ours, theirs = context.Pipe()
        inherited = [ours, *(worker.connection for worker in self.workers)] if _FORK else []
        process = context.Process(
            target=_work, args=(make, theirs, inherited, os.getpid()), name=f"prefetch-{number}", daemon=True
        )
        try:
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.workers.append(_Worker(process, ours))

    def submit(self, recipe: Any) -> _Reply:
        number = self.submitted % len(self.workers)
        self.submitted += 1
        try:
            self.workers[number].connection.send(recipe)
        except OSError:
            pass  # it is dead; whoever asks for the item is told
        return _Reply(self.workers[number], f"worker process {number}")

    def close(self, finished: bool) -> None:
        for process, connection in self.workers:
            if finished and process.is_alive():
                try:
                    connection.send(_END)
                except OSError:
                    pass
            elif not finished:
                process.terminate()
        for process, connection in self.workers:
            process.join(_PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()
            connection.close()
            process.close()


class _Reply:
    """An item that a process is making."""

    def __init__(self, of: _Worker, worker: str) -> None:
        self.of, self.worker = of, worker

    def result(self) -> Any:
        process, connection = self.of
        wait([connection, process.sentinel])
        try:
            if not connection.poll():
                raise EOFError
            made, value = pickle.loads(connection.recv_bytes())
        except (EOFError, ConnectionError):
            process.join(_PATIENCE)
            code = process.exitcode
            how = f"by signal {-code}" if code is not None and code < 0 else f"with status {code}"
            raise RuntimeError(
                f"prefetch: {self.worker} ended {how}, before it had made its item. Signal 9 often means that memory "
                "ran out: use fewer workers, or smaller batches."
            ) from None
        if made:
            return value
        error, told = value
        raise error from _InWorker(told)


class _InWorker(Exception):
    """A worker's traceback, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


_END = "end of the plan", "prefetch"


def _work(make: Callable[[Any], Any], connection: Connection, inherited: list[Connection], parent: int) -> None:
    """What a worker process does: recipes in, items out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the consumer ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for end in inherited:
        end.close()
    inbox: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, inbox, parent), daemon=True).start()
    while True:
        recipe = inbox.get()
        if isinstance(recipe, tuple) and len(recipe) == 2 and recipe == _END:
            return
        try:
            if isinstance(recipe, _Unreadable):
                raise recipe.error
            reply = pickle.dumps((True, make(recipe)), protocol=5)
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            reply = pickle.dumps((False, _told(error)))
        try:
            connection.send_bytes(reply)
        except OSError:
            return


def _receive(connection: Connection, inbox: SimpleQueue[Any], parent: int) -> None:
    """Take recipes off the pipe, always: a consumer that waits to send could not take what the worker has to send.

    Ends the process when the consumer has ended. The pipe alone does not tell: others may have inherited its end.
    """
    try:
        while True:
            while not connection.poll(_PATIENCE / 2):
                if os.getppid() != parent:
                    os._exit(1)
            data = connection.recv_bytes()
            try:
                inbox.put(pickle.loads(data))
            except Exception as error:  # noqa: BLE001 - raised in place of the item
                inbox.put(_Unreadable(error))
    except (EOFError, OSError):
        os._exit(1)


class _Unreadable(NamedTuple):
    error: Exception


def _told(error: BaseException) -> tuple[Exception, str]:
    """The error, or one that says the same where it can't be sent, and its traceback."""
    text = "".join(traceback.format_exception(error))
    sent: Exception = RuntimeError(f"prefetch: {type(error).__name__}: {error}")
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        try:
            if type(pickle.loads(pickle.dumps(error))) is type(error):
                sent = error.with_traceback(None)
        except Exception:  # noqa: BLE001, S110 - a class of the worker's own, or one that needs more arguments
            pass
    return sent, text
