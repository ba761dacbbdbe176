"""Modules: a model as an object that holds its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from internals.device import Device
from internals.nn.hooks import Handle, Hook, Hooks
from internals.tensor import Leaf, Tensor, no_grad

LINE = 88
"""A module is shown on one line up to this width, its parts below each other beyond."""


class Module:
    """A part of a model.

    Attributes that are Tensors requiring a gradient when they are assigned are its parameters; attributes that are
    Modules, or lists of them, are its parts. Subclasses write `forward`.

    Attributes
    ----------
    training : bool
        Set by `train` and `eval`; dropout and batch normalisation ask for it.
    buffers : tuple of str
        The attributes, Tensors too, that belong to its state but are not trained; see `register_buffer`.
    """

    training = True
    buffers: tuple[str, ...] = ()
    _hooks: Hooks | None = None

    def forward(self, *inputs: Any, **settings: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward; write one.")

    def __call__(self, /, *inputs: Any, **settings: Any) -> Any:
        if self._hooks:
            return self._hooks.run(self, inputs, settings)
        return self.forward(*inputs, **settings)

    def __setattr__(self, name: str, value: Any) -> None:
        known: dict[str, None] = vars(self).setdefault("_parameter_names", {})
        if isinstance(value, Tensor) and type(value.node) is Leaf and name not in self.buffers:
            known[name] = None
        else:
            known.pop(name, None)
        super().__setattr__(name, value)

    # What it is made of

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Every parameter once, with its dotted name, in the order of assignment; also one that is frozen."""
        yield from _once(self._walk(prefix, self._parameter_here))

    def parameters(self) -> list[Tensor]:
        """Every parameter once."""
        return [parameter for _, parameter in self.named_parameters()]

    def num_parameters(self, trainable: bool = False) -> int:
        """How many numbers the parameters hold; with `trainable`, without those that are frozen."""
        return sum(one.size for one in self.parameters() if one.requires_grad or not trainable)

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Every buffer once, with its dotted name."""
        yield from _once(self._walk(prefix, lambda part, name, value: name in part.buffers))

    def register_buffer(self, name: str, value: Tensor) -> None:
        """Make a Tensor part of the state: it is saved, loaded and moved, but not trained."""
        if not isinstance(value, Tensor):
            raise TypeError(f"register_buffer: {name} must be a Tensor, got {type(value).__name__}.")
        if value.requires_grad:
            raise ValueError(f"register_buffer: {name} requires a gradient, so it is a parameter; detach() it.")
        self.buffers = (*self.buffers, name) if name not in self.buffers else self.buffers
        setattr(self, name, value)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Its direct parts, each once, by name."""
        yield from _once((name, value) for name, value in self._attributes() if isinstance(value, Module))

    def children(self) -> list[Module]:
        """Its direct parts, each once."""
        return [part for _, part in self.named_children()]

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Itself, named `prefix`, and every part of it, at any depth, once, by dotted name."""
        yield from _once(self._all_modules(prefix))

    def modules(self) -> list[Module]:
        """Itself and every part of it, each once."""
        return [part for _, part in self.named_modules()]

    def _all_modules(self, prefix: str) -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, part in self._attributes():
            if isinstance(part, Module):
                yield from part._all_modules(f"{prefix}.{name}" if prefix else name)

    def _walk(self, prefix: str, wanted: Callable[[Module, str, Tensor], bool]) -> Iterator[tuple[str, Tensor]]:
        for name, value in self._attributes():
            if isinstance(value, Module):
                yield from value._walk(f"{prefix}{name}.", wanted)
            elif isinstance(value, Tensor) and wanted(self, name, value):
                yield prefix + name, value

    @staticmethod
    def _parameter_here(part: Module, name: str, value: Tensor) -> bool:
        """Whether a Tensor is a parameter: it required a gradient when it was assigned, or does now."""
        known = vars(part).get("_parameter_names", ())
        return name in known or (type(value.node) is Leaf and name not in part.buffers)

    @classmethod
    def _state_here(cls, part: Module, name: str, value: Tensor) -> bool:
        return name in part.buffers or cls._parameter_here(part, name, value)

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        """Attributes by name; the Modules in a list, each by its place."""
        for name, value in vars(self).items():
            if isinstance(value, list | tuple):
                yield from ((f"{name}.{i}", part) for i, part in enumerate(value) if isinstance(part, Module))
            else:
                yield name, value

    # What can be done to all of it

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call a function with every part, the innermost first, and with itself last; to initialise, for example."""
        for part in self.children():
            part.apply(function)
        function(self)
        return self

    def requires_grad_(self, value: bool = True) -> Self:
        """Train the parameters, or with False freeze them: they stay parameters, but receive no gradient."""
        for parameter in self.parameters():
            parameter.requires_grad = value
        return self

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters():
            if parameter.requires_grad:
                parameter.grad = None

    def train(self, mode: bool = True) -> Self:
        """Behave as in training, or with False as in evaluation; the parts too."""
        self.training = mode
        for part in self.children():
            part.train(mode)
        return self

    def eval(self) -> Self:
        """Behave as in evaluation."""
        return self.train(False)

    def to(self, target: str | Device | Any) -> Self:
        """Move parameters and buffers to a device, or the floating ones to a dtype, in place; gradients are forgotten.

        Parameters
        ----------
        target : str, Device or dtype
            ``"sim:0"``, ``"float64"``, ...
        """
        with no_grad():
            for _, value in _once(self._walk("", self._state_here)):
                moved = value.detach().to(target)
                if moved.device is value.device and value.dtype.kind in "biu":
                    continue
                trained = value.requires_grad
                value.node, value.data = None, moved.data
                value.requires_grad = trained
        return self

    # Its state

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters and buffers by their dotted names, as PyTorch has them; copies on the host.

        A tensor that is there under two names has both. PyTorch's are no copies: there, training goes on in what was
        handed out.
        """
        with no_grad():
            return {name: value.detach().to("cpu").numpy().copy() for name, value in self._walk("", self._state_here)}

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Write values into parameters and buffers, in place.

        Parameters
        ----------
        state : mapping of name to array
        strict : bool
            Every name that `state_dict` gives must be there, and no other. With False, what is on both sides is
            written, and the rest left alone.

        Raises
        ------
        ValueError
            A name is missing or unknown, or a value has another shape. Nothing is changed then.
        """
        mine = dict(self._walk("", self._state_here))
        differ = {"missing": sorted(mine.keys() - state.keys()), "unknown": sorted(state.keys() - mine.keys())}
        if strict and any(differ.values()):
            told = "; ".join(f"{what}: {', '.join(names)}" for what, names in differ.items() if names)
            raise ValueError(f"load_state_dict: {told}.")
        mine = {name: value for name, value in mine.items() if name in state}
        values = {name: np.asarray(state[name], dtype=value.dtype) for name, value in mine.items()}
        for name, value in mine.items():
            if values[name].shape != value.shape:
                raise ValueError(f"load_state_dict: {name} has shape {value.shape}, the value {values[name].shape}.")
        with no_grad():
            for name, value in mine.items():
                value[...] = Tensor(values[name], device=value.device)

    # Hooks

    def register_forward_pre_hook(self, hook: Hook) -> Handle:
        """Run ``hook(module, inputs)`` before each forward; what it returns, unless None, takes the inputs' place."""
        return Handle(self._own_hooks().before, hook)

    def register_forward_hook(self, hook: Hook) -> Handle:
        """Run ``hook(module, inputs, outputs)`` after each forward; what it returns, unless None, is the output."""
        return Handle(self._own_hooks().after, hook)

    def register_full_backward_hook(self, hook: Hook) -> Handle:
        """Run ``hook(module, by_inputs, by_outputs)`` when the cotangents of the module's inputs are known.

        Both are tuples of Tensors; `by_inputs` is empty where no input requires a gradient. What the hook returns,
        unless None, takes the place of `by_inputs`.
        """
        return Handle(self._own_hooks().backward, hook)

    def _own_hooks(self) -> Hooks:
        if "_hooks" not in vars(self):
            self._hooks = Hooks()
        assert self._hooks is not None
        return self._hooks

    # How it is shown

    def extra_repr(self) -> str:
        """What stands in the brackets after the name of a module; its settings."""
        return ""

    def __repr__(self) -> str:
        parts = [(name, repr(part)) for name, part in self._attributes() if isinstance(part, Module)]
        settings = [self.extra_repr()] if self.extra_repr() else []
        line = f"{type(self).__name__}({', '.join(settings + self._shown_parts(parts))})"
        if not parts or (len(line) <= LINE and "\n" not in line):
            return line
        below = [f"  ({name}): {text}".replace("\n", "\n  ") for name, text in parts]
        return "\n".join([f"{type(self).__name__}({', '.join(settings)}", *below, ")"])

    def _shown_parts(self, parts: list[tuple[str, str]]) -> list[str]:
        return [f"{name}={text}" for name, text in parts]


def _once(pairs: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Each value under the first of its names."""
    seen: set[int] = set()
    for name, value in pairs:
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value


def positive(module: str, **sizes: Any) -> None:
    """Refuse a size that is no positive integer."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{module}: {name} must be a positive integer, got {size!r}.")


def tensors(module: str, **inputs: Any) -> None:
    """Refuse an input that is no Tensor, nor anything like one: an array, a dual number, a graph's node."""
    for name, value in inputs.items():
        if not (hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "ndim")):
            raise TypeError(f"{module}: {name} must be a Tensor, got {type(value).__name__}. Make one: Tensor(...).")


def parameter(values: Any) -> Tensor:
    """A float32 Tensor that is trained."""
    return Tensor(values, dtype=np.float32, requires_grad=True)
