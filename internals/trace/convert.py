"""Python's ``if``, ``while``, ``for ... in range``, ``and``, ``or``, ``not``, rewritten so that a graph can have them.

The function's source is parsed, each of these statements is turned into a call that gets its parts as functions, and
the result is compiled in the place of the original. Nothing is decided here: the call looks at the condition when the
function is traced, and where it is a Python value it does what Python does (`internals.trace.branches`). A function
that it calls is asked for when it is called, and rewritten then in turn, if the user wrote it. TensorFlow's AutoGraph
and PaddlePaddle's dygraph_to_static work this way.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sysconfig
import textwrap
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from internals.nn import Module
from internals.trace import branches
from internals.trace.rewriter import CALLED, RUNTIME, Rewriter

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"
_LIBRARIES = tuple(
    {_PACKAGE} | {sysconfig.get_path(name) + "/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
Called = TypeVar("Called", bound=Callable[..., Any])


def converted(function: Callable[..., Any]) -> tuple[Callable[..., Any], str]:
    """A function whose control flow can become part of a graph, and if there is none, why.

    Returns
    -------
    callable
        The rewritten function, with the cells and the module of the original; or the function itself.
    str
        Why it is the function itself; empty if it is not.
    """
    plain = function.__func__ if isinstance(function, types.MethodType) else function
    if not isinstance(plain, types.FunctionType):
        return function, "it is no Python function"
    if getattr(plain, _KEPT, False):
        return function, "it is marked with do_not_convert"
    code = _rewritten_code(plain.__code__, plain.__code__.co_filename)
    if isinstance(code, str):
        return function, code
    made = _with_code(plain, code)
    return (types.MethodType(made, function.__self__) if isinstance(function, types.MethodType) else made), ""


def captured(function: Any) -> Any:
    """What rewritten code calls in the place of a function: the same, rewritten, if the user wrote it."""
    plain = function.__func__ if type(function) is types.MethodType else function
    if type(plain) is not types.FunctionType:
        return function if type(function) is types.MethodType else _captured_object(function)
    if getattr(plain, _KEPT, False):
        return functools.partial(_call_as_it_is, function)
    return function if _is_rewritten(plain.__code__) or why_not(plain.__code__) else converted(function)[0]


def _captured_object(function: Any) -> Any:
    """A partial function of the user's, or an object that can be called because its class says how."""
    if type(function) is functools.partial:
        inner = captured(function.func)
        return functools.partial(inner, *function.args, **function.keywords)
    call = getattr(type(function), "__call__", None)  # noqa: B004 - what is called is looked at, not whether it can be
    if type(call) is types.FunctionType and not isinstance(function, type):
        made = captured(types.MethodType(call, function))
        return function if getattr(made, "__func__", None) is call else made
    return function


def captured_forward(module: Module) -> Any:
    """A module's `forward`, rewritten if the user wrote it, where functions are captured at all."""
    return captured(module.forward) if is_capturing() else module.forward


def why_it_stands(traceback: types.TracebackType | None) -> tuple[str, str]:
    """The function in which an error was raised, and why it was not rewritten; empty if it was.

    Returns
    -------
    str, str
        Of the innermost frame that is not of this package.
    """
    code, marked = None, None
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code is _CALLS_AS_IT_IS:
            marked = frame.f_locals["function"]
        elif not frame.f_code.co_filename.startswith(_PACKAGE):
            code = frame.f_code
        traceback = traceback.tb_next
    if code is None:
        return "", ""
    if marked is not None:
        own = getattr(marked, "__code__", None) is code
        return code.co_name, f"{'it' if own else marked.__name__ + ', which calls it,'} is marked with do_not_convert"
    return code.co_name, why_not(code)


def why_not(code: types.CodeType) -> str:
    """Why a function that is called is not rewritten; empty if it is, or was."""
    if code.co_filename.startswith(_LIBRARIES):
        return "it is a library's"
    found = "" if _is_rewritten(code) else _rewritten_code(code, code.co_filename)
    return found if isinstance(found, str) else ""


def _is_rewritten(code: types.CodeType) -> bool:
    return RUNTIME in code.co_freevars or CALLED in code.co_freevars


def rewritten(function: Callable[..., Any]) -> str:
    """The source of what `converted` compiles, to look at."""
    plain = function.__func__ if isinstance(function, types.MethodType) else function
    code = getattr(plain, "__code__", None)
    definition = _definition(code) if code is not None else "it is no Python function"
    if isinstance(definition, str):
        raise ValueError(f"rewritten: {getattr(plain, '__name__', plain)!r} stays as it is: {definition}.")
    assert code is not None
    made = Rewriter(code.co_filename, _owner(code)).function(definition)
    return ast.unparse(ast.fix_missing_locations(made))


# What stays as it is

_KEPT = "_trace_as_it_is"


