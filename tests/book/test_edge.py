"""Chapter 22 in a browser: its models, every operation and broken files, beside what CPython makes of them here."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from internals.deploy.lite import Builder, Interpreter, LiteError
from internals.deploy.lite.runtime import KINDS

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
PAGE = "chapters/22_edge"
BOX = "document.querySelector('.edge-demo')"
VERDICT = f"{BOX}.querySelector('.edge-verdict').textContent"
PATIENCE = 120
"""Seconds for Python to start; three, where the machine has nothing else to do."""


@pytest.fixture(autouse=True)
def fetched(site: Path) -> None:
    if not (site / "_static" / "pyodide" / "VERSION").is_file():
        pytest.skip("the site was built without Pyodide: npm could not fetch it")


@pytest.fixture(scope="module")
def told(site: Path) -> dict[str, Any]:
    """What the page has in it: digits, the two files, and their scores in CPython."""
    text = (site / f"{PAGE}.html").read_text(encoding="utf-8")
    (found,) = re.findall(r'<div class="edge-demo"><script type="application/json">(.*?)</script>', text, re.DOTALL)
    loaded: dict[str, Any] = json.loads(found)
    return loaded


def packed(array: np.ndarray) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def unpacked(one: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(one["data"]), one["dtype"]).reshape(one["shape"])


def near(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal where they are integers; reals are added up in another order."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype == np.float32:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=3e-6 * max(1.0, float(np.abs(wanted).max())))
    else:
        np.testing.assert_array_equal(found, wanted)


def press(browser: Any, key: str, *, text: str = "", code: int = 0) -> None:
    about = {"key": key, "windowsVirtualKeyCode": code}
    browser.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **about)


def violations(browser: Any) -> Any:
    browser.ask(AXE.read_text(encoding="utf-8") + "; true")
    told = "result.violations.map(one => one.id + ': ' + one.nodes.map(node => node.html.slice(0, 120)).join(' | '))"
    return browser.ask(f"axe.run('.edge-demo').then(result => {told})")


def test_the_stored_scores_are_those_of_this_checkout(told: dict[str, Any]) -> None:
    digits, labels = unpacked(told["digits"]), np.array(told["labels"])
    assert digits.shape == (len(labels), 1, 8, 8)
    for name, one in told["models"].items():
        model = Interpreter(base64.b64decode(one["file"]))
        image = digits if name == "float32" else model.quantised("image", digits)
        scores = model(image=image)["scores"]
        assert scores.dtype == name
        near(unpacked(one["scores"]), scores)
        assert (scores.argmax(1) == labels).mean() > 0.8


def test_a_reader_runs_both_models_and_draws(browser: Any, served: str, told: dict[str, Any]) -> None:
    """By keyboard alone: the button, a digit that is drawn, one of the test set; light, dark, and on a phone."""
    browser.show()
    browser.open(f"{served}/{PAGE}.html")
    assert not [url for url in browser.requested() if "pyodide" in url], "nothing is fetched before it is asked for"
    browser.ask(f"{BOX}.querySelector('button').focus()")
    press(browser, "Enter", text="\r", code=13)
    browser.wait(f"['ready', 'failed'].includes({BOX}.dataset.state)", PATIENCE)
    words = browser.ask(f"{BOX}.innerText")
    assert browser.ask(f"{BOX}.dataset.state") == "ready", words
    assert browser.ask(f"{BOX}.dataset.same") == "true", words
    assert "Python 3.8" in words
    assert "NumPy 1.17" in words
    count = len(told["labels"]) * 10
    assert f"all {count} equal" in words
    for one in told["models"].values():
        model = Interpreter(base64.b64decode(one["file"]))
        assert f"{len(base64.b64decode(one['file'])):,} bytes" in words
        # Offsets are the plan's; a pointer's size does not matter.
        assert f"{len(model.arena):,} bytes" in words
    assert len(re.findall(r"\d\.\d\d ms", words)) == 4

    browser.ask(f"{BOX}.querySelector('.edge-pad').focus()")
    for _ in range(2):
        press(browser, "ArrowUp")
    press(browser, " ", text=" ", code=32)
    for _ in range(11):
        press(browser, "ArrowDown")
    browser.wait(f"{VERDICT}.startsWith('Your digit: float32 says 1 ')", 30)
    press(browser, "Delete", code=46)
    assert browser.ask(f"{BOX}.querySelectorAll('.edge-line').length") == 0
    browser.wait(f"{VERDICT} === ''", 30)

    browser.ask(f"{BOX}.querySelector('.edge-next').focus()")
    press(browser, "Enter", text="\r", code=13)
    browser.wait(f"{VERDICT}.startsWith('Held-out digit 2, labelled {told['labels'][1]}: ')", 30)
    said = dict(re.findall(r"(\w+) says (\d)", browser.ask(VERDICT)))
    best = {name: unpacked(one["scores"])[1].argmax() for name, one in told["models"].items()}
    assert said == {name: str(digit) for name, digit in best.items()}
    assert [line for line in browser.complaints() if "favicon" not in line] == []
    assert [url for url in browser.requested() if not url.startswith(f"{served}/")] == []
    if AXE.is_file():
        assert violations(browser) == []
        browser.show(width=390, height=844, dark=True)
        assert violations(browser) == []
    browser.show(width=390, height=844)
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    browser.show()


LAB = """
window.lab = (() => {
  const worker = new Worker(new URL('../_static/edge/worker.js', location.href));
  const waiting = new Map();
  let number = 0;
  worker.onerror = (event) => (window.labState = event.message);
  worker.onmessage = ({ data }) => {
    if (data.ready) window.labState = 'ready';
    else if (data.failed) window.labState = data.failed;
    else if (data.id) waiting.get(data.id)(data);
  };
  return (questions) => Promise.all(questions.map((question) => new Promise((done) => {
    waiting.set(number += 1, done);
    worker.postMessage({ id: number, question });
  })));
})(); true
"""


@pytest.fixture(scope="module")
def ask(browser: Any, served: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Ask the site's worker many things; each is answered with `answer` or `error`."""
    browser.open(f"{served}/{PAGE}.html")
    browser.ask(LAB)
    assert browser.wait("window.labState", PATIENCE) == "ready"
    return lambda questions: browser.ask(f"lab({json.dumps(questions)})")


