"""Code cells that say the same thing in several frameworks become one set of tabs.

A cell tagged ``pytorch``, ``tensorflow`` or ``internals`` belongs to a set with its neighbours of another tag. The
cells stay ordinary top-level cells, so they are executed and keep their real outputs; only the page groups them.
Choosing a framework in one set chooses it in all sets of the site. A set that lacks a framework of
``framework_tabs_required`` is a warning: a reader who chose that framework would find a hole.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx_design.shared import create_component

LABELS = {"internals": "internals", "pytorch": "PyTorch", "tensorflow": "TensorFlow"}
SYNC_GROUP = "framework"

logger = logging.getLogger(__name__)


def framework_of(node: nodes.Node) -> str | None:
    """Return the framework an executed code cell is tagged with, if it is one."""
    if not isinstance(node, nodes.container) or node.get("nb_element") != "cell_code":
        return None
    tagged = [name for name in LABELS if name in node["cell_metadata"].get("tags", [])]
    if len(tagged) > 1:
        logger.warning("framework_tabs: a cell is tagged %s; give it one", " and ".join(tagged), location=node)
    return tagged[0] if tagged else None


def sets_in(parent: nodes.Element) -> list[list[tuple[str, list[nodes.container]]]]:
    """Find the runs of neighbouring tagged cells among the children of `parent`.

    Cells of one framework that follow each other share a tab; a framework that comes back starts the next set.
    """
    found: list[list[tuple[str, list[nodes.container]]]] = []
    run: list[tuple[str, list[nodes.container]]] = []
    for child in [*parent.children, None]:
        name = framework_of(child) if child is not None else None
        if name is not None and run and run[-1][0] == name:
            run[-1][1].append(child)
            continue
        if run and (name is None or name in [seen for seen, _ in run]):
            found.append(run)
            run = []
        if name is not None:
            run.append((name, [child]))
    return found


def tab_set(cells: list[tuple[str, list[nodes.container]]]) -> nodes.container:
    items = []
    for name, members in cells:
        label = nodes.rubric(LABELS[name], "", nodes.Text(LABELS[name]), classes=["sd-tab-label"])
        label["sync_id"] = name
        label["sync_group"] = SYNC_GROUP
        content = create_component("tab-content", classes=["sd-tab-content"], children=members)
        items.append(create_component("tab-item", classes=["sd-tab-item"], children=[label, content], selected=False))
    return create_component("tab-set", classes=["sd-tab-set", "framework-tabs"], children=items)


def group_cells(app: Sphinx, doctree: nodes.document) -> None:
    required = set(app.config.framework_tabs_required)
    for parent in list(doctree.findall(lambda n: isinstance(n, (nodes.section, nodes.document)))):
        for cells in sets_in(parent):
            missing = required - {name for name, _ in cells}
            if missing:
                logger.warning(
                    "framework_tabs: this set of tabs has no cell tagged %s",
                    " or ".join(sorted(missing)),
                    location=cells[0][1][0],
                )
            place = parent.index(cells[0][1][0])
            for _, members in cells:
                for cell in members:
                    parent.remove(cell)
            parent.insert(place, tab_set(cells))


def setup(app: Sphinx) -> dict[str, object]:
    app.setup_extension("sphinx_design")
    app.add_config_value("framework_tabs_required", ["pytorch", "tensorflow"], "env", types=[list])
    app.connect("doctree-read", group_cells)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
