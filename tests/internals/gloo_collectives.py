"""One rank of torch.distributed on gloo: ``python gloo_collectives.py RANK DIRECTORY``. All cases, in one process."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from collective_cases import MOST_RANKS, Case, as_dtype, cases


def tensor(array: np.ndarray) -> torch.Tensor:
    if array.dtype == as_dtype("bfloat16"):
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def array(value: torch.Tensor) -> np.ndarray:
    return (
        value.view(torch.int16).numpy().view(as_dtype("bfloat16")) if value.dtype == torch.bfloat16 else value.numpy()
    )


def answer(case: Case, rank: int, group: Any) -> Any:
    op = getattr(dist.ReduceOp, {"prod": "PRODUCT"}.get(case.op, case.op.upper()))
    x = tensor(case.array(rank))
    if case.call == "all_reduce":
        dist.all_reduce(x, op, group=group)
    elif case.call == "broadcast":
        dist.broadcast(x, case.root, group=group)
    elif case.call == "reduce":
        dist.reduce(x, case.root, op, group=group)
        return array(x) if rank == case.root else None
    elif case.call == "all_gather":
        parts = [torch.empty_like(x) for _ in range(case.ranks)]
        dist.all_gather(parts, x, group=group)
        return np.stack([array(part) for part in parts])
    elif case.call == "gather":
        parts = [torch.empty_like(x) for _ in range(case.ranks)] if rank == case.root else None
        dist.gather(x, parts, case.root, group=group)
        return None if parts is None else np.stack([array(part) for part in parts])
    elif case.call == "scatter":
        given = [tensor(case.array(rank, place)) for place in range(case.ranks)] if rank == case.root else None
        dist.scatter(x, given, case.root, group=group)
    elif case.call == "reduce_scatter":
        part = torch.empty((case.shape[0] // case.ranks, *case.shape[1:]), dtype=x.dtype)
        dist.reduce_scatter_single(part, x, op, group=group)
        return array(part)
    elif case.call == "all_to_all":
        given = torch.stack([tensor(case.array(rank, place)) for place in range(case.ranks)])
        got = torch.empty_like(given)
        dist.all_to_all_single(got, given, group=group)
        return array(got)
    return array(x)


def main() -> None:
    rank, directory = int(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=MOST_RANKS)
    groups = {ranks: dist.new_group(list(range(ranks))) for ranks in range(1, MOST_RANKS + 1)}
    answers = {case.name: answer(case, rank, groups[case.ranks]) for case in cases() if rank < case.ranks}
    (directory / f"{rank}.pickle").write_bytes(pickle.dumps(answers))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
