"""A gradebook of the first schema keeps all it has when a later autograder opens it, on each database."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from classroom_samples import RIGHT, UNGRADED, WRONG, report
from sqlalchemy import text

from autograder.gradebook import GradebookError, open_gradebook, queries, schema
from autograder.gradebook.models import HEAD, Base
from autograder.gradebook.scores import mark
from autograder.gradebook.store import Gradebook

OLD_ROWS = [
    "INSERT INTO learner VALUES (7, 'ada', '2026-09-01 10:00:00+00:00')",
    "INSERT INTO content VALUES ('{sha}', 5, CAST('bytes' AS {bytes}), '2026-09-01 10:00:00+00:00')",
    "INSERT INTO submission VALUES (3, 7, 'lab05_tape', '{sha}', '2026-09-01 10:00:00+00:00')",
    "INSERT INTO attempt VALUES (1, 3, '2026-09-01 10:00:00+00:00', 'a.ipynb', 'notebook')",
    "INSERT INTO attempt VALUES (2, 3, '2026-09-02 10:00:00+00:00', 'b.ipynb', 'notebook')",
]


def first_schema(empty_address: str, monkeypatch: pytest.MonkeyPatch) -> Gradebook:
    """A gradebook as the first autograder left it, with a submission and two grades."""
    with monkeypatch.context() as patch:
        patch.setattr(schema, "HEAD", "0001")
        book = Gradebook(empty_address)
    sha = report().sha256
    stores = "BLOB" if book.engine.dialect.name == "sqlite" else "BYTEA"
    with book.writing("write as before") as session:
        for row in OLD_ROWS:
            session.execute(text(row.format(sha=sha, bytes=stores)))
        for key, done in enumerate([report(WRONG, UNGRADED), report(WRONG, RIGHT, spec_version="new")], start=1):
            session.execute(
                text("INSERT INTO grade VALUES (:id, 3, :spec, 'practice', 1, :points, 5, false, true, :at, :report)"),
                {
                    "id": key,
                    "spec": done.spec_version,
                    "points": done.points,
                    "at": "2026-09-01 10:00:01+00:00",
                    "report": done.to_json(),
                },
            )
            for position, one in enumerate(done.tasks):
                session.execute(
                    text("INSERT INTO task_grade VALUES (:g, :p, :t, :v, :c, :points, :most)"),
                    {
                        "g": key,
                        "p": position,
                        "t": one.name,
                        "v": one.verdict,
                        "c": one.cause,
                        "points": one.points,
                        "most": one.max_points,
                    },
                )
    return book


@pytest.mark.slow
def test_everything_is_kept_and_diagnoses_are_found(empty_address, monkeypatch):
    first_schema(empty_address, monkeypatch).close()
    with open_gradebook(empty_address) as book:
        assert queries.notebook(book, 3) == b"bytes"
        [row] = queries.submissions(book, learner="ada")
        assert (row.attempts, row.filename, row.points, row.spec_version) == (2, "b.ipynb", 2.0, "new")
        with book.reading() as session:
            found = session.execute(text("SELECT grade_id, task, diagnosis FROM task_grade ORDER BY 1, position")).all()
        assert found == [
            (1, "rules", WRONG.diagnosis[0]),
            (1, "stale", ""),
            (2, "rules", WRONG.diagnosis[0]),
            (2, "order", ""),
        ]
        assert mark(book, learner="ada", lab="lab05_tape").points == 2.0


@pytest.mark.slow
def test_models_agree(empty_address, monkeypatch):
    first_schema(empty_address, monkeypatch).close()
    with open_gradebook(empty_address) as book, book.engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


@pytest.mark.slow
def test_a_step_that_fails_changes_nothing(empty_address, monkeypatch):
    """A table that is there already stops the step near its end; afterwards all is as it was."""
    old = first_schema(empty_address, monkeypatch)
    with old.writing("be in the way") as session:
        session.execute(text("CREATE TABLE audit (id INTEGER)"))
    with pytest.raises(GradebookError, match="could not open it"):
        open_gradebook(empty_address)
    with old.reading() as session:
        assert session.execute(text("SELECT version_num FROM alembic_version")).scalar() == "0001"
        assert list(session.execute(text("SELECT * FROM learner")).keys()) == ["id", "name", "since"]
    with old.writing("get out of the way") as session:
        session.execute(text("DROP TABLE audit"))
    old.close()
    with open_gradebook(empty_address) as book:
        assert queries.counts(book) == (1, 2)


def test_a_spoilt_report_keeps_nobody_from_the_gradebook(empty_address, monkeypatch):
    old = first_schema(empty_address, monkeypatch)
    with old.writing("spoil a report") as session:
        session.execute(text("UPDATE grade SET report = 'no JSON' WHERE id = 1"))
    old.close()
    with open_gradebook(empty_address) as book, book.reading() as session:
        assert session.execute(text("SELECT grade_id FROM task_grade WHERE diagnosis <> ''")).scalars().all() == [2]


@pytest.mark.parametrize(
    "change", ["UPDATE audit SET who = 'nobody'", "DELETE FROM audit", "UPDATE audit SET why = '' WHERE id = 1"]
)
def test_the_database_itself_keeps_the_audit(book, change):
    from autograder.gradebook import decisions
    from autograder.gradebook.audit import trail

    decisions.assign(book, "lab05_tape", by="grace", points=10.0)
    before = trail(book)
    with pytest.raises(GradebookError, match="only ever added to"), book.writing("cover it up") as session:
        session.execute(text(change))
    assert len(before) == 1
    assert trail(book) == before
