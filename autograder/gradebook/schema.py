"""Bringing a gradebook's tables up to date when it is opened."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from autograder.gradebook.faults import GradebookError, GradebookTooNew
from autograder.gradebook.models import HEAD

MIGRATIONS = Path(__file__).parent / "migrations"
_ADVISORY_LOCK = 0x6167_7261_6465
"""Held on PostgreSQL while tables are changed; any number that nothing else uses."""


def found(connection: Connection) -> str | None:
    """The schema version the database has, or None where it has no gradebook yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def prepare(writer: Engine, where: str) -> None:
    """Create or upgrade the tables, once, whoever opens first; refuse a newer schema by name."""
    with writer.connect() as connection:
        if found(connection) == HEAD:
            return
    # One transaction that holds the write lock from its start: a second process waits here, then finds nothing to do.
    with writer.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        version = found(connection)
        if version == HEAD:
            return
        if version is None and (others := inspect(connection).get_table_names()):
            raise GradebookError(
                f"gradebook {where}: this database holds other tables ({', '.join(sorted(others)[:3])}). "
                "Name another one."
            )
        _upgrade(connection, version, where)


def _upgrade(connection: Connection, version: str | None, where: str) -> None:
    from alembic import command  # 0.2 s to import, and hardly ever needed
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    if version is not None and version not in {
        step.revision for step in ScriptDirectory.from_config(config).walk_revisions()
    }:
        raise GradebookTooNew(
            f"gradebook {where}: its schema is {version}, and this autograder knows only up to {HEAD}: "
            "a newer autograder wrote it. "
            "Update this one, or name another gradebook."
        )
    command.upgrade(config, HEAD)
