"""What answers under ``/autograder/``: a learner's own labs, submissions and feedback; and all the rules."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from autograder.feedback.catalogue import LANGUAGES, known, say
from autograder.gradebook import decided, decisions, queries
from autograder.gradebook.queries import Graded
from autograder.queue import job_of
from autograder.web import learning, teaching, views
from autograder.web.page import LANGUAGE_COOKIE, LearnerData, LearnerPage, Refusal, Rooms, attachment

__all__ = ["RULES", "AddSlash", "LearnerData", "LearnerPage", "Refusal", "Rooms", "attachment"]

YEAR = 365


class OwnSubmission(LearnerPage):
    """Something of one submission of the learner who asks."""

    async def own(self, number: str) -> Graded:
        """The learner's own submission of that number. Another's does not exist, as far as this page tells."""
        one = await self.reading(lambda book: queries.submission(book, int(number)))
        if one is None or one.learner != self.learner:
            raise Refusal(404, say("refusal.no_submission", number=number))
        return one

    async def shown_from(self, one: Graded) -> datetime | None:
        """From when the result of a submission is shown; None where it is shown now."""
        terms = await self.reading(lambda book: decisions.assignments(book).get(one.lab))
        return None if decided.results_are_out(terms) or terms is None else terms.results


class Overview(LearnerPage):
    async def get(self) -> None:
        who, links, rooms = self.learner, self.links, self.rooms
        roles = await self.roles()
        token = self.form_token
        self.set_header("Content-Security-Policy", views.policy(views.TIMES, forms=True))
        self.finish(
            await self.reading(
                lambda book: learning.overview(
                    book, who, links, rooms.notebooks, open_by_default=rooms.open_by_default, token=token, roles=roles
                )
            )
        )


class SubmissionPage(OwnSubmission):
    async def get(self, number: str) -> None:
        one = await self.own(number)
        links, token, withheld = self.links, self.form_token, await self.shown_from(one)
        page, policy = await self.reading(lambda book: learning.feedback(book, one, links, withheld, token))
        self.set_header("Content-Security-Policy", policy)
        self.finish(page)


class SubmissionState(OwnSubmission, LearnerData):
    """Whether the result is there yet; the page that waits asks for it."""

    async def get(self, number: str) -> None:
        one = await self.own(number)
        withheld = await self.shown_from(one)
        job = await self.reading(lambda book: job_of(book, one.id))
        if one.points is None and job is not None and job.state == "done":
            one = await self.own(number)  # graded since it was looked at
        told: dict[str, Any] = {"graded": one.points is not None and withheld is None}
        if job is not None and not told["graded"] and withheld is None:
            told |= {"state": job.state, "ahead": job.ahead}
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(told))


class SubmissionReport(OwnSubmission, LearnerData):
    async def get(self, number: str) -> None:
        one = await self.own(number)
        if withheld := await self.shown_from(one):
            raise Refusal(404, say("refusal.not_shown", number=number, when=views.when(withheld)))
        report = await self.reading(lambda book: queries.report(book, one.id))
        if report is None:
            raise Refusal(404, say("refusal.not_graded", number=number))
        self.set_header("Content-Type", "application/json")
        self.finish(report.to_json())


class SubmissionNotebook(OwnSubmission, LearnerData):
    async def get(self, number: str) -> None:
        one = await self.own(number)
        data = await self.reading(lambda book: queries.notebook(book, one.id))
        # A download, never a page: what a learner wrote must not run on this origin.
        self.set_header("Content-Type", "application/x-ipynb+json")
        self.set_header("Content-Disposition", attachment(f"{one.lab}-submission-{one.id}.ipynb"))
        self.finish(data or b"")


class Language(LearnerPage):
    """Which language a person reads; kept in their browser."""

    async def post(self) -> None:
        chosen = known(self.field("language", 20))
        if chosen not in LANGUAGES:
            raise Refusal(400, say("refusal.no_page"))
        secure = self.request.protocol == "https"
        self.set_cookie(
            LANGUAGE_COOKIE,
            chosen,
            expires_days=YEAR,
            path=self.links.grades,
            httponly=True,
            samesite="Lax",
            secure=secure,
        )
        self.redirect(self.links.grades, status=303)


class AddSlash(LearnerPage):
    async def get(self, path: str) -> None:
        self.redirect(f"{self.settings.get('base_url', '/')}{path}/")


class NoSuchPage(LearnerPage):
    async def get(self, path: str = "") -> None:
        raise Refusal(404, say("refusal.no_page"))

    post = get


class NoSuchData(LearnerData):
    async def get(self, path: str) -> None:
        raise Refusal(404, say("refusal.no_data"))


RULES: list[tuple[str, type[LearnerPage]]] = [
    (r"autograder/", Overview),
    (r"autograder/language", Language),
    (r"autograder/submission/([0-9]{1,15})", SubmissionPage),
    (r"autograder/submission/([0-9]{1,15})/state", SubmissionState),
    (r"autograder/submission/([0-9]{1,15})\.json", SubmissionReport),
    (r"autograder/submission/([0-9]{1,15})\.ipynb", SubmissionNotebook),
    *teaching.RULES,
    (r"autograder/(.*\.(?:json|ipynb))", NoSuchData),
    (r"autograder/(.+)", NoSuchPage),
]
"""Patterns below the server's base address."""
