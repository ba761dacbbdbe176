"""Passwords of a class: kept as salted hashes, never as text, and slow to guess."""

from __future__ import annotations

import json
import secrets
import threading
from pathlib import Path

import pytest

from classroom.accounts import LONGEST, AccountError, Accounts, hashed, new_password, verified
from classroom.authenticator import FREE_TRIES, LONGEST_PAUSE, Pauses

CHEAP = 4
"""scrypt's cost, for tests that are not about it."""


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    return Accounts(tmp_path / "state" / "accounts.json", cost=CHEAP)


def test_a_password_opens_only_its_own_account(accounts: Accounts) -> None:
    first, second = new_password(), new_password()
    accounts.set("ada", first)
    accounts.set("alan", second)
    assert accounts.verify("ada", first)
    assert accounts.verify("alan", second)
    for name, password in [("ada", second), ("alan", first), ("ada", ""), ("grace", first), ("ada", first + " ")]:
        assert not accounts.verify(name, password)
    accounts.set("ada", second)
    assert not accounts.verify("ada", first)
    assert accounts.verify("ada", second)
    assert accounts.remove("ada")
    assert not accounts.remove("ada")
    assert not accounts.verify("ada", second)
    assert accounts.names() == ["alan"]


def test_passwords_for_a_list_are_made_at_once_or_not_at_all(accounts: Accounts) -> None:
    accounts.set("grace", "the one she had")
    made = accounts.make(["ada", "grace"])
    assert list(made) == ["ada", "grace"]
    assert all(accounts.verify(name, password) for name, password in made.items())
    assert not accounts.verify("ada", made["grace"])
    assert not accounts.verify("grace", "the one she had")
    with pytest.raises(AccountError, match="'Not A Name' cannot be a login name"):
        accounts.make(["alan", "Not A Name"])
    assert accounts.names() == ["ada", "grace"]


def test_the_file_holds_no_password_and_is_the_hub_s_alone(accounts: Accounts) -> None:
    password = new_password()
    accounts.set("ada", password)
    accounts.set("alan", password)
    text = accounts.file.read_text()
    assert password not in text
    kept = json.loads(text)
    assert kept["ada"] != kept["alan"], "two people with one password must not be seen to have one"
    assert accounts.file.stat().st_mode & 0o077 == 0
    assert accounts.file.parent.stat().st_mode & 0o077 == 0


@pytest.mark.slow  # it takes 128 MB and what time that takes
def test_the_cost_is_that_of_the_cheat_sheet() -> None:
    _, cost, block, parallel, _, _ = hashed("a long password").split("$")
    assert int(cost) * int(block) * 128 >= 128 << 20
    assert int(parallel) == 1


@pytest.mark.parametrize("name", ["", "Ada", "-ada", "../ada", "ada/x", "a" * 65, "ada\n", "ädä", ".", ".."])
def test_a_name_that_could_not_be_a_folder_is_refused(accounts: Accounts, name: str) -> None:
    with pytest.raises(AccountError, match="login name"):
        accounts.set(name, new_password())


@pytest.mark.parametrize("length", [0, 7, LONGEST + 1])
def test_a_password_too_short_or_too_long_is_refused(accounts: Accounts, length: int) -> None:
    with pytest.raises(AccountError, match=str(length)):
        accounts.set("ada", "x" * length)


@pytest.mark.parametrize(
    "stored", ["", "plain", "scrypt$a$8$1$AA==$AA==", "md5$4$8$1$AA==$AA==", "scrypt$3$8$1$AA==$AA=="]
)
def test_a_hash_that_cannot_be_read_is_nobody_s(stored: str) -> None:
    assert not verified("", stored)
    assert not verified("plain", stored)


@pytest.mark.parametrize("text", ["{", "[]", '"ada"'])
def test_a_damaged_file_is_said(accounts: Accounts, text: str) -> None:
    accounts.set("ada", new_password())
    accounts.file.write_text(text)
    with pytest.raises(AccountError, match="damaged"):
        accounts.verify("ada", "anything")
    with pytest.raises(AccountError, match="damaged"):
        accounts.set("alan", new_password())
    assert accounts.file.read_text() == text, "what is left of it must stay for whoever repairs it"


def test_changes_at_once_lose_none(accounts: Accounts) -> None:
    names = [f"learner{number}" for number in range(24)]
    threads = [threading.Thread(target=accounts.set, args=(name, secrets.token_hex(8))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert accounts.names() == sorted(names)


def test_guessing_takes_longer_and_longer_and_a_right_one_ends_it() -> None:
    moment = 100.0
    pauses = Pauses(clock=lambda: moment)
    for _ in range(FREE_TRIES - 1):
        pauses.wrong("ada")
        assert pauses.left("ada") == 0
    waits = []
    for _ in range(12):
        pauses.wrong("ada")
        waits.append(pauses.left("ada"))
        moment += waits[-1]
    assert waits == sorted(waits)
    assert waits[0] > 0
    assert waits[-1] == LONGEST_PAUSE
    assert pauses.left("alan") == 0
    pauses.right("ada")
    pauses.wrong("ada")
    assert pauses.left("ada") == 0


def test_names_that_nobody_has_do_not_fill_the_memory() -> None:
    moment = 0.0
    pauses = Pauses(clock=lambda: moment)
    for number in range(30_000):
        pauses.wrong(f"nobody{number}")
    assert len(pauses._wrong) <= 10_001


def test_passwords_are_new_each_time_and_hard_to_guess() -> None:
    made = {new_password() for _ in range(200)}
    assert len(made) == 200
    assert all(len(one.replace("-", "")) == 16 for one in made)
