"""A pipeline of torch.distributed.pipelining over gloo, as a job of the launcher: ``torch_pipeline.py DIRECTORY``.

Each rank writes, for each schedule, the order of its actions and the gradients of its stage.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

STAGES, MICROS, BATCH, WIDTH = 3, 5, 10, 4


def weights(stage: int) -> tuple[np.ndarray, np.ndarray]:
    """Of a linear layer, (in, out), and its bias."""
    rng = np.random.default_rng(stage)
    return rng.standard_normal((WIDTH, WIDTH)).astype(np.float32), rng.standard_normal(WIDTH).astype(np.float32)


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(100)
    x, y = (rng.standard_normal((BATCH, WIDTH)).astype(np.float32) for _ in range(2))
    return x, y


def main() -> None:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    x, y = map(torch.tensor, data())
    for name, make in (("gpipe", ScheduleGPipe), ("1f1b", Schedule1F1B)):
        linear = nn.Linear(WIDTH, WIDTH)
        weight, bias = weights(rank)
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(weight.T))
            linear.bias.copy_(torch.tensor(bias))
        stage = PipelineStage(nn.Sequential(linear, nn.Tanh()), rank, STAGES, torch.device("cpu"))
        order: list[str] = []
        forward, backward = stage.forward_one_chunk, stage.backward_one_chunk

        def noted_forward(number, *rest, order=order, forward=forward, **settings):
            order.append(f"F{number}")
            return forward(number, *rest, **settings)

        def noted_backward(number, *rest, order=order, backward=backward, **settings):
            order.append(f"B{number}")
            return backward(number, *rest, **settings)

        stage.forward_one_chunk, stage.backward_one_chunk = noted_forward, noted_backward
        schedule = make(stage, n_microbatches=MICROS, loss_fn=nn.functional.mse_loss)
        schedule.step(*([x] if rank == 0 else []), **({"target": y} if rank == STAGES - 1 else {}))
        grads = {"weight": linear.weight.grad.numpy().T, "bias": linear.bias.grad.numpy()}
        np.savez(Path(sys.argv[1]) / f"{name}-{rank}.npz", order=np.array(order), **grads)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
