"""A slice replayed elsewhere binds a task's names to what the kernel has them bound to."""

from __future__ import annotations

import time

import pytest

from autograder.slicing import Executed, cut, effects


def history(*sources: str, failed: tuple[int, ...] = ()) -> list[Executed]:
    return [Executed(number, source, number not in failed) for number, source in enumerate(sources, 1)]


def numbers(cells: list[Executed], *names: str) -> list[int]:
    return [cell.number for cell in cut(cells, names).cells]


CASES = {
    "the last binding counts": (["def f(): return 1", "def f(): return 2"], [2]),
    "a chain of names": (["a = 1", "unrelated = 2", "b = a + 1", "def f(): return b"], [1, 3, 4]),
    "a helper redefined after the function that calls it": (
        ["def g(): return 1", "def f(): return g()", "def g(): return 2"],
        [2, 3],
    ),
    "a value computed before its source was rebound": (["a = 1", "f = a", "a = 2"], [1, 2]),
    "a default is read when the function is defined": (["a = 1", "def f(x=a): return x", "a = 2"], [1, 2]),
    "a decorator": (["def twice(g): return g", "@twice\ndef f(): pass"], [1, 2]),
    "an annotation is evaluated": (["class T: pass", "def f(x: T): pass"], [1, 2]),
    "an import": (["import numpy as np", "import torch", "def f(x): return np.sum(x)"], [1, 3]),
    "a dotted import binds its first part": (["import os.path", "def f(): return os.path.sep"], [1, 2]),
    "a local name of the same spelling": (["x = slow()", "def f(x):\n    y = x\n    return y"], [2]),
    "a comprehension's own variable": (["i = slow()", "f = [i for i in range(3)]"], [2]),
    "what a comprehension reads": (["n = 3", "f = [i for i in range(n)]"], [1, 2]),
    "a base class and its methods' names": (
        ["class B: pass", "k = 1", "class f(B):\n    def m(self): return k"],
        [1, 2, 3],
    ),
    "a nested function's global": (["k = 1", "def f():\n    def inner(): return k\n    return inner"], [1, 2]),
    "an item set later": (["rules = {}", "rules['a'] = 1", "def f(): return rules"], [1, 2, 3]),
    "an attribute set later": (["class f: pass", "f.limit = 3"], [1, 2]),
    "a method called for its effect": (["seen = []", "seen.append(1)", "def f(): return seen"], [1, 2, 3]),
    "a module's method is no change": (["import numpy as np", "np.random.rand(10**9)", "def f(): return np"], [1, 3]),
    "registered by a decorator": (
        ["rules = Registry()", "@rules.add\ndef one(): pass", "def f(): return rules"],
        [1, 2, 3],
    ),
    "added in place": (["f = 1", "f += 1"], [1, 2]),
    "bound only on one path": (["f = 1", "if flag:\n    f = 2"], [1, 2]),
    "a loop variable": (["for f in range(3): pass"], [1]),
    "a walrus": (["(f := 3)"], [1]),
    "unpacking": (["a, (f, *b) = 1, (2, 3)"], [1]),
    "a with block": (["with open('x') as g:\n    f = g"], [1]),
    "a star import where a name is bound by nothing else": (["from math import *", "def f(): return sqrt(2)"], [1, 2]),
    "no star import where every name is bound": (["from math import *", "def f(): return 2"], [2]),
    "builtins are always there": (["from math import *", "def f(): return sum(range(3)), print, __name__"], [2]),
    "a check is nothing a task needs": (["def f(): pass", "from autograder import check\ncheck('f')"], [1]),
    "a check in the cell of the definition": (["def f(): pass\ncheck('f')"], [1]),
    "a syntax error bound nothing": (["def f(): pass", "def f(: pass"], [1]),
    "a magic line": (["%matplotlib inline\nimport numpy as np", "def f(): return np"], [1, 2]),
    "under %%time": (["%%time\ndef f(): pass"], [1]),
    "await at the top": (["f = await g()"], [1]),
    "deleted and bound again": (["f = 1", "del f", "f = 2"], [3]),
}


@pytest.mark.parametrize(("sources", "wanted"), CASES.values(), ids=CASES)
def test_slice(sources, wanted):
    assert numbers(history(*sources), "f") == wanted


def test_failed_cell_may_not_have_come_to_the_binding():
    cells = history("def f(): return 1", "1 / 0\ndef f(): return 2", failed=(2,))
    assert numbers(cells, "f") == [1, 2]


def test_names_that_no_cell_binds_are_told():
    assert cut(history("def f(): return hidden"), ["f", "g"]).unbound == {"hidden", "g"}


def test_several_names_share_one_slice():
    assert numbers(history("a = 1", "def f(): return a", "def g(): return a", "h = 2"), "f", "g") == [1, 2, 3]


def test_replayed_slice_gives_what_the_kernel_has():
    sources = [
        "base = 10",
        "def scale(x): return x * base",
        "base = 3",
        "table = {}",
        "table['k'] = scale(2)",
        "base = 100",
        "def f(): return scale(1), table['k'], limit",
        "limit = 5",
        "noise = 1 / 3",
    ]
    kernel: dict = {}
    for source in sources:
        exec(source, kernel)
    replayed: dict = {}
    taken = cut(history(*sources), ["f"]).cells
    for cell in taken:
        exec(cell.source, replayed)
    assert replayed["f"]() == kernel["f"]() == (100, 6, 5)
    assert 9 not in [cell.number for cell in taken]


def test_hostile_sources_do_not_break_it():
    nested = "f = " + "(" * 5000 + ")" * 5000
    assert cut(history(nested, "f = " + "-" * 100_000 + "1", "\0", "f = 1"), ["f"]).cells[-1].number == 4


@pytest.mark.slow
def test_long_session_is_quick():
    cells = history(*[f"x{n} = x{n - 1} + 1\ndef f{n}(a):\n    return [a for a in range(x{n})]" for n in range(1, 501)])
    cut(cells, ["f500"])
    began = time.perf_counter()
    assert len(cut(cells, ["f500"]).cells) == 500
    assert time.perf_counter() - began < 0.5


def test_effects_are_none_for_a_syntax_error():
    assert effects("def f(:") is None
