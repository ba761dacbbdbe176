"""The runner: what is graded is what the notebook checks, and a fault costs only what it must."""

# ruff: noqa: E501  one case, one line: a table is read by its rows
from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from boxes import AFTER, BEFORE, DRIVERS, KINDS, notebook_around, run, small_lab, task

from autograder import sandbox
from autograder.notebook import Cell, make_cell
from autograder.run import Answer, Died, Missing, Raised, Runner

KIND = KINDS[0]

# The inner loop runs the strongest kind; the others hold the same promises, in `make test`.
EVERY_KIND = [KIND, *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])]


def cells(*sources: str | tuple[str, list[str]]) -> list[Cell]:
    pairs = [(source, []) if isinstance(source, str) else source for source in sources]
    return [make_cell(number, source, tags=tags) for number, (source, tags) in enumerate(pairs, 1)]


def attacked(*sources: str | tuple[str, list[str]], x: object = 3, **options: Any) -> Any:
    return run(cells(*sources), KIND, small_lab(**options) if options else None, x).outcomes["attacked"]


VALUES = [
    None,
    True,
    3,
    2.5,
    "a",
    b"a",
    [1, (2,)],
    {"a": [None]},
    2**100,
    np.arange(6.0).reshape(2, 3)[:, ::-1],
    np.float32(3),
    np.zeros((0, 2)),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_values_go_in_and_come_out(kind: str) -> None:
    with Runner(small_lab(), notebook_around("def f(x): return x"), kind=kind, drivers=DRIVERS) as runner:
        for value in VALUES:
            outcome = runner.call(runner.lab.task("attacked"), {"x": value})
            assert isinstance(outcome, Answer)
            assert type(outcome.value) is type(value)
            np.testing.assert_equal(outcome.value, value)


@pytest.mark.slow
def test_inputs_keep_their_strides() -> None:
    view = np.broadcast_to(np.arange(3.0), (4, 3))[:, ::-1]
    outcome = attacked("def f(x): return list(x.strides)", x=view)
    assert outcome == Answer(list(view.strides))


@pytest.mark.slow
def test_a_name_bound_later_changes_nothing_but_a_note() -> None:
    seen = run(cells("def f(x): return 1", 'check("attacked")', "def f(x): return 2"), KIND)
    assert seen.outcomes["attacked"] == Answer(1)
    assert "bound again in cell 3" in seen.notes["attacked"][0]


@pytest.mark.slow
def test_tasks_asked_for_out_of_order_get_what_their_check_saw() -> None:
    notebook = cells("def f(x): return 1", 'check("attacked")', "def f(x): return 2\n" + BEFORE, 'check("before")')
    with Runner(small_lab(), notebook, kind=KIND, drivers=DRIVERS) as runner:
        assert [each.name for each in runner.tasks] == ["attacked", "before", "after"]
        assert runner.call(runner.lab.task("before"), {"x": 1}) == Answer(2)
        assert runner.call(runner.lab.task("attacked"), {"x": 1}) == Answer(1)


@pytest.mark.slow
def test_skipped_cells_do_not_run() -> None:
    outcome = attacked(
        "def f(x): return 1",
        ("def f(x): return 2", ["training"]),
        ("1 / 0", ["plot"]),
        ("f = None", ["use"]),
        'check("attacked")',
    )
    assert outcome == Answer(1)


@pytest.mark.slow
def test_a_failing_cell_says_so_where_its_name_is_missed() -> None:
    outcome = attacked("x = 1\ny = undefined\ndef f(x): return x")
    assert isinstance(outcome, Missing)
    assert (outcome.names, outcome.cause, outcome.cell) == (("f",), "exception", 1)
    assert "NameError: name 'undefined' is not defined" in outcome.because
    assert "cell 1, line 2" in outcome.traceback


@pytest.mark.slow
def test_an_import_that_only_the_kernel_has_says_so() -> None:
    outcome = attacked("import torch\ndef f(x): return x")
    assert isinstance(outcome, Missing)
    assert "No module named 'torch'. That module is not there while the lab is graded" in outcome.because


@pytest.mark.slow
def test_names_missing_for_other_reasons() -> None:
    assert attacked("g = 1").because == "no cell defines `f`."
    lab = replace(small_lab(), tasks=(task("attacked", "topological_order"), task("other", "topological_orders")))
    misspelt = cells("def topological_orders(): pass", "def topologicalorder(): pass", "def topology(): pass")
    assert run(misspelt, KIND, lab).outcomes["attacked"] == Missing(
        ("topological_order",),
        "no cell defines `topological_order`. Cell 2 defines `topologicalorder`: is that what was meant?",
    )
    skipped = attacked(("def f(x): pass", ["training"]))
    assert skipped.cause == "missing"
    assert "tagged 'training'" in skipped.because
    syntax = attacked("x = 1", "def f(x)\n    pass")
    assert syntax.cause == "syntax"
    assert syntax.cell == 2
    assert "line 1" in syntax.because


@pytest.mark.slow
def test_what_a_cell_bound_before_it_failed_counts() -> None:
    assert attacked("def f(x): return x\n1 / 0") == Answer(3)


@pytest.mark.slow
def test_tracebacks_show_the_learners_lines_only() -> None:
    outcome = attacked(
        "import numpy as np", "def g(x):\n    return np.ones(2) @ np.ones(x)\n\ndef f(x):\n    return g(x)"
    )
    assert isinstance(outcome, Raised)
    assert outcome.type == "ValueError"
    assert (outcome.cell, outcome.line) == (2, 2)
    assert outcome.traceback.splitlines() == [
        "cell 2, line 5, in f",
        "    return g(x)",
        "cell 2, line 2, in g",
        "    return np.ones(2) @ np.ones(x)",
    ]


@pytest.mark.slow
def test_deep_recursion_is_told_in_a_few_lines() -> None:
    outcome = attacked("def f(x):\n    return f(x)")
    assert isinstance(outcome, Raised)
    assert outcome.type == "RecursionError"
    assert len(outcome.traceback.splitlines()) < 30
    assert "more calls" in outcome.traceback


@pytest.mark.slow
def test_errors_in_the_driver_have_no_learners_frame() -> None:
    drivers = "def before(names, x): return 1\ndef after(names, x): return 1\ndef attacked(names, x): raise TypeError('f should return a tuple')\n"
    outcome = run(notebook_around("def f(x): return x"), KIND, drivers=drivers).outcomes["attacked"]
    assert isinstance(outcome, Raised)
    assert outcome.message == "f should return a tuple"
    assert outcome.traceback == ""


@pytest.mark.slow
def test_what_is_printed_is_kept_in_part() -> None:
    assert attacked("def f(x):\n    print('hello')\n    return x") == Answer(3, "hello\n")
    outcome = attacked("def f(x):\n    for _ in range(100_000): print('hello')\n    return x")
    assert isinstance(outcome, Answer)
    assert outcome.cut
    assert 10_000 < len(outcome.printed) <= 20_000


NOTEBOOK_HABITS = {
    "await": "import asyncio\nawait asyncio.sleep(0)\nasync def g(): return 3\nv = await g()\ndef f(x): return v",
    "await-then-run": "import asyncio\nawait asyncio.sleep(0)",
    "time-magic": "%%time\ndef f(x):\n    return x",
    "line-magics": "%matplotlib inline\n%load_ext autoreload\n%autoreload 2\n%config InlineBackend.figure_format = 'svg'\ndef f(x): return x",
    "time-line": "%time v = 3\ndef f(x): return v",
    "display": "display(1, 2)\ndef f(x): return x",
    "stdout-buffer": "import sys\nsys.stdout.buffer.write(b'raw')\nsys.stdout.flush()\ndef f(x): return x",
    "source-of-itself": "import inspect\ndef f(x):\n    return inspect.getsource(f)[:3]",
    "dataclass": "from dataclasses import dataclass\n@dataclass\nclass P:\n    a: int\ndef f(x): return P(x).a",
    "pickle": "import pickle\nclass P: pass\ndef f(x): return type(pickle.loads(pickle.dumps(P()))).__name__",
    "typing": "import typing\ndef g(x: 'int') -> 'int': ...\ndef f(x): return str(typing.get_type_hints(g)['x'])",
    "main": "if __name__ == '__main__':\n    def f(x): return x",
    "temporary-file": "import numpy as np, tempfile, os\ndef f(x):\n    p = os.path.join(tempfile.mkdtemp(), 'a.npy')\n    np.save(p, np.arange(3))\n    return np.load(p).tolist()",
    "threads": "from concurrent.futures import ThreadPoolExecutor\ndef f(x):\n    with ThreadPoolExecutor(4) as pool: return list(pool.map(abs, [-1, 2]))",
    "randomness": "import numpy as np, random\ndef f(x): return int(np.random.default_rng().integers(1) + random.randrange(1))",
}
RESULTS = {
    "source-of-itself": "def",
    "pickle": "P",
    "typing": "<class 'int'>",
    "temporary-file": [0, 1, 2],
    "threads": [1, 2],
    "randomness": 0,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("name", [name for name in NOTEBOOK_HABITS if name != "await-then-run"])
def test_notebooks_run_as_learners_write_them(name: str, kind: str) -> None:
    seen = run(notebook_around(NOTEBOOK_HABITS[name]), kind)
    assert isinstance(seen.outcomes["attacked"], Answer), seen.outcomes["attacked"]
    assert seen.outcomes["attacked"].value == RESULTS.get(name, 3)


IPYTHON_HABITS = {
    "value-of-a-timed-line": "v = %time 1 + 2\ndef f(x): return v",
    "magics-below-a-cell-magic": "%%time\n%matplotlib inline\n%time v = 3\ndef f(x): return v",
    "cell-magics-in-each-other": "%%capture\n%%time\ndef f(x): return x",
    "captured": "%%capture out\nprint(3)\ndef f(x): return int(out.stdout)",
    "no-op-magics-after-real-ones": "%timeit -n1 -r1 1\n%matplotlib inline\n%load_ext autoreload\nget_ipython().run_line_magic('matplotlib', 'widget')\nfrom IPython import get_ipython as g\ng().run_line_magic('matplotlib', 'inline')\ng().enable_gui('qt')\ndef f(x): return x",
    "shown-magics": "get_ipython().run_cell_magic('html', '', '<b>')\n%who\nget_ipython().run_cell_magic('html', '', '<b>')\ndef f(x): return x",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("name", IPYTHON_HABITS)
def test_magics_work_wherever_they_stand(name: str, kind: str) -> None:
    lab = small_lab(packages=("numpy", "ipython"), cell_limit=30.0, total_limit=60.0)
    assert run(notebook_around(IPYTHON_HABITS[name]), kind, lab).outcomes["attacked"].value == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize(
    "command",
    ["get_ipython().run_cell_magic('bash', '', 'ls')", "%pip install x", "!ls", "%ls", "files = !ls", "%sx ls"],
)
def test_other_programs_are_refused_by_a_real_shell_too(command: str, kind: str) -> None:
    lab = small_lab(packages=("numpy", "ipython"), cell_limit=30.0, total_limit=60.0)
    seen = run(notebook_around(f"%who\n{command}\ndef f(x): return x"), kind, lab).outcomes["attacked"]
    assert isinstance(seen, Missing)
    assert seen.cause == "processes"


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_plots_are_headless(kind: str) -> None:
    lab = small_lab(packages=("numpy", "matplotlib"), cell_limit=30.0, total_limit=60.0)
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.title('t'); plt.show(); plt.savefig('a.png')\ndef f(x): return plt.get_backend().lower()"
    assert run(notebook_around(plot), kind, lab).outcomes["attacked"] == Answer("agg")


@pytest.mark.slow
def test_a_death_replays_the_cells_that_worked_and_not_the_one_that_killed() -> None:
    seen = run(
        cells(
            "count = 1",
            "count += 1\n" + BEFORE,
            'check("before")',
            "import os; os._exit(7)\ndef f(x): return x",
            AFTER + "\ndef f(x): return count",
        ),
        KIND,
    )
    assert seen.outcomes["attacked"] == Answer(2)
    assert seen.outcomes["before"] == Answer(4)
    assert seen.outcomes["after"] == Answer(2)


@pytest.mark.slow
def test_a_task_hurt_by_anothers_leftovers_is_asked_again() -> None:
    drivers = (
        DRIVERS
        + "\ndef before(names, x):\n    import sys, os\n    sys.setprofile(lambda frame, *_: os._exit(9) if frame.f_code.co_name == 'f' else None)\n    return 1\n"
    )
    seen = run(notebook_around("def f(x): return x"), KIND, drivers=drivers)
    assert seen.outcomes["attacked"] == Answer(3)


@pytest.mark.slow
def test_a_cell_that_fails_at_what_a_call_left_behind_is_run_again() -> None:
    notebook = cells(
        "import numpy as np\ndef before(x):\n    np.zeros = None\n    return x + 1",
        'check("before")',
        "one = np.zeros(1) + 1\ndef f(x): return x",
        'check("attacked")',
        AFTER,
        "1 / 0",
        'check("after")',
    )
    seen = run(notebook, KIND)
    assert [seen.outcomes[name] for name in ("before", "attacked", "after")] == [Answer(4), Answer(3), Answer(2)]


@pytest.mark.slow
def test_a_notebook_that_ends_its_sandbox_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.run._DEATHS", 2)
    seen = run(cells(BEFORE, 'check("before")', *["import os; os._exit(0)"] * 5, "def f(x): return x"), KIND)
    outcome = seen.outcomes["attacked"]
    assert isinstance(outcome, Missing), outcome
    assert outcome.cause == "exit"
    assert outcome.because == "the notebook ended its sandbox 2 times, so the rest of it was not run."
    assert seen.outcomes["before"] == Answer(4)


@pytest.mark.slow
def test_what_breaks_again_and_again_while_names_are_asked_for_is_given_up() -> None:
    hook = (
        "import builtins\ndef g(o, n, real=getattr, left=[3]):\n    left[0] -= 1\n"
        "    return real(o, n) if left[0] >= 0 else 1 / 0\nbuiltins.getattr = g\n"
    )
    seen = run(notebook_around(hook + "def f(x): return x"), KIND)
    assert seen.outcomes["before"] == Answer(4)
    for name in ("attacked", "after"):
        outcome = seen.outcomes[name]
        assert isinstance(outcome, Missing), outcome
        assert "replaced a part of Python that the grader needs too (ZeroDivisionError" in outcome.because


@pytest.mark.slow
def test_the_notebook_as_a_whole_has_a_limit() -> None:
    started = time.monotonic()
    seen = run(cells(BEFORE, *["while True: pass"] * 10, "def f(x): return x"), KIND, small_lab(total_limit=3.0))
    outcome = seen.outcomes["attacked"]
    assert isinstance(outcome, Missing), outcome
    assert outcome.cause == "time", outcome
    assert seen.outcomes["before"] == Answer(4)
    assert time.monotonic() - started < 3 + 2 + 6  # seven starts of a sandbox on a busy machine


@pytest.mark.slow
def test_a_wrong_driver_is_our_fault_not_the_learners() -> None:
    with (
        Runner(small_lab(), notebook_around("f = 1"), kind=KIND, drivers="def before(:") as runner,
        pytest.raises(RuntimeError, match="fail to load"),
    ):
        runner.call(runner.lab.task("attacked"), {"x": 1})


@pytest.mark.slow
def test_a_sandbox_that_does_not_start_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.sandbox.box.BOX_FILES", ("/nonexistent/frames.py", "/nonexistent/worker.py"))
    with (
        Runner(small_lab(), notebook_around("f = 1"), kind=KIND, drivers=DRIVERS) as runner,
        pytest.raises(sandbox.SandboxUnavailable, match="does not start"),
    ):
        runner.call(runner.lab.task("attacked"), {"x": 1})


@pytest.mark.slow
def test_a_spare_sandbox_is_used_as_it_is() -> None:
    with (
        sandbox.Pool(small_lab(), kind=KIND) as pool,
        Runner(small_lab(), notebook_around("def f(x): return x"), drivers=DRIVERS, box=pool.take()) as runner,
    ):
        assert runner.call(runner.lab.task("attacked"), {"x": 1}) == Answer(1)


@pytest.mark.slow
def test_text_from_inside_steers_no_terminal() -> None:
    outcome = attacked(
        "def f(x):\n    print('\\x1b[2J\\u202eab')\n    raise ValueError('\\x1b]0;a\\x07 \\u2066 \u00e9')"
    )
    assert isinstance(outcome, Raised)
    assert outcome.message == "\\x1b]0;a\\x07 \\u2066 \u00e9"
    assert outcome.printed == "\\x1b[2J\\u202eab\n"


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize(
    ("fault", "cause"),
    [("y = x\n    while True: y += 1", "time"), ("import ctypes\n    ctypes.string_at(0)", "signal")],
)
def test_where_it_hung_or_crashed_is_told(kind: str, fault: str, cause: str) -> None:
    outcome = run(notebook_around(f"def g(x):\n    {fault}\n\ndef f(x):\n    return g(x)"), kind).outcomes["attacked"]
    assert isinstance(outcome, Died)
    assert outcome.cause == cause
    assert outcome.detail.endswith("(it was at cell 4, line 3, in g)"), outcome.detail


@pytest.mark.slow
def test_died_tells_which_cell() -> None:
    with Runner(small_lab(), notebook_around("import os; os._exit(3)"), kind=KIND, drivers=DRIVERS) as runner:
        runner.reach(runner.lab.task("attacked"))
        assert runner.failures == {4: Died("exit", "ended Python itself (exit status 3)", 4)}
