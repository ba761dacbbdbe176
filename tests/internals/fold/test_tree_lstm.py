"""A network on trees: folded it is what it is tree by tree, and it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from internals import Tensor, fold, no_grad, ops, optim
from internals.data.syntax import KINDS, Tree, functions_of, syntax_tree
from internals.fold.tree_lstm import TreeLSTM


def scores(model: Any, trees: list[Tree], schedule: str = "depth") -> Any:
    with fold.Batch(schedule):
        values = [model(tree) for tree in trees]
    return fold.stacked(values)


@pytest.mark.parametrize("whole_cells", [True, False])
def test_folded_is_tree_by_tree(whole_cells: bool) -> None:
    trees = functions_of("fractions", largest=40)[:6]
    model = TreeLSTM(len(KINDS), 7, 3, whole_cells=whole_cells, rng=np.random.default_rng(0))
    cotangent = Tensor(np.random.default_rng(1).standard_normal((len(trees), 3)).astype(np.float32))
    found = {}
    for name, out in (("folded", scores(model, trees)), ("alone", ops.stack([model(tree, Tensor) for tree in trees]))):
        for one in model.parameters():
            one.grad = None
        (out * cotangent).sum().backward()
        found[name] = [out.detach().numpy(), *[one.grad.numpy().copy() for one in model.parameters()]]
    for one, other in zip(found["folded"], found["alone"], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_it_learns_what_a_function_is_about() -> None:
    """Does it wait for the network or compute with numbers: 80 % of those held back; the larger class has 64 %."""
    parts = (("asyncio",), ("_pydecimal", "fractions", "statistics", "datetime"))
    examples = [
        (tree, k) for k, part in enumerate(parts) for module in part for tree in functions_of(module, largest=60)
    ]
    rng = np.random.default_rng(0)
    examples = [examples[i] for i in rng.permutation(len(examples))]
    train, test = examples[:-200], examples[-200:]
    model = TreeLSTM(len(KINDS), 24, 2, rng=rng)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        order = rng.permutation(len(train))
        for start in range(0, len(order) - 31, 32):
            batch = [train[i] for i in order[start : start + 32]]
            target = Tensor(np.array([k for _, k in batch]))
            loss = ops.cross_entropy(scores(model, [tree for tree, _ in batch], "agenda"), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with no_grad():
        guessed = scores(model, [tree for tree, _ in test]).numpy().argmax(axis=1)
    assert np.mean(guessed == [k for _, k in test]) >= 0.8
    assert np.mean([k == 0 for _, k in test]) < 0.7


def test_a_syntax_tree_has_kinds_and_no_names() -> None:
    import ast

    tree = syntax_tree(ast.parse("def f(x):\n    return x + 1").body[0])
    assert KINDS[tree.kind] == "FunctionDef"
    assert [KINDS[child.kind] for child in tree.children] == ["arguments", "Return"]
    assert tree.size == 8
    assert repr(tree) == "<FunctionDef, 8 nodes>"
    assert {"Constant", "Name", "If", "BinOp", "arg"} <= set(KINDS)
    assert not {"AST", "stmt", "expr", "Num"} & set(KINDS)


@pytest.mark.parametrize("module", ["nothing_of_that_name", "sys", "math"])
def test_a_module_without_source_is_refused(module: str) -> None:
    with pytest.raises(ValueError, match=f"functions_of: there is no module '{module}'"):
        functions_of(module)


def test_sizes_are_kept_to() -> None:
    sizes = [tree.size for tree in functions_of("fractions", smallest=10, largest=50)]
    assert sizes
    assert all(10 <= size <= 50 for size in sizes)
