"""What every optimizer does around its rule: groups, state, decay, checks, and the walk over the parameters.

A rule is written for bare arrays and moves them in place. It is entry-wise, so it need not see a parameter whole: on
the cpu the walk hands it pieces that stay in the cache, and the rule can read like the formula, since what the formula
makes on the way is never larger than a piece.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from internals.device import Array, device_of, is_writable, move
from internals.ops.spec import Spec
from internals.tensor import Tensor

PIECE = 131_072
"""Entries of a parameter that a rule is given at once on the cpu: half a megabyte of float32."""

Settings = dict[str, Any]
State = dict[str, Any]


class Optimizer:
    """The base of all optimizers: a subclass gives the defaults, the slots and the rule.

    Parameters
    ----------
    parameters : iterable of Tensors, or of dicts
        Leaves that require a gradient. A dict is a group: its ``"params"``, and settings of its own.
    settings : dict
        What holds in a group that does not say otherwise; ``lr``, ``weight_decay`` and ``maximize`` among it.

    Attributes
    ----------
    param_groups : list of dict
        The settings of each group, and its parameters under ``"params"``. A schedule changes ``"lr"`` here.
    state : dict from Tensor to dict
        What the rule remembers of a parameter, once it has moved: ``"step"``, a number, and its slots, bare arrays of
        the parameter's shape, dtype and device.

    Raises
    ------
    TypeError
        A tensor in place of a list of them, or a setting that is no number.
    ValueError
        No parameters, one that requires no gradient, is no leaf or is there twice, a setting that is unknown or out of
        its range.

    Notes
    -----
    NaN in a gradient goes into the parameter, as in PyTorch: looking for it would read every gradient once more.
    `clip_grad_norm` with ``error_if_nonfinite=True`` looks and names the parameter; `LossScaler` looks and skips the
    step.
    """

    coupled_decay: ClassVar[bool] = True
    """Whether weight decay is added to the gradient, so that the rule rescales it too; else it shrinks the weight."""

    def __init__(self, parameters: Iterable[Any], settings: Settings) -> None:
        if isinstance(parameters, Tensor):
            raise TypeError(f"{self._name}: parameters are given as a list; one tensor alone is [tensor].")
        if isinstance(parameters, Mapping):
            raise TypeError(f"{self._name}: parameters are given as a list; one group alone is [group].")
        if not isinstance(parameters, Iterable):
            raise TypeError(
                f"{self._name}: parameters must be a list of Tensors, got {type(parameters).__name__}; pass "
                "model.parameters()."
            )
        self._defaults = settings
        self.param_groups: list[Settings] = []
        self.state: dict[Tensor, State] = {}
        given = list(parameters)
        if not given:
            raise ValueError(f"{self._name}: there are no parameters to train; pass model.parameters().")
        for group in given if isinstance(given[0], Mapping) else [{"params": given}]:
            self.add_param_group(group)

    # What a subclass says

    def check(self, settings: Settings) -> None:
        """Raise ValueError for settings that make no sense."""

    def slots(self, settings: Settings) -> tuple[str, ...]:
        """The names of the arrays that the rule remembers; they start as zeros."""
        return ()

    def start(self, slot: str, parameter: Array, xp: Any, settings: Settings) -> Array:
        """The first value of a slot."""
        return xp.zeros_like(parameter)

    def update(self, xp: Any, x: Array, g: Array, step: int, state: State, settings: Settings) -> None:
        """The rule: move `x`, and what is in `state`, in place. Step counts from 1."""
        raise NotImplementedError(f"{self._name} has no rule; write update.")

    # What is asked of it

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters of all groups."""
        return [parameter for group in self.param_groups for parameter in group["params"]]

    @property
    def lr(self) -> float:
        """The step size of the first group; setting it sets that of all groups."""
        return self.param_groups[0]["lr"]

    @lr.setter
    def lr(self, value: float) -> None:
        lrs = [self._checked({**group, "lr": value})["lr"] for group in self.param_groups]
        for group, lr in zip(self.param_groups, lrs, strict=True):
            group["lr"] = lr

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Train more parameters, with settings of their own.

        Parameters
        ----------
        group : mapping
            ``"params"``, a Tensor or a list of them, and any setting of this optimizer.
        """
        if not isinstance(group, Mapping) or "params" not in group:
            raise TypeError(
                f"{self._name}: a group is a dict with 'params', got {type(group).__name__}; give all parameters in "
                "groups, or none."
            )
        unknown = group.keys() - self._defaults.keys() - {"params"}
        if unknown:
            raise ValueError(
                f"{self._name}: unknown setting {', '.join(sorted(map(str, unknown)))}; there are "
                f"{', '.join(self._defaults)}."
            )
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        known = {id(parameter) for parameter in self.parameters}
        for position, parameter in enumerate(params):
            self._check_parameter(len(known), parameter)
            if id(parameter) in known:
                raise ValueError(
                    f"{self._name}: parameter {len(known)} is there twice (place {position} of its group), and would "
                    "be moved twice in a step."
                )
            known.add(id(parameter))
        settings = self._checked({**self._defaults, **group, "params": params})
        if settings["lr"] == 0:  # a schedule may come down to it, but a start there is a mistake
            raise ValueError(f"{self._name}: lr must be positive, got lr={settings['lr']}.")
        self.param_groups.append(settings)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad = None

    def step(self) -> None:
        """Move every parameter that has a gradient, in place; the tape does not see it.

        Raises
        ------
        ValueError, TypeError, DeviceError
            A gradient does not fit its parameter. Nothing was moved then.
        """
        for settings in self.param_groups:
            for parameter in settings["params"]:
                if parameter.grad is not None:
                    self._check_gradient(parameter, parameter.grad)
        for settings in self.param_groups:
            for parameter in settings["params"]:
                gradient = parameter.grad
                if gradient is not None:
                    self._move(parameter, gradient.data, settings)
                    parameter.storage.version += 1

    def _move(self, parameter: Tensor, gradient: Array, settings: Settings) -> None:
        self.move(parameter.data, gradient, self._state_of(parameter, settings), settings)

    def move(self, x: Array, gradient: Array, state: State, settings: Settings) -> None:
        """Move an array in place, and its slots with it; `state` has the step that this is, where there are slots."""
        place = device_of(x)
        xp = place.xp
        decay, maximize = settings["weight_decay"], settings["maximize"]
        step = state["step"] if state else 0
        with place.scope():
            for piece, g, slots in pieces(x, gradient, state):
                if maximize:
                    g = -g
                if decay and self.coupled_decay:
                    g = g + decay * piece
                elif decay:
                    xp.multiply(piece, 1 - settings["lr"] * decay, out=piece)
                self.update(xp, piece, g, step, slots, settings)

    def _state_of(self, parameter: Tensor, settings: Settings) -> State:
        """What is remembered of a parameter, its step counted up; empty where the rule needs no memory."""
        slots = self.slots(settings)
        if not slots:
            return {}
        state = self.state.setdefault(parameter, {"step": 0})
        place = device_of(parameter.data)
        for slot in slots:
            if slot not in state:
                with place.scope():
                    state[slot] = self.start(slot, parameter.data, place.xp, settings)
            elif device_of(state[slot]) is not place or state[slot].shape != parameter.shape:
                # The model was moved since: its history goes along.
                state[slot] = move(state[slot], place).reshape(parameter.shape)
        state["step"] += 1
        return state

    # Saved and resumed

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on as if nothing had happened; copies, as NumPy arrays.

        Returns
        -------
        dict
            ``"state"``: for the number of each parameter that has moved, its step and slots. ``"param_groups"``: the
            settings of each group, with numbers for parameters. PyTorch's form.
        """
        numbers = {id(parameter): number for number, parameter in enumerate(self.parameters)}
        return {
            "state": {
                numbers[id(parameter)]: {name: _on_host(value) for name, value in state.items()}
                for parameter, state in self.state.items()
            },
            "param_groups": [
                {**settings, "params": [numbers[id(parameter)] for parameter in settings["params"]]}
                for settings in self.param_groups
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave.

        Raises
        ------
        ValueError
            It is of another optimizer, of other groups, or of parameters of other shapes. Nothing is changed then.
        """
        if not isinstance(state, Mapping) or not {"state", "param_groups"} <= state.keys():
            raise ValueError(
                f"{self._name}: load_state_dict wants what state_dict gave, with 'state' and 'param_groups'."
            )
        sizes = [len(group["params"]) for group in state["param_groups"]]
        mine = [len(group["params"]) for group in self.param_groups]
        if sizes != mine:
            raise ValueError(f"{self._name}: load_state_dict: groups of {sizes} parameters, but this one has {mine}.")
        groups = []
        for theirs, group in zip(state["param_groups"], self.param_groups, strict=True):
            if theirs.keys() - {"initial_lr"} != group.keys() - {"initial_lr"}:
                raise ValueError(
                    f"{self._name}: load_state_dict: settings {', '.join(sorted(theirs))}; expected "
                    f"{', '.join(sorted(group))}. Was it saved by another optimizer?"
                )
            groups.append(self._checked({**theirs, "params": group["params"]}))
        parameters, loaded = self.parameters, {}
        settings = [group for group in groups for _ in group["params"]]
        for number, slots in state["state"].items():
            if not 0 <= int(number) < len(parameters):
                raise ValueError(f"{self._name}: load_state_dict: there is no parameter {number}.")
            parameter = parameters[int(number)]
            lacking = {"step", *self.slots(settings[int(number)])} - slots.keys() if slots else set()
            if lacking:
                raise ValueError(
                    f"{self._name}: load_state_dict: parameter {number} has {', '.join(sorted(slots))}, but no "
                    f"{', '.join(sorted(lacking))}. Was it saved by another optimizer?"
                )
            loaded[parameter] = {name: self._loaded(int(number), name, slots[name], parameter) for name in slots}
        self.param_groups, self.state = groups, loaded

    def _loaded(self, number: int, name: str, value: Any, parameter: Tensor) -> Any:
        if name == "step":
            return int(value)
        array = np.array(value, dtype=parameter.dtype)
        if array.shape != parameter.shape:
            raise ValueError(
                f"{self._name}: load_state_dict: {name} of parameter {number} has shape {array.shape}, the parameter "
                f"{parameter.shape}."
            )
        return move(array, parameter.device)

    # Checks

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _check_parameter(self, number: int, parameter: Any) -> None:
        if not isinstance(parameter, Tensor):
            raise TypeError(f"{self._name}: parameter {number} is a {type(parameter).__name__}; expected a Tensor.")
        if not parameter.requires_grad:
            raise ValueError(
                f"{self._name}: parameter {number} does not require a gradient; make it with requires_grad=True."
            )
        if not parameter.is_leaf:
            raise ValueError(
                f"{self._name}: parameter {number} was computed from others, so no gradient is kept for it; pass the "
                "leaves, or detach() it and set requires_grad."
            )
        if not is_writable(parameter.data):
            raise ValueError(
                f"{self._name}: parameter {number} is a broadcast view and can't be written to; clone() it first."
            )

    def _check_gradient(self, parameter: Tensor, gradient: Tensor) -> None:
        if gradient.shape == parameter.shape and gradient.dtype == parameter.dtype:
            if device_of(gradient.data) is device_of(parameter.data):
                return
            raise ValueError(
                f"{self._name}: {self._which(parameter)} is on {parameter.device}, its gradient on {gradient.device}. "
                "Compute the gradient anew after moving a model."
            )
        raise ValueError(
            f"{self._name}: {self._which(parameter)} is {Spec(parameter.shape, parameter.dtype)}, its gradient "
            f"{Spec(gradient.shape, gradient.dtype)}; they must agree. Was one of them replaced?"
        )

    def _which(self, parameter: Tensor) -> str:
        return f"parameter {next(i for i, one in enumerate(self.parameters) if one is parameter)}"

    def _checked(self, settings: Settings) -> Settings:
        # NumPy's numbers would widen float32 arithmetic; Python's take the dtype of the array they meet.
        settings = {name: value.item() if isinstance(value, np.number) else value for name, value in settings.items()}
        for name in self._defaults:
            self._check_kind(name, settings[name])
        if not 0 <= settings["lr"] < math.inf:
            raise ValueError(f"{self._name}: lr must be positive and finite, got lr={settings['lr']}.")
        self.within(settings, "weight_decay", 0, math.inf)
        self.check(settings)
        return settings

    def _check_kind(self, name: str, value: Any) -> None:
        """Raise TypeError unless a setting is of the kind of its default, or a number where it has none."""
        parameter = inspect.signature(type(self).__init__).parameters.get(name)
        default = 0.0 if parameter is None or parameter.default is parameter.empty else parameter.default
        if isinstance(default, bool):
            if not isinstance(value, bool):
                raise TypeError(f"{self._name}: {name} must be True or False, got {value!r}.")
        elif isinstance(default, tuple):
            numbers = isinstance(value, Sequence) and all(isinstance(one, int | float) for one in value)
            if not numbers or len(value) != len(default):
                raise TypeError(f"{self._name}: {name} must be {len(default)} numbers, got {value!r}.")
        elif isinstance(default, int | float) and not isinstance(value, int | float):
            raise TypeError(f"{self._name}: {name} must be a number, got {type(value).__name__}.")

    def within(self, settings: Settings, name: str, low: float, high: float) -> None:
        """Raise ValueError unless ``low <= settings[name] < high``, for each of several numbers."""
        value = settings[name]
        if not all(low <= number < high for number in (value if isinstance(value, Sequence) else (value,))):
            least = "not negative" if math.isinf(high) and low == 0 else f"in [{low}, {high})"
            raise ValueError(f"{self._name}: {name} must be {least}, got {name}={value}.")

    def __repr__(self) -> str:
        groups = [
            ", ".join(f"{name}={value}" for name, value in settings.items() if name != "params")
            for settings in self.param_groups
        ]
        return f"{self._name}({len(self.parameters)} parameters; {'; '.join(groups)})"


def pieces(x: Array, g: Array, state: State) -> Iterator[tuple[Array, Array, State]]:
    """A parameter, its gradient and its slots, in pieces of the same entries that fit in the cache.

    Whole where that is of no use: a small parameter, one that is not in one run of memory, an array of another device.
    A 0-d one comes as one of one entry, since NumPy makes numbers of 0-d results, and those can't be written to.
    """
    slots = {name: slot for name, slot in state.items() if name != "step"}
    if x.ndim == 0:
        yield x.reshape(1), g.reshape(1), {name: slot.reshape(1) for name, slot in slots.items()}
        return
    whole = x.size <= PIECE or type(x) is not np.ndarray or not x.flags.c_contiguous
    if whole or not all(slot.flags.c_contiguous for slot in slots.values()):
        yield x, g, slots
        return
    x, g = x.reshape(-1), g.reshape(-1)
    slots = {name: slot.reshape(-1) for name, slot in slots.items()}
    for begin in range(0, x.size, PIECE):
        end = begin + PIECE
        yield x[begin:end], g[begin:end], {name: slot[begin:end] for name, slot in slots.items()}


def _on_host(value: Any) -> Any:
    return value if isinstance(value, int) else np.array(device_of(value).to_host(value))