def windowed(integer: bool) -> dict[str, tuple[tuple[int, ...], Any, tuple[int, ...], tuple[int, ...]]]:
    """Name: the shape of a weight, its axis of scales, the result's shape, and parameters; of (-1, 9, 8, 3)."""
    return {
        "Conv2d": ((5, 3, 3, 3), 0, (-1, 5, 4, 5), (1, 2, 2, 1, 1, 1, 1, 1, 1)),
        "Depthwise": ((3, 3, 3), 2, (-1, 9, 8, 3), (2 if not integer else 0, 1, 1, 1, 1, 1, 1, 1, 1)),
        "MaxPool": ((), None, (-1, 5, 4, 3), (2, 2, 2, 2, 0, 1, 0, 0)),
        "AveragePool": ((), None, (-1, 9, 8, 3), (3, 3, 1, 1, 1, 1, 1, 1, 0)),
    }


def every_model(rng: np.random.Generator, integer: bool) -> dict[str, bytes]:
    """A model of each operation, on reals or on int8, where the operation has that."""
    kind, grid = ("i1", {"scale": 0.05, "zero_point": 3}) if integer else ("f4", {})
    found: dict[str, bytes] = {}

    def numbers(*shape: int) -> np.ndarray:
        return rng.integers(-127, 128, shape).astype("i1") if integer else rng.normal(size=shape).astype("f4")

    def add(name: str, shape: Any, out: Any, parameters: Any = (), constants: Any = (), **kept: Any) -> None:
        operation = name.split()[0]
        b = Builder()
        x = b.input("x", shape, kind, **grid)
        given = [x, *(b.constant(f"c{i}", array, **own) for i, (array, own) in enumerate(constants))]
        own = kept.get("grid", grid)
        b.output(b.add(operation, given, out, kept.get("dtype", kind), parameters=parameters, name="y", **own))
        found[name] = b.to_bytes()

    def layer(shape: tuple[int, ...], axis: int) -> list[Any]:
        count = shape[axis]
        own = {"scale": rng.uniform(0.001, 0.01, count), "axis": axis} if integer else {}
        bias = rng.integers(-999, 999, count).astype("i4") if integer else rng.normal(size=count).astype("f4")
        return [(numbers(*shape), own), (bias, {})]

    image = (-1, 9, 8, 3)
    for name, (shape, axis, out, parameters) in windowed(integer).items():
        add(name, image, out, parameters, layer(shape, axis) if shape else ())
    add("FullyConnected", (-1, 40), (-1, 6), (1,), layer((6, 40), 0))
    add("FullyConnected whose sums are long", (-1, 1300), (-1, 4), (0,), layer((4, 1300), 0))
    other = {"scale": 0.02, "zero_point": -5} if integer else {}
    for name in ("Add", "Multiply"):
        add(name, image, image, (2,), [(numbers(3), other)])
        add(f"{name} of planes", image, image, (0,), [(numbers(8, 3), other)])
    for i, name in enumerate(("relu", "relu6", "sigmoid", "tanh")):
        add(f"Unary {name}", image, image, (i,))
    add("Softmax", (-1, 10), (-1, 10), grid={"scale": 1 / 256, "zero_point": -128} if integer else {})
    add("Reshape", image, (-1, 24, 9))
    add("Transpose", image, (-1, 3, 9, 8), (0, 3, 1, 2))
    add("Pad", image, (-1, 12, 8, 6), (0, 0, 1, 2, 0, 0, 3, 0))
    add("Mean", image, (-1, 3))
    add("Part", image, (-1, 4, 8, 3), (1, 2))
    b = Builder()
    index = b.input("x", (-1, 5), "i8")
    b.output(b.add("Gather", [b.constant("rows", numbers(7, 3), **grid), index], (-1, 5, 3), name="y", **grid))
    found["Gather"] = b.to_bytes()
    b = Builder()
    x = b.input("x", (-1, 2, 3), kind, **grid)
    b.output(b.add("Concat", [x, x, x], (-1, 6, 3), parameters=(1,), name="y", **grid))
    found["Concat"] = b.to_bytes()
    if integer:
        add("Dequantise", image, image, dtype="f4", grid={})
        add("Quantise of int8", image, image, grid={"scale": 0.07, "zero_point": -20})
    else:
        add("Quantise", image, image, dtype="i1", grid={"scale": 0.02, "zero_point": 9})
        add("Lstm", (5, -1, 12), (5, -1, 3), (), [(numbers(12, 3), {})])
    return found


