"""Which versions of a model there are, which of them answers, and when an old one may go. No threads, no clock.

A model is a directory of versions, ``NAME/1``, ``NAME/2``, ... A version is found, loads beside those that serve, and
becomes live only when it is loaded and warm; what failed is remembered with its reason and never live. The one that
answers by default is *stable*; a *canary* gets a share of the requests. A version that is no longer wanted drains: no
new request is sent to it, and it is dropped when the last one that uses it has its answer.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from internals.deploy.saved.manifest import NAME as MANIFEST
from internals.deploy.serve.errors import BadRequest, NotFound, Unavailable

LOADING, AVAILABLE, DRAINING, FAILED = "LOADING", "AVAILABLE", "UNLOADING", "END"
"""States, in the words of TensorFlow Serving; what ended with an error has failed."""
ONNX = "model.onnx"
MARKERS = (MANIFEST, ONNX)
LARGEST = 2**31
Found = tuple[Path, dict[int, Any] | OSError]
"""Where a model is, and what versions it has."""


@dataclass(eq=False)
class Version:
    """One version of a model.

    Attributes
    ----------
    state : {LOADING, AVAILABLE, DRAINING, FAILED}
    reason : str
        Why it failed.
    users : int
        Requests that have it now.
    runner : object
        What runs it; set by who loaded it.
    mark : object
        What its directory looked like when it was found.
    """

    number: int
    mark: Any = None
    state: str = LOADING
    reason: str = ""
    users: int = 0
    runner: Any = None


def versions_in(base: Path, markers: Sequence[str] = MARKERS) -> dict[int, Any]:
    """The complete versions in a model's directory, each with a mark that changes when it is replaced.

    A directory is complete when it has one of `markers`: a manifest, which `internals.deploy.save` writes last, or a
    ``model.onnx``. An empty marker is the directory itself. Names that are not whole numbers are passed over. A version
    that can't be looked at is there all the same: loading it will say why not.

    Raises
    ------
    OSError
        The directory is there, and can't be read.
    """
    found: dict[int, Any] = {}
    try:
        entries = list(base.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return found
    for entry in entries:
        if not (entry.name.isascii() and entry.name.isdigit()) or int(entry.name) >= LARGEST:
            continue
        for name in markers:
            try:
                about = os.stat(f"{entry}/{name}")  # with a slash at its end, only a directory
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                found[int(entry.name)] = str(error)
                break
            found[int(entry.name)] = (about.st_ino, about.st_mtime_ns, about.st_size)
            break
    return found


def models_in(base: Path, markers: Sequence[str] = MARKERS) -> dict[str, Found]:
    """The models in a directory, those that have a version, or the directory itself, if it has versions.

    Where one of the models' directories can't be read, its error stands in place of its versions.

    Raises
    ------
    OSError
        The directory itself can't be read.
    """
    if own := versions_in(base, markers):
        return {base.resolve().name: (base, own)}
    try:
        entries = sorted(base.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    found: dict[str, Found] = {}
    for entry in entries:
        try:
            versions: dict[int, Any] | OSError = versions_in(entry, markers)
        except OSError as error:
            versions = error
        if versions:
            found[entry.name] = (entry, versions)
    return found


class Model:
    """The versions of one model.

    Parameters
    ----------
    name : str
    keep : int
        How many of the newest versions are kept loaded; beside those that are stable, canary, or asked for.

    Attributes
    ----------
    versions : dict of int to Version
    stable, canary : int or None
    share : float
        Of the requests that the canary gets, 0 to 1.
    follows : bool
        Whether the newest version becomes stable when it is warm. A rollback ends that.
    """

    def __init__(self, name: str, *, keep: int = 1) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1 version, got {keep!r}.")
        self.name, self.keep = name, keep
        self.versions: dict[int, Version] = {}
        self.stable: int | None = None
        self.canary: int | None = None
        self.share = 0.0
        self.follows = True
        self.wanted: set[int] = set()
        self.unwanted: set[int] = set()
        self._before: list[int] = []
        self._there: dict[int, Any] = {}
        self._owed = 0.0

    def found(self, there: Mapping[int, Any]) -> list[Version]:
        """Compare with what the directory has now; what is new and wanted, and must be loaded, comes back."""
        self._there = dict(there)
        for number in [n for n, one in self.versions.items() if one.state == FAILED and there.get(n) != one.mark]:
            del self.versions[number]  # it was replaced, or taken away: worth another try
        loading = []
        for number in sorted(self._to_keep() & there.keys() - self.versions.keys()):
            self.versions[number] = Version(number, there[number])
            loading.append(self.versions[number])
        return loading

    def retry(self, version: int) -> None:
        """Forget that a version failed, as when a disk was full: it is loaded again."""
        if version in self.versions and self.versions[version].state == FAILED:
            del self.versions[version]

    def loaded(self, version: Version, runner: Any) -> None:
        """A version is loaded and warm: from now on it may answer."""
        version.runner, version.state = runner, AVAILABLE
        newest = max(n for n, one in self.versions.items() if one.state == AVAILABLE)
        if self.stable is None or (self.follows and version.number == newest and version.number != self.canary):
            self._promote(version.number)

    def failed(self, version: Version, reason: str) -> None:
        """A version could not be loaded or warmed up; what served before goes on serving."""
        version.state, version.reason, version.runner = FAILED, reason, None
        if self.stable == version.number:
            self.stable = self._earlier()
        if self.canary == version.number:
            self.canary, self.share = None, 0.0

    def drain(self) -> list[Version]:
        """Mark what is no longer wanted; those that nobody uses are taken out and come back, to be ended."""
        keep = self._to_keep()
        if self.stable is not None and not self.unwanted & {self.stable}:
            for number, version in self.versions.items():
                if version.state == AVAILABLE and number not in keep:
                    version.state = DRAINING
        for number in self.unwanted:
            if self._is_available(number):
                self.versions[number].state = DRAINING
                if number == self.stable:
                    self.stable = None
        gone = [one for one in self.versions.values() if one.state == DRAINING and one.users == 0]
        for version in gone:
            del self.versions[version.number]
        return gone

    def drain_all(self) -> list[Version]:
        """The model itself is to go."""
        self.unwanted = set(self.versions) | set(self._there)
        self.follows = False
        return self.drain()

    def route(self, *, version: int | None = None, label: str | None = None, key: str | None = None) -> Version:
        """The version that answers a request.

        Parameters
        ----------
        version, label
            What the request asked for; ``stable``, ``canary``, or neither.
        key : str, optional
            Of the request: with it, the choice between stable and canary is the same each time.

        Raises
        ------
        NotFound
            There is no such version or label.
        Unavailable
            It is still loading, or nothing is.
        """
        if label is not None:
            version = self._labelled(label)
        if version is None:
            version = self.canary if self._goes_to_canary(key) else self.stable
        if version is None:
            self._nothing()
        one = self.versions.get(version)
        if one is None or one.state == DRAINING:
            raise NotFound(f"{self.name}: version {version} is not served; served: {self._numbers()}.")
        if one.state == LOADING:
            raise Unavailable(f"{self.name}: version {version} is loading.", retry_after=1)
        if one.state == FAILED:
            raise Unavailable(f"{self.name}: version {version} failed: {one.reason}")
        return one

    def set_canary(self, version: int | None, share: float) -> None:
        """Give a version a share of the requests; None takes the canary back.

        Raises
        ------
        BadRequest, NotFound, Unavailable
        """
        if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
            raise BadRequest(f"{self.name}: the canary's weight must be 0 to 1, got {share!r}.")
        if version is not None:
            self.route(version=version)
            if version == self.stable:
                before = self._earlier()
                if before is None:
                    raise BadRequest(f"{self.name}: version {version} is the only one, so it can't be a canary.")
                self._before = [n for n in self._before if n != before]
                self.stable, self.follows = before, False
        self.canary, self.share, self._owed = version, float(share) if version is not None else 0.0, 0.0

    def rollback(self) -> int:
        """Make stable what was stable before; and stay there when newer versions come.

        Raises
        ------
        BadRequest
            Nothing was stable before, or it is not loaded any more.
        """
        before = self._earlier()
        if before is None:
            kept = ", ".join(map(str, self._before)) or "none"
            raise BadRequest(f"{self.name}: there is no loaded version to go back to (earlier ones: {kept}).")
        self._before = self._before[: self._before.index(before)] if before in self._before else []
        if self.stable is not None:
            self.wanted.discard(self.stable)
        self.stable, self.follows = before, False
        self.canary, self.share = None, 0.0
        return before

    def promote(self, version: int) -> None:
        """Make a loaded version stable.

        Raises
        ------
        NotFound, Unavailable
        """
        self.route(version=version)
        if self.canary == version:
            self.canary, self.share = None, 0.0
        self._promote(version)

    def status(self, version: int | None = None, label: str | None = None) -> list[dict[str, Any]]:
        """A line for each version, newest first; or only for the one that is asked for, whatever its state.

        Raises
        ------
        NotFound
            There is no such version or label.
        """
        version = self._labelled(label) if label is not None else version
        if version is not None and version not in self.versions:
            raise NotFound(f"{self.name}: there is no version {version}; it has {self._all()}.")
        return [
            {
                "version": str(one.number),
                "state": one.state,
                "labels": [
                    name
                    for name, number in (("stable", self.stable), ("canary", self.canary))
                    if number == one.number and one.state == AVAILABLE
                ],
                "weight": self._weight(one.number),
                "in_flight": one.users,
                "status": {"error_code": "UNKNOWN" if one.state == FAILED else "OK", "error_message": one.reason},
            }
            for one in sorted(self.versions.values(), key=lambda v: -v.number)
            if version in (None, one.number)
        ]

    def _labelled(self, label: str) -> int:
        if label not in ("stable", "canary"):
            raise NotFound(f"{self.name}: there is no label {label[:100]!r}; there are stable and canary.")
        version = self.stable if label == "stable" else self.canary
        if version is None:
            raise NotFound(f"{self.name}: no version is {label}.")
        return version

    def _weight(self, number: int) -> float:
        if number == self.canary:
            return self.share
        return 1 - self.share if number == self.stable else 0.0

    def _promote(self, number: int) -> None:
        if self.stable is not None and self.stable != number:
            self._before = [n for n in self._before if n not in (number, self.stable)] + [self.stable]
        self.stable = number

    def _goes_to_canary(self, key: str | None) -> bool:
        if self.canary is None or not self._is_available(self.canary):
            return False
        if key is not None:
            part = int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:8], "big") / 2**64
            return part < self.share
        self._owed += self.share  # exact, and spread evenly: of ten requests at 0.1 one goes there
        if self._owed >= 1 - 1e-9:
            self._owed -= 1
            return True
        return False

    def _earlier(self) -> int | None:
        """What was stable before this one; else the next older that is loaded."""
        was = [n for n in self._before if self._is_available(n)]
        older = [n for n in sorted(self.versions) if self._is_available(n) and n < (self.stable or 0)]
        return next(iter([*reversed(was), *reversed(older)]), None)

    def _is_available(self, number: int) -> bool:
        return number in self.versions and self.versions[number].state == AVAILABLE

    def _to_keep(self) -> set[int]:
        good = [n for n in self._there if n not in self.unwanted]
        failed = {n for n, one in self.versions.items() if one.state == FAILED}
        newest = sorted(n for n in good if n not in failed)[-self.keep :]
        back = [n for n in reversed(self._before) if self._is_available(n)][:1] if self.keep > 1 else []
        named = {n for n in (self.stable, self.canary) if n is not None}
        return ({*newest, *back} | named | self.wanted | failed & set(good)) - self.unwanted

    def _numbers(self) -> str:
        return ", ".join(str(n) for n, one in sorted(self.versions.items()) if one.state == AVAILABLE) or "none"

    def _all(self) -> str:
        return ", ".join(map(str, sorted(self.versions))) or "none"

    def _nothing(self) -> NoReturn:
        reasons = [f"version {n}: {one.reason}" for n, one in self.versions.items() if one.state == FAILED]
        loading = any(one.state == LOADING for one in self.versions.values())
        raise Unavailable(
            f"{self.name}: no version is ready" + (f" ({'; '.join(reasons)})." if reasons else "."),
            retry_after=1 if loading else None,
        )
