"""compile, fit, evaluate and predict."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from internals import optim
from internals.front import feeding, losses, optimizers
from internals.front.callbacks import Callback, CallbackList, History, ProgressBar
from internals.front.feeding import Batch
from internals.front.layer import Layer, fresh_seed
from internals.front.losses import Loss
from internals.front.metrics import Mean, Metric, metric
from internals.tensor import Tensor, no_grad


class Trainer(Layer):
    """How a model is trained; `Model` is one."""

    output_names: list[str]
    optimizer: optim.Optimizer | None = None
    stop_training = False
    epochs_done = 0
    """Epochs of `fit` so far; where training goes on after `load`."""

    def compile(
        self,
        optimizer: str | Callable[[list[Tensor]], optim.Optimizer] | optim.Optimizer = "rmsprop",
        loss: Any = None,
        *,
        metrics: Any = None,
        loss_weights: Sequence[float] | Mapping[str, float] | None = None,
    ) -> None:
        """Say how to train.

        Parameters
        ----------
        optimizer : str, callable or Optimizer
            A name ("sgd", "adam", ...: Keras's settings), a function of the parameters such as
            ``lambda parameters: optim.SGD(parameters, lr=0.1)``, or an optimizer of this model's parameters.
        loss : str, Loss or function; with several outputs a list of them, or a mapping by output name
        metrics : list of (str, Metric or function); with several outputs a list of lists, or a mapping by output name
        loss_weights : sequence or mapping, optional
            What each output's loss counts in the sum.

        Raises
        ------
        ValueError, TypeError
            A name that nothing has (with the closest that is there), or something of another kind.
        """
        self._optimizer = optimizers.optimizer(optimizer)
        self._loss, self._metrics, self._loss_weights = loss, metrics, loss_weights
        for one in loss.values() if isinstance(loss, Mapping) else _listed(loss):
            if one is not None:
                losses.loss(one)
        self.optimizer = None
        self._prepared = False
        if self.built:
            self._prepare()

    def _prepare(self) -> None:
        """What needs the model's outputs and parameters, once they are known."""
        names = self.output_names
        wanted = feeding.for_outputs("loss", self._loss, names)
        self.losses: list[Loss | None] = [None if one is None else losses.loss(one) for one in wanted]
        given = self._metrics
        if given is not None and len(names) == 1 and not isinstance(given, Mapping):
            given = [given if isinstance(given, list | tuple) else [given]]
        self.metrics: list[list[Metric]] = []
        for one in feeding.for_outputs("metrics", given, names):
            self.metrics.append([metric(m) for m in (one if isinstance(one, list | tuple) else [one] if one else [])])
        weights = feeding.for_outputs("loss_weights", self._loss_weights, names)
        self.loss_weights = [1.0 if one is None else float(one) for one in weights]
        parameters = self.parameters()
        if isinstance(self._optimizer, optim.Optimizer):
            own = {id(parameter) for parameter in parameters}
            if not {id(parameter) for parameter in self._optimizer.parameters} <= own:
                raise ValueError("compile: the optimizer has parameters that are not this model's.")
            self.optimizer = self._optimizer
        else:
            self.optimizer = self._optimizer([parameter for parameter in parameters if parameter.requires_grad])
        self._loss_mean, self._loss_means = Mean("loss"), [Mean("loss") for _ in names]
        self._prepared = True

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int = 32,
        epochs: int = 1,
        verbose: str | int = "auto",
        callbacks: Sequence[Callback] = (),
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Mapping[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        seed: int | None = None,
    ) -> History:
        """Train.

        Parameters
        ----------
        x, y : arrays, or lists of them for several inputs or outputs
            Or x alone: a Dataset of (x, y) examples, or a Reader of (x, y) or (x, y, sample_weight) batches.
        batch_size : int
            Of arrays and datasets. A reader has its own, and its own place: see `Reader.state_dict`.
        epochs, initial_epoch : int
            Train from epoch `initial_epoch` up to `epochs`.
        verbose : {"auto", 0, 1, 2}
            Silent, a bar ("auto" too), or a line for each epoch.
        callbacks : sequence of Callback
        validation_split : float
            The share of the arrays, from their end, that is kept for validation.
        validation_data : (x, y), (x, y, sample_weight), Dataset or Reader
        shuffle : bool
            Arrays and datasets in a new order each epoch.
        class_weight : mapping of class to number, optional
            What an example of a class counts in the loss.
        sample_weight : array, shape (examples,), optional
        seed : int, optional
            Decides, with the epoch, the order; of the model's own choice unless given, and then kept with it.

        Returns
        -------
        History
            ``history.history["loss"]`` has the mean loss of each epoch, and so on.

        Raises
        ------
        RuntimeError
            The model is not compiled.
        ValueError, TypeError
            The data do not fit each other or the model, or there are none.
        """
        self._check_compiled("fit")
        self._check_counts(batch_size, epochs, initial_epoch)
        if seed is not None or not hasattr(self, "shuffle_seed"):
            self.shuffle_seed = fresh_seed() if seed is None else seed
        order = self.shuffle_seed if shuffle else None
        validation = None
        if feeding.is_reader(x):
            if y is not None or sample_weight is not None or validation_split:
                raise ValueError("fit: a reader gives targets and weights itself; for a part of it, see data.split.")
            source: Any = x
        else:
            self._check_targets("fit", y)
            source = feeding.examples("fit", x, self._ordered(y), sample_weight)
            if validation_split:
                source, validation = source.cut(validation_split)
        reader = feeding.reader_of(source, batch_size, shuffle=order)
        if reader is not source:
            reader.load_state_dict({**reader.state_dict(), "epoch": initial_epoch, "position": 0})
        if validation_data is not None:
            validation = self._source("fit", validation_data)
        steps = feeding.length(reader)
        history = History()
        listeners = CallbackList(
            [*callbacks, history, *([ProgressBar(verbose)] if verbose else [])],
            self,
            {"epochs": epochs, "steps": steps, "verbose": verbose},
        )
        self.stop_training = False
        listeners.on_train_begin()
        try:
            for epoch in range(initial_epoch, epochs):
                listeners.on_epoch_begin(epoch)
                self.reset_metrics()
                logs: dict[str, float] = {}
                step = -1
                with closing(feeding.batches("fit", reader, self._outputs())) as batches:
                    for step, batch in enumerate(batches):
                        listeners.on_train_batch_begin(step)
                        logs = self._train_on(batch, class_weight, f"batch {step} of epoch {epoch}")
                        listeners.on_train_batch_end(step, logs)
                        if self.stop_training:
                            break
                if step < 0:
                    raise ValueError(f"fit: epoch {epoch} has no batches; the data are empty.")
                self.epochs_done = epoch + 1
                if validation is not None:
                    found = self._evaluated(validation, batch_size, listeners)
                    logs = {**logs, **{f"val_{name}": value for name, value in found.items()}}
                listeners.on_epoch_end(epoch, logs)
                if self.stop_training:
                    break
        finally:
            listeners.close()
        listeners.on_train_end(logs if epochs > initial_epoch else {})
        return history

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int = 32,
        sample_weight: Any = None,
        callbacks: Sequence[Callback] = (),
        return_dict: bool = False,
    ) -> Any:
        """The loss and the metrics on some data; a list in the order of `metrics_names`, one number, or a dict."""
        self._check_compiled("evaluate")
        if not feeding.is_reader(x):
            self._check_targets("evaluate", y)
            x = feeding.examples("evaluate", x, self._ordered(y), sample_weight)
        listeners = CallbackList(callbacks, self, {})
        found = self._evaluated(x, batch_size, listeners)
        values = list(found.values())
        return found if return_dict else values[0] if len(values) == 1 else values

    def predict(self, x: Any, *, batch_size: int = 32, callbacks: Sequence[Callback] = ()) -> Any:
        """The outputs for some inputs, as NumPy arrays."""
        if not feeding.is_reader(x):
            x = feeding.examples("predict", x, None, None)
        listeners = CallbackList(callbacks, self, {})
        listeners.on_predict_begin()
        self.eval()
        made: list[list[np.ndarray]] = []
        for step, batch in enumerate(feeding.batches("predict", feeding.reader_of(x, batch_size, shuffle=None))):
            listeners.on_predict_batch_begin(step)
            with no_grad():
                outputs = [_host(output) for output in _listed(self(*self._tensors(batch)))]
            made.append(outputs)
            listeners.on_predict_batch_end(step, {"outputs": outputs})
        if not made:
            raise ValueError("predict: there is no data.")
        listeners.on_predict_end()
        results = [np.concatenate(parts) for parts in zip(*made, strict=True)]
        return results[0] if len(results) == 1 else results

    def train_on_batch(
        self, x: Any, y: Any = None, *, sample_weight: Any = None, class_weight: Mapping[int, float] | None = None
    ) -> dict[str, float]:
        """One step; returns the loss and metrics of this batch."""
        self._check_compiled("train_on_batch")
        self._check_targets("train_on_batch", y)
        made = feeding.examples("train_on_batch", x, self._ordered(y), sample_weight)
        batch = Batch(made.inputs, made.targets, made.weight)
        if self._prepared:
            self.reset_metrics()
        return self._train_on(batch, class_weight, "this batch")

    # One batch

    def _train_on(self, batch: Batch, class_weight: Mapping[int, float] | None, where: str) -> dict[str, float]:
        self.train()
        outputs = self._outputs_for("fit", batch)
        assert self.optimizer is not None
        total = self._total_loss("fit", outputs, batch, feeding.weighted(batch, class_weight))
        self.optimizer.zero_grad()
        total.backward()
        self.optimizer.step()
        logs = self._count("fit", outputs, batch)
        if not np.isfinite(logs["loss"]) and self._warn_of_nan:
            self._warn_of_nan = False
            warnings.warn(
                f"fit: the loss is {logs['loss']} in {where}. Try a smaller step size, look for NaN in the data, or "
                "stop there with TerminateOnNaN().",
                RuntimeWarning,
                stacklevel=3,
            )
        return logs

    def _outputs_for(self, name: str, batch: Batch) -> list[Tensor]:
        outputs = _listed(self(*self._tensors(batch)))
        if not self._prepared:
            self._prepare()
        if len(batch.targets) != len(outputs):
            raise ValueError(
                f"{name}: the model has {len(outputs)} output(s), and there are {len(batch.targets)} targets."
            )
        return outputs

    def _total_loss(self, name: str, outputs: list[Tensor], batch: Batch, weight: Any) -> Tensor:
        total: Tensor | None = None
        for i, (output, target, one) in enumerate(zip(outputs, batch.targets, self.losses, strict=True)):
            if one is None:
                continue
            value = one(target, output, weight)
            self._loss_means[i].add(float(_host(value)), batch.size)
            value = value if self.loss_weights[i] == 1 else value * self.loss_weights[i]
            total = value if total is None else total + value
        if total is None:
            raise ValueError(f"{name}: compile the model with a loss.")
        self._loss_mean.add(float(_host(total)), batch.size)
        return total

    def _count(self, name: str, outputs: list[Tensor], batch: Batch) -> dict[str, float]:
        for output, target, metrics in zip(outputs, batch.targets, self.metrics, strict=True):
            if metrics:
                predicted = _host(output)
                for one in metrics:
                    one.update(np.asarray(target), predicted)
        return self._logs()

    def _logs(self) -> dict[str, float]:
        logs = {"loss": self._loss_mean.result()}
        several = len(self.output_names) > 1
        for name, mean, metrics in zip(self.output_names, self._loss_means, self.metrics, strict=True):
            if several:
                logs[f"{name}_loss"] = mean.result()
            for one in metrics:
                logs[f"{name}_{one.name}" if several else one.name] = one.result()
        return logs

    def _evaluated(self, source: Any, batch_size: int, listeners: CallbackList) -> dict[str, float]:
        self.eval()
        listeners.on_test_begin()
        reader = feeding.reader_of(source, batch_size, shuffle=None)
        if self._prepared:
            self.reset_metrics()
        logs: dict[str, float] | None = None
        for step, batch in enumerate(feeding.batches("evaluate", reader, self._outputs())):
            listeners.on_test_batch_begin(step)
            with no_grad():
                outputs = self._outputs_for("evaluate", batch)
                self._total_loss("evaluate", outputs, batch, batch.weight)
            logs = self._count("evaluate", outputs, batch)
            listeners.on_test_batch_end(step, logs)
        if logs is None:
            raise ValueError("evaluate: there is no data.")
        listeners.on_test_end(logs)
        return logs

    # Metrics

    @property
    def metrics_names(self) -> list[str]:
        """The names of what `evaluate` returns, in its order."""
        self._check_compiled("metrics_names")
        return list(self._logs())

    def reset_metrics(self) -> None:
        """Begin to count anew."""
        self._warn_of_nan = True
        if self._prepared:
            for one in (self._loss_mean, *self._loss_means, *(one for metrics in self.metrics for one in metrics)):
                one.reset()

    # Checks, and what was given in one form or another

    _prepared = False
    _warn_of_nan = True

    def _check_compiled(self, name: str) -> None:
        if not hasattr(self, "_optimizer"):
            raise RuntimeError(f"{name}: the model is not compiled; call compile(optimizer, loss) first.")

    def _check_targets(self, name: str, y: Any) -> None:
        if y is None:
            raise ValueError(f"{name}: y is missing; arrays are given as {name}(x, y).")

    @staticmethod
    def _check_counts(batch_size: int, epochs: int, initial_epoch: int) -> None:
        for what, value, least in (
            ("batch_size", batch_size, 1),
            ("epochs", epochs, 1),
            ("initial_epoch", initial_epoch, 0),
        ):
            if not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"fit: {what} must be a whole number of at least {least}, got {value!r}.")

    def _outputs(self) -> list[str] | None:
        return self.output_names if self.built else None

    def _ordered(self, y: Any) -> Any:
        """Targets given by output name, in the order of the outputs."""
        if not isinstance(y, Mapping):
            return y
        return feeding.for_outputs("y", y, self.output_names)

    def _source(self, name: str, data: Any) -> Any:
        if isinstance(data, tuple):
            if len(data) not in (2, 3):
                raise ValueError(
                    f"{name}: validation_data must be (x, y) or (x, y, sample_weight), got {len(data)} parts."
                )
            return feeding.examples(name, data[0], self._ordered(data[1]), data[2] if len(data) == 3 else None)
        if not feeding.is_reader(data):
            raise TypeError(
                f"{name}: validation_data must be (x, y), a dataset or a reader, got {type(data).__name__}."
            )
        return data

    def _tensors(self, batch: Batch) -> list[Tensor]:
        """The inputs, where the model is."""
        device = next((parameter.device for _, parameter in self.named_parameters()), None)
        return [Tensor(one, device=device) for one in batch.inputs]

    # Files: see internals.front.saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the architecture, the weights and the state of training to one file; see `internals.front.load`."""
        from internals.front.saving import save

        save(self, path)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Write the weights to a safetensors file; see `internals.nn.weights`."""
        from internals.nn.weights import save_weights

        if not self.built:
            raise ValueError("save_weights: the model is not built yet and has no weights; give it an Input.")
        save_weights(self, path)

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Read what `save_weights` wrote for a model of the same structure."""
        from internals.nn.weights import load_weights

        if not self.built:
            raise ValueError("load_weights: the model is not built yet and has no weights; give it an Input.")
        load_weights(self, path)


def _listed(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, tuple | list) else [outputs]


def _host(tensor: Tensor) -> np.ndarray:
    return tensor.detach().to("cpu").numpy()
