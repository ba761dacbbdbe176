"""Where a hub keeps what it must not lose, and what it only needs while it runs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVICE = "grading"
"""The name of the grading service, in addresses and scopes."""

NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
"""What people may log in as: it is a folder's name too, and stands in addresses."""


def in_address(host: str) -> str:
    """A host as it stands in a URL: brackets around an address of IPv6."""
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True)
class Place:
    """The state of one hub, in one folder that only the hub's own user may enter."""

    state: Path

    @classmethod
    def current(cls) -> Place:
        """The folder that ``CLASSROOM_STATE`` names, or the one of this checkout."""
        return cls(Path(os.environ.get("CLASSROOM_STATE") or ROOT / ".run" / "hub").absolute())

    def make(self) -> None:
        """Create the folders that are missing.

        Raises
        ------
        PermissionError
            The folder is another user's.
        """
        for folder in (self.state, self.gradebook_home, self.homes, self.runtime):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.state.stat().st_uid != os.getuid():
            raise PermissionError(f"{self.state} belongs to another user; choose another folder with --state.")
        self.state.chmod(0o700)

    @property
    def gradebook_home(self) -> Path:
        return self.state / "gradebook"

    @property
    def gradebook(self) -> str:
        """The address of the gradebook: ``CLASSROOM_GRADEBOOK``, or a file of this hub's own."""
        return os.environ.get("CLASSROOM_GRADEBOOK") or str(self.gradebook_home / "gradebook.sqlite")

    @property
    def accounts(self) -> Path:
        """Who may log in with a password: see `accounts`."""
        return self.state / "accounts.json"

    @property
    def homes(self) -> Path:
        """A folder for each person, which is all that their server can write to."""
        return self.state / "homes"

    @property
    def users(self) -> Path:
        """The user ids that were given to people, as JSON."""
        return self.state / "users.json"

    @property
    def runtime(self) -> Path:
        return self.state / "run"

    @property
    def log(self) -> Path:
        return self.state / "hub.log"
