"""What instructors and graders open. For everyone else there is no such page."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Sequence
from typing import Any, TextIO
from zoneinfo import available_timezones

from autograder import spec
from autograder.feedback.catalogue import say
from autograder.gradebook import Gradebook, GradebookError, export, lti, queries, written
from autograder.web import classes, people, views
from autograder.web.acts import ACTS, SAID, Act
from autograder.web.forms import Form, FormError
from autograder.web.page import STAFF, LearnerPage, Refusal, attachment
from autograder.web.plain import plain


class ClassPage(LearnerPage):
    """A page for those who teach; its forms come back to it."""

    alone = True
    may = STAFF

    async def prepare(self) -> None:
        await super().prepare()
        if self._finished:
            return
        self.held = await self.roles()
        if not self.held & self.may:
            raise Refusal(404, say("refusal.no_page"))

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("X-Frame-Options", "DENY")

    @property
    def number(self) -> int:
        """Which page of several is asked for."""
        text = self.get_query_argument("page", "1")
        return max(int(text), 1) if text.isdecimal() and len(text) < 8 else 1

    def asked(self, name: str) -> str:
        """What the address asks for, cut to what a name may have."""
        return self.get_query_argument(name, "")[:255]

    def show(
        self,
        template: str,
        *,
        status: int = 200,
        fault: str = "",
        typed: dict[str, str] | None = None,
        made: Sequence[tuple[str, str]] = (),
        done: str = "",
        **found: Any,
    ) -> None:
        self.set_status(status)
        self.set_header("Content-Security-Policy", views.policy(views.TIMES, forms=True, framed=False))
        self.finish(
            views.render(
                f"class/{template}",
                self.links,
                views.TIMES,
                token=self.form_token,
                teaches="instructor" in self.held,
                said=SAID.get(done or self.asked("said"), ""),
                made=made,
                fault=fault,
                typed=typed or {},
                here=self.request.path,
                **found,
            )
        )

    @property
    def acts(self) -> dict[str, Act]:
        """What forms may ask for here, by the name in their field ``do``."""
        desk = people.Desk(self.rooms.passwords)
        more = {name: Act(getattr(desk, name)) for name in people.FORMS}
        return ACTS | more | {"compare": Act(self.rooms.comparisons.begin, STAFF)}

    def typed(self, name: str) -> str:
        return self.field(name, people.LONGEST_LIST if name == "rows" else 4000)

    async def post(self, *parts: str) -> None:
        """Do what the form says, and send the browser on, so that loading the page again does nothing again."""
        act = self.acts.get(self.field("do", 40))
        if act is None:
            raise Refusal(400, "This form asks for nothing that there is.")
        if not act.may & self.held:
            raise Refusal(403, "Only instructors may do that; graders read, score and adjust.")
        form, by = Form(self.typed), self.learner
        typed = {name: self.typed(name) for name in self.request.body_arguments if name != "_xsrf"}

        def change() -> str | people.Told:
            with self.rooms.open() as book:
                try:
                    return act.do(book, form, by)
                except GradebookError as error:
                    if error.__cause__ is not None:  # the database's fault, not what was typed
                        raise
                    raise FormError(str(error).removeprefix(f"gradebook {book.where}: ")) from error

        try:
            done = await asyncio.to_thread(change)
        except FormError as error:
            await self.page(*parts, fault=str(error), typed=typed, status=400)
        except GradebookError as error:
            raise Refusal(503, str(error)) from error
        else:
            if isinstance(done, people.Told) and done.passwords:
                # No redirect: what is shown once stands in no address, and is kept nowhere for another page.
                await self.page(*parts, made=done.passwords, done=done.said)
            else:
                self.redirect(self.after(done.said if isinstance(done, people.Told) else done), status=303)

    def after(self, said: str) -> str:
        """Where to go on; the same page, which says what was done."""
        asked = {name: self.asked(name) for name in ("name", "page") if self.asked(name)}
        path = self.request.path.removeprefix(self.links.of_class())
        return self.links.of_class(path, **asked, said=said)

    async def page(self, *parts: Any, **more: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} shows nothing")

    async def get(self, *parts: str) -> None:
        await self.page(*parts)


class ClassSlash(ClassPage):
    async def page(self, **more: Any) -> None:
        self.redirect(self.links.of_class())


class ClassOverview(ClassPage):
    async def page(self, **more: Any) -> None:
        number, wanted, by_default = self.number, self.asked("q"), self.rooms.open_by_default
        found = await self.reading(lambda book: classes.overview(book, number, wanted, open_by_default=by_default))
        self.show("overview.html", **found, **more)


class ClassLab(ClassPage):
    async def page(self, lab: str, **more: Any) -> None:
        number, by_default = self.number, self.rooms.open_by_default
        found = await self.reading(lambda book: classes.lab(book, lab, number, open_by_default=by_default))
        if found is None:
            raise Refusal(404, f"There is no lab {lab[:60]!r}.")
        zones = sorted(available_timezones())
        self.show("lab.html", zones=zones, as_local=classes.as_local, is_past=classes.is_past, **found, **more)


class ClassLearner(ClassPage):
    async def page(self, **more: Any) -> None:
        name = self.asked("name")
        found = await self.reading(lambda book: classes.learner(book, name))
        if found is None:
            raise Refusal(404, f"Nobody is called {name[:60]!r}.")
        has_passwords = self.rooms.passwords is not None
        self.show("learner.html", as_local=classes.as_local, has_passwords=has_passwords, **found, **more)


class ClassPeople(ClassPage):
    may = frozenset({"instructor"})

    async def page(self, **more: Any) -> None:
        number, wanted, passwords = self.number, self.asked("q"), self.rooms.passwords
        found = await self.reading(lambda book: people.listed(book, wanted, passwords))
        self.show(
            "people.html", page=classes.Page.of(found.pop("people"), number), most=people.MOST_ROWS, **found, **more
        )


class ClassSimilarity(ClassPage):
    """Who shares code with whom: what the last comparison found, and a form that begins another."""

    async def page(self, lab: str, **more: Any) -> None:
        if lab not in spec.lab_names():
            raise Refusal(404, f"There is no lab {lab[:60]!r}.")
        comparisons = self.rooms.comparisons
        last = await asyncio.to_thread(comparisons.last, lab)
        pairs = classes.Page.of(last.found["pairs"] if last else [], self.number, 20)
        self.show(
            "similarity.html",
            lab=lab,
            title=classes.title_of(lab),
            last=last,
            page=pairs,
            running=comparisons.running,
            broken=comparisons.fault(lab),
            **more,
        )


class ClassSubmission(ClassPage):
    async def page(self, number: str, **more: Any) -> None:
        seen = await self.reading(lambda book: classes.submission(book, int(number)))
        if seen is None:
            raise Refusal(404, f"There is no submission {number}.")
        self.show("submission.html", seen=seen, title=classes.title_of(seen.one.lab), **more)


class ClassNotebook(ClassPage):
    """The notebook as plain text: nothing that a learner wrote is rendered here."""

    async def page(self, number: str, **more: Any) -> None:
        one = await self.reading(lambda book: queries.submission(book, int(number)))
        data = await self.reading(lambda book: queries.notebook(book, int(number)))
        if one is None or data is None:
            raise Refusal(404, f"There is no submission {number}.")
        self.show("notebook.html", one=one, found=await asyncio.to_thread(plain, data), **more)


class ClassNotebookFile(ClassPage):
    async def page(self, number: str, **more: Any) -> None:
        one = await self.reading(lambda book: queries.submission(book, int(number)))
        data = await self.reading(lambda book: queries.notebook(book, int(number)))
        if one is None or data is None:
            raise Refusal(404, f"There is no submission {number}.")
        self.set_header("Content-Type", "application/x-ipynb+json")
        self.set_header("Content-Disposition", attachment(f"{one.lab}-{one.learner}-{one.id}.ipynb"))
        self.finish(data)


class ClassQueue(ClassPage):
    async def page(self, **more: Any) -> None:
        number, lab, learner = self.number, self.asked("lab"), self.asked("learner")
        self.show("queue.html", **await self.reading(lambda book: classes.queue(book, number, lab, learner)), **more)


class ClassAudit(ClassPage):
    async def page(self, **more: Any) -> None:
        number, lab, learner = self.number, self.asked("lab"), self.asked("learner")
        found = await self.reading(lambda book: classes.changes(book, number, lab, learner))
        self.show("audit.html", facts=classes.facts, **found, **more)


class ClassWritten(ClassPage):
    async def page(self, **more: Any) -> None:
        lab = self.asked("lab")
        rows = await self.reading(lambda book: written.awaited(book, lab=lab or None))
        self.show("written.html", page=classes.Page.of(rows, self.number), lab=lab, **more)


Writer = Callable[[Gradebook, TextIO, str | None], int]
TABLES: dict[str, Writer] = {
    "marks": lambda book, out, lab: export.marks_csv(book, out, lab=lab),
    "tasks": lambda book, out, lab: export.tasks_csv(book, out, lab=lab or ""),
    "submissions": lambda book, out, lab: queries.export_csv(book, out, lab=lab),
    "audit": lambda book, out, lab: export.audit_csv(book, out, lab=lab),
}


class ClassTable(ClassPage):
    """A table as CSV."""

    async def page(self, kind: str, **more: Any) -> None:
        write, lab = TABLES.get(kind), self.asked("lab") or None
        if write is None or (kind == "tasks" and lab is None):
            raise Refusal(404, say("refusal.no_page"))
        out = io.StringIO(newline="")
        await self.reading(lambda book: write(book, out, lab))
        self.set_header("Content-Type", "text/csv; charset=UTF-8")
        self.set_header("Content-Disposition", attachment(f"{kind}-{lab}.csv" if lab else f"{kind}.csv"))
        self.finish(out.getvalue())


class ClassScores(ClassPage):
    """The scores of a lab as a learning platform takes them."""

    may = frozenset({"instructor"})

    async def page(self, lab: str, **more: Any) -> None:
        going = await self.reading(lambda book: lti.outgoing(book, lab))
        told = {"lineItem": going.line_item, "scores": going.scores, "withoutId": going.without_id}
        self.set_header("Content-Type", "application/json")
        self.set_header("Content-Disposition", attachment(f"{lab}-lti.json"))
        self.finish(json.dumps(told, indent=2))


RULES: list[tuple[str, type[LearnerPage]]] = [
    (r"autograder/class", ClassSlash),
    (r"autograder/class/", ClassOverview),
    (r"autograder/class/lab/([a-z0-9_]{1,100})", ClassLab),
    (r"autograder/class/learner", ClassLearner),
    (r"autograder/class/people", ClassPeople),
    (r"autograder/class/similarity/([a-z0-9_]{1,100})", ClassSimilarity),
    (r"autograder/class/submission/([0-9]{1,15})", ClassSubmission),
    (r"autograder/class/submission/([0-9]{1,15})/notebook", ClassNotebook),
    (r"autograder/class/submission/([0-9]{1,15})/file", ClassNotebookFile),
    (r"autograder/class/queue", ClassQueue),
    (r"autograder/class/audit", ClassAudit),
    (r"autograder/class/written", ClassWritten),
    (r"autograder/class/export/([a-z]{1,20})\.csv", ClassTable),
    (r"autograder/class/export/([a-z0-9_]{1,100})-lti\.json", ClassScores),
]
