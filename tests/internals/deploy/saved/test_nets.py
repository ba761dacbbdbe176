"""Nets of layers, saved: the layers forward as in use, parameters as variables, and what no signature can have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from internals import Tensor, layers
from internals.deploy import Signature, TensorSpec, load, save

CONFIG = """
layer { name: "loss"   type: "softmax_with_loss"  bottom: "logits"  bottom: "label" }
layer { name: "logits" type: "fc"    bottom: "normed"  size: 4  bias { static: true } }
layer { name: "normed" type: "batch_norm" bottom: "hidden" }
layer { name: "hidden" type: "fc"    bottom: "edges"  size: 6  act: "tanh" }
layer { name: "edges"  type: "conv"  bottom: "pixels"  channels: 3  window: 3  act: "relu" }
layer { name: "pixels" type: "data"  shape: [1, 6, 6] }
layer { name: "label"  type: "data"  ids: 4 }
"""
rng = np.random.default_rng()


def batch_of(n: int) -> dict[str, Any]:
    return {"pixels": rng.standard_normal((n, 1, 6, 6)).astype(np.float32), "label": rng.integers(0, 4, n)}


def test_a_net_is_saved_as_it_is_used(tmp_path: Path) -> None:
    net = layers.Net(CONFIG, rng=rng)
    for _ in range(3):
        net.forward(batch_of(20))
    save(tmp_path / "model", net)
    model = load(tmp_path / "model")
    assert set(model.signatures["serve"].inputs) == {"pixels"}
    for n in (1, 4):
        batch = batch_of(n)
        wanted = net.forward(batch, test=True)["logits"].value
        assert np.array_equal(model.signatures["serve"](pixels=batch["pixels"])["logits"], wanted)
    trained = {name: p.requires_grad for name, p in model.module().named_parameters()}
    assert {name for name, one in net.parameters.items() if not one.static} == {n for n, one in trained.items() if one}


def test_its_gradients_are_the_layers_own(tmp_path: Path) -> None:
    net = layers.Net(CONFIG.replace('bottom: "normed"', 'bottom: "hidden"'), rng=rng)
    batch = batch_of(8)
    signature = Signature({"pixels": TensorSpec(("batch", 1, 6, 6)), "label": TensorSpec(("batch",), "int64")})
    save(tmp_path / "model", net, {"loss": Signature(signature.inputs, ("loss",))})
    module = load(tmp_path / "model").module()
    module(*[Tensor(batch[name]) for name in signature.inputs]).sum().backward()
    net.forward(batch)
    net.backward()
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            np.testing.assert_allclose(
                parameter.grad.numpy(), net.parameters[name].gradient, rtol=1e-4, atol=1e-6, err_msg=name
            )


@pytest.mark.parametrize(("signature", "message"), [
    (Signature({"pixels": TensorSpec(("batch", 1, 6, 6))}, ("nobody",)), "no layer 'nobody'"),
    (Signature({"hidden": TensorSpec(("batch", 6))}, ("logits",)), "no layer 'hidden'"),
    (Signature({"label": TensorSpec(("batch",), "int64")}, ("logits",)), "need the data layer 'pixels'"),
])  # fmt: skip
def test_signatures_that_do_not_fit(signature: Signature, message: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=message):
        save(tmp_path / "model", layers.Net(CONFIG, rng=rng), {"serve": signature})


def test_sequences_are_refused(tmp_path: Path) -> None:
    net = layers.Net(
        'layer { name: "steps" type: "data" shape: [3] sequence: true }\n'
        'layer { name: "last" type: "fc" bottom: "steps" size: 5 }\n',
        rng=rng,
    )
    with pytest.raises(TypeError, match="of sequences"):
        save(tmp_path / "model", net)