def do_not_convert(function: Called) -> Called:
    """Mark a function to be called as it stands while another is traced; so is everything that it calls.

    What its ``if`` and ``while`` ask must then be Python values.

    Raises
    ------
    TypeError
        It is no Python function.
    """
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"do_not_convert: expected a Python function, got {type(function).__name__}.")
    setattr(function, _KEPT, True)
    return function


class _Capturing(threading.local):
    off = 0


_capturing = _Capturing()


def is_capturing() -> bool:
    """Whether functions are rewritten when they are called, on this thread."""
    return not _capturing.off


@contextmanager
def not_capturing() -> Iterator[None]:
    """Inside, functions are called as they stand."""
    _capturing.off += 1
    try:
        yield
    finally:
        _capturing.off -= 1


def _call_as_it_is(function: Any, *args: Any, **kwargs: Any) -> Any:
    with not_capturing():
        return function(*args, **kwargs)


_CALLS_AS_IT_IS = _call_as_it_is.__code__


# Rewriting

_COMPILED = "_compiled"
"""What a function is called while it is compiled: by its own name, it would find itself and not what has that name."""


@functools.lru_cache(4096)
def _rewritten_code(code: types.CodeType, filename: str) -> types.CodeType | str:
    """A function's code with its control flow rewritten; or why there is none. Alike code of two files is two."""
    definition = _definition(code)
    return definition if isinstance(definition, str) else _compiled(code, definition)


def _definition(code: types.CodeType) -> ast.FunctionDef | str:
    """The syntax tree of a function's source, with the lines of its file; or why there is none."""
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return "it is a generator or a coroutine"
    if code.co_name == "<lambda>":
        return _lambda(code)
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return "its source can't be read; put it into a file or a notebook's cell"
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef) or definition.name != code.co_name:
        return "its source is not a def of its own"
    ast.increment_lineno(tree, first - 1)
    return definition


def _lambda(code: types.CodeType) -> ast.FunctionDef | str:
    """The same of a lambda, as a def: the one in whose text the code's instructions stand."""
    try:
        tree = ast.parse("".join(inspect.findsource(code)[0]))
    except (OSError, TypeError, SyntaxError):
        return "it is a lambda whose source can't be read; write it with def"
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    spans = [
        (one, (one.lineno, one.col_offset), (one.end_lineno or 0, one.end_col_offset or 0))
        for one in ast.walk(tree)
        if isinstance(one, ast.Lambda)
    ]
    around = [(start, one) for one, start, end in spans if all(start <= place <= end for place in places)]
    if not around:
        return "it is a lambda whose source can't be told from others; write it with def"
    found = max(around, key=lambda pair: pair[0])[1]
    made = ast.FunctionDef(name="_lambda", args=found.args, body=[ast.Return(found.body)], decorator_list=[])
    return ast.fix_missing_locations(ast.copy_location(made, found))


def _owner(code: types.CodeType) -> str:
    """The class in whose body a function was written; empty if in none."""
    outer = code.co_qualname.rpartition(".")[0].rpartition(".")[2]
    return "" if outer == "<locals>" else outer


def _compiled(code: types.CodeType, definition: ast.FunctionDef) -> types.CodeType:
    definition.decorator_list = []
    definition.returns = None
    for argument in ast.walk(definition.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    # Defaults are the original's; here they only keep the signature's form.
    definition.args.defaults = [ast.Constant(None) for _ in definition.args.defaults]
    definition.args.kw_defaults = [one and ast.Constant(None) for one in definition.args.kw_defaults]
    definition = Rewriter(code.co_filename, _owner(code)).function(definition)
    definition.name = _COMPILED
    free = [*code.co_freevars, RUNTIME, CALLED]
    factory = ast.FunctionDef(
        name="__factory__",
        args=ast.arguments(posonlyargs=[], args=[ast.arg(name) for name in free], kwonlyargs=[], kw_defaults=[],
                           defaults=[]),
        body=[definition, ast.Return(ast.Name(_COMPILED, ast.Load()))],
        decorator_list=[],
    )  # fmt: skip
    module = ast.fix_missing_locations(ast.Module([factory], type_ignores=[]))
    outer = next(one for one in compile(module, code.co_filename, "exec").co_consts if isinstance(one, types.CodeType))
    found = next(one for one in outer.co_consts if isinstance(one, types.CodeType) and one.co_name == definition.name)
    return found.replace(co_name=code.co_name, co_qualname=code.co_qualname)


def _with_code(plain: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    cells = dict(zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True))
    cells[RUNTIME], cells[CALLED] = types.CellType(branches), types.CellType(captured)
    made = types.FunctionType(
        code, plain.__globals__, plain.__name__, plain.__defaults__, tuple(cells[name] for name in code.co_freevars)
    )
    made.__kwdefaults__ = plain.__kwdefaults__
    made.__qualname__ = plain.__qualname__
    made.__module__ = plain.__module__
    return made
