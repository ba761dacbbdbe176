"""Which grades people are told of, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from autograder import spec
from autograder.feedback import words
from autograder.feedback.catalogue import say, speaking
from autograder.gradebook import Gradebook, decided
from autograder.gradebook.decisions import assignments
from autograder.gradebook.models import Grade, Learner, Submission
from autograder.notices import mail, webhook
from autograder.notices.outbox import Later, Message, NotSent, Outbox
from autograder.notices.settings import Settings


def collect(book: Gradebook, outbox: Outbox, settings: Settings) -> int:
    """Put a message for every official grade since the last look into the outbox; how many.

    The first look only marks the place: nobody is told of what was graded before notices were switched on.
    A regrade that changes no points is not told.
    """
    with book.reading() as session:
        newest = session.scalar(select(func.max(Grade.id))) or 0
        if outbox.seen is None:
            outbox.seen = newest
            return 0
        query = (
            select(Grade.id, Submission.id, Learner.name, Submission.lab, Grade.points, Grade.max_points)
            .join(Submission, Submission.id == Grade.submission_id)
            .join(Learner, Learner.id == Submission.learner_id)
            .where(Grade.id > outbox.seen, Grade.mode == "official", Learner.left_at.is_(None))
            .order_by(Grade.id)
        )
        rows = session.execute(query).all()
        before = {
            row[0]: session.scalar(
                select(Grade.points)
                .where(Grade.submission_id == row[1], Grade.mode == "official", Grade.id < row[0])
                .order_by(Grade.id.desc())
                .limit(1)
            )
            for row in rows
        }
    count = 0
    for grade, submission, learner, lab, points, most in rows:
        if before[grade] == points:
            continue
        told = {"submission": submission, "learner": learner, "lab": lab, "points": points, "max_points": most}
        if settings.mail is not None and (to := settings.mail.address_of(learner)):
            count += outbox.put(f"mail-{grade}", "mail", {"lab": lab, "to": to, **_written(told, settings)})
        if settings.webhook is not None:
            page = f"{settings.pages}class/submission/{submission}"
            count += outbox.put(f"webhook-{grade}", "webhook", {"event": "graded", "page": page, **told})
    outbox.seen = newest
    return count


def _written(told: dict[str, Any], settings: Settings) -> dict[str, str]:
    title = spec.load_lab(told["lab"]).title if told["lab"] in spec.lab_names() else told["lab"]
    with speaking(settings.language):
        points = words.points(told["points"], told["max_points"])
        subject = say("notice.subject", title=title, points=points) if settings.points else ""
        lines = [
            say("notice.greeting", id=told["submission"], title=title),
            say("notice.points", points=points) if settings.points else "",
            say("notice.read", address=f"{settings.pages}submission/{told['submission']}"),
        ]
        return {
            "subject": subject or say("notice.subject_plain", title=title),
            "text": "\n".join(line for line in lines if line) + "\n",
        }


def deliver(book: Gradebook, outbox: Outbox, settings: Settings, folder: Path) -> tuple[int, int]:
    """Send what is due; how many went out, and how many did not.

    A result that learners may not see yet waits until they may. `folder` is where the files of secrets are.
    """
    terms = assignments(book)

    def send(message: Message) -> None:
        if message.way == "mail" and not decided.results_are_out(terms.get(str(message.content.get("lab")))):
            raise Later
        try:
            if message.way == "mail" and settings.mail:
                mail.send(message, settings.mail, folder)
            elif message.way == "webhook" and settings.webhook:
                secret = (folder / settings.webhook.secret_file).read_text(encoding="utf-8").strip()
                webhook.send(message, settings.webhook, secret)
            else:
                raise NotSent(f"{message.way} is not set up any more.", final=True)
        except OSError as error:  # a file of secrets
            raise NotSent(f"{message.way}: {error.filename}: {error.strerror}.") from None

    return outbox.work(send)
