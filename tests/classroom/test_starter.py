"""The labs in a person's folder: fetched when their server starts, never over what they wrote."""

from __future__ import annotations

import hashlib
import json
import secrets
from pathlib import Path

import pytest

from autograder.remote import RemoteError
from classroom.starter import GIVEN, fetch, in_words


class Service:
    """What the grading service says, and what was asked of it."""

    def __init__(self) -> None:
        self.labs: dict[str, bytes] = {}
        self.asked: list[str] = []

    def release(self, name: str) -> bytes:
        self.labs[name] = secrets.token_bytes(40)
        return self.labs[name]

    def __call__(self, path: str) -> bytes:
        self.asked.append(path)
        if path == "api/labs":
            versions = {name: hashlib.sha256(data).hexdigest() for name, data in self.labs.items()}
            return json.dumps([{"name": name, "version": version} for name, version in versions.items()]).encode()
        return self.labs[path.removeprefix("api/labs/").removesuffix(".ipynb")]


@pytest.fixture
def service() -> Service:
    return Service()


def files(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (home / "labs").iterdir()}


def test_labs_are_given_once(service: Service, tmp_path: Path) -> None:
    one, two = service.release("lab01"), service.release("lab02")
    assert fetch(tmp_path, service).new == ["lab01.ipynb", "lab02.ipynb"]
    assert files(tmp_path) == {"lab01.ipynb": one, "lab02.ipynb": two}
    service.asked.clear()
    again = fetch(tmp_path, service)
    assert in_words(again) == []
    assert service.asked == ["api/labs"]


def test_own_work_stays_and_a_newer_version_is_put_beside_it_once(service: Service, tmp_path: Path) -> None:
    service.release("lab01")
    fetch(tmp_path, service)
    (tmp_path / "labs" / "lab01.ipynb").write_bytes(b"my work")
    assert in_words(fetch(tmp_path, service)) == []
    newer = service.release("lab01")
    assert fetch(tmp_path, service).beside == ["lab01.new.ipynb"]
    assert files(tmp_path) == {"lab01.ipynb": b"my work", "lab01.new.ipynb": newer}
    (tmp_path / "labs" / "lab01.new.ipynb").write_bytes(b"work here too")
    assert in_words(fetch(tmp_path, service)) == []
    newest = service.release("lab01")
    assert fetch(tmp_path, service).beside == ["lab01.new-2.ipynb"]
    assert files(tmp_path) == {
        "lab01.ipynb": b"my work", "lab01.new.ipynb": b"work here too", "lab01.new-2.ipynb": newest,
    }  # fmt: skip


def test_a_lab_that_nobody_touched_becomes_the_newer_version(service: Service, tmp_path: Path) -> None:
    service.release("lab01")
    fetch(tmp_path, service)
    newer = service.release("lab01")
    assert fetch(tmp_path, service).replaced == ["lab01.ipynb"]
    assert files(tmp_path) == {"lab01.ipynb": newer}


def test_a_file_that_was_there_before_is_the_persons(service: Service, tmp_path: Path) -> None:
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs" / "lab01.ipynb").write_bytes(b"from home")
    given = service.release("lab01")
    assert fetch(tmp_path, service).beside == ["lab01.new.ipynb"]
    assert files(tmp_path) == {"lab01.ipynb": b"from home", "lab01.new.ipynb": given}


def test_a_deleted_lab_is_given_again(service: Service, tmp_path: Path) -> None:
    data = service.release("lab01")
    fetch(tmp_path, service)
    (tmp_path / "labs" / "lab01.ipynb").unlink()
    assert fetch(tmp_path, service).new == ["lab01.ipynb"]
    assert files(tmp_path) == {"lab01.ipynb": data}


@pytest.mark.parametrize("text", ["{", "[]", '{"lab01": 3}'])
def test_a_damaged_note_of_what_was_given_costs_nobody_their_work(service: Service, tmp_path: Path, text: str) -> None:
    service.release("lab01")
    fetch(tmp_path, service)
    (tmp_path / "labs" / "lab01.ipynb").write_bytes(b"my work")
    (tmp_path / GIVEN).write_text(text)
    fetch(tmp_path, service)
    assert files(tmp_path)["lab01.ipynb"] == b"my work"


def test_a_service_that_is_away_or_answers_nonsense_is_said_and_no_more(tmp_path: Path) -> None:
    def away(path: str) -> bytes:
        raise RemoteError("The class's grading service can't be reached.")

    assert "can't be reached" in in_words(fetch(tmp_path, away))[0]
    for nonsense in (b"<html>", b"{}", b"[1]", b'[{"name": "lab01"}]', b"\xff"):
        assert fetch(tmp_path, lambda path, said=nonsense: said).new == []


def test_a_name_with_a_path_in_it_writes_nothing(service: Service, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    service.release("../outside")
    service.release("/tmp/outside")
    fetch(home, service)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]
    assert files(home) == {}


def test_a_fetch_that_is_cut_off_leaves_no_half_file(service: Service, tmp_path: Path) -> None:
    service.release("lab01")
    service.release("lab02")

    def cut(path: str) -> bytes:
        if path.endswith("lab02.ipynb"):
            raise RemoteError("cut off")
        return service(path)

    assert fetch(tmp_path, cut).new == ["lab01.ipynb"]
    assert fetch(tmp_path, service).new == ["lab02.ipynb"]
    assert files(tmp_path) == {f"{name}.ipynb": data for name, data in service.labs.items()}
