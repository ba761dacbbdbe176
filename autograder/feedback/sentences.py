"""What a report says, in the reader's language: the grader writes English sentences, told again when shown.

So a report that was recorded in one language is read in any. Hints of the labs have a catalogue of their
own. What none knows, such as what a lab's own judge says, stays in English.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import cache

from autograder.feedback.catalogue import CATALOGUES, language
from autograder.report import Report, TaskResult

MOST = 1000
"""Characters of a text that is translated: a longer one is no sentence of the grader's."""
_VALUE = r"(?P<{}>[^\n]{{1,300}}?)"


def hints_in(name: str) -> dict[str, dict[str, str]]:
    """The hints of a language by lab: English to theirs."""
    path = CATALOGUES / f"{name}_hints.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


@cache
def _known(name: str) -> tuple[list[tuple[re.Pattern[str], str]], dict[str, str]]:
    """The sentences of a language, the most telling first, and the words that may stand inside them."""
    path = CATALOGUES / f"{name}_sentences.toml"
    if not path.is_file():
        return [], {}
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    all_of_them = told["sentences"] | {
        english: theirs for lab in hints_in(name).values() for english, theirs in lab.items()
    }
    # The more of a sentence is fixed, the surer it is meant: it goes before one that fits everything.
    pairs = sorted(all_of_them.items(), key=lambda pair: -len(re.sub(r"\{\w+\}", "", pair[0])))
    return [(_pattern(english), theirs) for english, theirs in pairs], told["words"]


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    source = "".join(_VALUE.format(part) if place % 2 else re.escape(part) for place, part in enumerate(parts))
    return re.compile(rf"{source}(?:$|\s+(?P<rest>.*))", re.DOTALL)


def translated(text: str) -> str:
    """`text` in the language of now, sentence by sentence as far as its sentences are known."""
    sentences, inside = _known(language())
    done, rest = "", text
    while rest and sentences and len(rest) <= MOST:
        for pattern, theirs in sentences:
            if match := pattern.match(rest):
                values = {name: inside.get(value, value) for name, value in match.groupdict("").items()}
                rest = values.pop("rest")
                done += re.sub(r"\{(\w+)\}", lambda found, values=values: values[found[1]], theirs)  # type: ignore[misc]
                break
        else:
            break
    return f"{done} {rest}".strip() if done and rest else done or rest


def told(report: Report) -> Report:
    """`report` as it is shown in the language of now."""
    if not _known(language())[0]:
        return report

    def one(task: TaskResult) -> TaskResult:
        diagnosis = [translated(line) for line in task.diagnosis]
        hints = [translated(line) for line in task.hints]
        return replace(task, message=translated(task.message), diagnosis=diagnosis, hints=hints)

    return replace(report, tasks=[one(task) for task in report.tasks])
