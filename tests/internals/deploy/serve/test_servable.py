"""What a worker can run: saved models, ONNX files, loaders of one's own; and that what fails says why."""

from __future__ import annotations

import numpy as np
import pytest

from internals import ops
from internals.deploy import FormatError, Signature, SignatureError, TensorSpec, load, save
from internals.deploy.serve.servable import Saved, described, named, servable_at, signatures_of, warm_up

RNG = np.random.default_rng(11)
W = RNG.normal(size=(4, 3)).astype("f")


def times_w(x):
    return ops.matmul(x, W)


SIGNATURES = {"serve": Signature({"x": TensorSpec(("batch", 4))}, ("scores",), times_w)}


class Doubled:
    """A servable of one's own."""

    labels = ()
    signatures = {"serve": Signature({"x": TensorSpec(("n",))}, ("y",), None, {"y": TensorSpec(("n",))})}

    def __call__(self, signature, arrays):
        return {"y": 2 * arrays["x"]}


def doubled(path):
    return Doubled()


def test_a_saved_model_and_its_description(tmp_path):
    save(tmp_path / "1", times_w, SIGNATURES, assets={"labels.txt": b"a\nb\nc"})
    servable = servable_at(tmp_path / "1")
    assert servable.labels == ["a", "b", "c"]
    x = RNG.normal(size=(5, 4)).astype("f")
    np.testing.assert_allclose(servable("serve", {"x": x})["scores"], x @ W, rtol=1e-5)
    (signature,) = signatures_of(described(servable)["signatures"]).values()
    assert dict(signature.inputs) == {"x": TensorSpec(("batch", 4))}
    assert dict(signature.results) == {"scores": TensorSpec(("batch", 3))}


@pytest.mark.slow
def test_an_onnx_file_gives_the_same(tmp_path):
    pytest.importorskip("onnxruntime")
    from internals.deploy.onnx import export_onnx

    (tmp_path / "1").mkdir()
    export_onnx(tmp_path / "1" / "model.onnx", times_w, SIGNATURES)
    servable = servable_at(tmp_path / "1")
    warm_up(servable, 8)
    x = RNG.normal(size=(5, 4)).astype("f")
    np.testing.assert_allclose(servable("serve", {"x": x})["scores"], x @ W, rtol=1e-5)
    (tmp_path / "1" / "model.onnx").write_bytes(b"\x08garbage")
    with pytest.raises(FormatError, match=r"model\.onnx is no ONNX file"):
        servable_at(tmp_path / "1")


def test_a_loader_of_ones_own(tmp_path, monkeypatch):
    import sys
    import types

    module = types.ModuleType("a_loader")
    module.doubled = doubled
    monkeypatch.setitem(sys.modules, "a_loader", module)
    servable = servable_at(tmp_path, "a_loader:doubled")
    warm_up(servable, 4)
    x = RNG.normal(size=3).astype("f")
    np.testing.assert_array_equal(servable("serve", {"x": x})["y"], 2 * x)


def test_a_model_that_fails_in_its_warm_up_says_how(tmp_path):
    save(tmp_path / "1", times_w, SIGNATURES)

    class Broken(Saved):
        """Fails with several rows only."""

        def __call__(self, signature, arrays):
            if len(arrays["x"]) > 1:
                raise ZeroDivisionError("more than one row")
            return super().__call__(signature, arrays)

    broken = Broken(load(tmp_path / "1"))
    warm_up(broken, 1)
    with pytest.raises(FormatError, match="warm-up: signature serve fails: more than one row"):
        warm_up(broken, 8)


@pytest.mark.parametrize(
    ("there", "asked", "found"),
    [(["a"], None, "a"), (["a", "serving_default"], None, "serving_default"), (["a", "b"], "b", "b")],
)
def test_which_signature_is_meant(there, asked, found):
    assert named("m", dict.fromkeys(there, SIGNATURES["serve"]), asked) == found


@pytest.mark.parametrize(("there", "asked"), [(["a", "b"], None), (["a"], "c"), ([], None)])
def test_a_signature_that_is_not_there(there, asked):
    with pytest.raises(SignatureError, match="there is no signature"):
        named("m", dict.fromkeys(there, SIGNATURES["serve"]), asked)
