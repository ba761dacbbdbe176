"""Layers that end a net: each value is a loss, a mean over the examples."""

from __future__ import annotations

from internals import ops
from internals.device import Array
from internals.layers.argument import Argument, Form
from internals.layers.layer import Layer, layer, pull


class Cost(Layer):
    cost = True


def _classes(what: str, x: Form, label: Form) -> None:
    if not label.ids or label.shape:
        raise ValueError(f"the label of a {what} layer must be ids, one for each example, but it is {label}.")
    if len(x.shape) != 1 or x.ids or x.sequence != label.sequence:
        raise ValueError(f"a {what} layer needs a row of numbers for each label, but its first bottom is {x}.")
    if x.size != label.ids:
        raise ValueError(f"there are {x.size} classes in the first bottom, but labels are {label}.")


@layer("softmax_with_loss")
class SoftmaxWithLoss(Cost):
    """Softmax and cross-entropy in one layer (Caffe): exact where a softmax by itself would round to 0."""

    def setup(self, x: Form, label: Form) -> Form:
        _classes("softmax_with_loss", x, label)
        return Form()

    def forward(self, x: Argument, label: Argument) -> Array:
        return ops.cross_entropy(x.value, label.ids)

    def backward(self, g: Array, x: Argument, label: Argument) -> None:
        x.accumulate(pull(ops.cross_entropy, g, None, [x.value, label.ids])[0])


@layer("cross_entropy")
class CrossEntropy(Cost):
    """-log p[label] of probabilities, such as a layer with ``act: "softmax"`` gives; infinite where p is 0."""

    def setup(self, x: Form, label: Form) -> Form:
        _classes("cross_entropy", x, label)
        return Form()

    def forward(self, x: Argument, label: Argument) -> Array:
        self.logs = ops.log(x.value)
        return ops.nll(self.logs, label.ids)

    def backward(self, g: Array, x: Argument, label: Argument) -> None:
        by_logs = pull(ops.nll, g, None, [self.logs, label.ids])[0]
        x.accumulate(pull(ops.log, by_logs, self.logs, [x.value])[0])


@layer("square_error")
class SquareError(Cost):
    """The mean of squared differences, over all entries."""

    def setup(self, x: Form, target: Form) -> Form:
        if x != target or x.ids:
            raise ValueError(f"a square_error layer needs two bottoms alike, of numbers, but has {x} and {target}.")
        return Form()

    def forward(self, x: Argument, target: Argument) -> Array:
        return ops.mse(x.value, target.value)

    def backward(self, g: Array, x: Argument, target: Argument) -> None:
        by_x, by_target = pull(ops.mse, g, None, [x.value, target.value], [x.wants, target.wants])
        x.accumulate(by_x)
        target.accumulate(by_target)


@layer("sigmoid_cross_entropy")
class SigmoidCrossEntropy(Cost):
    """Cross-entropy of independent yes-or-no targets, from logits; the mean over all entries."""

    def setup(self, x: Form, target: Form) -> Form:
        if x != target or x.ids:
            raise ValueError(f"a sigmoid_cross_entropy layer needs logits and targets alike, but has {x} and {target}.")
        return Form()

    def forward(self, x: Argument, target: Argument) -> Array:
        return ops.binary_cross_entropy(x.value, target.value)

    def backward(self, g: Array, x: Argument, target: Argument) -> None:
        x.accumulate(pull(ops.binary_cross_entropy, g, None, [x.value, target.value], [True, False])[0])
