"""From a click on Submit to the points on the screen: ``python -m benchmarks.hub [--quick]``.

A hub as `make hub` starts it, a learner's JupyterLab on it in a headless Chromium, and lab 5's solution, changed a
little each time so that it is graded each time. What is measured, in the browser: the click, the saving, the way
through the learner's server and the service into the gradebook (stored before it is acknowledged), the queue, the
grading in its sandbox against PyTorch and TensorFlow, and the way back, until the notification shows the points.
The first submission, for which the frameworks are still being imported, is told apart. Median over rounds.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).parent / "results"
LAB = "lab05_tape"
BUTTON = "document.querySelector('.class-submit')"
CLICK = """
new Promise(resolve => {
  const began = performance.now();
  const text = () => [...document.querySelectorAll('.Toastify__toast')].map(one => one.innerText).join(' ');
  let stored = 0;
  const look = new MutationObserver(() => {
    if (!stored && text().includes('is stored as submission')) stored = performance.now() - began;
    if (/\\d of \\d+ points/.test(text())) {
      look.disconnect();
      resolve({stored, graded: performance.now() - began, said: text()});
    }
  });
  look.observe(document.body, {childList: true, subtree: true, characterData: true});
  BUTTON.click();
})
""".replace("BUTTON", BUTTON)


def loaded(path: str) -> ModuleType:
    """A module of the tests, which are no package: the browser and the hub are driven as there."""
    file = ROOT / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def write_work(labs: Path, number: int) -> None:
    """The solution, with a cell that no other round has."""
    document = json.loads((ROOT / "labs" / "solutions" / f"{LAB}.ipynb").read_text(encoding="utf-8"))
    cell = {"cell_type": "markdown", "id": f"round-{number}", "metadata": {}}
    document["cells"].append(cell | {"source": f"Round {number}, {os.urandom(8).hex()}"})
    file = labs / f"{LAB}.ipynb"
    file.write_text(json.dumps(document), encoding="utf-8")
    owner = labs.stat()
    os.chown(file, owner.st_uid, owner.st_gid)


def measure(rounds: int) -> dict[str, Any]:
    sys.path.insert(0, str(ROOT / "tests" / "classroom"))
    hub_process, browsing = loaded("tests/classroom/hub_process.py"), loaded("tests/book/conftest.py")
    with tempfile.TemporaryDirectory(prefix="hub-") as folder:
        began = time.monotonic()
        hub = hub_process.start(Path(folder) / "state")
        ready = time.monotonic() - began
        browser = browsing.Browser(Path(folder) / "chromium")
        try:
            browser.show(width=1300, height=900)
            browser.open(f"{hub.base}/hub/login?next=%2Fhub%2Fspawn")
            browser.ask("document.querySelector('#username_input').value = 'ada'")
            browser.ask(f"document.querySelector('#password_input').value = {hub.passwords['ada']!r}")
            began = time.monotonic()
            browser.ask("document.querySelector('form').requestSubmit()")
            browser.wait("location.pathname.startsWith('/user/ada/lab')", 180)
            spawned = time.monotonic() - began
            browser.socket.settimeout(300)
            found = []
            for number in range(rounds + 1):
                write_work(hub.state / "homes" / "ada" / "labs", number)
                browser.open(f"{hub.base}/user/ada/lab/tree/{LAB}.ipynb?reset")
                browser.wait(f"Boolean({BUTTON})", 120)
                time.sleep(1.0)  # JupyterLab is still busy when the button is there
                found.append(browser.ask(CLICK))
                print(
                    f"  {found[-1]['stored'] / 1000:.2f} s stored, {found[-1]['graded'] / 1000:.2f} s graded",
                    flush=True,
                )
        finally:
            browser.close()
            hub.stop()
    assert all("100 of 105 points" in one["said"] for one in found), found
    first, rest = found[0], found[1:]
    return {
        "lab": LAB,
        "rounds": rounds,
        "hub ready, s": round(ready, 1),
        "log in to JupyterLab, s": round(spawned, 1),
        "first, s": round(first["graded"] / 1000, 2),
        "stored, median, s": round(statistics.median(one["stored"] for one in rest) / 1000, 2),
        "feedback, median, s": round(statistics.median(one["graded"] for one in rest) / 1000, 2),
        "feedback, slowest, s": round(max(one["graded"] for one in rest) / 1000, 2),
        "load": [round(value, 1) for value in os.getloadavg()],
        "processors": os.cpu_count(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds, and no result is written")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the hub ends with us, also where we are told to
    result = measure(3 if options.quick else 9)
    print(json.dumps(result, indent=1))
    if not options.quick:
        (RESULTS / "hub.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
