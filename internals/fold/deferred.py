"""The fold style: calling a row on deferred values computes nothing; the call is noted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from internals.autodiff.lifted import Lifted
from internals.device import DeviceError
from internals.fold.gather import Block
from internals.ops.operators import Operators
from internals.ops.spec import Spec
from internals.ops.table import TABLE, Op, is_array, style
from internals.tensor import Tensor
from internals.tensor.eager import as_operand, plain_key
from internals.tensor.node import mode

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"

_WEIGHTED = """
matmul linear bilinear einsum tensordot take conv1d conv2d conv_transpose1d conv_transpose2d lstm gru rnn
"""
WEIGHTS = frozenset(_WEIGHTED.split())
"""Rows whose inputs, where they are plain Tensors, are weights: known by identity even if nothing trains them."""

DETACH = Op("detach", lambda xp, x: x, vjp=None, infer=lambda x: x, doc="x, a constant to gradients.")


class Kind:
    """Shape, dtype and device of a value; there is one object for each, so that comparing is cheap."""

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, device: Any) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device

    def __repr__(self) -> str:
        return repr(Spec(self.shape, self.dtype))


_kinds: dict[tuple[Any, ...], Kind] = {}


def kind_of(shape: tuple[int, ...], dtype: np.dtype, device: Any) -> Kind:
    key = (shape, dtype, device)
    return _kinds.get(key) or _kinds.setdefault(key, Kind(*key))


class Signature:
    """What calls must have in common to run together.

    Attributes
    ----------
    op : Op or Operation
    attrs : dict
    recording : bool
        Whether gradients were recorded where the call was noted.
    kinds : list of Kind
        Of the results.
    spec : Spec, tuple of Spec, or None
        Of one example's result, as batching rules take it.
    bundle : callable or None
        Puts several results together; None where there is one.
    number : int
        In the order in which signatures were met.
    """

    __slots__ = ("attrs", "bundle", "kinds", "number", "op", "recording", "spec")

    def __init__(self, op: Any, attrs: dict[str, Any], recording: bool, kinds: list[Kind], spec: Any, number: int):
        self.bundle: Any = op.bundle_of(spec) if hasattr(op, "bundle_of") else op.bundle if op.results else None
        self.op: Any = op
        self.attrs, self.recording, self.kinds = attrs, recording, kinds
        self.spec, self.number = spec, number

    def __repr__(self) -> str:
        return f"<{self.op.name} -> {', '.join(map(repr, self.kinds))}>"


class Notes:
    """Where calls are noted.

    Attributes
    ----------
    pending : list of Note
        What has yet to run.
    signatures : dict
    example : int or None
        Whose calls are being noted.
    """

    def __init__(self) -> None:
        self.pending: list[Note] = []
        self.signatures: dict[tuple[Any, ...], Signature] = {}
        self.example: int | None = None
        self.count = 0
        self._constants: dict[int, tuple[Any, Deferred]] = {}

    def constant(self, value: Any) -> Deferred:
        """The same deferred value each time for the same Tensor."""
        if id(value) not in self._constants:
            self._constants[id(value)] = value, leaf(self, value)  # held, so that the id stays its own
        return self._constants[id(value)][1]

    def run(self, values: Sequence[Deferred] | None = None) -> None:
        raise NotImplementedError


class _Opened(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []


opened = _Opened()
"""The batches that are open in this thread, the innermost last."""


class Note:
    """A call that was noted, or a value that something starts from.

    Attributes
    ----------
    signature : Signature or None
        None for a value that is there.
    inputs : tuple
        Deferred values, Tensors that calls share, numbers; empty once it has run.
    example : int or None
    order : int
        When it was noted, counted in its batch.
    blocks : tuple of Block or None
        Where its results lie, once it has run.
    row : int
        Which row of those blocks.
    """

    __slots__ = (
        "at",
        "batch",
        "blocks",
        "code",
        "example",
        "inputs",
        "instruction",
        "order",
        "place",
        "row",
        "signature",
    )

    def __init__(
        self, batch: Notes, signature: Signature | None, inputs: tuple[Any, ...], example: int | None, order: int
    ) -> None:
        self.batch, self.signature, self.inputs = batch, signature, inputs
        self.example, self.order = example, order
        self.blocks: tuple[Block, ...] | None = None
        self.row = self.at = 0
        self.place = self.instruction = -1
        self.code: CodeType | None = None

    @property
    def where(self) -> str:
        """The line outside this package that made the call."""
        if self.code is None:
            return "an unknown place"
        line = next((number for start, end, number in self.code.co_lines() if start <= self.instruction < end), None)
        path = Path(self.code.co_filename)
        return f"line {line} of a cell" if "ipykernel" in path.parent.name else f"{path.name}:{line}"

    def __repr__(self) -> str:
        name = self.signature.op.name if self.signature else "value"
        return f"<{name}, example {self.example}, {self.where}>"


class Deferred(Operators):
    """A value of one example that is yet to be computed, together with those of other examples.

    Its shape, dtype and device are known. Asking for its value (`value`, `item`, ``if``) runs what it needs, with all
    that is noted and alike.
    """

    __slots__ = ("index", "kind", "note")

    def __init__(self, note: Note, index: int, kind: Kind) -> None:
        self.note, self.index, self.kind = note, index, kind

    @property
    def shape(self) -> tuple[int, ...]:
        return self.kind.shape

    @property
    def dtype(self) -> np.dtype:
        return self.kind.dtype

    @property
    def device(self) -> Any:
        return self.kind.device

    @property
    def ndim(self) -> int:
        return len(self.kind.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.kind.shape, dtype=np.int64))

    @property
    def ready(self) -> bool:
        """Whether it has been computed."""
        return self.note.blocks is not None or self.note.signature is None

    @property
    def value(self) -> Any:
        """The Tensor; computed now, if it was not."""
        note = self.note
        if note.blocks is None:
            if note.signature is None:
                return note.inputs[0]
            note.batch.run([self])
            assert note.blocks is not None
        return note.blocks[self.index].tensor[note.row]

    def detach(self) -> Deferred:
        """The same value; no gradient goes through."""
        return run_deferred(DETACH, (self,), {})

    def numpy(self) -> Any:
        return self.value.numpy()

    def item(self) -> Any:
        return self.value.item()

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        raise TypeError(
            "x[key]: the key is deferred and x is not, so x would be indexed at once, alone. Use "
            "ops.take(x, key, axis=0)."
        )

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len: a 0-d tensor has no length.")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Deferred):
            return TABLE["take"](self, key, axis=0)
        if isinstance(key, tuple) and any(isinstance(part, Deferred) for part in key):
            raise TypeError(
                "x[key]: an index that is deferred stands alone. Use ops.take or ops.gather along an axis, or ask for "
                "its value first: int(index)."
            )
        return TABLE["getitem"](self, key=plain_key(key, self))  # type: ignore[arg-type]  # asked for its device

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "Deferred: a deferred value can't become a NumPy array in passing. Ask for it: x.numpy(), which runs what "
            "it needs."
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            "x[key] = value: x is deferred and can't be written to. Use x = ops.index_put(x, value, key=key)."
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"Deferred: there is no {name!r} here. Rows run on a deferred value; for what only a Tensor has, ask for "
            f"its value: x.value.{name}."
        )

    def __repr__(self) -> str:
        return f"<deferred {self.kind!r}{'' if not self.ready else ', computed'}>"


def leaf(batch: Notes, value: Any) -> Deferred:
    """A value that is there, as one that calls can be noted on."""
    note = Note(batch, None, (value,), batch.example, -1)
    return Deferred(note, 0, kind_of(tuple(value.shape), value.dtype, value.device))


def key_of(value: Any) -> Any:
    """Something hashable, equal for attributes that mean the same."""
    kind = type(value)
    if kind is slice:
        return slice, key_of(value.start), key_of(value.stop), key_of(value.step)
    if kind is int or kind is float or kind is bool:
        return (kind, value) if value else (kind, repr(value))  # 0 == 0.0 == -0.0 == False
    if kind is str or value is None or value is Ellipsis:
        return value
    if isinstance(value, tuple | list):
        return tuple([key_of(part) for part in value])
    if isinstance(value, dict):
        return tuple([(name, key_of(part)) for name, part in value.items()])
    if is_array(value):
        return value.shape, value.dtype, value.tobytes() if isinstance(value, np.ndarray | np.generic) else id(value)
    return value


def run_deferred(op: Any, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """How the fold style runs a row: it notes the call."""
    batch: Notes | None = None
    key: list[Any] = [op, mode.recording]
    plain = True
    for value in inputs:
        kind = type(value)
        if kind is Deferred:
            key.append(value.kind)
            note = value.note
            if note.blocks is None and note.signature is not None and note.batch is not batch:
                if batch is not None:
                    raise _two_batches(op)
                batch = note.batch
        elif kind is float or kind is int or kind is bool:
            key.append((kind, value) if value else (kind, repr(value)))
        else:
            plain = False
            key.append(None)
    if batch is None:  # all inputs are there
        batch = opened.stack[-1] if opened.stack else next(v.note.batch for v in inputs if type(v) is Deferred)
    if not plain:
        inputs = _received(op, inputs, key, batch)
    for name in attrs and op.attrs:
        key.append(key_of(attrs[name]))
    signature = batch.signatures.get(tuple(key))
    if signature is None:
        signature = _signed(op, inputs, attrs, batch)
        batch.signatures[tuple(key)] = signature
    note = Note(batch, signature, inputs, batch.example, batch.count)
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    note.code, note.instruction = frame.f_code, frame.f_lasti
    batch.count += 1
    batch.pending.append(note)
    if signature.bundle is None:
        return Deferred(note, 0, signature.kinds[0])
    return signature.bundle([Deferred(note, i, kind) for i, kind in enumerate(signature.kinds)])


def _two_batches(op: Any) -> ValueError:
    return ValueError(
        f"{op.name}: its inputs are deferred in two batches. Run one of them first: fold.run([x]), or leave its "
        "`with Batch():`."
    )


def _received(op: Any, inputs: tuple[Any, ...], key: list[Any], batch: Notes) -> tuple[Any, ...]:
    """Inputs of which some are Tensors: what trains is shared by all calls, what does not is a value of the example."""
    ready: list[Any] = []
    for position, value in enumerate(inputs):
        if key[2 + position] is None:
            if not isinstance(value, Lifted):
                value = as_operand(value, op.name)
            if isinstance(value, bool | int | float):
                key[2 + position] = (type(value), repr(value))
            elif not isinstance(value, Tensor | Lifted):
                raise TypeError(
                    f"{op.name}: deferred values and a {type(value).__name__} can't take part in one operation; "
                    "expected Tensors, arrays, numbers."
                )
            else:
                kind = kind_of(tuple(value.shape), value.dtype, value.device)
                if isinstance(value, Lifted) or value.requires_grad or _is_weight(op, value):
                    key[2 + position] = (kind, id(value))
                else:
                    value = batch.constant(value)
                    key[2 + position] = kind
        ready.append(value)
    return tuple(ready)


def _is_weight(op: Any, value: Any) -> bool:
    return op.name in WEIGHTS and value.dtype.kind not in "biu"


def _signed(op: Any, inputs: tuple[Any, ...], attrs: dict[str, Any], batch: Notes) -> Signature:
    """The signature of a call, whose result's kind is inferred here: what is wrong with a call is said where it is."""
    devices = {value.device for value in inputs if hasattr(value, "shape")}
    if len(devices) > 1:
        shown = " and ".join(sorted(map(str, devices)))
        raise DeviceError(f"{op.name}: inputs are on {shown}. Move them to one device.")
    (device,) = devices
    if isinstance(op, Op) and TABLE.get(op.name) is not op and op is not DETACH:
        raise TypeError(
            f"{op.name}: what a function of your own returns can't be inferred. Put it in an operation: "
            "fold.operation(function), and call that."
        )
    spec = op.infer_from(inputs, attrs)
    if op.name == "transfer":
        device = _device_called(attrs["device"])
    specs = list(spec) if isinstance(spec, tuple | list) else [spec]
    kinds = [kind_of(tuple(one.shape), one.dtype, device) for one in specs]
    return Signature(op, attrs, mode.recording, kinds, spec, len(batch.signatures))


def _device_called(name: str) -> Any:
    from internals.device import device as called

    return called(name)


style(Deferred, run_deferred, rank=40)
