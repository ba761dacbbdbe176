"""People and roles, assignments, extensions, adjustments, scores given by hand, diagnoses, and the audit."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
AT_A_TIME = 200
"""Reports read into memory together."""


def upgrade() -> None:
    # Columns are added in place: SQLite could otherwise only copy the table, and others refer to its rows.
    op.add_column("learner", sa.Column("shown_as", sa.Text, nullable=False, server_default=""))
    op.add_column("learner", sa.Column("lti_id", sa.String(255)))
    op.add_column("learner", sa.Column("left_at", MOMENT))
    op.create_index("ix_learner_lti_id", "learner", ["lti_id"], unique=True)
    op.add_column("task_grade", sa.Column("diagnosis", sa.Text, nullable=False, server_default=""))
    _fill_diagnoses()
    op.create_table(
        "role",
        sa.Column("learner_id", sa.Integer, nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.PrimaryKeyConstraint("learner_id", "role", name="pk_role"),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.id"], name="fk_role_learner_id"),
    )
    op.create_table(
        "assignment",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("lab", sa.String(100), nullable=False),
        sa.Column("released", MOMENT),
        sa.Column("due", MOMENT),
        sa.Column("zone", sa.String(64), nullable=False),
        sa.Column("policy", sa.String(10), nullable=False),
        sa.Column("points", sa.Double),
        sa.Column("late", sa.Text, nullable=False),
        sa.Column("line_item", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_assignment"),
        sa.UniqueConstraint("lab", name="uq_assignment_lab"),
    )
    op.create_table(
        "extension",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("learner_id", sa.Integer, nullable=False),
        sa.Column("lab", sa.String(100), nullable=False),
        sa.Column("until", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_extension"),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.id"], name="fk_extension_learner_id"),
        sa.UniqueConstraint("learner_id", "lab", name="uq_extension_learner_id_lab"),
    )
    op.create_table(
        "adjustment",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("learner_id", sa.Integer, nullable=False),
        sa.Column("lab", sa.String(100), nullable=False),
        sa.Column("points", sa.Double, nullable=False),
        sa.Column("replaces", sa.Boolean, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("withdrawn_at", MOMENT),
        sa.PrimaryKeyConstraint("id", name="pk_adjustment"),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.id"], name="fk_adjustment_learner_id"),
    )
    op.create_index("ix_adjustment_lab_learner_id", "adjustment", ["lab", "learner_id"])
    op.create_table(
        "hand_score",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("submission_id", sa.Integer, nullable=False),
        sa.Column("task", sa.String(100), nullable=False),
        sa.Column("points", sa.Double, nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_hand_score"),
        sa.ForeignKeyConstraint(["submission_id"], ["submission.id"], name="fk_hand_score_submission_id"),
        sa.UniqueConstraint("submission_id", "task", name="uq_hand_score_submission_id_task"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("what", sa.String(40), nullable=False),
        sa.Column("lab", sa.String(100), nullable=False),
        sa.Column("learner_id", sa.Integer),
        sa.Column("old", sa.Text, nullable=False),
        sa.Column("new", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.id"], name="fk_audit_learner_id"),
    )
    op.create_index("ix_audit_lab_learner_id", "audit", ["lab", "learner_id"])
    _guard_audit()


def _fill_diagnoses() -> None:
    """What earlier reports say, put where statistics look for it."""
    connection = op.get_bind()
    grades = sa.table("grade", sa.column("id"), sa.column("report"))
    tasks = sa.table("task_grade", sa.column("grade_id"), sa.column("position"), sa.column("diagnosis"))
    last = 0
    while rows := connection.execute(
        sa.select(grades.c.id, grades.c.report).where(grades.c.id > last).order_by(grades.c.id).limit(AT_A_TIME)
    ).all():
        for last, text in rows:
            try:
                told = json.loads(text)["tasks"]
            except (ValueError, KeyError, TypeError):  # one spoilt report must not keep a class from its gradebook
                continue
            for position, task in enumerate(told):
                if task.get("diagnosis"):
                    connection.execute(
                        tasks.update()
                        .where(tasks.c.grade_id == last, tasks.c.position == position)
                        .values(diagnosis=task["diagnosis"][0].replace("\0", ""))
                    )


def _guard_audit() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION audit_stands() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the audit is only ever added to'; END $$"
        )
        op.execute(
            "CREATE TRIGGER audit_stands BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
            "FOR EACH STATEMENT EXECUTE FUNCTION audit_stands()"
        )
        return
    for change in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_stands_{change.lower()} BEFORE {change} ON audit "
            "BEGIN SELECT RAISE(ABORT, 'the audit is only ever added to'); END"
        )
