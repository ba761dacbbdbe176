"""The command line: ``autograder check | grade | release | submit | doctor | oracles | gradebook``.

The instructor's ``deadline | extend | adjust | export`` are in `autograder.gradebook.commands`.

Nothing heavy is imported before a command needs it. Errors are one line on stderr; AUTOGRADER_DEBUG=1 shows tracebacks.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from autograder import cli_authors
from autograder.gradebook import commands as deciding
from autograder.gradebook import reading
from autograder.notices import commands as telling
from autograder.output import (
    WRONG_USE,
    Refusal,
    complain,
    page_paths,
    printable,
    progress,
    progress_done,
    say,
    write_file,
)
from autograder.queue import commands as queueing
from classroom import commands as class_commands

if TYPE_CHECKING:
    from autograder.grade import Grader
    from autograder.notebook import Notebook
    from autograder.report import Report
    from autograder.spec import Lab

FULL, NOT_FULL, INTERRUPTED = 0, 1, 130


def commands(words: str) -> typer.Typer:
    """A set of commands without Rich, which takes longer to import than the help takes to print."""
    return typer.Typer(
        help=words, rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True
    )


app = commands("Grade labs against PyTorch and TensorFlow, and explain what is wrong.")
oracles_app = commands("The long-lived framework processes that know the right answers.")
gradebook_app = commands("Submissions and grades.")
class_app = commands("The people of a hub's class: see `make hub`.")
nbgrader_app = commands("Labs as assignments of an nbgrader course, and assignments as labs.")
written_app = commands("Answers in words, which a person reads.")
app.add_typer(oracles_app, name="oracles")
app.add_typer(gradebook_app, name="gradebook")
app.add_typer(class_app, name="class")
app.add_typer(written_app, name="written")
app.add_typer(nbgrader_app, name="nbgrader")
nbgrader_app.command(name="export")(cli_authors.export_nbgrader)
nbgrader_app.command(name="import")(cli_authors.import_nbgrader)
app.command(name="lint-specs")(cli_authors.lint_specs)
app.command()(cli_authors.luck)
app.command(name="new-lab")(cli_authors.new_lab)
app.command()(cli_authors.similarity)


def version_asked(asked: bool) -> None:
    if asked:
        from importlib import metadata

        try:
            print(f"autograder {metadata.version('framework-internals')}")
        except metadata.PackageNotFoundError:
            print("autograder, from a source tree that is not installed")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=version_asked, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command."""


Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Notebooks.")]
LabName = Annotated[str, typer.Option("--lab", help="The lab, where the notebook does not say.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Draw the cases of an earlier report again.")]
Kind = Annotated[
    str, typer.Option("--sandbox", metavar="KIND", help="bubblewrap or landlock; the strongest, if not given.")
]


Gradebook = Annotated[str, typer.Option("--gradebook", metavar="WHERE", help="A file or address; yours, if not given.")]


@app.command()
def check(
    task: Annotated[str, typer.Argument(help="The task's name.")],
    notebook: Annotated[
        Path | None, typer.Option("--notebook", metavar="FILE", help="If there are several here.")
    ] = None,
    seed: Seed = None,
    kind: Kind = "",
) -> None:
    """Try one task of a notebook, as check("task") in the notebook does."""
    start_oracles()
    from autograder.grade import GradeError, find_lab
    from autograder.gradebook import place
    from autograder.hints import open_hints

    file, read = the_notebook(task, notebook)
    grader = make_grader("practice", kind, seed)
    try:
        lab = find_lab(read, None)
        lab.ask([task])
        report = grader.grade_notebook(read, os.fspath(file), tasks=[task])
        open_hints(report, lab, read, learner=place.learner_name(), folder=place.home() / "hints")
    except (GradeError, ValueError) as error:
        raise Refusal(str(error)) from None
    progress_done()
    show(report)
    raise typer.Exit(FULL if report.nothing_lost else NOT_FULL)


