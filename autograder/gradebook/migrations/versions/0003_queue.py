"""The queue of gradings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "job",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("submission_id", sa.Integer, nullable=False),
        sa.Column("learner_id", sa.Integer, nullable=False),
        sa.Column("spec_version", sa.String(40), nullable=False),
        sa.Column("mode", sa.String(20), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("fault", sa.Text, nullable=False),
        sa.Column("parked_by", sa.String(255), nullable=False),
        sa.Column("enqueued_at", MOMENT, nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.Column("not_before", MOMENT),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("beat", sa.Integer, nullable=False),
        sa.Column("lease_seconds", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_job"),
        sa.ForeignKeyConstraint(["submission_id"], ["submission.id"], name="fk_job_submission_id"),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.id"], name="fk_job_learner_id"),
        sa.UniqueConstraint("submission_id", "spec_version", "mode", name="uq_job_submission_id_spec_version_mode"),
    )
    op.create_index("ix_job_state_priority_turn_id", "job", ["state", "priority", "turn", "id"])
    op.create_index("ix_job_learner_id_priority_turn", "job", ["learner_id", "priority", "turn"])
