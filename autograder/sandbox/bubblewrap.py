"""The bubblewrap command for one sandbox: what it sees, and nothing else.

Imports only the standard library: the launcher runs it outside any package.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

BOX, SITE = "/box", "/box/site"
SCRATCH_BYTES = 64 << 20


def command(
    program: str,
    *,
    python: str,
    trees: Sequence[str],
    masks: Sequence[str],
    packages: Sequence[str],
    files: Sequence[str],
    seccomp: int,
) -> list[str]:
    """The argument list: bubblewrap, its options, the interpreter, and the worker in the sandbox.

    Parameters
    ----------
    program : str
        The bubblewrap executable.
    python, trees, masks, packages
        As in `layout.Layout`.
    files : sequence of str
        Seen in ``/box`` by their own names; the last one is run.
    seccomp : int
        A descriptor to read the filter from.
    """
    parts = [program]
    parts += [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    # Without --disable-userns, code inside could make a namespace of its own and be root in it.
    parts += [
        "--disable-userns",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--uid",
        "1000",
        "--gid",
        "1000",
    ]
    parts += ["--hostname", "sandbox"]
    for tree in sorted(trees, key=len):
        if os.path.islink(tree):
            parts += ["--symlink", os.readlink(tree), tree]
        else:
            parts += ["--ro-bind", tree, tree]
    for mask in masks:
        parts += ["--size", "4096", "--tmpfs", mask, "--remount-ro", mask]
    # Device nodes one by one, and no /proc: less to look at, and it also works where /proc can't be mounted.
    for device in ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"):
        parts += ["--dev-bind", device, device]
    for package in packages:
        parts += ["--ro-bind", package, f"{SITE}/{os.path.basename(package)}"]
    for file in files:
        parts += ["--ro-bind", file, f"{BOX}/{os.path.basename(file)}"]
    parts += ["--size", str(SCRATCH_BYTES), "--tmpfs", "/tmp", "--chdir", "/tmp", "--remount-ro", "/"]
    parts += ["--seccomp", str(seccomp)]
    parts += [python, "-I", "-S", "-B", f"{BOX}/{os.path.basename(files[-1])}", BOX, SITE]
    return parts