@pytest.mark.parametrize("integer", [False, True])
def test_every_operation_gives_in_the_browser_what_it_gives_here(
    ask: Callable[..., list[dict[str, Any]]], integer: bool
) -> None:
    rng = np.random.default_rng(11)
    models = every_model(rng, integer)
    questions, wanted = [], {}
    for name, data in models.items():
        here = Interpreter(data, batch=4)
        place = here.inputs["x"]
        drawn = {"f": lambda s: rng.normal(size=s) * 3, "i": lambda s: rng.integers(-128, 128, s)}[place.dtype.kind]
        x = (drawn(place.shape) if place.dtype.itemsize < 8 else rng.integers(0, 7, place.shape)).astype(place.dtype)
        wanted[name] = here(x=x)["y"]
        questions.append({"do": "load", "name": name, "file": base64.b64encode(data).decode(), "batch": 4})
        questions.append({"do": "run", "name": name, "x": packed(x)})
    answers = ask(questions)
    assert [answer["error"] for answer in answers if "error" in answer] == []
    for name, answer in zip(models, answers[1::2], strict=True):
        try:
            near(unpacked(answer["answer"]["y"]), wanted[name])
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
    missing = {kind.__name__ for kind in KINDS.values()} - {name.split()[0] for name in models}
    assert missing == ({"Lstm"} if integer else {"Dequantise"})


