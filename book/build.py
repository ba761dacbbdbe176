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
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
SITE = BOOK / "_build" / "html"
DOCTREES = BOOK / "_build" / ".doctrees"
LOG = BOOK / "_build" / "build.log"
MATHJAX = ROOT / "node_modules" / "mathjax"
# What a page with formulas can ask MathJax for: the engine, its fonts, TeX packages loaded on use, and speech.
MATHJAX_PARTS = ("tex-mml-chtml.js", "output/chtml/fonts", "input/tex/extensions", "a11y", "sre")

# Python and NumPy for the page on which the reader's browser runs a model. Of the 270 MB of that package a page needs
# 27 MB, and only who builds the site needs those: so it has a lock of its own, and is not kept in node_modules.
BROWSER = BOOK / "browser"
PYODIDE = "@pyodide/pyodide"
PYODIDE_PARTS = (
    "pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "pyodide.asm.data", "packages.json", "numpy.js", "numpy.data",
)  # fmt: skip
RUNTIME = ROOT / "internals" / "deploy" / "lite" / "runtime"

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
    wanted = _locked("mathjax", ROOT / "package-lock.json")
    if not (MATHJAX / "es5" / MATHJAX_PARTS[0]).exists():
        npm = shutil.which("npm")
        if npm is None:
            raise CannotBuild(
                "npm is not installed, and the formulas need MathJax from it; install Node.js 18 or newer"
            )
        print("book: fetching MathJax with npm ci", flush=True)
        _npm_ci(npm, ROOT)
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


def install_browser() -> None:
    """Put what chapter 22's page runs into ``book/_static/pyodide``: the interpreter, Python and NumPy.

    The interpreter's own files are packed anew each time. Where Python can't be fetched, the site does without; the
    page says so to who wants it.
    """
    target = BOOK / "_static" / "pyodide"
    target.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target / "interpreter.zip", "w") as packed:
        for file in sorted(RUNTIME.glob("*.py")):
            packed.writestr(zipfile.ZipInfo(f"runtime/{file.name}"), file.read_bytes(), zipfile.ZIP_DEFLATED)
        session = BOOK / "_static" / "edge" / "session.py"
        packed.writestr(zipfile.ZipInfo(session.name), session.read_bytes(), zipfile.ZIP_DEFLATED)
    wanted, stamp = _locked(PYODIDE, BROWSER / "package-lock.json"), target / "VERSION"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    stamp.unlink(missing_ok=True)
    npm = shutil.which("npm")
    try:
        if npm is None:
            raise CannotBuild("npm is not installed")
        print(f"book: fetching Pyodide {wanted} with npm ci (185 MB, of which 27 MB are kept)", flush=True)
        (BOOK / "_build").mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BOOK / "_build") as folder:
            for name in ("package.json", "package-lock.json"):
                shutil.copy2(BROWSER / name, folder)
            _npm_ci(npm, Path(folder))
            package = Path(folder, "node_modules", PYODIDE)
            for part in PYODIDE_PARTS:
                shutil.copy2(package / "dist" / part, target / part)
            shutil.copy2(package / "LICENSE", target)
    except (CannotBuild, OSError) as reason:
        print(f"book: chapter 22 runs nothing in the browser: Pyodide could not be fetched: {reason}", flush=True)
        return
    stamp.write_text(wanted)


def _npm_ci(npm: str, folder: Path) -> None:
    """Install what the lock in `folder` says; npm compares every package with the lock's checksum."""
    # By default npm waits more than a minute before it says that there is no network.
    patience = ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", *patience]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise CannotBuild(f"npm ci failed: {reason[0]}")


def _locked(package: str, lock: Path) -> str:
    """The version that a lock names."""
    return json.loads(lock.read_text())["packages"][f"node_modules/{package}"]["version"]


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
        install_browser()
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
