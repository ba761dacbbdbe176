"""Every kind of wrong, made on purpose, is named; and named first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder.compare import compare
from autograder.diagnose import KINDS, rank
from autograder.diagnose_raised import RAISED, diagnose_raised
from autograder.evidence import Evidence
from autograder.patterns import TRAITS, pattern
from autograder.spec import Inputs, load_lab
from autograder.verdict import ADVICE

RNG = np.random.default_rng(5)


def unbroadcast(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return g.sum(axis=axes, keepdims=True)


def mul(g: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)


def matmul(g: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return g @ y.T, x.T @ g


def sine(x: np.ndarray) -> np.ndarray:
    return np.sin(x)


def mul_case(x: tuple[int, ...], y: tuple[int, ...]) -> Inputs:
    g = RNG.normal(size=np.broadcast_shapes(x, y))
    return {"g": g, "x": RNG.normal(size=x), "y": RNG.normal(size=y)}


def matmul_case(n: int, k: int, m: int) -> Inputs:
    return {"g": RNG.normal(size=(n, m)), "x": RNG.normal(size=(n, k)), "y": RNG.normal(size=(k, m))}


PLAIN = [mul_case((2, 3), (2, 3)), mul_case((4,), (4,)), mul_case((), ())]
STRETCHED = [mul_case((2, 3), (3,)), mul_case((3, 1), (4,)), mul_case((5, 3), (5, 1))]
SQUARE = [matmul_case(3, 3, 3), matmul_case(2, 2, 2)]
ONE = [{"x": RNG.normal(size=(3, 4))}, {"x": RNG.normal(size=(5, 2))}]
TWO = [{"a": RNG.normal(size=3), "b": RNG.normal(size=3)}, {"a": RNG.normal(size=(2, 2)), "b": RNG.normal(size=(2, 2))}]
LISTS: list[Inputs] = [{"items": [4, 2, 7, 1]}, {"items": [5, 6, 8]}]

Wrong = tuple[str, Callable[..., Any], Callable[..., Any], list[Inputs]]
MISTAKES: dict[str, Wrong] = {
    "transposed matmul rule": ("transposed", matmul, lambda g, x, y: ((g @ y.T).T, (x.T @ g).T), SQUARE),
    "axes permuted": (
        "transposed",
        lambda x: x.reshape(*x.shape, 1) * np.ones(2),
        lambda x: np.moveaxis(x.reshape(*x.shape, 1) * np.ones(2), 0, 2),
        ONE,
    ),
    "sign": ("sign", mul, lambda g, x, y: tuple(-part for part in mul(g, x, y)), PLAIN),
    "sign of some": ("sign", lambda x: x, lambda x: np.where(x < 0, -x, x), ONE),
    "twice": ("factor", mul, lambda g, x, y: tuple(2 * part for part in mul(g, x, y)), PLAIN),
    "half": ("factor", lambda x: x**2, lambda x: x**2 / 2, ONE),
    "times the batch size": (
        "factor",
        lambda x: np.sin(x) / len(x),
        sine,
        [{"x": RNG.normal(size=(3, 4))}],
    ),
    "swapped": ("swapped", mul, lambda g, x, y: mul(g, x, y)[::-1], PLAIN),
    "one rule twice": ("of_another", mul, lambda g, x, y: (mul(g, x, y)[0],) * 2, PLAIN),
    "cotangent ignored": ("cotangent_ignored", mul, lambda g, x, y: mul(np.ones_like(g), x, y), PLAIN + STRETCHED),
    "nothing flows": ("cotangent_ignored", mul, lambda g, x, y: mul(np.zeros_like(g), x, y), PLAIN + STRETCHED),
    "cotangent returned": ("cotangent_unchanged", mul, lambda g, x, y: (g, g), PLAIN),
    "an input returned": ("cotangent_unchanged", sine, lambda x: x, ONE),
    "not summed": ("not_summed", mul, lambda g, x, y: (g * y, g * x), STRETCHED),
    "averaged": (
        "averaged",
        lambda g, x: g.sum(0),
        lambda g, x: g.mean(0),
        [
            {"g": RNG.normal(size=(4, 3)), "x": RNG.normal(size=3)},
            {"g": RNG.normal(size=(2, 5)), "x": RNG.normal(size=5)},
        ],
    ),
    "summed over another axis": (
        "wrong_axis",
        mul,
        lambda g, x, y: ((g * y).sum(1), (g * x).sum(1)),
        [mul_case((3,), (3, 3)), mul_case((2,), (2, 2))],
    ),
    "keepdims lost": ("keepdims", mul, lambda g, x, y: tuple(np.squeeze(part) for part in mul(g, x, y)), STRETCHED[1:]),
    "float64": ("dtype", lambda x: x.astype(np.float32), lambda x: x, ONE),
    "float32": ("dtype", lambda x: x, lambda x: x.astype(np.float32), ONE),
    "integers": ("dtype", lambda x: x, lambda x: x.astype(int), ONE),
    "complex": ("dtype", lambda x: x, lambda x: x + 0j, ONE),
    "other byte order": ("dtype", lambda x: x, lambda x: x.astype(x.dtype.newbyteorder()), ONE),
    "off by one": ("off_by_one", lambda x: np.array([3, 5]), lambda x: np.array([4, 6]), ONE),
    "shifted": ("off_by_one", lambda x: x[:, 0], lambda x: np.roll(x[:, 0], 1), ONE),
    "one row too few": ("off_by_one", lambda x: x, lambda x: x[:-1], ONE),
    "list one short": ("off_by_one_list", lambda items: items, lambda items: items[:-1], LISTS),
    "only the last kept": ("replaced", lambda a, b: a + b, lambda a, b: b, TWO),
    "counted twice": ("replaced", lambda a, b: a + b, lambda a, b: a + 2 * b, TWO),
    "None": ("none", mul, lambda g, x, y: None, PLAIN),
    "one None": ("none", mul, lambda g, x, y: (None, None), PLAIN),
    "list for tuple": ("container", mul, lambda g, x, y: list(mul(g, x, y)), PLAIN),
    "list for array": ("container", lambda x: x, lambda x: x.tolist(), ONE),
    "one array for two": ("container", mul, lambda g, x, y: mul(g, x, y)[0], PLAIN),
    "one result of two": ("count", mul, lambda g, x, y: mul(g, x, y)[:1], PLAIN),
    "Python float": ("scalar", lambda x: np.array(x.sum()), lambda x: float(x.sum()), ONE),
    "reversed order": ("order", lambda items: items, lambda items: items[::-1], LISTS),
    "another order": ("order", lambda items: items, lambda items: sorted(items, key=lambda one: one % 3), LISTS),
    "one node twice": ("order", lambda items: items, lambda items: [*items[:-1], items[0]], LISTS),
    "nodes missing": ("order", lambda items: items, lambda items: items[:1], LISTS),
    "NaN": ("not_finite", lambda x: x, lambda x: x * np.nan, ONE),
    "NaN swallowed": ("not_finite", lambda x: x * np.nan, lambda x: np.nan_to_num(x + 0), ONE),
    "infinity": ("not_finite", lambda x: x, lambda x: x / np.zeros_like(x), ONE),
    "two entries short": ("shape", sine, lambda x: 3 * x[:1, 1:] + 1, ONE),
    "backwards": ("reversed", sine, lambda x: np.sin(x)[::-1], ONE),
    "one value everywhere": ("constant", sine, lambda x: np.full_like(x, 0.123), ONE),
    "too few digits": ("precision", sine, lambda x: np.sin(x).astype(np.float16).astype(float), ONE),
    "last row wrong": (
        "entries",
        sine,
        lambda x: np.concatenate([np.sin(x)[:-1], 3 * x[-1:] + 1]),
        ONE,
    ),
}


def evidence(right: Callable[..., Any], wrong: Callable[..., Any], inputs: Inputs, **more: Any) -> Evidence:
    want, got = right(**inputs), wrong(**inputs)
    return Evidence(inputs, want, got, compare(got, want), lambda other: right(**other), **more)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_mistake_is_named_first(mistake: str) -> None:
    name, right, wrong, cases = MISTAKES[mistake]
    found = rank([one for one in (evidence(right, wrong, inputs) for inputs in cases) if one.mismatches])
    assert found, "nothing was said"
    assert found[0].name == name, found
    assert all(one.sentence.endswith(("?", ".")) for one in found)


def test_every_kind_is_made_by_some_mistake() -> None:
    assert {name for name, *_ in MISTAKES.values()} | {"in_place", "alias"} == set(KINDS)


@pytest.mark.parametrize(
    ("more", "name", "part"),
    [({"changed": ["x"]}, "in_place", "changed x"), ({"aliased": ["y"]}, "alias", "came in as y")],
)
def test_what_the_driver_saw_comes_first(more: dict[str, Any], name: str, part: str) -> None:
    first = rank([evidence(mul, lambda g, x, y: (g, g), PLAIN[0], **more)])[0]
    assert first.name == name
    assert part in first.sentence


@pytest.mark.parametrize(
    ("factor", "word"), [(2, "2 times"), (0.5, "1/2 times"), (3, "3 times"), (1 / 3, "1/3 times"), (0.37, "0.37 times")]
)
def test_the_factor_is_named(factor: float, word: str) -> None:
    found = rank([evidence(sine, lambda x: factor * np.sin(x), {"x": RNG.normal(size=(3, 4))})])
    assert word in found[0].sentence
    assert ("batch size" in found[0].sentence) == (factor in (3, 1 / 3))


def test_any_two_numbers_have_some_factor_between_them() -> None:
    assert rank([evidence(lambda x: x, lambda x: 0.37 * x, {"x": np.array([1.7])})]) == []
    assert rank([evidence(lambda x: x, lambda x: 2 * x, {"x": np.array([1.7])})])[0].name == "factor"


def test_what_fits_few_cases_is_left_out() -> None:
    # All are doubled; on one of them that looks like a shift by one place.
    cases = [{"x": np.array([1.0, 2.0, 4.0])}, *({"x": RNG.normal(size=(3, 2))} for _ in range(4))]
    assert [one.name for one in rank([evidence(lambda x: x, lambda x: 2 * x, inputs) for inputs in cases])] == [
        "factor"
    ]


def test_hints_of_the_spec_are_appended() -> None:
    name, right, wrong, cases = MISTAKES["not summed"]
    (first, *_) = rank([evidence(right, wrong, inputs) for inputs in cases], {name: "Use one function for both."})
    assert first.sentence.endswith("Use one function for both.")


def test_a_kind_that_explains_more_cases_comes_first() -> None:
    # A single entry that is wrong fits "a constant factor" by accident; only the sign explains all.
    cases = [{"x": np.array([2.0])}, {"x": np.array([1.0, -2.0])}, {"x": np.array([[1.0, 2.5]])}]
    assert rank([evidence(lambda x: x, lambda x: -x, inputs) for inputs in cases])[0].name == "sign"


@pytest.mark.parametrize(
    "got", [None, "text", b"", [], {}, 10**400, float("nan"), ..., np.zeros((0, 2)), np.array("s"), (1, None)]
)
@pytest.mark.parametrize("want", [np.ones((2, 3)), (np.ones(2), np.ones(3)), [1, 2], {"a": np.ones(2)}, 3, 1.5, True])
def test_any_plain_answer_can_be_diagnosed(got: object, want: object) -> None:
    """What comes out of a sandbox may be anything; a diagnosis of it never raises."""
    rank([Evidence({"x": np.ones(2)}, want, got, compare(got, want))])


# --- exceptions -----------------------------------------------------------------------------------


def really_raised(action: Callable[[], Any]) -> tuple[str, str]:
    try:
        action()
    except Exception as error:  # noqa: BLE001  whatever it is, it is what is looked at
        return type(error).__name__, str(error)
    raise AssertionError("nothing was raised")


def forever() -> None:
    forever()


def unfilled() -> None:
    raise NotImplementedError


def frozen() -> None:
    x = np.ones(2)
    x.flags.writeable = False
    x += 1


def grow() -> None:
    x = np.ones(2)
    x += np.ones((3, 2))


def cut() -> None:
    x = np.ones(2, int)
    x += 0.5


def past_the_end() -> int:
    items = [1, 2]
    return items[len(items)]


def took_none() -> None:
    raise TypeError("mul_rule returned None; expected a pair (dx, dy).")


def gave_a_number() -> None:
    raise TypeError("gradient is an int; expected an array.")


RAISES: dict[str, Callable[[], Any]] = {
    "hole": unfilled,
    "recursion": forever,
    "none": took_none,
    "read_only": frozen,
    "in_place_shape": grow,
    "in_place_dtype": cut,
    "broadcast": lambda: np.ones(2) + np.ones(3),
    "one_number": lambda: float(np.ones(2)),  # type: ignore[arg-type]  # the mistake itself
    "inner_sizes": lambda: np.ones((2, 3)) @ np.ones((2, 3)),
    "axis": lambda: np.ones(2).sum(axis=1),
    "axes_transpose": lambda: np.ones(2).transpose(1, 0),
    "reshape": lambda: np.ones(6).reshape(4),
    "empty": lambda: np.ones(0).max(),
    "nothing": lambda: np.concatenate([]),
    "signature": lambda: unfilled(1),  # type: ignore[call-arg]  # the mistake itself
    "none_used": lambda: None + 1,  # type: ignore[operator]  # the mistake itself
    "key": lambda: {}["x"],
    "zero_d": lambda: np.array(1.0)[:],
    "index": past_the_end,
    "unhashable": lambda: {[1]: 2},
    "not_array": gave_a_number,
    "name": lambda: undefined,  # type: ignore[name-defined]  # noqa: F821  the mistake itself
    "attribute": lambda: np.ones(2).grad,  # type: ignore[attr-defined]  # the mistake itself
    "zero_division": lambda: 1 / 0,
    "import": lambda: __import__("no_such_module"),
}


@pytest.mark.parametrize("name", RAISED)
def test_an_exception_is_explained(name: str) -> None:
    kind, message = really_raised(RAISES[name])
    assert diagnose_raised(kind, message, {name: "See the hint."})[0].endswith("See the hint.")


@pytest.mark.parametrize(
    ("message", "advised"),
    [
        ("the function returned list; expected an array.", True),
        ("loss is a float; expected an array.", True),
        ("pull of 0 ids returned an array of shape (0,); expected an array of shape (0, 2).", False),
        ("the function returned nothing; expected an array.", False),
    ],
)
def test_an_array_of_another_shape_is_not_told_to_become_an_array(message: str, advised: bool) -> None:
    assert ("An array is asked for" in " ".join(diagnose_raised("TypeError", message))) is advised


def test_every_exception_of_the_table_is_tried() -> None:
    assert set(RAISES) == set(RAISED)


LABS = sorted(path.stem for path in (Path(__file__).parents[2] / "autograder/specs").glob("lab*.py"))


@pytest.mark.parametrize("lab", LABS)
def test_every_hint_of_a_spec_belongs_to_something_that_is_diagnosed(lab: str) -> None:
    """A hint under a name that nothing gives would never be read."""
    known = {*KINDS, *RAISED, *ADVICE}
    for task in load_lab(lab).tasks:
        assert set(task.hints) - ({"cost"} if task.costs else set()) <= known, task.name  # the verdict on a cost has it


def test_an_unknown_exception_is_left_alone() -> None:
    assert diagnose_raised("SomethingElse", "odd") == []


# --- which cases fail -----------------------------------------------------------------------------


def arrays(*shapes: tuple[int, ...], dtype: Any = float) -> Inputs:
    return {name: RNG.normal(size=shape).astype(dtype) for name, shape in zip("xyz", shapes, strict=False)}


USUAL = [arrays((2, 3), (2, 3)), arrays((4, 2), (4, 2)), arrays((3, 3), (3, 3)), arrays((2, 2), (2, 2))]
TRAITED: dict[str, Inputs] = {
    "an input has size 0": arrays((0, 2), (0, 2)),
    "an input is 0-d": arrays((), (2, 2)),
    "an input has a negative stride": {"x": np.ones((2, 2))[::-1], "y": np.ones((2, 2)) * 2},
    "an input is a broadcast view (stride 0)": {"x": np.broadcast_to(3.0, (2, 2)), "y": np.ones((2, 2))},
    "an input is not contiguous in memory, as a transposed view": {
        "x": RNG.normal(size=(2, 3)).T,
        "y": np.ones((3, 2)),
    },
    "the inputs are float32": arrays((2, 2), (2, 2), dtype=np.float32),
    "the inputs are integers": {"x": np.array([[1, 2]]), "y": np.array([[3, 4]])},
    "an axis of size 1 is stretched by broadcasting": arrays((2, 1), (2, 3)),
    "the inputs have different numbers of axes": arrays((3, 2), (2,)),
    "an input has one entry": arrays((1, 1), (1, 1)),
    "an input is 1-D": arrays((3,), (3,)),
    "an input is a batch (3 or more axes)": arrays((2, 3, 2), (2, 3, 2)),
    "an input holds NaN or infinity": {"x": np.array([[np.nan, 1.0]]), "y": np.array([[2.0, 1.0]])},
    "an input holds a zero": {"x": np.array([[0.0, 1.0]]), "y": np.array([[2.0, 1.0]])},
    "the same array comes twice": {"x": np.full((2, 2), 3.0), "y": np.full((2, 2), 3.0)},
}


@pytest.mark.parametrize("trait", TRAITED)
def test_the_trait_that_tells_failing_cases_is_named(trait: str) -> None:
    outcomes = [*((inputs, True) for inputs in USUAL), (TRAITED[trait], False)]
    assert pattern(outcomes) == [f"It goes wrong exactly when {trait}."]


def test_traits_that_need_others_beside_them() -> None:
    assert set(TRAITS) - set(TRAITED) == {
        "every input is 0-d",
        "inputs of different shapes are broadcast",
        "an input has 2 or more axes",
    }
    scalars = [(arrays((), ()), False), (arrays((), (2, 2)), True), *((inputs, True) for inputs in USUAL)]
    assert pattern(scalars) == ["It goes wrong exactly when every input is 0-d."]
    matrices = [
        (arrays((2, 3), (2, 3)), False),
        (arrays((2, 2, 2), (2, 2, 2)), False),
        (arrays((3,), (3,)), True),
        (arrays((1,), (1,)), True),
    ]
    assert pattern(matrices) == ["It goes wrong exactly when an input has 2 or more axes."]


def test_a_trait_of_every_failing_case_and_few_passing_ones() -> None:
    outcomes = [
        *((inputs, True) for inputs in USUAL),
        (arrays((3,), (3,)), True),
        (arrays((3,), (3,)), False),
        (arrays((5,), (5,)), False),
    ]
    assert pattern(outcomes) == ["It goes wrong only when an input is 1-D, though not every time."]


def test_a_word_among_the_inputs() -> None:
    outcomes = [
        ({"op": "mul", **USUAL[0]}, True),
        ({"op": "matmul", **USUAL[2]}, False),
        ({"op": "mul", **USUAL[3]}, True),
    ]
    assert pattern(outcomes) == ["Only op = 'matmul' goes wrong."]


def test_nothing_is_said_where_nothing_tells() -> None:
    assert pattern([(USUAL[0], False), (USUAL[1], True), (USUAL[2], False), (USUAL[3], True)]) == []
    assert pattern([(USUAL[0], False)]) == []


def test_the_other_byte_order_loses_no_digits() -> None:
    _, right, wrong, cases = MISTAKES["other byte order"]
    told = KINDS["dtype"](evidence(right, wrong, cases[0]))
    assert told is not None
    assert "in the other order" in told
