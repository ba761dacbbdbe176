"""The command line of the launcher: what can be asked, and every way in which it can be asked wrongly."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from internals.distributed.launch.job import SECRET, Job, cores, port_in_use, python

USAGE = "python -m internals.distributed.launch -n RANKS [options] script.py [arguments]"
EXAMPLES = """
examples:
  launch -n 4 train.py --lr 0.1                  four ranks on this machine
  launch -n 4 --servers 2 train.py               two parameter servers and four trainers
  launch -n 4 --max-restarts 3 train.py          all four start again after a failure, up to three times
  launch -n 4 --min 2 train.py                   elastic: ranks may die, the job goes on with two or more
  launch -n 2 --nnodes 2 --node-rank 1 --master-addr 10.0.0.5 --master-port 29500 train.py
                                                 the second of two machines, with two ranks on each
  launch -n 4 --kubernetes --image registry/train:1 train.py | kubectl apply -f -
"""


class _Parser(argparse.ArgumentParser):
    """One line for what is wrong, as every command of the course has it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"launch: {message}\n")


def parser() -> argparse.ArgumentParser:
    """All options, with torchrun's names where torchrun has them."""
    new = _Parser(
        prog="launch",
        usage=USAGE,
        description="Start, watch and stop the processes of a distributed job on this machine.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = new.add_argument
    add(
        "-n",
        "--nproc-per-node",
        "--nproc_per_node",
        metavar="RANKS",
        default="1",
        help="ranks on this machine; auto: one per core",
    )
    add(
        "--servers",
        type=int,
        default=0,
        metavar="S",
        help="parameter servers beside the ranks, which are then trainers",
    )
    add("--nnodes", type=int, default=1, metavar="N", help="machines in the job")
    add("--node-rank", "--node_rank", type=int, default=0, metavar="K", help="which of them this is, 0 and up")
    add("--master-addr", "--master_addr", default=None, metavar="HOST", help="where rank 0 runs (127.0.0.1)")
    add("--master-port", "--master_port", type=int, default=None, metavar="PORT", help="where it listens (a free one)")
    add(
        "--standalone",
        action="store_true",
        help="one machine, any free port; what is done anyway unless said otherwise",
    )
    add(
        "--max-restarts",
        "--max_restarts",
        type=int,
        default=0,
        metavar="K",
        help="failures that are answered by starting again (0)",
    )
    add(
        "--min",
        type=int,
        default=None,
        metavar="M",
        help="elastic: a dead rank is replaced while restarts are left; then the others go on, if M are left",
    )
    add("--max", type=int, default=None, metavar="M", help="elastic: SIGUSR1 adds a rank, up to M (RANKS)")
    add(
        "--grace", type=float, default=5.0, metavar="SECONDS", help="between asking a process to end and killing it (5)"
    )
    add("-m", "--module", action="store_true", help="the script is the name of a module, as in python -m")
    cluster = new.add_argument_group("clusters")
    add = cluster.add_argument
    add("--kubernetes", action="store_true", help="print the manifests of the job, start nothing")
    add(
        "--kind",
        choices=("all-reduce", "parameter-server"),
        default=None,
        help="of job (parameter-server where there are servers)",
    )
    add("--name", default="train", help="of the job in the cluster (train)")
    add("--namespace", default=None, help="in the cluster (whatever kubectl has)")
    add("--image", default=None, help="a container image with internals and its requirements")
    add("--cpu", default="1", help="cores of each process (1)")
    add("--memory", default="2Gi", help="of each process (2Gi)")
    add("--storage", default="10Gi", help="for checkpoints, of each server (10Gi)")
    new.add_argument("script", nargs="?", help="a Python file, or with -m a module")
    new.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own")
    return new


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns
    -------
    int
        The exit code: 0, that of the first process that failed (128 and the signal's number if a signal ended it), 2
        for a command that makes no sense.
    """
    new = parser()
    given = new.parse_args(arguments)
    try:
        job = _job(given)
        if given.kubernetes:
            from internals.distributed.launch.kubernetes import Cluster, manifests, to_yaml

            cluster = Cluster(
                name=given.name,
                image=given.image,
                kind=given.kind or ("parameter-server" if job.servers else "all-reduce"),
                namespace=given.namespace,
                cpu=given.cpu,
                memory=given.memory,
                storage=given.storage,
            )
            print(to_yaml(manifests(cluster, job, _container_command(given))), end="")
            return 0
    except ValueError as error:
        new.error(str(error))
    from internals.distributed.launch.supervisor import supervise

    return supervise(job)


def _job(given: argparse.Namespace) -> Job:
    processes = _ranks(given.nproc_per_node)
    _at_least("--servers", given.servers, 0)
    _at_least("--nnodes", given.nnodes, 1)
    _at_least("--max-restarts", given.max_restarts, 0)
    if not 0 <= given.grace <= 3600:
        raise ValueError(f"--grace {given.grace:g}: expected seconds from 0 to 3600")
    if not given.script:
        raise ValueError(f"no script is given; usage: {USAGE}")
    if given.kind == "parameter-server" and not given.servers:
        raise ValueError("--kind parameter-server: give --servers, how many")
    if given.kind == "all-reduce" and given.servers:
        raise ValueError("--kind all-reduce has no servers; leave out --servers, or take --kind parameter-server")
    if not given.kubernetes:
        _check_script(given.script, module=given.module)
    job = Job(
        command=python([given.script, *given.arguments], module=given.module),
        processes=processes,
        servers=given.servers,
        restarts=given.max_restarts,
        grace=given.grace,
        **_network(given),
        **_elastic(given, processes),
    )
    secret = os.environ.get(SECRET)
    return replace(job, secret=secret) if secret else job


def _network(given: argparse.Namespace) -> dict[str, Any]:
    """Where the ranks meet."""
    if given.standalone and (given.nnodes > 1 or given.master_addr or given.master_port):
        raise ValueError("--standalone means one machine and a free port; leave out --nnodes and --master-...")
    address, port = given.master_addr or "127.0.0.1", given.master_port or 0
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?", address):
        raise ValueError(f"--master-addr {address!r}: expected the name or the address of a machine")
    if given.master_port is not None and not 1 <= given.master_port <= 65535:
        raise ValueError(f"--master-port {given.master_port}: expected 1 to 65535")
    if not 0 <= given.node_rank < given.nnodes:
        raise ValueError(
            f"--node-rank {given.node_rank}: expected 0 to {given.nnodes - 1}, with --nnodes {given.nnodes}"
        )
    if given.nnodes > 1 and given.kubernetes:
        raise ValueError("--nnodes and --kubernetes do not go together: each rank is a pod; give -n, how many")
    if given.nnodes > 1:
        if not (given.master_addr and given.master_port):
            raise ValueError("--nnodes: give --master-addr and --master-port, the same on every machine")
        if given.servers:
            raise ValueError(
                "--servers with --nnodes: servers are started on one machine; --kubernetes places them in a cluster"
            )
        if not os.environ.get(SECRET):
            raise ValueError(
                f"--nnodes: set {SECRET} in the environment, the same on every machine; without it anybody could join"
            )
    local = address in ("127.0.0.1", "localhost", "::1")
    if port and local and given.nnodes == 1 and not given.kubernetes and port_in_use("127.0.0.1", port):
        raise ValueError(f"--master-port {port} is in use; take another, or none: then a free one is found")
    return {"nodes": given.nnodes, "node_rank": given.node_rank, "master_addr": address, "master_port": port}


def _elastic(given: argparse.Namespace, processes: int) -> dict[str, Any]:
    if given.min is None:
        if given.max is not None:
            raise ValueError("--max: an elastic job has --min too, the fewest ranks that go on")
        return {}
    for wrong, other in (
        (given.servers, "--servers"),
        (given.nnodes > 1, "--nnodes"),
        (given.kubernetes, "--kubernetes"),
    ):
        if wrong:
            raise ValueError(f"--min and {other} do not go together: an elastic job has ranks only, on one machine")
    most = processes if given.max is None else given.max
    if not 1 <= given.min <= processes <= most:
        raise ValueError(f"--min {given.min}, -n {processes}, --max {most}: expected 1 <= min <= n <= max")
    return {"least": given.min, "most": most}


def _ranks(text: str) -> int:
    if text in ("auto", "cpu"):
        return cores()
    if not re.fullmatch(r"[+-]?\d+", text):
        raise ValueError(f"-n {text}: expected a number of ranks, or auto")
    return _at_least("-n", int(text), 1)


def _at_least(option: str, value: int, least: int) -> int:
    if value < least:
        raise ValueError(f"{option} {value}: expected {least} or more")
    if value > 1024:
        raise ValueError(f"{option} {value}: expected 1024 or fewer")
    return value


def _check_script(script: str, *, module: bool) -> None:
    """Refuse here, once, what each rank would fail on."""
    if module:
        _check_module(script)
        return
    path = Path(script)
    if path.is_dir():
        path = path / "__main__.py"
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"there is no script {path}; give a Python file, or -m and a module") from None
    except OSError as error:
        raise ValueError(f"the script {path} can't be read: {error.strerror}") from None
    if source.startswith(b"PK\x03\x04"):
        return  # an archive with a __main__.py, which Python runs too
    try:
        compile(source, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f", line {line}" if line else ""
        raise ValueError(f"{path} is not Python{place}: {getattr(error, 'msg', error)}") from None


def _check_module(name: str) -> None:
    import importlib.util

    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        found = None
    if found is None:
        raise ValueError(f"there is no module {name}; a file is given without -m")


def _container_command(given: argparse.Namespace) -> list[str]:
    return ["python", *(["-m"] if given.module else []), given.script, *given.arguments]
