"""Learners, content, submissions, attempts, grades."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Types are spelt out here, not taken from the models: the models move on, this step does not.
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "learner",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_learner"),
        sa.UniqueConstraint("name", name="uq_learner_name"),
    )
    op.create_table(
        "content",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("stored_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_content"),
    )
    op.create_table(
        "submission",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("learner_id", sa.Integer, nullable=False),
        sa.Column("lab", sa.String(100), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("stored_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_submission"),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.id"], name="fk_submission_learner_id"),
        sa.ForeignKeyConstraint(["sha256"], ["content.sha256"], name="fk_submission_sha256"),
        sa.UniqueConstraint("learner_id", "lab", "sha256", name="uq_submission_learner_id_lab_sha256"),
    )
    op.create_index("ix_submission_lab_learner_id", "submission", ["lab", "learner_id"])
    op.create_table(
        "attempt",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("submission_id", sa.Integer, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("filename", sa.Text, nullable=False),
        sa.Column("source", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_attempt"),
        sa.ForeignKeyConstraint(["submission_id"], ["submission.id"], name="fk_attempt_submission_id"),
    )
    op.create_index("ix_attempt_submission_id", "attempt", ["submission_id"])
    op.create_table(
        "grade",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("submission_id", sa.Integer, nullable=False),
        sa.Column("spec_version", sa.String(40), nullable=False),
        sa.Column("mode", sa.String(20), nullable=False),
        sa.Column("run", sa.Integer, nullable=False),
        sa.Column("points", sa.Double, nullable=False),
        sa.Column("max_points", sa.Double, nullable=False),
        sa.Column("full_marks", sa.Boolean, nullable=False),
        sa.Column("settled", sa.Boolean, nullable=False),
        sa.Column("graded_at", MOMENT, nullable=False),
        sa.Column("report", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_grade"),
        sa.ForeignKeyConstraint(["submission_id"], ["submission.id"], name="fk_grade_submission_id"),
        sa.UniqueConstraint(
            "submission_id", "spec_version", "mode", "run", name="uq_grade_submission_id_spec_version_mode_run"
        ),
    )
    op.create_table(
        "task_grade",
        sa.Column("grade_id", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("task", sa.String(100), nullable=False),
        sa.Column("verdict", sa.String(20), nullable=False),
        sa.Column("cause", sa.String(20), nullable=False),
        sa.Column("points", sa.Double, nullable=False),
        sa.Column("max_points", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("grade_id", "position", name="pk_task_grade"),
        sa.ForeignKeyConstraint(["grade_id"], ["grade.id"], name="fk_task_grade_grade_id"),
    )
    op.create_index("ix_task_grade_task", "task_grade", ["task"])
