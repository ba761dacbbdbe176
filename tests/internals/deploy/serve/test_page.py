"""The page for people: its counts, and what it shows and does in a browser."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest

from internals.deploy.serve.load import closed_loop
from internals.deploy.serve.minute import SECONDS, Minute

from .conftest import FEATURES, weight

ROOT = Path(__file__).resolve().parents[4]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"


def test_percentiles_of_a_second_are_those_of_its_answers():
    minute, took = Minute(), np.random.default_rng(4).lognormal(-5, 1, 2000)
    for one in took:
        minute.answered(100.5, float(one))
    (second,) = minute.seconds(101.2)
    assert (second["ago"], second["answers"], second["batches"], second["rows"]) == (1, 2000, 0, None)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        assert math.isclose(second[name], 1000 * float(np.quantile(took, share)), rel_tol=0.06)


def test_batches_of_a_second_and_what_is_older_than_a_minute():
    minute = Minute()
    for at, rows in ((10.1, 3), (10.9, 6), (12.0, 1)):
        minute.batch(at, rows)
    first, second = minute.seconds(12.5)
    assert (first["ago"], first["batches"], first["rows"], first["most"], first["p50"]) == (2, 2, 4.5, 6, None)
    assert (second["ago"], second["batches"]) == (0, 1)
    assert len(minute.seconds(10 + SECONDS)) == 1
    assert minute.seconds(12 + SECONDS) == []


@pytest.mark.parametrize("took", [0.0, 1e-12, 1e6])
def test_answers_of_any_length_are_counted_in_bounded_room(took):
    minute = Minute()
    for second in range(500):
        minute.answered(second, took)
    found = minute.seconds(499)
    assert len(found) == SECONDS
    assert all(math.isfinite(one["p99"]) for one in found)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """The browser that the tests of the book use."""
    spec = importlib.util.spec_from_file_location("browser_of_the_book", ROOT / "tests" / "book" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tab = module.Browser(tmp_path_factory.mktemp("chromium"))
    yield tab
    tab.close()


ANSWER = "document.getElementById('answer').textContent"


def predict(browser, inputs):
    """Write inputs into the form and send it; what comes."""
    browser.ask(f"document.getElementById('answer').textContent = ''; body.value = {json.dumps(inputs)}; true")
    browser.ask("document.querySelector('#try button').click()")
    browser.wait(ANSWER)
    return browser.ask(ANSWER)


@pytest.mark.slow
@pytest.mark.browser
def test_the_form_answers_and_the_plots_move(browser, shared, rows):
    browser.show()
    browser.open(shared.url + "/")
    browser.wait("document.querySelectorAll('#signature option').length === 1")
    assert browser.ask("body.value") == json.dumps({"x": [[0] * FEATURES]}, separators=(",", ":"))
    assert browser.ask("[...document.querySelectorAll('#models td')].map(one => one.textContent)")[:4] == [
        "m",
        "1",
        "available",
        "stable, 100 %",
    ]
    said = predict(browser, json.dumps({"x": rows.tolist()}))
    assert said.startswith("Answered in ")
    np.testing.assert_allclose(json.loads(said.partition("\n")[2])["outputs"], rows @ weight(1), rtol=1e-4)
    browser.ask("version.value = '1'; true")
    assert predict(browser, '{"x": [[1, 2, 3, 4]]}').startswith("Answered in ")
    assert "axis 1 is 4" in predict(browser, '{"x": [[1, 2]]}')
    assert predict(browser, "{x").startswith("This is no JSON")
    paths = "[...document.querySelectorAll('svg path')].map(one => one.getAttribute('d')).join()"
    before = browser.ask(paths)
    asyncio.run(
        closed_loop(
            shared.url + "/v1/models/m:predict",
            lambda number: json.dumps({"inputs": rows.tolist()}).encode(),
            clients=2,
            seconds=1.5,
        )
    )
    browser.wait(f"{paths} !== {json.dumps(before)}", seconds=60)
    browser.wait("document.getElementById('latency-now').textContent.includes(' a second')", seconds=60)
    assert [line for line in browser.complaints() if "400" not in line] == []
    assert all(url.startswith(shared.url) for url in browser.requested())


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: npm ci")
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_and_a_phone_shows_the_whole_page(browser, shared, dark):
    browser.show(width=390, height=844, dark=dark)
    browser.open(shared.url + "/")
    browser.wait("document.querySelectorAll('#models tr').length === 1")
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    browser.ask(AXE.read_text(encoding="utf-8") + "; true")
    found = browser.ask("axe.run().then(result => result.violations.map(one => one.id + ': ' + one.help))")
    assert found == []
    browser.show()
