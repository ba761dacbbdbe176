"""Start one sandbox and watch over it until it and everything in it has ended.

A process of its own, outside the sandbox, because what it does to itself (adopting orphans, changing user and
mounts) must not happen to the grader. Run as ``python -I -S launcher.py``:

- descriptor 0: one line of JSON (see `autograder.sandbox.box`), then nothing; its end means "kill everything".
- descriptor 1: one line of JSON when all has ended: how, and whether a limit was passed.
- descriptor 2: what the sandbox writes to stderr.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from autograder.sandbox import bubblewrap, cgroups, landlock, reach, seccomp
else:
    # Its neighbours, without the package around them: that would import what a launcher has no use for.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import bubblewrap
    import cgroups
    import landlock
    import reach
    import seccomp

LINUX = sys.platform.startswith("linux")
_SETUP_FAILED = 125
_TICK = 0.05
_ENVIRONMENT = {
    "PATH": "/usr/bin",
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "MALLOC_ARENA_MAX": "2",  # an arena per thread would use up the address space
}


def main() -> None:
    """Read the order, start, watch, report."""
    order = json.loads(_read_line(0))
    with contextlib.suppress(OSError):
        os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if LINUX:
        # PR_SET_CHILD_SUBREAPER: whatever is orphaned inside becomes ours.
        ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)
    name = f"autograder-{os.getpid()}"
    group = cgroups.create(name, memory=order["memory"] + (64 << 20), processes=order["threads"] + 8)
    scratch = tempfile.mkdtemp(prefix=f"{name}-")
    try:
        child = os.fork()
        if child == 0:
            _become_sandbox(order, group, scratch)
        for descriptor in (order["requests"], order["replies"]):
            os.close(descriptor)
        ended = _watch(order, child, group, scratch)
    finally:
        _remove(scratch)
        if group:
            group.remove()
    ended["group"] = group.words if group else ""
    os.write(1, json.dumps(ended).encode() + b"\n")


def _remove(directory: str) -> None:
    try:
        shutil.rmtree(directory, ignore_errors=True)
    except RecursionError:
        # Nested on purpose, deeper than Python goes.
        subprocess.run(["/bin/rm", "-rf", "--", directory], check=False)


def _read_line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(descriptor, 65536)
        if not part:
            sys.exit(0)
        line += part
    return line


# --- the child ------------------------------------------------------------------------------------


def _become_sandbox(order: dict[str, Any], group: cgroups.Group | None, scratch: str) -> NoReturn:
    try:
        _exec_sandbox(order, group, scratch)
    except BaseException as error:  # noqa: BLE001  a forked child must never return into its parent's code
        os.write(2, f"launcher: {type(error).__name__}: {error}\n".encode("utf-8", "replace"))
    os._exit(_SETUP_FAILED)


def _exec_sandbox(order: dict[str, Any], group: cgroups.Group | None, scratch: str) -> NoReturn:
    libc = ctypes.CDLL(None, use_errno=True)
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    # Out of the way first, so that none of the targets below is still the source of another.
    requests, replies = (fcntl.fcntl(order[end], fcntl.F_DUPFD, 10) for end in ("requests", "replies"))
    null = fcntl.fcntl(os.open("/dev/null", os.O_RDWR), fcntl.F_DUPFD, 10)
    for source, target in ((null, 0), (null, 1), (requests, 3), (replies, 4)):
        os.dup2(source, target)
    os.closerange(5, 1 << 16 if os.sysconf("SC_OPEN_MAX") < 0 else min(os.sysconf("SC_OPEN_MAX"), 1 << 16))
    if group:
        group.join()
    bubblewrapped = order["kind"] == "bubblewrap"
    site, temporary = os.path.join(scratch, "site"), os.path.join(scratch, "tmp")
    if not bubblewrapped:
        _link_packages(order, site)
        os.mkdir(temporary)
    uid = order["uid"]
    if uid:
        needed = [
            *order["trees"],
            *order["packages"],
            *order["files"],
            *([order["bubblewrap"]] if bubblewrapped else [scratch]),
        ]
        reach.make_reachable(needed)
        for path in () if bubblewrapped else (scratch, site, temporary):
            os.chmod(path, 0o755)
        if not bubblewrapped:
            os.chown(temporary, uid, uid)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    elif os.geteuid() == 0 and not bubblewrapped:
        _drop_capabilities(libc)
    if LINUX:
        # PR_SET_PDEATHSIG, should this be killed from outside; a change of user would have undone it.
        libc.prctl(1, int(signal.SIGKILL), 0, 0, 0)
    _set_limits(order)
    if bubblewrapped:
        filter_read, filter_write = os.pipe()
        os.write(filter_write, seccomp.program(processes=order["processes"], pid=None, loopback=order["loopback"]))
        os.close(filter_write)
        os.set_inheritable(filter_read, True)
        arguments = bubblewrap.command(
            order["bubblewrap"],
            python=order["python"],
            trees=order["trees"],
            masks=order["masks"],
            packages=order["packages"],
            files=order["files"],
            seccomp=filter_read,
        )
        os.execve(arguments[0], arguments, {**_ENVIRONMENT, "HOME": "/tmp", "TMPDIR": "/tmp", "MPLCONFIGDIR": "/tmp"})
    command = [order["python"], "-I", "-S", "-B", order["files"][-1], site]
    environment = {**_ENVIRONMENT, "HOME": temporary, "TMPDIR": temporary, "MPLCONFIGDIR": temporary}
    os.chdir(temporary)
    if order["kind"] == "process":
        os.execve(command[0], command, environment)
    rules = [(path, landlock.READ) for tree in order["trees"] for path in landlock.without(tree, order["masks"])]
    rules += [(tree, landlock.LIST) for tree in order["trees"] if os.path.isdir(tree)]
    rules += [(path, landlock.READ) for path in (*order["packages"], *order["files"], site)]
    rules += [(device, landlock.DEVICE) for device in ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")]
    rules.append((temporary, landlock.WRITE))
    # Signals to others are out of its scope where Landlock knows scopes; the filter leaves only itself elsewhere.
    own = None if order["processes"] > 1 and landlock.abi() >= 6 else os.getpid()
    landlock.restrict(rules)
    seccomp.install(seccomp.program(processes=order["processes"], pid=own, changes=False))
    os.execve(command[0], command, environment)


def _link_packages(order: dict[str, Any], site: str) -> None:
    os.mkdir(site)
    for path in (*order["packages"], *order["files"]):
        os.symlink(path, os.path.join(site, os.path.basename(path)))


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Root without its powers: files it owns are still its own, which is what Landlock is then for."""
    libc.prctl(28, 0x2F, 0, 0, 0)  # PR_SET_SECUREBITS: root's powers don't come back at exec
    for capability in range(64):
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "capabilities can't be given up")


