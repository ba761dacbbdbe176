"""onnx's own tests of operators, read by us: how many pass, and why the others do not."""

from __future__ import annotations

import numpy as np
import pytest

from internals.deploy.onnx import conformance, readers


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_backend_tests_of_onnx(capsys: pytest.CaptureFixture[str]) -> None:
    found = conformance.conformance()
    with capsys.disabled():
        print(f"\n{found}")
    unexplained = found.failed.keys() - conformance.EXPLAINED.keys()
    assert not unexplained, {name: found.failed[name] for name in unexplained}
    assert found.ours > 1200
    assert found.rate >= 0.98
    for name in found.failed:
        assert f"{name}: {conformance.EXPLAINED[name]}" in " ".join(str(found).split())


@pytest.mark.slow
def test_a_reader_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the tests of one operator; a wrong result and a wrong dtype are both told."""
    loader = pytest.importorskip("onnx.backend.test.loader")
    cases = [one for one in loader.load_model_tests(kind="node") if one.name.startswith("test_softsign")]
    cases = [one for one in cases if conformance.is_ours(one)]
    assert cases
    assert not any(map(conformance.went_wrong, cases))
    right = readers.READERS["Softsign"]
    for wrong in (lambda call, x: right(call, x) * 1.01, lambda call, x: right(call, x) > np.float32(0)):
        monkeypatch.setitem(readers.READERS, "Softsign", wrong)
        assert any("AssertionError" in one or "in place of" in one for one in map(conformance.went_wrong, cases))
