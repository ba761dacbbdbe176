"""What an exception usually means in a lab, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping


def diagnose_raised(kind: str, message: str, hints: Mapping[str, str] | None = None) -> list[str]:
    """What an exception of this type and message usually means, with the spec's hint where it has one."""
    found = []
    for name, look in RAISED.items():
        sentence = look((kind, message))
        if sentence:
            found.append(f"{sentence} {(hints or {}).get(name, '')}".strip())
    return found[:2]


def said(*kinds: str, sentence: str, pattern: str = "") -> Callable[[tuple[str, str]], str | None]:
    """A row of RAISED: exceptions of these types whose message has `pattern` in it."""

    def look(raised: tuple[str, str]) -> str | None:
        kind, message = raised
        return sentence if kind in kinds and re.search(pattern, message) else None

    return look


RAISED: dict[str, Callable[[tuple[str, str]], str | None]] = {
    "hole": said("NotImplementedError", sentence="The hole has not been filled in yet."),
    "none": said(
        "TypeError", pattern="returned None", sentence="None came back: a `return` is missing, or one path has none."
    ),
    "recursion": said(
        "RecursionError",
        sentence="Python's recursion limit is about 1000 calls deep: use a loop with a list as a stack.",
    ),
    "read_only": said(
        "ValueError",
        pattern="read-only",
        sentence=(
            "It writes into an array it was only given to read. Work on a copy, or use x = x + y in place of x += y."
        ),
    ),
    "in_place_shape": said(
        "ValueError",
        pattern="non-broadcastable output",
        sentence=(
            "`x += y` cannot make x larger: y has more axes or longer ones, or is transposed. Print both shapes: sum y "
            "down to x's, or turn it."
        ),
    ),
    "in_place_dtype": said(
        "UFuncTypeError",
        "_UFuncOutputCastingError",
        "TypeError",
        pattern="Cannot cast ufunc",
        sentence="`x += y` keeps x's dtype and cannot hold y's numbers; write x = x + y.",
    ),
    "broadcast": said(
        "ValueError",
        pattern="could not be broadcast",
        sentence="Two shapes do not fit together: print both just before the line that raised.",
    ),
    "one_number": said(
        "TypeError",
        pattern="only 0-dimensional arrays|only length-1 arrays|only integer scalar arrays",
        sentence="A whole array stands where one number is needed: think of inputs with more axes than you expect.",
    ),
    "inner_sizes": said(
        "ValueError",
        pattern="matmul|mismatch in its core dimension|not aligned",
        sentence="A matrix product whose inner sizes differ: a transpose is missing, or one operand is 1-D.",
    ),
    "axis": said("AxisError", sentence="An axis is named that the array does not have: think of 0-d and 1-d inputs."),
    "axes_transpose": said(
        "ValueError",
        pattern="axes don't match",
        sentence="transpose is given more or fewer axes than the array has: think of 1-d inputs and of batches.",
    ),
    "reshape": said(
        "ValueError",
        pattern="cannot reshape",
        sentence="The array has more or fewer entries than the shape it is reshaped to.",
    ),
    "empty": said(
        "ValueError",
        pattern="zero-size|empty",
        sentence="An input of size 0 has no largest entry or first entry: treat it on its own.",
    ),
    "nothing": said(
        "ValueError",
        pattern="need at least one array",
        sentence="There is nothing to put together: think of an empty list.",
    ),
    "signature": said(
        "TypeError",
        pattern=r"positional argument|unexpected keyword|missing \d+ required",
        sentence="The function does not take the arguments it is called with; compare its first line with the task.",
    ),
    "none_used": said(
        "TypeError",
        "AttributeError",
        pattern="NoneType",
        sentence=(
            "Something is None there: a function without `return`, a name that was never filled, or an argument that "
            "may be None."
        ),
    ),
    "key": said(
        "KeyError", sentence="A dictionary is asked for a key it does not have yet; see .get, or test with `in`."
    ),
    "zero_d": said(
        "IndexError",
        pattern="array is 0-dimensional",
        sentence="A 0-d array has no axis to index or slice: x[...] is all of an array of any shape.",
    ),
    "index": said(
        "IndexError",
        pattern="^(?!.*array is 0-dimensional)",
        sentence="An index is past the end: think of empty lists, 0-d arrays and size 0.",
    ),
    "unhashable": said(
        "TypeError",
        pattern="unhashable",
        sentence=(
            "A list, a dict, a set or an array can't be the key of a dict or an entry of a set: tuple(...) makes one "
            "that can, if all that it holds can."
        ),
    ),
    "not_array": said(
        "TypeError",
        pattern=r"(is|returned) (?!an array|nothing).*; expected an array",
        sentence=(
            "An array is asked for: np.array(x) makes one of a list or a number, and x[...] = 0 keeps the one that is "
            "there."
        ),
    ),
    "name": said(
        "NameError",
        "UnboundLocalError",
        sentence="A name is used before it has a value; the cell that defines it may have failed or come later.",
    ),
    "attribute": said("AttributeError", sentence="The object has no such attribute: check what kind of object it is."),
    "zero_division": said("ZeroDivisionError", sentence="Something is divided by zero: think of size 0."),
    "import": said(
        "ImportError",
        "ModuleNotFoundError",
        sentence="That module is not there while the lab is graded; the task can be done without it.",
    ),
}
