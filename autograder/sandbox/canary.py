"""Prove what a sandbox keeps out, before anything is trusted to it.

A small program of ours runs in each kind and tries what must not work. Official grading takes only a kind whose every
promise was proven on this machine; the result is kept until the machine restarts, or kernel or code change.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from autograder.sandbox import landlock
from autograder.sandbox.box import Box, SandboxUnavailable, WorkerDied
from autograder.sandbox.layout import BOX_FILES, layout
from autograder.spec import Lab

PROMISES = ("network", "files", "memory", "processes", "tree")
_WORDS = {"network": "net", "files": "fs", "memory": "memory", "processes": "pids", "tree": "tree-kill"}
_HERE = Path(__file__).resolve().parent
_START_LIMIT = 30.0
_DIED = "the sandbox"
_ONE_AT_A_TIME = threading.Lock()
_recalled: dict[str, Proof] = {}


@dataclass
class Proof:
    """What the canary found out about one kind.

    `kept` maps each promise to "" if it held, else to what went wrong; `limits` says what counts memory and processes.
    """

    kind: str
    kept: dict[str, str] = field(default_factory=dict)
    limits: str = ""

    @property
    def proven(self) -> bool:
        return all(self.kept.get(promise, "not tried") == "" for promise in PROMISES)

    @property
    def words(self) -> str:
        held = [_WORDS[promise] for promise in PROMISES if self.kept.get(promise) == ""]
        broken = [
            f"{_WORDS[promise]} not proven ({self.kept.get(promise, 'not tried')})"
            for promise in PROMISES
            if self.kept.get(promise, "not tried")
        ]
        parts = [f"{', '.join(held)} proven"] if held else []
        return f"{self.kind}: {'; '.join(parts + broken)}" + (f" ({self.limits})" if self.limits else "")


def kinds() -> list[str]:
    """The sandbox kinds this machine has the parts for, strongest first."""
    found = []
    if sys.platform == "linux" and shutil.which("bwrap"):
        found.append("bubblewrap")
    if sys.platform == "linux" and landlock.abi():
        found.append("landlock")
    return found


def best(mode: Literal["official", "practice"] = "official") -> str:
    """The strongest sandbox kind for this use.

    Parameters
    ----------
    mode : {"official", "practice"}
        Official grading takes only a kind of which every promise is proven. Practice takes the kind that keeps most,
        and, where there is none, "process": the learner's own code on the learner's own machine, with limits only.

    Raises
    ------
    SandboxUnavailable
        Official grading was asked for and none is proven; one line says what was tried.
    """
    proofs = []
    for kind in kinds():
        proofs.append(prove(kind))
        if proofs[-1].proven:
            return kind
    usable = [proof for proof in proofs if "" in proof.kept.values()]
    if mode == "practice" and usable:
        return max(usable, key=lambda proof: sum(broken == "" for broken in proof.kept.values())).kind
    if mode == "practice":
        return "process"
    tried = "; ".join(proof.words for proof in proofs)
    advice = "On Linux, install bubblewrap (apt install bubblewrap); elsewhere, grade in a Linux container."
    raise SandboxUnavailable(f"no sandbox here is proven to hold{f' ({tried})' if tried else ''}. {advice}")


def describe(kind: str) -> str:
    """The kind and what its canary proved: ``"bubblewrap: net, fs, memory, pids, tree-kill proven (cgroup v1)"``."""
    return prove(kind).words


def prove(kind: str) -> Proof:
    """Run the canary in this kind, or recall what it found since the machine started."""
    with _ONE_AT_A_TIME:
        if kind not in _recalled:
            key = _key(kind)
            stored = _read_cache(key)
            _recalled[kind] = stored or run_canary(kind)
            # What went wrong may be gone the next time (a busy machine): only success is remembered on disk.
            if stored is None and _recalled[kind].proven:
                _write_cache(key, _recalled[kind])
        return _recalled[kind]


def forget() -> None:
    """Let the next `prove` in this process look again."""
    _recalled.clear()


def run_canary(kind: str) -> Proof:
    """Try everything, without looking at what is remembered."""
    proof = Proof(kind)
    if kind == "process":
        # It keeps out nothing, and trying would write to the learner's own files.
        proof.kept = dict.fromkeys(("network", "files", "processes"), "open, as to any program")
        return proof
    with _asking(proof, "network", "files", "processes"), _Probe(kind) as probe:
        proof.kept["network"] = _network(probe)
        proof.kept["files"] = _files(probe)
        proof.kept["processes"] = _processes(probe)
        proof.limits = probe.close()
    if kind == "bubblewrap":
        without = proof.kept.pop("network", "not tried")
        with _asking(proof, "network"), _Probe(kind, loopback=True) as probe:
            proof.kept["network"] = without or _beyond(probe)
    with _asking(proof, "memory"):
        proof.kept["memory"] = _memory(kind)
    with _asking(proof, "tree"):
        many, proof.kept["tree"] = _tree(kind)
        proof.kept["processes"] = proof.kept["processes"] or many
    return proof


@contextlib.contextmanager
def _asking(proof: Proof, *promises: str) -> Iterator[None]:
    """A sandbox that dies of being asked has kept none of these."""
    try:
        yield
    except WorkerDied as death:
        for promise in promises:
            proof.kept.setdefault(promise, f"{_DIED} {death.detail}"[:300])


# --- the promises ---------------------------------------------------------------------------------


def _lab(**options: Any) -> Lab:
    return Lab("canary", "The canary", (), ("numpy",), **{"total_limit": 60.0, **options})


class _Probe:
    """The probe in a sandbox, ready to be asked."""

    def __init__(self, kind: str, **options: Any) -> None:
        self.box = Box(_lab(**options), kind)
        self.box.request(
            {"do": "load", "drivers": (_HERE / "probe.py").read_text(encoding="utf-8")}, timeout=_START_LIMIT
        )
        self.box.request({"do": "mark", "task": "canary", "names": []}, timeout=_START_LIMIT)

    def ask(self, what: str, timeout: float = 10.0, **inputs: Any) -> Any:
        reply = self.box.request({"do": "call", "task": "canary", "driver": what, "inputs": inputs}, timeout=timeout)
        return reply["value"] if "value" in reply else reply["error"]

    def __enter__(self) -> _Probe:
        return self

    def close(self) -> str:
        """End it; gives what else than the limits of single processes held it."""
        self.box.close()
        return self.box.limits

    def __exit__(self, *_: object) -> None:
        self.close()


def _network(probe: _Probe) -> str:
    return _got(probe.ask("network"))


def _beyond(probe: _Probe) -> str:
    """Whether the loopback of a sandbox that has one is its own, and its only network."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return _got(probe.ask("beyond", port=listener.getsockname()[1]))


