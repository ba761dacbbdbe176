"""A small model learns what a large one thinks of each example, not only which class is right."""

from __future__ import annotations

from internals import ops
from internals.tensor import Tensor


def distillation_loss(
    student: Tensor, teacher: Tensor, labels: Tensor | None = None, *, temperature: float = 4.0, weight: float = 0.9
) -> Tensor:
    """How far the student's softened classes are from the teacher's, and its plain classes from the labels.

    ``w T**2 KL(softmax(teacher / T) || softmax(student / T)) + (1 - w) cross_entropy(student, labels)``, with w the
    `weight`, T the `temperature`, and the mean over the batch (Hinton, Vinyals and Dean 2015, §2.1; the factor T**2
    keeps the gradient's size when T changes).

    Parameters
    ----------
    student, teacher : (batch, classes) Tensor
        Logits. No gradient goes into the teacher.
    labels : (batch,) integer Tensor, optional
        Needed unless `weight` is 1.
    temperature : float
        T > 0.
    weight : float
        In [0, 1].
    """
    if student.ndim != 2 or student.shape != teacher.shape:
        raise ValueError(
            f"distillation_loss: student and teacher are both (batch, classes); got {student.shape}, {teacher.shape}."
        )
    if not temperature > 0 or not 0 <= weight <= 1:
        raise ValueError(f"distillation_loss: temperature > 0 and weight in [0, 1], got {temperature} and {weight}.")
    if labels is None and weight < 1:
        raise ValueError("distillation_loss: labels are needed unless weight is 1.")
    soft = ops.softmax(teacher.detach() / temperature, axis=-1)
    log_soft = ops.log_softmax(teacher.detach() / temperature, axis=-1)
    away = (soft * (log_soft - ops.log_softmax(student / temperature, axis=-1))).sum() / student.shape[0]
    loss = away * (weight * temperature**2)
    if labels is None or weight == 1:
        return loss
    return loss + ops.cross_entropy(student, labels) * (1 - weight)
