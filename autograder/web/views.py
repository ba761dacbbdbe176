"""What the pages show, as HTML. Knows gradebook and feedback, and nothing of HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from autograder import spec
from autograder.feedback import html, words
from autograder.gradebook import Gradebook, queries
from autograder.gradebook.queries import Graded

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Links:
    """Where things are on this server; every address ends up in an attribute of a page."""

    grades: str
    lab: str
    book: str

    def submission(self, number: int, ending: str = "") -> str:
        return f"{self.grades}submission/{number}{ending}"


@dataclass
class LabView:
    """One lab as its learner sees it."""

    name: str
    title: str
    notebook: str
    tasks: list[tuple[str, str, float]] = field(default_factory=list)
    """(name, title, points), in the order of the lab."""
    best: Graded | None = None
    submissions: list[Graded] = field(default_factory=list)

    @property
    def points(self) -> float:
        return sum(points for _, _, points in self.tasks)

    def verdict(self, task: str) -> tuple[str, str, str, float] | None:
        """(verdict, sign, word, points) of a task in the best submission."""
        for name, verdict, points, _ in self.best.tasks if self.best else ():
            if name == task:
                return verdict, *words.verdict_word(verdict), points
        return None


def when(moment: datetime) -> str:
    """A moment on this machine's clock."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M %Z")


@cache
def _templates() -> Environment:
    env = html.environment(TEMPLATES)
    env.filters["when"] = when
    return env


def policy() -> str:
    """The content security policy of a page without scripts."""
    return (
        f"default-src 'none'; style-src {html.source_hash(html.asset('page.css'))}; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def render(template: str, links: Links, **values: object) -> str:
    css = Markup(html.asset("page.css"))
    return _templates().get_template(template).render(links=links, css=css, **values)


def lab_views(book: Gradebook, learner: str, notebooks: Path) -> list[LabView]:
    """The labs there are, and those handed in that are there no more, with what `learner` got."""
    handed_in = queries.submissions(book, learner=learner)
    names = spec.lab_names()
    names += sorted({one.lab for one in handed_in} - set(names))
    views = []
    for name in names:
        view = LabView(name, name, f"{name}.ipynb" if (notebooks / f"{name}.ipynb").is_file() else "")
        if name in spec.lab_names():
            lab = spec.load_lab(name)
            view.title = lab.title
            view.tasks = [(task.name, task.title, task.points) for task in lab.tasks]
        view.submissions = [one for one in handed_in if one.lab == name]
        view.best = queries.best_of(view.submissions)
        views.append(view)
    return views


def overview(book: Gradebook, learner: str, links: Links, notebooks: Path) -> str:
    """The page with all labs of one learner."""
    return render("overview.html", links, learner=learner, labs=lab_views(book, learner, notebooks))


def feedback(book: Gradebook, one: Graded, links: Links) -> str:
    """The page of one submission: its feedback, or that it waits for a grade."""
    ways = [
        (links.grades, "All labs"),
        (links.lab, "JupyterLab"),
        (links.submission(one.id, ".ipynb"), "The notebook as handed in"),
        (links.submission(one.id, ".json"), "This report as JSON"),
    ]
    report = queries.report(book, one.id)
    if report is None:
        return render("waiting.html", links, one=one, ways=ways[:3])
    return html.page(report, ways, submitted=True)


def message(links: Links, title: str, text: str, command: str = "") -> str:
    """A page that says one thing, such as why there is no other page."""
    return render("message.html", links, title=title, text=text, command=command)