@app.command()
def grade(
    files: Files,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reports as JSON, a list.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="OUT", help="Write feedback pages: a file, or a directory for many."),
    ] = None,
    lab: LabName = "",
    seed: Seed = None,
    kind: Kind = "",
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="Notebooks graded at a time.")] = 2,
    practice: Annotated[bool, typer.Option("--practice", help="Mark the report as practice, not official.")] = False,
) -> None:
    """Grade notebooks. Exit code 0: full marks for every file; 1: not; 2: a file could not be graded.

    An answer in words that waits for a person counts as neither: the code is about what is graded here.
    """
    pages = page_paths(files, html)
    start_oracles()
    from autograder.grade import GradeError, grade_files, named_lab

    grader = make_grader("practice" if practice else "official", kind, seed)
    try:
        chosen = named_lab(lab or None)
    except GradeError as error:
        raise Refusal(str(error)) from None
    code, rows = FULL, []
    for file, outcome in zip(files, grade_files(files, chosen, workers=workers, grader=grader), strict=True):
        progress_done()
        if isinstance(outcome, GradeError):
            words = str(outcome)
            if words.startswith(f"{file.name}:"):  # several files may have the same name
                words = os.fspath(file) + words[len(file.name) :]
            complain(words)
            rows.append({"file": os.fspath(file), "error": words})
            code = WRONG_USE
            continue
        code = max(code, FULL if outcome.nothing_lost else NOT_FULL)
        rows.append(json.loads(outcome.to_json()))
        if not as_json:
            show(outcome) if len(files) == 1 else show_line(outcome)
        if html:
            from autograder.feedback import page

            write_file(pages[file], page(outcome))
    if as_json:
        say(json.dumps(rows, ensure_ascii=False, indent=2))
    raise typer.Exit(code)


@app.command()
def release(
    labs: Annotated[list[str] | None, typer.Argument(metavar="[LAB...]", help="Which; all, if none is named.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; say which are out of step.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a notebook that somebody worked in.")] = False,
) -> None:
    """Write the learners' notebooks from the solutions."""
    from autograder import release as releasing

    raise typer.Exit(releasing.main([*(["--check"] if check else []), *(["--force"] if force else []), *(labs or [])]))


@app.command()
def submit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The notebook to hand in.")],
    lab: LabName = "",
    gradebook: Gradebook = "",
) -> None:
    """Hand a notebook in: it is stored, then graded."""
    start_oracles()
    from autograder.submission import SubmissionError, submit_file

    try:
        submitted = submit_file(file, lab or None, gradebook or None, say=say, progress=progress)
    except SubmissionError as error:
        raise Refusal(str(error)) from None
    progress_done()
    if submitted.report is None:
        raise Refusal(f"it is stored, but could not be graded yet: {submitted.reason}")
    show(submitted.report, submitted=True)
    raise typer.Exit(FULL if submitted else NOT_FULL)


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False) -> None:
    """Say what this machine can do, and how to get what is missing."""
    from autograder import doctor as examining

    raise typer.Exit(examining.main(["--json"] if as_json else []))


@oracles_app.command()
def start() -> None:
    """Start the processes in the background."""
    from autograder import oracles

    for framework in oracles.FRAMEWORKS:
        try:
            started = oracles.launch(framework)
        except (oracles.OracleError, oracles.RuntimeUnsafe) as error:
            raise Refusal(str(error)) from None
        say(f"{framework}: {'starting' if started else 'runs already'}")


@oracles_app.command()
def stop() -> None:
    """End the processes."""
    from autograder import oracles

    ended = oracles.stop()
    say(f"Ended: {', '.join(ended)}." if ended else "None was running.")


@oracles_app.command()
def status() -> None:
    """Say which processes there are. Exit code 0 if all are ready."""
    from autograder import oracles

    found = {one["framework"]: one for one in oracles.running()}
    for framework in oracles.FRAMEWORKS:
        one = found.get(framework)
        if one is None:
            say(f"{framework}: not running")
        else:
            detail = one["error"] or f"{one['served']} requests served, idle for {one['idle']:.0f} s"
            say(f"{framework} {one['release']}: {one['state']}, process {one['pid']}, {detail}")
    ready = all(found.get(framework, {}).get("state") == "ready" for framework in oracles.FRAMEWORKS)
    raise typer.Exit(FULL if ready else NOT_FULL)


@gradebook_app.command()
def export(
    lab: Annotated[str, typer.Option("--lab", help="Only this lab.")] = "",
    gradebook: Gradebook = "",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="A CSV file; stdout, if not given.")] = None,
) -> None:
    """Write every submission and its marks as CSV."""
    import io

    from autograder.gradebook import GradebookError, export_csv, open_gradebook

    rows = io.StringIO(newline="")
    try:
        with open_gradebook(gradebook or None) as book:
            export_csv(book, rows, lab=lab or None)
    except GradebookError as error:
        raise Refusal(str(error)) from None
    if out is None:
        say(rows.getvalue().rstrip("\r\n"))
    else:
        write_file(out, rows.getvalue())


