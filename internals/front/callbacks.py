"""Callbacks: what is done at the turns of training, in the order in which Keras calls them."""

from __future__ import annotations

import csv
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Logs = dict[str, float]


class Callback:
    """Subclasses write those of its methods that they want called.

    Attributes
    ----------
    model : Model
    params : dict
        "epochs", "steps" (for an epoch, or None) and "verbose".
    """

    model: Any = None
    params: dict[str, Any] = {}

    def on_train_begin(self, logs: Logs | None = None) -> None: ...
    def on_train_end(self, logs: Logs | None = None) -> None: ...
    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None: ...
    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None: ...
    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None: ...
    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None: ...
    def on_test_begin(self, logs: Logs | None = None) -> None: ...
    def on_test_end(self, logs: Logs | None = None) -> None: ...
    def on_test_batch_begin(self, batch: int, logs: Logs | None = None) -> None: ...
    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None: ...
    def on_predict_begin(self, logs: Logs | None = None) -> None: ...
    def on_predict_end(self, logs: Logs | None = None) -> None: ...
    def on_predict_batch_begin(self, batch: int, logs: Logs | None = None) -> None: ...
    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None: ...

    def close(self) -> None:
        """Called when `fit` is over, also by an error."""


EVENTS = tuple(name for name in vars(Callback) if name.startswith("on_"))


class CallbackList:
    """Hands each event on to all callbacks, in their order."""

    def __init__(self, callbacks: Sequence[Callback], model: Any, params: dict[str, Any]) -> None:
        self.callbacks = list(callbacks)
        for callback in self.callbacks:
            if not isinstance(callback, Callback):
                raise TypeError(f"callbacks: expected Callbacks, got {type(callback).__name__}. Was it made with ()?")
            callback.model, callback.params = model, params

    def __getattr__(self, event: str) -> Callable[..., None]:
        if event not in EVENTS:
            raise AttributeError(f"there is no event {event}.")

        def tell(*arguments: Any) -> None:
            for callback in self.callbacks:
                getattr(callback, event)(*arguments)

        return tell

    def close(self) -> None:
        for callback in self.callbacks:
            callback.close()


class History(Callback):
    """What `fit` returns.

    Attributes
    ----------
    history : dict of str to list
        For each name in the logs, its value at the end of each epoch.
    epoch : list of int
    """

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)


class _Watch(Callback):
    """Compares one number of the logs with the best so far."""

    def __init__(self, monitor: str, mode: str, min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"{type(self).__name__}: mode must be 'auto', 'min' or 'max', got {mode!r}.")
        rises = mode == "max" or (mode == "auto" and any(part in monitor for part in ("acc", "auc", "top_k")))
        self.monitor, self.sign, self.min_delta = monitor, 1 if rises else -1, abs(min_delta)
        self.best: float | None = None

    def improved(self, logs: Logs | None) -> bool | None:
        """Whether this is the best so far; None if it is not in the logs."""
        if self.monitor not in (logs or {}):
            warnings.warn(
                f"{type(self).__name__}: {self.monitor!r} is not in the logs; there are {', '.join(logs or {})}.",
                RuntimeWarning,
                stacklevel=5,
            )
            return None
        value = (logs or {})[self.monitor]
        if math.isnan(value) or (self.best is not None and not self.sign * (value - self.best) > self.min_delta):
            return False
        self.best = value
        return True


class EarlyStopping(_Watch):
    """Stop when a number has not become better for `patience` epochs.

    Parameters
    ----------
    monitor : str
    min_delta : float
        A smaller change does not count.
    patience : int
    mode : {"auto", "min", "max"}
        Whether smaller or larger is better; "auto" goes by the name.
    restore_best_weights : bool
        At the end give the model the weights of its best epoch.
    start_from_epoch : int
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        *,
        min_delta: float = 0.0,
        patience: int = 0,
        mode: str = "auto",
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.restore, self.start = patience, restore_best_weights, start_from_epoch

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.best, self.wait, self.stopped_epoch, self.best_epoch = None, 0, 0, 0
        self._weights: dict[str, np.ndarray] | None = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if epoch < self.start:
            return
        better = self.improved(logs)
        if better is None:
            return
        if self.restore and self._weights is None:
            self._weights = self.model.state_dict()
        self.wait += 1
        if better:
            self.best_epoch, self.wait = epoch, 0
            if self.restore:
                self._weights = self.model.state_dict()
        elif self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.restore and self._weights is not None:
            self.model.load_state_dict(self._weights)


class ModelCheckpoint(_Watch):
    """Save the model at the end of each epoch; a save that is cut short leaves the file before it whole.

    Parameters
    ----------
    path : str
        May name the epoch, from 1, and the logs: ``"digits-{epoch:02d}-{val_loss:.2f}.safetensors"``.
    monitor, mode
        For `save_best_only`.
    save_best_only : bool
        Only when `monitor` is the best so far.
    save_weights_only : bool
        The weights alone, without the architecture and the state of training.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        monitor: str = "val_loss",
        *,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
    ) -> None:
        super().__init__(monitor, mode)
        self.path, self.best_only, self.weights_only = os.fspath(path), save_best_only, save_weights_only

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.best_only and not self.improved(logs):
            return
        try:
            path = self.path.format(epoch=epoch + 1, **(logs or {}))
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(
                f"ModelCheckpoint: the path {self.path!r} can't be filled in ({error}); it may name epoch, "
                f"{', '.join(logs or {})}."
            ) from None
        (self.model.save_weights if self.weights_only else self.model.save)(path)


