"""How Alembic reaches the gradebook: over the connection it is handed, in the transaction that is open on it."""

from __future__ import annotations

from alembic import context

from autograder.gradebook.models import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
context.run_migrations()