def test_a_file_that_is_wrong_is_told_as_here(ask: Callable[..., list[dict[str, Any]]], told: dict[str, Any]) -> None:
    good = base64.b64decode(told["models"]["int8"]["file"])
    rng = np.random.default_rng(5)
    wrong = [b"", good[:100], good[:-64], good + b"\0", b"\x7fELF" + good[4:], good[:8] + b"\x02" + good[9:]]
    for at in rng.integers(20, len(good), 20).tolist():
        flipped = bytearray(good)
        flipped[at] ^= 1 << int(rng.integers(8))
        wrong.append(bytes(flipped))
    questions = [{"do": "load", "name": "wrong", "file": base64.b64encode(one).decode()} for one in wrong]
    for one, answer in zip(wrong, ask(questions), strict=True):
        with pytest.raises(LiteError) as here:
            Interpreter(one)
        assert answer["error"].endswith(str(here.value))
    (answer,) = ask([{"do": "load", "name": "right", "file": base64.b64encode(good).decode()}])
    assert answer["answer"]["file"] == len(good)


ADD = """(told) => {
  const box = document.createElement('div');
  box.className = 'edge-demo';
  box.innerHTML = '<script type="application/json"></' + 'script>';
  box.firstChild.textContent = JSON.stringify(told);
  document.querySelector('.edge-demo').before(box);
  const script = document.createElement('script');
  script.src = new URL('../_static/edge/page.js', location.href);
  return new Promise((done) => { script.onload = () => done(true); document.head.append(script); });
}"""


def text_of(browser: Any, told: dict[str, Any]) -> str:
    """Put one more box before the page's own, press its button if there is one; what it says in the end."""
    browser.ask(f"({ADD})({json.dumps(told)})")
    browser.ask(f"{BOX}.querySelector('button').click()")
    browser.wait(f"['ready', 'failed'].includes({BOX}.dataset.state)", PATIENCE)
    said = browser.ask(f"{BOX}.innerText")
    assert isinstance(said, str)
    return said


def test_the_page_tells_what_is_wrong(browser: Any, served: str, told: dict[str, Any]) -> None:
    """Other scores than CPython's, a broken file, no Python on the site, no WebAssembly."""
    browser.open(f"{served}/{PAGE}.html")
    forged = json.loads(json.dumps(told))
    models = forged["models"]
    for name, by in (("int8", 1), ("float32", 1e-3)):
        scores = unpacked(models[name]["scores"]).copy()
        scores[3, 4] += by
        models[name]["scores"] = packed(scores)
    said = text_of(browser, forged)
    assert browser.ask(f"{BOX}.dataset.same") == "false"
    assert f"1 of {10 * len(told['labels'])} differ" in said
    assert "more than 0.00001" in said

    cut = json.loads(json.dumps(told))
    file = base64.b64decode(cut["models"]["int8"]["file"])
    cut["models"]["int8"]["file"] = base64.b64encode(file[:-64]).decode()
    said = text_of(browser, cut)
    assert f"It did not work: lite: the header says {len(file):,} bytes, the file has {len(file) - 64:,}" in said
    assert said.endswith("The button tries again.")
    assert browser.ask(f"{BOX}.querySelector('button').hidden") is False

    browser.ask("window.fetch = () => Promise.resolve(new Response('', { status: 404 })); true")
    assert "This copy of the site has no Python for browsers" in text_of(browser, told)
    browser.ask("delete window.WebAssembly; true")
    assert "This browser has no WebAssembly" in text_of(browser, told)
    assert browser.ask(f"{BOX}.querySelector('button').hidden") is True


def test_without_scripts_the_page_says_what_would_be_there(browser: Any, served: str) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(f"{served}/{PAGE}.html", settle=0.1)
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert "with scripts allowed, a button here runs both files" in browser.ask(f"{BOX}.innerText")
