"""What is freed on the host is used again, rather than asked of the system anew."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from internals.memory import keep_freed_memory

LOOP = """
import resource
import numpy as np
import internals
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        parts = [np.ones(500_000, np.float32) for _ in range(8)]
        del parts
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults(), internals.memory.keep_freed_memory())
"""


def run(**environment: str) -> tuple[int, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | environment
    root = Path(__file__).parents[2]
    out = subprocess.run([sys.executable, "-c", LOOP], env=env, cwd=root, capture_output=True, text=True, check=True)
    faults, kept = out.stdout.split()
    return int(faults), kept


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator is Linux's")
def test_freed_memory_is_kept_unless_the_environment_says_otherwise() -> None:
    """16 MB at a time, 4,000 pages of it each time that is given back."""
    faults, kept = run()
    others, left = run(MALLOC_TRIM_THRESHOLD_="131072", MALLOC_MMAP_THRESHOLD_="131072")
    if kept == "True":
        assert faults < 2_000 < others
    assert left == "False"


def test_a_negative_number_of_bytes() -> None:
    with pytest.raises(ValueError, match="keep_freed_memory: .* got -1"):
        keep_freed_memory(-1)
