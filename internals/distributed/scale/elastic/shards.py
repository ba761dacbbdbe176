"""Which examples a rank trains on: the same batches in the same order, however many ranks share them."""

from __future__ import annotations

import numpy as np

from internals.distributed.collectives import bounds


class Shards:
    """Batches by step, and each rank's part of them.

    The examples of step k depend on the seed and on k only. So when ranks leave or join, the next batch is the one that
    would have come anyway, only cut into more or fewer parts; no example is left out, and none comes twice.

    Parameters
    ----------
    examples : int
        How many there are; each is taken once per epoch, in an order drawn anew for each. What is left over at the end
        of an epoch, less than a batch, is left out.
    batch : int
        Examples of a step, of all ranks together.
    seed : int
    """

    def __init__(self, examples: int, batch: int, *, seed: int = 0) -> None:
        if not 1 <= batch <= examples:
            raise ValueError(f"Shards: a batch of {batch} out of {examples} examples; expected 1 to {examples}")
        self.examples, self.batch, self.seed = examples, batch, seed
        self.steps_per_epoch = examples // batch

    def whole(self, step: int) -> np.ndarray:
        """The numbers of the examples of a step, (batch,)."""
        epoch, place = divmod(step, self.steps_per_epoch)
        order = np.random.default_rng([self.seed, epoch]).permutation(self.examples)
        return order[place * self.batch : (place + 1) * self.batch]

    def part(self, step: int, rank: int, size: int) -> np.ndarray:
        """Those of one rank of `size`; sizes of parts differ by one at most."""
        begin, end = bounds(self.batch, size)[rank]
        return self.whole(step)[begin:end]