class LearningRateScheduler(Callback):
    """Set the step size at the start of each epoch to ``schedule(epoch, lr)``."""

    def __init__(self, schedule: Callable[[int, float], float]) -> None:
        if not callable(schedule):
            raise TypeError(
                f"LearningRateScheduler: expected a function of (epoch, lr), got {type(schedule).__name__}."
            )
        self.schedule = schedule

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        if self.model.optimizer is None:
            raise RuntimeError(
                "LearningRateScheduler: the model has no optimizer before it is built; give it an Input."
            )
        rate = self.schedule(epoch, self.model.optimizer.lr)
        if not isinstance(rate, int | float | np.floating) or not rate > 0:
            raise ValueError(f"LearningRateScheduler: the schedule gave {rate!r}; expected a positive number.")
        self.model.optimizer.lr = float(rate)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if logs is not None:
            logs["learning_rate"] = self.model.optimizer.lr


class TerminateOnNaN(Callback):
    """Stop when the loss is not finite."""

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if logs and not math.isfinite(logs["loss"]):
            print(f"batch {batch}: the loss is {logs['loss']}; training stops.")
            self.model.stop_training = True


class CSVLogger(Callback):
    """Write the logs of each epoch as a line of a CSV file; `append` adds to what is there."""

    def __init__(self, path: str | os.PathLike[str], *, append: bool = False) -> None:
        self.path, self.append = Path(path), append
        self._file: Any = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        there = self.append and self.path.exists() and self.path.stat().st_size > 0
        self._names: list[str] | None = None
        if there:
            with self.path.open(newline="") as old:
                self._names = next(csv.reader(old))[1:]
        self._file = self.path.open("a" if self.append else "w", newline="")

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        writer = csv.writer(self._file)
        if self._names is None:
            self._names = list(logs or {})
            writer.writerow(["epoch", *self._names])
        writer.writerow([epoch, *((logs or {}).get(name, "NA") for name in self._names)])
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class LambdaCallback(Callback):
    """Functions as a callback: ``LambdaCallback(on_epoch_end=lambda epoch, logs: ...)``."""

    def __init__(self, **events: Callable[..., Any]) -> None:
        unknown = [name for name in events if name not in EVENTS]
        if unknown:
            raise TypeError(f"LambdaCallback: there is no event {unknown[0]}; there are {', '.join(EVENTS)}.")
        for name, function in events.items():
            setattr(self, name, function)


class HistoryPlot(Callback):
    """A chart of the epochs so far: in a notebook shown at the end of `fit`, and written to a file if one is given.

    Parameters
    ----------
    names : sequence of str
        What is drawn, with its ``val_`` counterpart if there is one; two names at most.
    path : path, optional
        An SVG file, written after each epoch.
    """

    def __init__(self, names: Sequence[str] = ("loss",), path: str | os.PathLike[str] | None = None) -> None:
        self.names = [names] if isinstance(names, str) else list(names)
        self.path = None if path is None else Path(path)
        self.series: dict[str, list[float]] = {}
        self.picture: Any = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.series, self.picture = {}, None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        from internals.observe import line_chart

        shown = [name for one in self.names for name in (one, f"val_{one}") if name in (logs or {})]
        if not shown:
            raise ValueError(
                f"HistoryPlot: {', '.join(self.names)} not in the logs; there are {', '.join(logs or {})}."
            )
        for name in shown[:3]:
            value = (logs or {})[name]
            self.series.setdefault(name, []).append(value if math.isfinite(value) else 0.0)
        self.picture = line_chart(self.series, title="Training", across="epoch", up=", ".join(self.names))
        if self.path is not None:
            self.picture.save(self.path)

    def on_train_end(self, logs: Logs | None = None) -> None:
        if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None and self.picture is not None:
            sys.modules["IPython"].display.display(self.picture)


class ProgressBar(Callback):
    """How far training is: a bar on a terminal, where rich is installed; a line for each epoch elsewhere."""

    def __init__(self, verbose: str | int = "auto") -> None:
        if verbose not in ("auto", 1, 2):
            raise ValueError(f"verbose must be 'auto', 0, 1 or 2, got {verbose!r}.")
        self.verbose = verbose
        self._bar: Any = None

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._start = time.perf_counter()
        self._bar = _bar() if self.verbose != 2 and sys.stdout.isatty() else None
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self._head(epoch), total=self.params["steps"], told="")

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=batch + 1, told=_told(logs))

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.close()
        print(f"{self._head(epoch)}  {time.perf_counter() - self._start:.1f} s  {_told(logs)}", flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _head(self, epoch: int) -> str:
        return f"Epoch {epoch + 1}/{self.params['epochs']}"


def _told(logs: Logs | None) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in (logs or {}).items())


def _bar() -> Any:
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    except ImportError:
        return None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"))
    return Progress(*columns, transient=True)
