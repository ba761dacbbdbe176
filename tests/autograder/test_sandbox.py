"""Sandboxes: what they see, that the canary notices what leaks, that nothing is silently weaker."""

# ruff: noqa: E501  one case, one line: a table is read by its rows
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from boxes import KINDS, notebook_around, run, small_lab

from autograder import sandbox
from autograder.run import Answer
from autograder.sandbox import Box, SandboxUnavailable, WorkerDied, canary, cgroups, landlock
from autograder.sandbox.canary import PROMISES, Proof
from autograder.sandbox.layout import layout

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def nothing_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    canary.forget()


# --- the canary --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_canary_proves_every_promise(kind: str) -> None:
    proof = canary.run_canary(kind)
    assert proof.kept == dict.fromkeys(PROMISES, ""), proof.words
    assert "net, fs, memory, pids, tree-kill proven" in proof.words
    assert proof.limits


def leaky(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Weaken one wall of the sandbox, in a copy of its code."""
    copy = tmp_path / "sandbox"
    shutil.copytree(ROOT / "autograder" / "sandbox", copy)
    edits = {
        "network": ("seccomp.py", "for name, numbers in _NETWORK.items():", "for name, numbers in ():"),
        "files-read": (
            "launcher.py",
            "rules.append((temporary",
            'rules.append(("/", landlock.READ)); rules.append((temporary',
        ),
        "files-write": (
            "launcher.py",
            "rules.append((temporary",
            'rules.append(("/tmp", landlock.WRITE)); rules.append((temporary',
        ),
        "memory": ("launcher.py", 'order["memory"] + order["overhead"],', "1 << 40,"),
        "changes": ("launcher.py", ", changes=False", ""),
        "processes": ("seccomp.py", "    if processes <= 1:", "    if processes <= 0:"),
    }
    file, old, new = edits[name]
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new))
    if name == "memory":
        (copy / "cgroups.py").write_text(
            (copy / "cgroups.py")
            .read_text()
            .replace("def create(", "def create(*_, **__):\n    return None\n\n\ndef _unused(")
        )
    monkeypatch.setattr("autograder.sandbox.box._LAUNCHER", copy / "launcher.py")


@pytest.mark.slow
@pytest.mark.skipif("landlock" not in KINDS, reason="no Landlock here")
@pytest.mark.parametrize(
    ("weakness", "promise"),
    [
        ("network", "network"),
        ("files-read", "files"),
        ("files-write", "files"),
        ("memory", "memory"),
        ("changes", "files"),
        ("processes", "processes"),
    ],
)
def test_the_canary_notices_a_wall_that_leaks(
    weakness: str, promise: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    leaky(weakness, monkeypatch, tmp_path)
    assert canary.run_canary("landlock").kept[promise] != ""


@pytest.mark.slow
@pytest.mark.skipif("bubblewrap" not in KINDS, reason="no bubblewrap here")
@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("bubblewrap.py", '"--unshare-net",', "", "port outside was reached"),
        ("seccomp.py", '_case(numbers[column], *_only(_AF_INET, _SOCK_STREAM, *tcp))', 'b""', "datagram socket"),
    ],
    ids=["namespace", "filter"],
)  # fmt: skip
def test_the_canary_notices_a_loopback_that_is_not_its_own(
    file: str, old: str, new: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "sandbox"
    shutil.copytree(ROOT / "autograder" / "sandbox", copy)
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new))
    monkeypatch.setattr("autograder.sandbox.box._LAUNCHER", copy / "launcher.py")
    assert words in canary.run_canary("bubblewrap").kept["network"]


def test_official_grading_refuses_what_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs = {
        "bubblewrap": Proof("bubblewrap", {**dict.fromkeys(PROMISES, ""), "network": "an internet socket"}),
        "landlock": Proof("landlock", dict.fromkeys(PROMISES, "it does not start")),
    }
    monkeypatch.setattr(canary, "kinds", lambda: list(proofs))
    monkeypatch.setattr(canary, "prove", proofs.__getitem__)
    with pytest.raises(SandboxUnavailable, match=r"net not proven \(an internet socket\)"):
        sandbox.best("official")
    assert sandbox.best("practice") == "bubblewrap"
    proofs["landlock"] = Proof("landlock", dict.fromkeys(PROMISES, ""))
    assert sandbox.best("official") == "landlock"
    monkeypatch.setattr(canary, "kinds", list)
    with pytest.raises(SandboxUnavailable, match="install bubblewrap"):
        sandbox.best("official")
    assert sandbox.best("practice") == "process"


def test_a_proof_is_remembered_and_only_where_nobody_else_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    monkeypatch.setattr(
        canary, "run_canary", lambda kind: runs.append(kind) or Proof(kind, dict.fromkeys(PROMISES, ""))
    )
    kind = KINDS[0]
    for _ in range(2):
        assert canary.prove(kind).proven
        canary.forget()
    assert runs == [kind]
    (tmp_path / "cache" / "autograder").chmod(0o777)
    assert canary.prove(kind).proven
    assert runs == [kind, kind]


def test_a_failure_is_not_remembered_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "run_canary", lambda kind: Proof(kind, dict.fromkeys(PROMISES, "busy")))
    assert not canary.prove(KINDS[0]).proven
    assert list((tmp_path / "cache").rglob("canary-*")) == []


# --- what is seen ------------------------------------------------------------------------------------


def test_the_layout_holds_the_packages_and_their_requirements_only() -> None:
    seen = layout(("matplotlib",))
    names = {os.path.basename(entry) for entry in seen.packages}
    assert {"matplotlib", "numpy", "msgpack", "PIL", "dateutil"} <= names
    assert not names & {"torch", "tensorflow", "autograder", "internals", "pytest", "sqlalchemy", "IPython"}
    assert any(mask.endswith("site-packages") for mask in seen.masks) or not any(
        "site-packages" in tree for tree in seen.trees
    )
    with pytest.raises(ValueError, match="not installed"):
        layout(("no-such-package",))
    assert not {os.path.basename(entry) for entry in layout(("torch",)).packages} & {"torch", "functorch"}


LOOK = """
import os, sys
def before(names, x): return sorted(m for m in x if __import__("importlib.util").util.find_spec(m))
def after(names, x): return 1
def attacked(names, x):
    seen = []
    for root in x:
        for directory, folders, files in os.walk(root):
            for name in files:
                try:
                    open(os.path.join(directory, name), "rb").close()
                    seen.append(os.path.join(directory, name))
                except OSError: pass
    return seen
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_project_and_no_other_package_is_seen(kind: str) -> None:
    with Box(small_lab(), kind) as box:
        box.request({"do": "load", "drivers": LOOK}, timeout=30)
        box.request({"do": "mark", "task": "t", "names": []}, timeout=30)

        def ask(driver: str, x: list[str]) -> list[str]:
            return box.request({"do": "call", "task": "t", "driver": driver, "inputs": {"x": x}}, timeout=60)["value"]

        found = ask(
            "before",
            [
                "numpy",
                "msgpack",
                "frames",
                "torch",
                "tensorflow",
                "internals",
                "matplotlib",
                "hypothesis",
                "psutil",
                "pip",
            ],
        )
        assert found == ["frames", "msgpack", "numpy"]
        seen = ask(
            "attacked",
            [
                str(ROOT / "autograder"),
                str(ROOT / "labs"),
                str(ROOT / "tests"),
                "/home",
                "/etc",
                "/box",
                "/proc",
                "/sys",
                "/var",
                "/run",
                "/work",
            ],
        )
        mine = {path for path in seen if not any(part in path for part in ("/numpy", "/msgpack", "ld.so.cache"))}
        assert {os.path.basename(path) for path in mine} <= {path.name for path in sandbox.box.BOX_FILES} | {
            "cpuinfo"
        }, sorted(mine)[:20]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_sandbox_answers_soon(kind: str) -> None:
    took = []
    for _ in range(3):
        started = time.monotonic()
        with Box(small_lab(), kind) as box:
            box.request({"do": "load", "drivers": ""}, timeout=30)
            took.append(time.monotonic() - started)
    # 0.25 s on an idle machine; the bound is for a busy one.
    assert min(took) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_box_returns_at_once_and_can_be_closed_at_once(kind: str) -> None:
    Box(small_lab(), kind).close()
    box = Box(small_lab(), kind)
    box.close()
    box.close()
    with pytest.raises(WorkerDied):
        box.request({"do": "load", "drivers": ""}, timeout=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_boxes_leave_no_descriptor_directory_or_group_behind(kind: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with Box(small_lab(), kind) as box:
            box.request({"do": "load", "drivers": ""}, timeout=30)
            name = f"autograder-{box.launcher_pid}"
            here = [path for path in Path(tempfile.gettempdir()).iterdir() if path.name.startswith(name)]
            assert here
        assert len(os.listdir("/proc/self/fd")) == before
        assert not here[0].exists()
        assert not list(Path("/sys/fs/cgroup").glob(f"**/{name}"))


@pytest.mark.slow
def test_the_pool_has_spares_and_closes_them() -> None:
    with sandbox.Pool(small_lab(), kind=KINDS[0], size=1) as pool:
        first = pool.take()
        first.request({"do": "load", "drivers": ""}, timeout=30)
        second = pool.take()
        assert first is not second
        second.request({"do": "load", "drivers": ""}, timeout=30)
        first.close()
        second.close()


# --- Landlock, and what stays light ---------------------------------------------------------------------


def test_landlock_paths_without_masks(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/d", "e"):
        (tmp_path / name).mkdir(parents=True)
    left = landlock.without(str(tmp_path), [str(tmp_path / "a" / "b")])
    assert left == [str(tmp_path / "a" / "d"), str(tmp_path / "e")]
    assert landlock.without(str(tmp_path / "e"), [str(tmp_path / "e")]) == []


@pytest.mark.slow
def test_importing_the_sandbox_imports_nothing_heavy() -> None:
    code = "import sys, autograder.sandbox; print([m for m in ('hypothesis', 'torch', 'IPython', 'sqlalchemy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_root_becomes_nobody_known_where_the_files_allow_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    uids = []
    for _ in range(2):
        with Box(small_lab(), KINDS[0]) as box:
            uids.append(box.uid)
    assert len(set(uids)) == 2
    assert all(uid > 60_000 for uid in uids)
    private = tmp_path / "worker.py"
    private.touch(mode=0o600)
    monkeypatch.setattr("autograder.sandbox.box.BOX_FILES", (private,))
    with Box(small_lab(), KINDS[0]) as box:
        assert box.uid == 0


def test_a_package_that_is_not_there_is_one_clear_line() -> None:
    with pytest.raises(
        SandboxUnavailable, match="lab00_small has no sandbox here: the lab needs the package 'no-such'"
    ):
        Box(small_lab(packages=("no-such",)), KINDS[0])


LIMITED = {
    "loop": ("while True: pass", "time"),
    "exit": ("import os; os._exit(3)", "exit"),
    "40-gb": ("return bytearray(40 << 30)", "memory"),
    "orphan": (
        "import os, time\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(600)\n    while True: pass",
        "time",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "cause"), LIMITED.values(), ids=LIMITED)
def test_practice_without_isolation_still_has_limits(fault: str, cause: str) -> None:
    seen = run(notebook_around(f"def f(x):\n    {fault}"), "process")
    assert seen.outcomes["attacked"].cause == cause
    assert seen.outcomes["after"] == Answer(2)
    if os.geteuid() == 0:
        assert seen.left == []
    assert not canary.run_canary("process").proven


# --- control groups, on a tree of plain files -----------------------------------------------------


def own_groups(monkeypatch: pytest.MonkeyPatch, root: Path, lines: str) -> None:
    real = cgroups._read
    monkeypatch.setattr(cgroups, "_ROOT", str(root))
    monkeypatch.setattr(cgroups, "_read", lambda place, name: lines if place == "/proc/self" else real(place, name))


def test_version_2_takes_the_delegated_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slice_, scope = tmp_path / "app.slice", tmp_path / "app.slice" / "jupyter.scope"
    scope.mkdir(parents=True)
    (scope / "cgroup.subtree_control").write_text("\n")
    (slice_ / "cgroup.subtree_control").write_text("memory pids\n")
    own_groups(monkeypatch, tmp_path, "0::/app.slice/jupyter.scope\n")
    group = cgroups.create("box", memory=1 << 20, processes=9)
    assert group is not None
    assert group.directories == [str(slice_ / "box")]
    assert group.words == "cgroup v2"
    group.join()
    assert {path.name: path.read_text() for path in (slice_ / "box").iterdir()} == {
        "memory.max": str(1 << 20),
        "pids.max": "9",
        "cgroup.procs": "0",
    }
    (slice_ / "box" / "memory.events").write_text("low 0\noom 3\noom_kill 1\n")
    assert group.out_of_memory()


def test_version_1_takes_a_group_for_each_controller_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory" / "mine").mkdir(parents=True)
    own_groups(monkeypatch, tmp_path, "4:memory:/mine\n3:pids:/\n0::/\n")
    assert cgroups.create("box", memory=1, processes=1) is None
    assert not (tmp_path / "memory" / "mine" / "box").exists()
    (tmp_path / "pids").mkdir()
    group = cgroups.create("box", memory=1, processes=1)
    assert group is not None
    assert group.directories == [str(tmp_path / "memory" / "mine" / "box"), str(tmp_path / "pids" / "box")]
    assert not group.out_of_memory()
    (tmp_path / "memory" / "mine" / "box" / "memory.oom_control").write_text("under_oom 0\noom_kill 2\n")
    assert group.out_of_memory()
