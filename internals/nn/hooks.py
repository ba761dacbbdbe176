"""What a module runs besides its forward: hooks before it, after it, and on the way back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from internals.ops.spec import Spec
from internals.ops.table import Op
from internals.tensor import Tensor, wrap

Hook = Callable[..., Any]

_next_key = itertools.count().__next__


class Handle:
    """One registered hook; `remove` ends it, and so does leaving a with block."""

    def __init__(self, hooks: dict[int, Hook], hook: Hook) -> None:
        if not callable(hook):
            raise TypeError(f"hook: expected a function, got {type(hook).__name__}.")
        self._hooks, self._key = hooks, _next_key()
        hooks[self._key] = hook

    def remove(self) -> None:
        """Run the hook no more; a second time does nothing."""
        self._hooks.pop(self._key, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Hooks:
    """The hooks of one module, by kind, in the order in which they were registered."""

    def __init__(self) -> None:
        self.before: dict[int, Hook] = {}
        self.after: dict[int, Hook] = {}
        self.backward: dict[int, Hook] = {}

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.backward)

    def run(self, module: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """The module's forward, with everything around it."""
        for hook in list(self.before.values()):
            changed = hook(module, inputs)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
        watch = _Watch(module, list(self.backward.values())) if self.backward else None
        if watch is not None:
            inputs = watch.on_the_way_in(inputs)
        outputs = module.forward(*inputs, **settings)
        for hook in list(self.after.values()):
            changed = hook(module, inputs, outputs)
            outputs = outputs if changed is None else changed
        return outputs if watch is None else watch.on_the_way_out(outputs)


class _Watch:
    """One call's backward hooks: the outputs' cotangents are noted, and those of the inputs shown to the hooks."""

    def __init__(self, module: Any, hooks: list[Hook]) -> None:
        self.module, self.hooks = module, hooks
        self.by_outputs: tuple[Any, ...] = ()
        self.watches_inputs = False

    def on_the_way_in(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        self.watches_inputs = any(isinstance(x, Tensor) and x.requires_grad for x in inputs)
        return _through(inputs, self._met_inputs) if self.watches_inputs else inputs

    def on_the_way_out(self, outputs: Any) -> Any:
        if isinstance(outputs, tuple):
            return type(outputs)(_through(outputs, self._met_outputs))
        return _through((outputs,), self._met_outputs)[0]

    def _met_outputs(self, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        self.by_outputs = cotangents
        return cotangents if self.watches_inputs else self._show((), cotangents)

    def _met_inputs(self, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._show(cotangents, cotangents)

    def _show(self, by_inputs: tuple[Any, ...], otherwise: tuple[Any, ...]) -> tuple[Any, ...]:
        bare = bool(otherwise) and not isinstance(otherwise[0], Tensor)
        for hook in self.hooks:
            seen, met = (
                tuple([wrap(x) if bare and x is not None else x for x in some]) for some in (by_inputs, self.by_outputs)
            )
            changed = hook(self.module, seen, met)
            if changed is None or not by_inputs:
                continue
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != len(by_inputs):
                raise RuntimeError(
                    f"{type(self.module).__name__}: a backward hook gave {len(changed)} cotangents for "
                    f"{len(by_inputs)} inputs."
                )
            by_inputs = tuple([x.data if bare and isinstance(x, Tensor) else x for x in changed])
        return by_inputs or otherwise


def _through(values: Sequence[Any], met: Hook) -> tuple[Any, ...]:
    """The values as they are, but their cotangents, all together, pass through `met`."""
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.dtype.kind not in "biu"]
    if not any(values[i].requires_grad for i in places):
        return tuple(values)
    passed = list(values)
    for i, value in zip(places, WATCHED([values[i] for i in places], met=met), strict=True):
        passed[i] = value
    return tuple(passed)


def _watched_infer(*tensors: Spec, met: Hook) -> tuple[Spec, ...]:
    return tensors


WATCHED = Op(
    "watched",
    lambda xp, *tensors, met: tuple([x.copy() for x in tensors]),
    vjp=lambda g, out, *tensors, met: met(tuple(g)),
    jvp="linear",
    variadic=True,
    joint=True,
    results="several",
    infer=_watched_infer,
    doc="Its inputs; their cotangents pass through a function on the way back. Not in the table: hooks alone use it.",
)
