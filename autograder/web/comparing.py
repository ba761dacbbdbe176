"""Comparing what a class handed in for a lab: begun on a page, done in a process of its own, kept until the next one.

``python -m autograder.web.comparing`` is that process: a request as JSON comes in, and the result goes out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from autograder import spec
from autograder.cells import printable
from autograder.gradebook import Gradebook, open_gradebook, place, queries, roster
from autograder.gradebook.models import now
from autograder.gradebook.place import url_of
from autograder.similarity import similarity
from autograder.web.forms import Form, FormError

LONGEST = 1800.0
"""Seconds until a comparison is given up."""
MOST_MEMORY = 4 << 30
"""Bytes of a comparison's process; what a class hands in is far below."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Compared:
    """The last comparison of a lab.

    Attributes
    ----------
    found : dict
        A `similarity.Similarity` as data, whose names are login names.
    submissions : dict of str to int
        Which submission of each learner was compared.
    when, by : str
        The moment, in ISO 8601, and who asked.
    """

    found: dict[str, Any]
    submissions: dict[str, int]
    when: str
    by: str

    @property
    def moment(self) -> datetime:
        return datetime.fromisoformat(self.when)


class Comparisons:
    """The comparisons of a server: one at a time, since each takes a processor for itself.

    Parameters
    ----------
    gradebook : str, optional
        Where the submissions are.
    """

    def __init__(self, gradebook: str | None = None) -> None:
        self.gradebook = gradebook
        self._lock = threading.Lock()
        self._running = ""
        self._faults: dict[str, str] = {}

    @property
    def running(self) -> str:
        """The lab that is being compared now; "" where none is."""
        return self._running

    def fault(self, lab: str) -> str:
        """Why the last comparison of a lab came to nothing; "" where it did not."""
        return self._faults.get(lab, "")

    def begin(self, book: Gradebook, form: Form, by: str) -> str:
        """Start comparing, as a form says: its lab, and the least share in percent."""
        lab = form.needed("lab", "The lab")
        if lab not in spec.lab_names():
            raise FormError(f"There is no lab {lab[:60]!r}.")
        percent = form.number("percent", "The least share")
        if not 1 <= percent <= 100:
            raise FormError(f"The least share: {percent:g} % is no share of a notebook; give 1 to 100.")
        if len(newest(book, lab)) < 2:
            raise FormError("Two learners must have handed it in before there is anything to compare.")
        with self._lock:
            if self._running:
                raise FormError(f"{self._running} is being compared; wait until that is done.")
            self._running = lab
        request = {"gradebook": self.gradebook, "lab": lab, "threshold": percent / 100, "by": by}
        threading.Thread(target=self._compare, args=(request,), name="comparing", daemon=True).start()
        return "comparing"

    def last(self, lab: str) -> Compared | None:
        """What the last comparison of a lab found; None where there was none."""
        try:
            kept = Compared(**json.loads(self._file(lab).read_text(encoding="utf-8")))
            return kept if kept.moment and isinstance(kept.found["pairs"], list) else None
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _file(self, lab: str) -> Path:
        of = hashlib.sha256(url_of(self.gradebook).encode()).hexdigest()[:12]
        return place.home() / "similarity" / f"{lab}-{of}.json"

    def _compare(self, request: dict[str, Any]) -> None:
        lab = request["lab"]
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "autograder.web.comparing"],
                input=json.dumps(request),  # not on the command line, where others would read a database's password
                env={
                    **os.environ,
                    **ONE_THREAD,
                    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
                },
                capture_output=True,
                text=True,
                timeout=LONGEST,
                check=False,
            )
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
                self._faults[lab] = printable(reason)[:300]
                return
            file = self._file(lab)
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside = file.with_suffix(f".{os.getpid()}.new")
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
                out.write(done.stdout)
            beside.replace(file)
            self._faults.pop(lab, None)
        except subprocess.TimeoutExpired:
            self._faults[lab] = f"it was not done after {LONGEST / 60:.0f} minutes"
        except OSError as error:
            self._faults[lab] = error.strerror or str(error)
        finally:
            self._running = ""


def newest(book: Gradebook, lab: str) -> dict[str, int]:
    """The newest submission of everybody in the class who handed the lab in, by login name."""
    there = {one.name for one in roster.people(book)}
    found: dict[str, int] = {}
    for one in queries.submissions(book, lab=lab):  # newest first
        if one.learner in there:
            found.setdefault(one.learner, one.id)
    return dict(sorted(found.items()))


def compare(request: dict[str, Any]) -> Compared:
    """Compare the newest submissions of a lab, each with each."""
    from autograder.notebook import NotebookError, parse_notebook, read_notebook
    from autograder.release import labs_folder

    lab = request["lab"]
    template = read_notebook(labs_folder() / f"{lab}.ipynb")
    read, unread = {}, {}
    with open_gradebook(request["gradebook"]) as book:
        submissions = newest(book, lab)
        for name, number in submissions.items():
            try:
                read[name] = parse_notebook(queries.notebook(book, number) or b"", f"submission {number}").cells
            except NotebookError as error:
                unread[name] = str(error)
    found = similarity(read.items(), template.cells, lab=lab, threshold=request["threshold"])
    found.unread = unread
    return Compared(asdict(found), submissions, now().isoformat(timespec="seconds"), request["by"])


def stand_back() -> None:
    """Let who waits for a page or a grade go before, take no more memory than is meant, and end some day.

    The server watches the clock as well; a comparison outlives it where it is stopped.
    """
    import resource

    with contextlib.suppress(OSError):
        os.nice(10)
    for kind, most in ((resource.RLIMIT_AS, MOST_MEMORY), (resource.RLIMIT_CPU, int(LONGEST))):
        with contextlib.suppress(OSError, ValueError):  # a lower limit is set already, or this system has none
            resource.setrlimit(kind, (most, most))


def main() -> int:
    stand_back()
    try:
        print(json.dumps(asdict(compare(json.load(sys.stdin)))))
    except MemoryError:
        print(f"it takes more than {MOST_MEMORY >> 30} GiB of memory", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
