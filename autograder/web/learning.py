"""What a learner sees: all labs with their terms and marks, and the page of one submission. Knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from autograder import spec
from autograder.feedback import html, words
from autograder.feedback.catalogue import language, say
from autograder.gradebook import Gradebook, decided, queries
from autograder.gradebook.decided import Adjusted
from autograder.gradebook.decisions import Terms, assignments
from autograder.gradebook.models import now
from autograder.gradebook.queries import Graded
from autograder.gradebook.scores import Mark, sheet
from autograder.queue import job_of
from autograder.web.views import TIMES, WAIT, Links, policy, render, when


@dataclass
class LabView:
    """One lab as its learner sees it."""

    name: str
    title: str
    notebook: str
    terms: Terms
    tasks: list[tuple[str, str, float]] = field(default_factory=list)
    """(name, title, points), in the order of the lab."""
    submissions: list[Graded] = field(default_factory=list)
    mark: Mark | None = None
    until: datetime | None = None
    """The learner's own later deadline."""
    adjusted: list[Adjusted] = field(default_factory=list)

    @property
    def counting(self) -> Graded | None:
        """The submission that counts."""
        return next((one for one in self.submissions if self.mark and one.id == self.mark.submission), None)

    @property
    def withheld(self) -> datetime | None:
        """From when results are shown, where they are not yet."""
        return None if decided.results_are_out(self.terms) else self.terms.results

    @property
    def due(self) -> datetime | None:
        return self.terms.due and max(self.terms.due, self.until or self.terms.due)

    @property
    def points(self) -> float:
        return self.terms.points or sum(points for _, _, points in self.tasks)

    def verdict(self, task: str) -> tuple[str, str, str, float] | None:
        """(verdict, sign, word, points) of a task in the submission that counts."""
        if self.withheld:
            return None
        for name, verdict, points, _ in self.counting.tasks if self.counting else ():
            if name == task:
                return verdict, *words.verdict_word(verdict), points
        return None

    def state(self) -> str:
        """How it stands, in a sentence."""
        if not self.submissions and self.mark is None:
            return say("overview.not_handed_in", of=words.number(self.points), count=self.points)
        if self.withheld:
            return say("overview.withheld", when=when(self.withheld))
        if self.mark is None or self.mark.points is None:
            return say("overview.waiting")
        points = words.points(self.mark.points, self.mark.max_points)
        if self.counting is None:
            return say("overview.by_hand", points=points)
        practice = say("overview.practice") if self.counting.mode != "official" else ""
        key = f"overview.{self.terms.policy}_of"
        return say(key, points=points, practice=practice, count=len(self.submissions))

    def time(self) -> list[str]:
        """Until when it is due, in sentences."""
        if self.due is None:
            return []
        left = self.due - now()
        said = [say("terms.due_left", span=words.span(left)) if left > timedelta(0) else say("terms.due_past")]
        if self.until and self.terms.due and self.until > self.terms.due:
            said.append(say("terms.extended", when=when(self.terms.due)))
        return said

    def rules(self) -> list[str]:
        """By which rules it counts."""
        said = [say(f"terms.policy_{self.terms.policy}")]
        return [*said, *words.late_rule(self.terms.late)] if self.due else said

    def score(self) -> list[str]:
        """How the mark came about, where it is not what the grader gave."""
        mark = self.mark
        if self.withheld or mark is None:
            return []
        standing = [one for one in self.adjusted if one.withdrawn_at is None]
        said = []
        if mark.earned is not None and (mark.penalty or standing):
            said.append(say("score.earned", points=words.points(mark.earned, mark.max_points)))
        if mark.penalty:
            kept, late = words.number(100 * mark.kept), words.span(mark.late)
            said.append(say("score.late", span=late, percent=kept, points=_bare(mark.penalty)))
        for one in standing:
            way = "to" if one.replaces else "up" if one.points >= 0 else "down"
            said.append(say(f"score.adjusted_{way}", points=_bare(abs(one.points)), reason=one.reason))
        if mark.by_hand:
            said.append(say("overview.read_by_person", tasks=", ".join(mark.by_hand)))
        if mark.waiting and mark.points is not None:
            said.append(say("overview.more_waiting"))
        return said


def _bare(value: float) -> str:
    return say("points.number", got=words.number(value), count=value)


def lab_views(book: Gradebook, learner: str, notebooks: Path, *, open_by_default: bool) -> list[LabView]:
    """The labs that are out, and those that `learner` handed in, with what came of it."""
    handed_in = queries.submissions(book, learner=learner)
    marks = sheet(book, learner=learner, left=True).marks
    terms = assignments(book)
    more_time = {one.lab: one.until for one in decided.extensions(book, learner=learner)}
    adjusted = decided.adjustments(book, learner=learner)
    names = spec.lab_names()
    out = [name for name in names if decided.is_out(terms.get(name), by_default=open_by_default)]
    has = {one.lab for one in handed_in} | {lab for _, lab in marks}
    views = []
    for name in sorted({*out, *has}):
        view = LabView(
            name,
            name,
            f"{name}.ipynb" if (notebooks / f"{name}.ipynb").is_file() else "",
            terms.get(name) or Terms(name),
            submissions=[one for one in handed_in if one.lab == name],
            mark=marks.get((learner, name)),
            until=more_time.get(name),
            adjusted=[one for one in adjusted if one.lab == name],
        )
        if name in names:
            lab = spec.load_lab(name)
            view.title = lab.title
            view.tasks = [(part.name, part.title, part.points) for part in lab.parts]
        views.append(view)
    return views


def overview(
    book: Gradebook,
    learner: str,
    links: Links,
    notebooks: Path,
    *,
    open_by_default: bool = True,
    token: str = "",
    roles: Collection[str] = (),
) -> str:
    """The page with all labs of one learner.

    Parameters
    ----------
    open_by_default : bool
        A lab that nobody has released is there all the same.
    token : str
        What its forms carry, to be known as ours.
    roles : collection of str
        What else the person may do.
    """
    labs = lab_views(book, learner, notebooks, open_by_default=open_by_default)
    return render(
        "overview.html", links, TIMES, learner=learner, labs=labs, token=token, roles=roles, spoken=language()
    )


def feedback(
    book: Gradebook, one: Graded, links: Links, withheld: datetime | None = None, token: str = ""
) -> tuple[str, str]:
    """The page of one submission, and its policy: its feedback, or that it waits for a grade."""
    ways = [
        (links.grades, say("pages.all_labs")),
        (links.lab, say("pages.lab")),
        (links.submission(one.id, ".ipynb"), say("pages.notebook")),
        (links.submission(one.id, ".json"), say("pages.json")),
    ]
    job = job_of(book, one.id)
    report = queries.report(book, one.id) if withheld is None else None  # after the job: what is done has a grade
    if report is not None:
        # The feedback page brings a style and a script of its own, each named by its hash.
        return html.page(report, ways, submitted=True), html.policy() + "; frame-ancestors 'self'"
    coming = withheld is None and job is not None and job.state in ("waiting", "leased")
    scripts = [TIMES, WAIT] if coming else [TIMES]
    page = render(
        "waiting.html", links, *scripts, one=one, ways=ways[:3], job=job, coming=coming, withheld=withheld, token=token
    )
    return page, policy(*scripts, asks=coming)
