"""The course map as a page, and the box at the end of a chapter that leads to its lab.

``{course-map}`` lists all parts and chapters of ``book/course.yml``. A chapter whose page exists is a link; one that
does not is marked *planned*, so that nothing leads nowhere. ``{lab} labNN_name`` is a box with the lab's title, a
link that opens it in JupyterLab where the site is served by one, and the notebook as a download.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII")
COURSE = "book/course.yml"


@dataclass(frozen=True)
class Chapter:
    id: str
    title: str
    line: str
    backed_by: tuple[str, ...]
    labs: tuple[str, ...]

    @property
    def number(self) -> int:
        return int(self.id.split("_")[0])

    @property
    def page(self) -> str:
        return f"chapters/{self.id}"

    def is_written(self, root: Path) -> bool:
        return (root / f"{self.page}.md").exists()


@dataclass(frozen=True)
class Part:
    number: str
    title: str
    chapters: tuple[Chapter, ...]


def read_course(root: Path) -> list[Part]:
    """Read the parts and chapters of the course from ``book/course.yml`` under `root`."""
    given = yaml.safe_load((root / COURSE).read_text(encoding="utf-8"))
    return [
        Part(
            number,
            part["title"],
            tuple(
                Chapter(c["id"], c["title"], c["line"], tuple(c["backed_by"]), tuple(c["labs"]))
                for c in part["chapters"]
            ),
        )
        for number, part in zip(ROMAN, given["parts"], strict=True)
    ]


def lab_path(root: Path, lab: str) -> Path:
    return root / "labs" / f"{lab}.ipynb"


def lab_title(notebook: Path) -> str:
    """Return the first heading of a notebook."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if cell["cell_type"] == "markdown":
            for line in "".join(cell["source"]).splitlines():
                if line.startswith("# "):
                    return line[2:].strip()
    raise ValueError(f"{notebook}: no cell has a heading that starts with '# '; give the lab a title")


def _planned() -> nodes.inline:
    return nodes.inline("", "planned", classes=["planned"])


class CourseMap(SphinxDirective):
    """``{course-map}``: all parts and chapters, written and planned."""

    def run(self) -> list[nodes.Node]:
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / COURSE))
        # Which chapters and labs exist is not a file that can be depended on.
        self.env.note_reread()
        return [self.part(root, part) for part in read_course(root)]

    def part(self, root: Path, part: Part) -> nodes.section:
        title = f"{part.number}. {part.title}"
        section = nodes.section("", nodes.title(title, title), ids=[f"part-{part.number.lower()}"])
        section += nodes.definition_list("", *[self.chapter(root, c) for c in part.chapters], classes=["course-map"])
        return section

    def chapter(self, root: Path, chapter: Chapter) -> nodes.definition_list_item:
        name = f"{chapter.number}. {chapter.title}"
        term = nodes.term()
        if chapter.is_written(root):
            term += self.link(f"/{chapter.page}", name)
        else:
            term += [nodes.Text(f"{name} "), _planned()]
        about = nodes.paragraph("", chapter.line)
        backing = nodes.paragraph(classes=["course-map-backing"])
        backing += nodes.Text("Backed by ")
        for i, room in enumerate(chapter.backed_by):
            backing += nodes.Text(", " if i else "")
            backing += nodes.Text(room) if room == "the whole" else nodes.literal(room, room)
        for lab in chapter.labs:
            backing += [nodes.Text(" · lab "), nodes.literal(lab, lab)]
            if not lab_path(root, lab).exists():
                backing += [nodes.Text(" "), _planned()]
        return nodes.definition_list_item("", term, nodes.definition("", about, backing))

    def link(self, target: str, text: str) -> addnodes.pending_xref:
        xref = addnodes.pending_xref(
            "",
            refdomain="std",
            reftype="doc",
            reftarget=target,
            refexplicit=True,
            refdoc=self.env.docname,
            refwarn=True,
        )
        xref += nodes.inline("", text, classes=["doc"])
        return xref


class Lab(SphinxDirective):
    """``{lab} labNN_name``: where to do what the chapter explained."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        lab = self.arguments[0]
        notebook = lab_path(Path(self.env.srcdir), lab)
        if not notebook.exists():
            raise self.error(f"lab: labs/{lab}.ipynb does not exist; release it from labs/solutions")
        self.env.note_dependency(str(notebook))
        title = lab_title(notebook)
        box = nodes.admonition("", nodes.title(title, title), classes=["lab"])
        self.state.nested_parse(self.content, self.content_offset, box)
        # The link is filled in by course.js where a Jupyter Server serves the site; elsewhere it stays hidden. The path
        # is what JupyterLab calls it: the classroom's files begin in labs/.
        box += nodes.raw(
            "",
            f'<p><a class="open-in-jupyterlab" data-notebook="{lab}.ipynb" hidden>Open it in JupyterLab</a></p>',
            format="html",
        )
        how = [f"{{download}}`Download the notebook </labs/{lab}.ipynb>`, or in a checkout:", "", "```shell"]
        how += ["make serve", "```"]
        self.state.nested_parse(StringList(how, source=self.env.docname), self.content_offset, box)
        return [box]


def setup(app: Sphinx) -> dict[str, object]:
    app.add_directive("course-map", CourseMap)
    app.add_directive("lab", Lab)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
