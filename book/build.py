"""Build the site: ``python book/build.py`` (what ``make book`` runs).

It puts the assets that come from npm where the pages find them, runs Jupyter Book with warnings as errors, shows what
it is doing, and ends with one line: where the site is, or what stands in the way. The whole log is in
``book/_build/build.log``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
SITE = BOOK / "_build" / "html"
DOCTREES = BOOK / "_build" / ".doctrees"
LOG = BOOK / "_build" / "build.log"
MATHJAX = ROOT / "node_modules" / "mathjax"
# What a page with formulas can ask MathJax for: the engine, its fonts, TeX packages loaded on use, and speech.
MATHJAX_PARTS = ("tex-mml-chtml.js", "output/chtml/fonts", "input/tex/extensions", "a11y", "sre")

COMMAND = ["build", ".", "--config", "_config.yml", "--toc", "book/_toc.yml", "--path-output", "book"]
STRICT = ["-W", "-n", "--keep-going"]
ANSI = re.compile(r"\x1b\[[0-9;]*m")
# Sphinx's and docutils' reports; a kernel's own log lines start with "[".
PROBLEM = re.compile(
    r"^(?!\[).*\b(WARNING|ERROR|CRITICAL|SEVERE): |^\w*(Error|Exception): "
    r"|^(Extension|Sphinx|Configuration) error|^Exception occurred:"
)
PROGRESS = re.compile(r"^(reading sources|writing output)\.\.\. \[ *\d+%\] (?P<page>\S+)|Executing notebook")


TRACEBACK = re.compile(r"^(?P<page>\S+): WARNING: Notebook exception traceback saved in: (?P<report>\S+)")


class CannotBuild(Exception):
    """The site can't be built; the message is one line that says why and what to do."""


def install_assets() -> None:
    """Copy MathJax from npm's folder to ``book/_static/mathjax``, fetching it first where it is missing."""
    wanted = _mathjax_version(ROOT / "package-lock.json")
    if not (MATHJAX / "es5" / MATHJAX_PARTS[0]).exists():
        npm = shutil.which("npm")
        if npm is None:
            raise CannotBuild(
                "npm is not installed, and the formulas need MathJax from it; install Node.js 18 or newer"
            )
        print("book: fetching MathJax with npm ci", flush=True)
        done = subprocess.run(
            [npm, "ci", "--no-audit", "--no-fund"], cwd=ROOT, check=False, capture_output=True, text=True
        )
        if done.returncode:
            reason = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise CannotBuild(f"npm ci failed: {reason[0]}")
    target = BOOK / "_static" / "mathjax"
    stamp = target / "VERSION"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(target, ignore_errors=True)
    for part in MATHJAX_PARTS:
        source = MATHJAX / "es5" / part
        (target / part).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target / part)
        else:
            shutil.copy2(source, target / part)
    stamp.write_text(wanted)


def _mathjax_version(lock: Path) -> str:
    return json.loads(lock.read_text())["packages"]["node_modules/mathjax"]["version"]


def run_jupyter_book(extra: list[str]) -> tuple[int, list[str]]:
    """Run the build; show a line per page; return the exit status and the lines that report a problem."""
    program = shutil.which("jupyter-book", path=os.path.dirname(sys.executable))
    if program is None:
        raise CannotBuild("jupyter-book is not installed beside this Python; run: pip install -e '.[book,frameworks]'")
    LOG.parent.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    with (
        LOG.open("w", encoding="utf-8") as log,
        subprocess.Popen(
            [program, *COMMAND, *STRICT, *extra],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        for raw in process.stdout:
            line = ANSI.sub("", raw.split("\r")[-1]).rstrip()
            log.write(line + "\n")
            if problems and problems[-1].endswith(":") and line.strip():
                problems[-1] += f" {line.strip()}"  # Sphinx reports an error's heading and its message on two lines
                print(f"    {line.strip()}", flush=True)
            elif PROBLEM.search(line):
                if saved := TRACEBACK.search(line):
                    line = f"{saved['page']} failed: {_last_line(Path(saved['report']))}"
                problems.append(line)
                print(f"  {line}", flush=True)
            elif match := PROGRESS.search(line):
                print(f"  {'executing' if match['page'] is None else match[1] + ' ' + match['page']}", flush=True)
    return process.returncode, problems


def _last_line(report: Path) -> str:
    """What the failed cell raised."""
    lines = [ANSI.sub("", line).strip() for line in report.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line][-1]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the site into book/_build/html.")
    parser.add_argument("--all", action="store_true", help="build every page again, changed or not")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    try:
        install_assets()
        status, problems = run_jupyter_book(["--all"] if options.all else [])
        if status:
            # Sphinx warns about a page when it reads it; a page that warned must be read again until it no longer does.
            shutil.rmtree(DOCTREES, ignore_errors=True)
            problems = [line for line in problems if "Executing notebook failed" not in line]  # the next line says why
            problems.sort(key=lambda line: ".md failed: " not in line)
            first = problems[0] if problems else f"jupyter-book ended with status {status}"
            many = f"{len(problems)} problems, the first: " if len(problems) > 1 else ""
            raise CannotBuild(f"{many}{first} (log: {LOG.relative_to(ROOT)})")
    except (CannotBuild, OSError) as reason:
        print(f"book: not built: {reason}", file=sys.stderr)
        return 1
    print(f"book: {SITE.relative_to(ROOT)}/index.html, {time.perf_counter() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