def _set_limits(order: dict[str, Any]) -> None:
    limits = {
        "RLIMIT_AS": order["memory"] + order["overhead"],
        "RLIMIT_CPU": order["cpu"],
        "RLIMIT_FSIZE": bubblewrap.SCRATCH_BYTES // 2,
        "RLIMIT_NOFILE": 256,
        "RLIMIT_CORE": 0,
    }
    if LINUX:
        own = 0 if order["uid"] else _own_threads()
        limits |= {"RLIMIT_MEMLOCK": 0, "RLIMIT_MSGQUEUE": 0, "RLIMIT_NPROC": order["threads"] + 8 + own}
    for name, value in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _own_threads() -> int:
    """Threads this user runs already: RLIMIT_NPROC counts them, too."""
    uid, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count


# --- the watch ------------------------------------------------------------------------------------


def _watch(order: dict[str, Any], child: int, group: cgroups.Group | None, scratch: str) -> dict[str, Any]:
    """Wait for the child to end or the order to kill it; leave no descendant behind."""
    passed, killed = "", False
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    try:
        handle = os.pidfd_open(child)
        poll.register(handle, select.POLLIN)
        tick = _TICK
    except (AttributeError, OSError):
        # No such handle on an old kernel or another system: ask more often instead.
        tick = 0.01
    watched = LINUX and order["processes"] > 1 and group is None, order["kind"] != "bubblewrap"
    status: int | None = None
    while status is None:
        ready = poll.poll(tick * 1000 if any(watched) or tick < _TICK else None)
        if any(descriptor == 0 for descriptor, _ in ready):
            killed = True
            break
        if watched[0] and _resident_bytes() > order["memory"] + order["overhead"] // 2:
            passed = "memory"
            break
        if watched[1] and _directory_bytes(os.path.join(scratch, "tmp")) > bubblewrap.SCRATCH_BYTES:
            passed = "files"
            break
        done, result = os.waitpid(child, os.WNOHANG)
        status = result if done else None
    collected = _end_all(child, group)
    status = collected if status is None else status
    code = os.waitstatus_to_exitcode(status) if status is not None else None
    memory = group is not None and group.out_of_memory()
    return {"code": code, "killed": killed, "passed": "memory" if memory else passed}


def _end_all(child: int, group: cgroups.Group | None) -> int | None:
    """Kill every descendant, and collect them until there are none; gives the child's status."""
    status = None
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        for pid in {*_descendants(), *(group.members() if group else ())} - {os.getpid()}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not LINUX and status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
        try:
            while True:
                pid, result = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == child:
                    status = result
        except ChildProcessError:
            return status
        time.sleep(0.002)
    return status


def _descendants() -> list[int]:
    """Pids below this process, newest level last; none where there is no /proc to look them up in."""
    if not LINUX:
        return []
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parent = int(_text(f"/proc/{name}/stat").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    pending = [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _resident_bytes() -> int:
    total = 0
    for pid in _descendants():
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(_text(f"/proc/{pid}/statm").split()[1]) * resource.getpagesize()
    return total


def _directory_bytes(directory: str) -> int:
    """Bytes under a directory, an entry counting at least a page; stops counting once it is far too much."""
    total, pending = 0, [directory]
    while pending and total <= 4 * bubblewrap.SCRATCH_BYTES:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += max(4096, entry.stat(follow_symlinks=False).st_blocks * 512)
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
    return total


if __name__ == "__main__":
    main()
