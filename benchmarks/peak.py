"""Peak memory of a training step, each framework in a process of its own: ``python -m benchmarks.peak NAME STEP``.

A step on one example comes first, so that code which is loaded on first use does not count. Then the kernel's mark of
the most resident memory (VmHWM) is put back to what is resident now, and steps on the whole batch are run: the figure
is how far the mark has risen.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def peak(name: str, step: str) -> int:
    """Bytes that steps of the contender `name` took at most, measured in another process."""
    command = [sys.executable, "-m", "benchmarks.peak", name, step]
    root = Path(__file__).parents[1]
    return int(subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout)


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"peak: /proc/self/status has no {field}; this needs Linux.")


def main(name: str, step: str) -> None:
    from benchmarks.contenders import ALL

    contender = next(one for one in ALL if one.name == name)()
    work = step.removesuffix("_step")
    model, x, target, loss, sgd = getattr(contender, work)
    setattr(contender, work, (model, x[:1], target[:1], loss, sgd))
    getattr(contender, step)()
    setattr(contender, work, (model, x, target, loss, sgd))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = resident("VmRSS")
    for _ in range(3):
        getattr(contender, step)()
    print(resident("VmHWM") - before)


if __name__ == "__main__":
    main(*sys.argv[1:])