def _files(probe: _Probe) -> str:
    with tempfile.TemporaryDirectory(prefix="canary-") as directory:
        # Open to everyone outside, so that it's the sandbox that hides it, and not who the sandbox runs as.
        os.chmod(directory, 0o777)
        secret = Path(directory, "answer")
        secret.write_text("42", encoding="ascii")
        secret.chmod(0o644)
        if os.geteuid() == 0:
            os.chown(secret, probe.box.uid, -1)  # as if it were the learner's own
        was = secret.stat()
        package = _HERE.parent
        readable = {str(secret), directory, str(package), str(package / "spec.py"), str(package / "specs")}
        readable |= {"/etc/passwd", "/etc/shadow", "/root", "/home", "/proc/1/environ", "/proc/self/mem", "/sys/kernel"}
        readable.add(os.path.expanduser("~"))
        if probe.box.kind == "bubblewrap":
            # These are there inside, as empty ground of its own.
            readable -= {"/", "/tmp", *_parents_of_mounts()}
        writable = [directory, "/", "/dev", "/dev/shm", "/run", "/var/tmp", "/usr/lib", "/box", "/box/site"]
        broken = _got(probe.ask("files", target=str(secret), readable=sorted(readable), writable=writable))
        same = [getattr(secret.stat(), name) == getattr(was, name) for name in ("st_mode", "st_size", "st_mtime_ns")]
        return broken or ("" if all(same) else "a file outside was changed")


