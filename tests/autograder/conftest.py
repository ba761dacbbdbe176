"""A gradebook on each database, for several folders. PostgreSQL runs as a private cluster of a user without rights."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from autograder.gradebook import open_gradebook
from autograder.gradebook.models import Base
from autograder.gradebook.store import Gradebook

DEADLINE = 60.0


def programs() -> Path | None:
    """The folder of the newest PostgreSQL server on this machine."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4].split(".")[0]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


def unprivileged() -> dict[str, object]:
    """How to start the server: it refuses to run as root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise RuntimeError("neither a user postgres nor nobody on this machine")


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a server with nothing in it, but for the database's name."""
    folder = programs()
    if folder is None:
        if os.environ.get("CI"):
            pytest.fail("no PostgreSQL on this machine; .ci/run installs it")
        pytest.skip("no PostgreSQL (Debian, Ubuntu: sudo apt-get install postgresql)")
    home = Path(tempfile.mkdtemp(prefix="pg-"))
    who = unprivileged()
    if who:
        os.chown(home, who["user"], who["group"])
    data = home / "data"
    command = [folder / "initdb", "-D", data, "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run(command, check=True, capture_output=True, cwd=home, timeout=DEADLINE, **who)
    settings = ["-c", "fsync=off", "-c", "listen_addresses=", "-c", f"unix_socket_directories={home}"]
    with open(home / "log", "wb") as log:
        server = subprocess.Popen(
            [folder / "postgres", "-D", data, *settings], cwd=home, stdout=log, stderr=subprocess.STDOUT, **who
        )
    try:
        wait_for(server, home)
        yield f"postgresql://tester@/{{}}?host={home}"
    finally:
        server.send_signal(signal.SIGQUIT)  # at once, with nothing written: the files are not needed any more
        try:
            server.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        shutil.rmtree(home, ignore_errors=True)


def wait_for(server: subprocess.Popen[bytes], home: Path) -> None:
    until = time.monotonic() + DEADLINE
    while True:
        try:
            psycopg.connect(f"postgresql://tester@/postgres?host={home}").close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError((home / "log").read_text(errors="replace")[-2000:]) from None
            time.sleep(0.05)


BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]


@pytest.fixture(params=BOTH)
def empty_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a gradebook can be, on each database, with nothing there yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'gradebook.sqlite'}"
    cluster = request.getfixturevalue("cluster")
    with psycopg.connect(cluster.format("template1"), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS nothing WITH (FORCE)")
        connection.execute("CREATE DATABASE nothing TEMPLATE template0")
    return cluster.format("nothing")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty gradebook, to copy: making one anew for every test would take most of their time."""
    path = tmp_path_factory.mktemp("template") / "gradebook.sqlite"
    open_gradebook(path).close()
    return path


@pytest.fixture(scope="session")
def postgresql_book(cluster: str) -> str:
    """The address of a gradebook that the tests take turns with: making one anew takes a server seconds."""
    with psycopg.connect(cluster.format("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE book")
    open_gradebook(cluster.format("book")).close()
    return cluster.format("book")


def emptied(address: str) -> str:
    with psycopg.connect(address) as connection:
        connection.execute("SET session_replication_role = replica")  # even the audit
        names = ", ".join(table.name for table in Base.metadata.sorted_tables)
        connection.execute(f"TRUNCATE {names} RESTART IDENTITY")
    return address


@pytest.fixture
def emptied_postgresql_book(postgresql_book: str) -> str:
    """The address of an empty gradebook on PostgreSQL."""
    return emptied(postgresql_book)


@pytest.fixture(params=BOTH)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty gradebook is, on each database."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "gradebook.sqlite")
        return f"sqlite:///{tmp_path / 'gradebook.sqlite'}"
    return str(request.getfixturevalue("emptied_postgresql_book"))


@pytest.fixture
def book(address: str) -> Iterator[Gradebook]:
    with open_gradebook(address) as opened:
        yield opened
