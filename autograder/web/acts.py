"""What the forms of the class do: each reads its fields, decides, and names what to say about it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autograder import queue, spec
from autograder.gradebook import Gradebook, decisions, written
from autograder.gradebook.models import now
from autograder.gradebook.policy import POLICIES
from autograder.web.forms import Form, FormError
from autograder.web.people import Told

SAID = {
    "terms": "The terms are set. Every mark follows them at once.",
    "released": "The lab is released: learners get it when they open JupyterLab or load it again.",
    "held": "The lab is held back: learners who do not have it yet get it when it is released.",
    "results": "The results are shown to learners now.",
    "extended": "The extension is set.",
    "taken": "The extension is taken back.",
    "adjusted": "The mark is adjusted.",
    "withdrawn": "The adjustment is withdrawn. It stays on record.",
    "scored": "The points are recorded. They stand through every regrade.",
    "regraded": "Everything that a newer spec could judge otherwise is in the queue.",
    "nothing": "Nothing was put into the queue: all is graded by the present spec, or parked.",
    "retried": "The job goes back into the queue.",
    "enrolled": "They are in the class.",
    "changed": "The person is changed.",
    "left": "They have left the class. What they handed in stays.",
    "password": "The old password is no longer theirs.",
    "comparing": "The submissions are being compared.",
    "parked": "The job is parked: it is not graded until somebody retries it.",
}
"""What a page says after a form did its work; an address names it, and never says it in its own words."""


@dataclass(frozen=True)
class Act:
    """What a form does, and who may."""

    do: Callable[[Gradebook, Form, str], str | Told]
    """``do(book, form, by)`` returns a key of SAID, if need be with what is shown only once."""
    may: frozenset[str] = frozenset({"instructor"})


BOTH = frozenset({"grader", "instructor"})


def _lab(form: Form) -> str:
    name = form.needed("lab", "The lab")
    if name not in spec.lab_names():
        raise FormError(f"There is no lab {name[:60]!r}.")
    return name


def terms(book: Gradebook, form: Form, by: str) -> str:
    lab, zone = _lab(form), form.zone()
    changes: dict[str, Any] = {
        "zone": zone,
        "released": form.moment("released", "Released", zone),
        "due": form.moment("due", "Due", zone),
        "results": form.moment("results", "Results", zone),
        "late": form.late_rule(),
        "policy": form.text("policy") or "best",
        "points": form.number("points", "Full marks") if form.text("points") else None,
        "line_item": form.text("line_item"),
    }
    if changes["policy"] not in POLICIES:
        raise FormError(f"There is no rule {changes['policy'][:40]!r} for which submission counts.")
    if changes["line_item"] and not changes["line_item"].startswith(
        ("https://", "http://127.0.0.1", "http://localhost")
    ):
        raise FormError("The column on the learning platform: give an https address.")
    decisions.assign(book, lab, by=by, why=form.text("why"), **changes)
    return "terms"


def release(book: Gradebook, form: Form, by: str) -> str:
    lab = _lab(form)
    own = decisions.assignments(book).get(lab)
    if own and own.due and own.due <= now():
        raise FormError("Its deadline has passed; give it a later one when you release it.")
    decisions.assign(book, lab, by=by, why=form.text("why"), released=now())
    return "released"


def hold(book: Gradebook, form: Form, by: str) -> str:
    decisions.assign(book, _lab(form), by=by, why=form.text("why"), released=None)
    return "held"


def show_results(book: Gradebook, form: Form, by: str) -> str:
    decisions.assign(book, _lab(form), by=by, why=form.text("why"), results=None)
    return "results"


def extend(book: Gradebook, form: Form, by: str) -> str:
    lab, learner = _lab(form), form.needed("learner", "The learner")
    own = decisions.assignments(book).get(lab)
    if own is None or own.due is None:
        raise FormError("The lab is due at no time: there is nothing to extend.")
    until = form.moment("until", "Until", form.zone(default=own.zone))
    decisions.extend(book, lab, learner, until, by=by, why=form.needed("why", "A reason"))
    return "extended" if until else "taken"


def adjust(book: Gradebook, form: Form, by: str) -> str:
    lab, learner = _lab(form), form.needed("learner", "The learner")
    points = form.number("points", "Points")
    way = form.text("way") or "add"
    if way not in ("add", "take", "set"):
        raise FormError(f"There is no way {way[:40]!r} to adjust a mark.")
    points = -points if way == "take" else points
    decisions.adjust(book, lab, learner, points, by=by, reason=form.needed("why", "A reason"), replaces=way == "set")
    return "adjusted"


def withdraw(book: Gradebook, form: Form, by: str) -> str:
    number = form.whole("number", "The adjustment's number")
    decisions.withdraw(book, number, by=by, reason=form.needed("why", "A reason"))
    return "withdrawn"


def score(book: Gradebook, form: Form, by: str) -> str:
    number, task = form.whole("submission", "The submission"), form.needed("task", "The task")
    points, comment = form.number("points", "Points"), form.text("comment")
    if any(one.task == task for one in written.answers(book, number)):
        written.score(book, number, task, points, by=by, comment=comment)
    else:
        why = form.needed("comment", "A comment, which the learner reads,")
        decisions.score_by_hand(book, number, task, points, by=by, comment=comment, why=why)
    return "scored"


def regrade(book: Gradebook, form: Form, by: str) -> str:
    lab, learner = form.text("lab") or None, form.text("learner") or None
    done = queue.regrade(book, lab, learner, by=by, why=form.needed("why", "A reason"))
    return "regraded" if done.enqueued or done.waiting else "nothing"


def retry(book: Gradebook, form: Form, by: str) -> str:
    queue.retry(book, form.whole("job", "The job"), by=by, why=form.text("why"))
    return "retried"


def park(book: Gradebook, form: Form, by: str) -> str:
    queue.park(book, form.whole("job", "The job"), by=by, reason=form.needed("why", "A reason"))
    return "parked"


ACTS = {
    "terms": Act(terms),
    "release": Act(release),
    "hold": Act(hold),
    "show_results": Act(show_results),
    "extend": Act(extend),
    "adjust": Act(adjust, BOTH),
    "withdraw": Act(withdraw, BOTH),
    "score": Act(score, BOTH),
    "regrade": Act(regrade),
    "retry": Act(retry),
    "park": Act(park),
}
