"""One rank of torch's DistributedDataParallel on gloo: ``python torch_data_parallel.py RANK DIRECTORY``."""

from __future__ import annotations

import contextlib
import pickle
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from data_parallel_cases import CLASSES, FEATURES, HIDDEN, RANKS, SETTINGS, STEPS, batch, branch, weights
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self, setting: str) -> None:
        super().__init__()
        self.first = torch.nn.Linear(FEATURES, HIDDEN)
        self.left = torch.nn.Linear(HIDDEN, HIDDEN)
        self.right = torch.nn.Linear(HIDDEN, HIDDEN)
        if setting == "unused":
            self.never = torch.nn.Linear(2, 2)
        if setting == "normalised":
            self.norm = torch.nn.BatchNorm1d(HIDDEN)
        self.last = torch.nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: torch.Tensor, way: str) -> torch.Tensor:
        x = torch.relu(self.first(x))
        left = self.left(x) if way != "right" else 0
        x = left + (self.right(x) if way != "left" else 0)
        if hasattr(self, "norm"):
            x = self.norm(x)
        return self.last(torch.tanh(x))


def trained(setting: str, rank: int) -> list[dict[str, np.ndarray]]:
    """The state after each step."""
    net = Net(setting)
    with torch.no_grad():
        for name, value in net.named_parameters():
            if name in weights() and rank == 0:
                value.copy_(torch.from_numpy(weights()[name]))
    model = DistributedDataParallel(net, bucket_cap_mb=0.0002, find_unused_parameters=setting == "unused")
    make = torch.optim.Adam if setting == "adam" else lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)
    optimizer = make(net.parameters(), lr=0.05)
    states = []
    for step in range(STEPS):
        optimizer.zero_grad()
        way = branch(setting, step, rank)
        for part in range(2 if setting in ("accumulated", "twice") else 1):
            x, y = map(torch.from_numpy, batch(step, rank, part))
            quiet = setting == "accumulated" and part == 0
            with model.no_sync() if quiet else contextlib.nullcontext():
                loss = cross_entropy(model(x, way), y)
                if setting == "twice":
                    x, y = map(torch.from_numpy, batch(step, rank, 7))
                    loss = loss + cross_entropy(model(x, way), y)
                loss.backward()
        optimizer.step()
        states.append({name: value.detach().numpy().copy() for name, value in net.state_dict().items()})
    return states


def main() -> None:
    rank, directory = int(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=RANKS)
    answers = {setting: trained(setting, rank) for setting in SETTINGS}
    (directory / f"{rank}.pickle").write_bytes(pickle.dumps(answers))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
