"""Gradings as Kubernetes Jobs, one each, made and watched with ``kubectl``."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import subprocess
import threading
import time
from concurrent.futures import Future
from typing import Any

from autograder.queue import kubernetes
from autograder.queue.executors.once import heard
from autograder.queue.grading import Fault, Outcome, Work
from autograder.queue.kubernetes import Cluster

LOOK = 2.0
"""Seconds between two looks at a Job."""
PATIENCE = 60.0
"""Seconds for one answer of the cluster."""


class Jobs:
    """For gradings that nothing must leak between, at the price of a pod and its oracles for each.

    Parameters
    ----------
    cluster : Cluster
    slots : int
        Jobs at a time.
    look : float
        Seconds between two looks at each.

    Raises
    ------
    FileNotFoundError
        There is no ``kubectl``.
    """

    def __init__(self, cluster: Cluster, slots: int = 10, look: float = LOOK) -> None:
        found = shutil.which("kubectl")
        if found is None:
            raise FileNotFoundError("the Kubernetes executor needs kubectl on the path; it is not there")
        self.slots, self._cluster, self._look, self._kubectl = slots, cluster, look, found
        self._given_up: dict[int, threading.Event] = {}
        """By the identity of the future: set where its Job is to be deleted."""
        self._threads: list[threading.Thread] = []

    def submit(self, work: Work) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_running_or_notify_cancel()
        self._given_up[id(future)] = given_up = threading.Event()
        name = f"grade-{work.submission_id}-{secrets.token_hex(4)}"
        watching = threading.Thread(target=self._grade, args=(work, name, future, given_up), name=name, daemon=True)
        self._threads = [thread for thread in self._threads if thread.is_alive()] + [watching]
        watching.start()
        return future

    def _grade(self, work: Work, name: str, future: Future[Outcome], given_up: threading.Event) -> None:
        try:
            outcome = self._watched(work, name, given_up)
        except (_Refused, OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
            outcome = Fault(f"Kubernetes did not grade it: {error}")
        self._given_up.pop(id(future), None)
        future.set_result(outcome)

    def _watched(self, work: Work, name: str, given_up: threading.Event) -> Outcome:
        packed = kubernetes.pack(work)
        if len(packed) > kubernetes.LARGEST:
            return Fault(
                f"{work.filename} has {len(packed)} bytes compressed, and this grader takes {kubernetes.LARGEST}. "
                "Clear the outputs (Edit > Clear Outputs of All Cells), save and submit again.",
                final=True,
            )
        made = self._call("create", "-f", "-", "-o", "json", given=kubernetes.job(self._cluster, name))
        try:
            # After the Job, whose it is: whatever becomes of this process, the cluster removes it together with that.
            uid = made["metadata"]["uid"]
            self._call("create", "-f", "-", "-o", "name", given=kubernetes.secret(self._cluster, name, uid, packed))
            while not given_up.wait(self._look):
                status = self._call("get", "job", name, "-o", "json").get("status", {})
                ended = {one["type"]: one for one in status.get("conditions", []) if one["status"] == "True"}
                if "Complete" in ended:
                    return heard(self._text("logs", f"job/{name}", "--container", "grader"))
                if "Failed" in ended:
                    why = ended["Failed"]
                    return Fault(f"Its Job failed: {why.get('reason', '')}: {why.get('message', '')}")
            return Fault("Its grading was given up.")
        finally:
            with contextlib.suppress(_Refused, OSError, subprocess.SubprocessError):  # the cluster does it in time
                self._text("delete", "job", name, "--wait=false", "--ignore-not-found")

    def _call(self, *arguments: str, given: Any = None) -> Any:
        text = self._text(*arguments, given=None if given is None else json.dumps(given))
        return json.loads(text) if arguments[-1] == "json" else text

    def _text(self, *arguments: str, given: str | None = None) -> str:
        command = [self._kubectl, "--namespace", self._cluster.namespace, *arguments]
        done = subprocess.run(command, input=given or "", capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise _Refused(f"kubectl {arguments[0]}: {said[0][:300]}")
        return done.stdout

    def cancel(self, future: Future[Outcome]) -> None:
        """Delete its Job, and with it the pod."""
        if given_up := self._given_up.get(id(future)):
            given_up.set()

    def close(self) -> None:
        """Delete all Jobs that are at work."""
        for given_up in list(self._given_up.values()):
            given_up.set()
        until = time.monotonic() + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))


class _Refused(RuntimeError):
    """The cluster did not do what was asked."""