def _parents_of_mounts() -> set[str]:
    """Directories made inside only to mount the interpreter below them."""
    return {str(parent) for tree in layout(("numpy",)).trees for parent in Path(tree).parents}


def _memory(kind: str) -> str:
    for way in ("one_block", "creep"):
        with _Probe(kind, memory_bytes=64 << 20) as probe:
            try:
                answer = probe.ask(way, size=40 << 30 if way == "one_block" else 2 << 30, timeout=20.0)
            except WorkerDied as death:
                if death.cause != "memory":
                    return f"beyond its memory, it {death.detail}"
                continue
            if type(answer) is not dict or answer.get("cause") != "memory":
                return f"of 64 MB it {answer}"[:200]
    return ""


def _processes(probe: _Probe) -> str:
    broken = _got(probe.ask("processes", outside=os.getpid()))
    return broken or ("it runs as root" if probe.ask("identity") == 0 else "")


def _tree(kind: str) -> tuple[str, str]:
    """Whether the number of processes is limited, and whether all of them are ended with the sandbox."""
    with _Probe(kind, processes=8) as probe:
        made = probe.ask("family")
        before = descendants(probe.box.launcher_pid)
    if type(made) is not int or made < 1:
        return "", f"no child could be made to try it on ({made})"[:200]
    many = "" if made < 150 else f"it made {made} processes"
    if len(before) < 2:
        return many, "its children were not seen from outside"
    left = [pid for pid, started in before.items() if _started(pid) == started]
    return many, f"{len(left)} of {len(before)} processes were left" if left else ""


def _got(got: Any) -> str:
    if type(got) is not list:
        return f"the probe failed: {got}"[:200]
    return ", ".join(str(item)[:80] for item in got[:5])


def descendants(root: int) -> dict[int, str]:
    """Processes below `root`, with when each was started."""
    parents: dict[int, tuple[int, str]] = {}
    if not os.path.isdir("/proc/self"):
        return {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1]), fields[19]
    found: dict[int, str] = {}
    pending = [root]
    while pending:
        above = pending.pop()
        for pid, (parent, started) in parents.items():
            if parent == above:
                found[pid] = started
                pending.append(pid)
    return found


def _started(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


# --- what is remembered ---------------------------------------------------------------------------


def _key(kind: str) -> str:
    digest = hashlib.sha256()
    for part in (
        kind,
        str(os.geteuid()),
        platform.release(),
        sys.version,
        sys.base_prefix,
        _boot(),
        _bubblewrap_version(),
    ):
        digest.update(part.encode() + b"\0")
    for path in sorted([*_HERE.glob("*.py"), *BOX_FILES]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return "unknown"


def _bubblewrap_version() -> str:
    program = shutil.which("bwrap")
    if program is None:
        return ""
    status = os.stat(program)
    return f"{program} {status.st_size} {status.st_mtime_ns}"


def _cache_directory() -> Path | None:
    """A directory of this user alone; what others could write there, they could forge."""
    base = os.environ.get("XDG_CACHE_HOME")
    directory = Path(base if base and os.path.isabs(base) else os.path.expanduser("~/.cache")) / "autograder"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except (OSError, RuntimeError):
        return None
    return directory if status.st_uid == os.geteuid() and not status.st_mode & 0o022 else None


def _read_cache(key: str) -> Proof | None:
    directory = _cache_directory()
    if directory is None:
        return None
    try:
        stored = json.loads((directory / f"canary-{key[:32]}.json").read_text(encoding="utf-8"))
        return Proof(**stored)
    except (OSError, ValueError, TypeError):
        return None


def _write_cache(key: str, proof: Proof) -> None:
    directory = _cache_directory()
    if directory is None:
        return
    # A full or read-only disk costs the canary a second the next time, nothing else.
    with contextlib.suppress(OSError):
        temporary = directory / f".canary-{os.getpid()}"
        temporary.write_text(json.dumps(asdict(proof)), encoding="utf-8")
        temporary.replace(directory / f"canary-{key[:32]}.json")
