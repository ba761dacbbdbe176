"""A Python function that runs as a graph: traced once for each kind of call, then run without Python's own steps.

Tracing runs the function on placeholders. What it does to them is written down; what else it does happens now, and not
again: a ``print`` prints once, an ``if`` on a Python value is decided once. The trace is kept with everything that it
depends on, and made anew when some of that is different.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from internals.autodiff import tree
from internals.device import cpu, device_of
from internals.graph import Function, GraphError, Node
from internals.graph.function import FunctionGraph, as_node
from internals.ops.operators import Operators
from internals.ops.table import is_array
from internals.tensor import Tensor, is_recording
from internals.tensor.node import mode
from internals.trace.branches import Missing
from internals.trace.convert import converted, not_capturing, why_it_stands
from internals.trace.errors import TraceError
from internals.trace.kinds import fits, is_tensor, is_tensor_kind, kind_of, kind_text, program_of
from internals.trace.recording import is_tracing, is_watched, recording
from internals.trace.state import KEPT, PLAIN, State
from internals.trace.trace import Trace


class Traced:
    """A function that runs as a graph. Made by `function`.

    Attributes
    ----------
    python : callable
        The function itself.
    traces : list of Trace
        In the order in which they were made.
    """

    def __init__(
        self,
        python: Callable[..., Any],
        *,
        most: int = 32,
        capture: bool = True,
        open_sizes: bool | None = None,
    ) -> None:
        if not callable(python):
            raise TypeError(f"function: expected a function, got {type(python).__name__}.")
        functools.update_wrapper(self, python, updated=())
        if not hasattr(self, "__name__"):
            self.__name__ = type(python).__name__
        self.python, self.most, self.capture, self.open_sizes = python, most, capture, open_sizes
        self.traces: list[Trace] = []
        self._kept: dict[Any, list[Trace]] = {}
        self._lock = threading.RLock()

    def __get__(self, instance: Any, owner: type | None = None) -> Traced:
        if instance is None:
            return self
        name = KEPT + self.__name__
        found = vars(instance).get(name)
        if found is None or found.python.__self__ is not instance:
            bound = self.python.__get__(instance, owner)
            found = Traced(bound, most=self.most, capture=self.capture, open_sizes=self.open_sizes)
            if not is_tracing():
                vars(instance)[name] = found
        return found

    def __reduce__(self) -> Any:
        return _forgotten, ()  # traces are made again where they are needed

    @functools.cached_property
    def body(self) -> Callable[..., Any]:
        """What is run to trace: the function, its control flow rewritten if it can be."""
        return self._converted[0]

    @functools.cached_property
    def _converted(self) -> tuple[Callable[..., Any], str]:
        return converted(self.python) if self.capture else (self.python, "capture is off")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors: list[Tensor] = []
        key: list[Any] = [mode.recording]
        flat = not kwargs
        if flat:
            for value in args:
                kind = type(value)
                if kind is Tensor:
                    data = value.data
                    key += (data.shape, data.dtype, cpu if type(data) is np.ndarray else device_of(data))
                    tensors.append(value)
                elif kind in _KEYS:
                    key += (kind, value)
                else:
                    flat = False
                    break
        if flat and not is_tracing():
            for trace in self._kept.get(tuple(key), ()):
                if trace.state.holds() and not is_watched():
                    return trace.run(tensors)
        given = tree.leaves((args, kwargs))
        for value in given:
            if isinstance(value, Node):
                return self.body(*args, **kwargs)  # inside another trace, or a graph: part of it
            if isinstance(value, Operators) and not isinstance(value, Tensor):
                return self.python(*args, **kwargs)  # forward mode, vmap: they have values of their own
        if is_tracing():
            return self.body(*args, **kwargs)
        if is_watched():  # autocast, anomaly mode: they see every operation
            return self.python(*args, **kwargs)
        tensors = [value if isinstance(value, Tensor) else Tensor(value) for value in given if is_tensor(value)]
        found = tuple(key) if flat else (mode.recording, tree.shape_of_tree((args, kwargs)), *map(kind_of, given))
        return self.trace_for(args, kwargs, given, found).run(tensors)

    def trace_for(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Any] | None = None, key: Any = None
    ) -> Trace:
        """The trace that a call with these arguments uses; made if there is none."""
        given = tree.leaves((args, kwargs)) if given is None else given
        key = (mode.recording, tree.shape_of_tree((args, kwargs)), *map(kind_of, given)) if key is None else key
        with self._lock:
            traces = self._kept.setdefault(key, [])
            for trace in traces:
                if trace.state.holds():
                    return trace
            kinds = [is_recording(), tree.shape_of_tree((args, kwargs)), *map(kind_of, given)]
            for trace in reversed(self.traces):
                if fits(trace.kinds, kinds) and trace.state.holds():
                    break
            else:
                trace = self._made(args, kwargs, given, kinds)
                self.traces.append(trace)
            traces.insert(0, trace)
        return trace

    def traced_at(self, shapes: Sequence[Sequence[int | None]], dtypes: Sequence[Any]) -> Trace:
        """A trace for Tensors of these shapes, in which None is a size that is left open; it is not kept.

        Raises
        ------
        TraceError
            The function can't be run as a graph.
        """
        sizes = [tuple(shape) for shape in shapes]
        given = [Tensor(np.zeros((0,) * len(shape), dtype)) for shape, dtype in zip(sizes, dtypes, strict=True)]
        return self._trace(tuple(given), {}, given, sizes)

    def explain(self) -> str:
        """Which traces there are, and why each was made."""
        if not self.traces:
            return f"{self.__name__}: not traced yet."
        lines = [f"{self.__name__}: {len(self.traces)} of at most {self.most} traces"]
        for number, trace in enumerate(self.traces, 1):
            size = len(trace.function.graph)
            lines.append(f"{number}. ({trace.signature}): {size} nodes, because {trace.reason}")
        return "\n".join(lines)

    # Tracing

    def _made(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Any], kinds: list[Any]) -> Trace:
        if len(self.traces) >= self.most:
            raise TraceError(
                f"{self.__name__}: traced {self.most} times, the last time because {self.traces[-1].reason}. "
                "Something changes at every call: pass it as a Tensor, or raise `most`."
            )
        reason, sizes = self._reason(kinds), [kind[1] if is_tensor_kind(kind) else () for kind in kinds[2:]]
        if self.open_sizes:
            sizes = [(None, *shape[1:]) if shape else shape for shape in sizes]
            made = self._trace(args, kwargs, given, sizes)
        else:
            made = self._trace(args, kwargs, given, sizes)
            wider = self._opened(kinds) if self.open_sizes is None else None
            if wider is not None:
                before, sizes_open = wider
                opened = self._tried(args, kwargs, given, sizes_open, made, before)
                reason += "" if opened is None else "; that size is open from now on"
                made, sizes = (made, sizes) if opened is None else (opened, sizes_open)
        made.reason = reason
        made.kinds = kinds[:2] + [
            (kind[0], shape, *kind[2:]) if is_tensor_kind(kind) else kind
            for kind, shape in zip(kinds[2:], sizes, strict=True)
        ]
        made.signature = ", ".join(
            kind_text(kind) if is_tensor_kind(kind) else repr(value)
            for kind, value in zip(made.kinds[2:], given, strict=True)
        )
        return made

    def _opened(self, kinds: list[Any]) -> tuple[Trace, list[Any]] | None:
        """An earlier trace that differs in sizes along axis 0 only, and the sizes with these left open.

        Sizes 0 and 1 are never open: programs treat them apart.
        """
        for trace in reversed(self.traces):
            if len(trace.kinds) != len(kinds) or trace.kinds[:2] != kinds[:2] or not trace.state.holds():
                continue
            sizes = []
            for now, before in zip(kinds[2:], trace.kinds[2:], strict=True):
                if not (is_tensor_kind(now) and is_tensor_kind(before)):
                    if now != before:
                        break
                    sizes.append(())
                    continue
                a, b = now[1], before[1]
                if now[2:] != before[2:] or len(a) != len(b) or a[1:] != b[1:] or min([9, *a[:1]]) < 2:
                    break
                if b and b[0] in (0, 1):
                    break
                sizes.append((None, *a[1:]) if a[:1] != b[:1] else a)
            else:
                return trace, sizes
        return None

    def _tried(self, args: Any, kwargs: Any, given: Any, sizes: Any, now: Trace, before: Trace) -> Trace | None:
        """A trace with open sizes, if it is the same program as those that were made with them known."""
        try:
            opened = self._trace(args, kwargs, given, sizes)
            if not opened.is_open or before.is_open:
                return opened if opened.is_open else None
            for known in (now, before):
                shapes = [node.shape for node in known.function.inputs]
                if len(shapes) != len(opened.function.inputs):
                    return None
                if program_of(opened.function.at(shapes)) != program_of(known.function):
                    return None
        except (GraphError, TypeError, ValueError, IndexError):
            return None
        return opened

    def _trace(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Any], sizes: list[Any]) -> Trace:
        state, graph = State(self.python), FunctionGraph(literal=True)
        inputs: list[Node] = []
        leaves: list[Any] = []
        outputs: list[Node] = []
        places: list[int | None] = []
        with recording(graph):
            for value, shape in zip(given, sizes, strict=True):
                if is_tensor(value):
                    inputs.append(graph.placeholder(shape, value.dtype, name=f"input_{len(inputs)}"))
                    leaves.append(inputs[-1])
                else:
                    leaves.append(value)
            graph.arguments.update(inputs)
            traced_args, traced_kwargs = tree.rebuilt((args, kwargs), leaves)
            answer = self._run(traced_args, traced_kwargs)
            for value in tree.leaves(answer):
                if isinstance(value, Node | Tensor) or is_array(value):
                    places.append(len(outputs))
                    outputs.append(as_node(graph, value))
                elif isinstance(value, Missing):
                    value.refuse()
                elif type(value) in PLAIN:
                    places.append(None)
                else:
                    raise TraceError(
                        f"{self.__name__}: it returns a {type(value).__name__}; a traced function returns Tensors, "
                        "numbers and text, in tuples, lists and dicts."
                    )
        self._check(state, graph, args)
        written = [target for target, _ in graph.written.values()]
        all_outputs = [*outputs, *[node for _, node in graph.written.values()], *graph.effects]
        function = Function(graph, inputs, all_outputs, self.__name__)
        made = Trace(function, answer, places, written, len(graph.effects))
        made.state = state
        return made

    def _run(self, args: Any, kwargs: Any) -> Any:
        body, why = self._converted
        try:
            with contextlib.nullcontext() if self.capture else not_capturing():
                return body(*args, **kwargs)
        except TraceError:
            raise
        except GraphError as error:
            name, why = (self.__name__, why) if why else why_it_stands(error.__traceback__)
            fix = f" {name} is traced as it stands, because {why}." if why else ""
            raise TraceError(f"{error}{fix}") from error
        except RecursionError as error:
            raise TraceError(
                f"{_line_of(error)}: tracing {self.__name__} does not end: a function calls itself for as long as a "
                "condition says that is known only at run time. Write a while loop."
            ) from error
        except (AttributeError, TypeError) as error:
            if "'Node'" not in str(error):
                raise
            raise TraceError(
                f"{_line_of(error)}: {error}. While {self.__name__} is traced this is a Node, whose value comes at "
                "run time: it has what operations give. For gradients use trace.gradient, and for x[i] = v "
                "ops.index_put."
            ) from error

    def _check(self, state: State, graph: FunctionGraph, args: Any) -> None:
        changed = state.changed()
        if changed:
            raise TraceError(
                f"{self.__name__}: tracing it changed what it reads: {changed}. That happens once, and not at every "
                "call. Return the value instead."
            )
        for value in graph.captures:
            if isinstance(value, Node):
                raise TraceError(
                    f"{self.__name__}: a value made inside a branch, a loop or another trace (at {value.where}) is "
                    "used outside of it. Assign it to a variable there."
                )

    def _reason(self, kinds: list[Any]) -> str:
        if not self.traces:
            return "it was called for the first time"
        alike = [trace for trace in self.traces if fits(trace.kinds, kinds)]
        if alike:
            return alike[-1].state.changed()
        last = self.traces[-1].kinds
        if last[0] != kinds[0]:
            return "gradients are recorded now" if kinds[0] else "gradients are not recorded now"
        if last[1] != kinds[1]:
            return f"its arguments were {last[1]} and are {kinds[1]}"
        position = next(
            i for i, (one, two) in enumerate(zip(last[2:], kinds[2:], strict=True)) if not fits([one], [two])
        )
        return f"argument {position} was {kind_text(last[2 + position])} and is {kind_text(kinds[2 + position])}"

    def __repr__(self) -> str:
        return f"<traced {self.__name__}: {len(self.traces)} traces>"


def function(
    python: Callable[..., Any] | None = None, *, most: int = 32, capture: bool = True, open_sizes: bool | None = None
) -> Any:
    """Run a function as a graph, as ``@function`` or ``@function(most=...)``.

    Parameters
    ----------
    python : callable
        Of Tensors, and of Python values, in nested tuples, lists and dicts; so is what it returns.
    most : int
        How many traces are made before something must be wrong.
    capture : bool
        Rewrite the function's ``if``, ``while``, ``for ... in range``, ``and``, ``or`` and ``not``, so that those whose
        condition is known only at run time become part of the graph. Python values are decided as ever.
    open_sizes : bool, optional
        Whether the sizes along axis 0 of all arguments are left open. By default those that were seen to change are,
        if the function is the same program without knowing them.

    Returns
    -------
    Traced
        Called as the function is. Its results are on the tape as one operation, whose backward part is a graph too.
        Writes into captured Tensors are done after each call, in order.

    Raises
    ------
    TraceError
        When it is traced: the function can't be run as a graph; says which line, and what to write instead.
    """
    if not isinstance(most, int) or most < 1:
        raise ValueError(f"function: most must be a positive integer, got {most!r}.")
    made = functools.partial(Traced, most=most, capture=capture, open_sizes=open_sizes)
    return made if python is None else made(python)


_KEYS = frozenset((int, bool, str, type(None)))


def _forgotten() -> None:
    return None


def _line_of(error: BaseException) -> str:
    """The last line of a traceback that is not of this package."""
    package, place = str(Path(__file__).resolve().parent.parent), "an unknown place"
    step = error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if not name.startswith(package):
            path = Path(name)
            notebook = "ipykernel" in path.parent.name
            place = f"line {step.tb_lineno} of a cell" if notebook else f"{path.name}:{step.tb_lineno}"
        step = step.tb_next
    return place
