"""The same workloads written in each framework, each the way its own documentation does it.

A contender has a step for each workload it can express, a recorded `add` of two (3, 4) tensors, and a chain of
additions, recorded and differentiated; `lacks` says why one is missing.
"""

from benchmarks.contenders.autograd_ import Autograd
from benchmarks.contenders.dezero_ import DeZero
from benchmarks.contenders.internals_ import Internals
from benchmarks.contenders.tinygrad_ import Tinygrad
from benchmarks.contenders.torch_ import Torch

ALL = (Internals, Torch, Autograd, DeZero, Tinygrad)

__all__ = ["ALL", "Autograd", "DeZero", "Internals", "Tinygrad", "Torch"]