deciding.add_to(app)
class_commands.add_to(class_app)
queueing.add_to(app)
telling.add_to(app)
reading.add_to(written_app)


# --- parts of commands ------------------------------------------------------------------------------


def start_oracles() -> None:
    """As early as a command knows that it will grade; returns at once."""
    from autograder.oracles.starting import launch_all

    launch_all()


def make_grader(mode: str, kind: str, seed: int | None) -> Grader:
    from autograder import sandbox
    from autograder.grade import Grader

    if kind and kind not in sandbox.kinds():
        there = " or ".join(sandbox.kinds()) or "none; see `autograder doctor`"
        raise Refusal(f"--sandbox {kind}: this machine has no such sandbox; it has {there}.")
    if seed is not None and not 0 <= seed < 2**32:
        raise Refusal(f"--seed {seed}: give a whole number from 0 to {2**32 - 1}, as reports show it.")
    return Grader(
        mode="practice" if mode == "practice" else "official", kind=kind or None, seed=seed, progress=progress
    )


def the_notebook(task: str, file: Path | None) -> tuple[Path, Notebook]:
    """The notebook that is meant: the one given, or the only one here that belongs to a lab with this task."""
    from autograder.grade import find_lab
    from autograder.notebook import NotebookError, read_notebook

    if file is not None:
        try:
            return file, read_notebook(file)
        except NotebookError as error:
            raise Refusal(str(error)) from None
    found, labs = [], []
    for path in sorted(Path().glob("*.ipynb")):
        try:
            read = read_notebook(path)
            lab: Lab = find_lab(read, None)
        except (NotebookError, ValueError):
            continue  # not a lab's; it is no candidate
        labs.append(lab)
        if task in {one.name for one in lab.parts}:
            found.append((path, read))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(path.name for path, _ in found)
        raise Refusal(f"several notebooks here have a task {task!r}: {names}. Name one with --notebook.")
    if labs:
        known = ", ".join(one.name for one in labs[0].parts)
        raise Refusal(f"no notebook here has a task {task!r}; {labs[0].name} has {known}.")
    raise Refusal("there is no lab's notebook in this directory. Name one with --notebook.")


def show(report: Report, *, submitted: bool = False) -> None:
    from autograder.feedback import show as show_report

    show_report(report, submitted=submitted)


def show_line(report: Report) -> None:
    """One line per notebook, when there are many."""
    rest = ", ".join(f"{task.name}: {task.verdict}" for task in report.tasks if task.verdict != "right")
    say(f"{report.points:g}/{report.max_points:g}  {printable(report.file)}{'  ' + rest if rest else ''}")


def main() -> NoReturn:
    """Run the command that was typed."""
    # A command lives for seconds; at the default, Python would look for garbage hundreds of times during its imports.
    gc.set_threshold(50_000)
    code = run(sys.argv[1:])
    if code == INTERRUPTED:
        # Python would first wait for the threads that grade; their sandboxes end with this process.
        os._exit(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command; its exit code. Never raises, unless AUTOGRADER_DEBUG=1 asks for it."""
    debug = os.environ.get("AUTOGRADER_DEBUG") == "1"
    try:
        code = typer.main.get_command(app).main(arguments, prog_name="autograder", standalone_mode=False)
        sys.stdout.flush()
    except Refusal as refusal:
        complain(str(refusal))
        return refusal.code
    except (BrokenPipeError, SystemExit):  # the parser turns a broken pipe into an exit, and only that
        return lost_output("the reader of the output went away before all of it was written")
    except OSError as error:
        if debug:
            raise
        return lost_output(
            f"{error.filename}: {error.strerror}" if error.filename else f"output: {error.strerror or error}"
        )
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            say(str(error))
            return WRONG_USE
        if hasattr(error, "format_message"):  # the command-line parser's own errors
            complain(error.format_message())
            return WRONG_USE
        if debug:
            raise
        complain(f"a fault in the autograder: {type(error).__name__}: {error} (AUTOGRADER_DEBUG=1 shows where)")
        return WRONG_USE
    if code == INTERRUPTED:
        complain("interrupted")
    return code if isinstance(code, int) else FULL


def lost_output(message: str) -> int:
    """Say so, and keep the interpreter from failing once more as it flushes stdout on its way out."""
    complain(message)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return WRONG_USE
