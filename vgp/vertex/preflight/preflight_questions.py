"""What preflight says of one thing, the question whose answer it is, all asked side by side, and shown."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from rich.text import Text

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.printable import one_line, printable
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.google_errors import explained

#: ok; warning: works, or may; error: would fail; unknown: could not be looked at; skipped: there is nothing to look at.
Level = Literal["ok", "warning", "error", "unknown", "skipped"]

#: Seconds for one attempt, and for one question with its repetitions: who waits for a check waits not for long.
ATTEMPT_S, QUESTION_S = 10.0, 20.0
AT_A_TIME = 16
_MARKS = {
    "ok": ("✓", "green"),
    "warning": ("!", "yellow"),
    "error": ("✗", "red"),
    "unknown": ("?", "yellow"),
    "skipped": ("–", "dim"),
}
_RANK = ("ok", "skipped", "unknown", "warning", "error")
#: The end of a digest means nothing to a reader.
_DIGEST = re.compile(r"(@sha256:[0-9a-f]{12})[0-9a-f]{52}$")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    #: What was asked, like bucket.region: stable, for scripts.
    check: str
    #: The thing itself, like gs://my-bucket.
    subject: str
    level: Level
    #: What was seen.
    seen: str
    #: The command or the link that changes it.
    hint: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Question:
    """One call to Google, and what follows from its answer. `check` and `subject` name it when there is no answer."""

    check: str
    subject: str
    look: Callable[[], Iterable[Finding]]


def skip_question(check: str, subject: str, why: str) -> Question:
    """A question that the settings leave nothing to ask about."""
    return Question(check, subject, lambda: [Finding(check, subject, "skipped", why)])


def patience() -> clients.CallOptions:
    """Arguments of every call: repeated like all reading, for a shorter time."""
    return {"retry": clients.repeating().with_timeout(QUESTION_S), "timeout": ATTEMPT_S}


def answer_questions(
    settings: Settings, questions: Sequence[Question], answer_came: Callable[[], None] = lambda: None
) -> list[Finding]:
    """The findings of all questions in their order, asked concurrently, without duplicates."""
    with ThreadPoolExecutor(max_workers=AT_A_TIME) as pool:
        asked = [pool.submit(answer_question, settings, question) for question in questions]
        for _ in as_completed(asked):
            answer_came()
    return list(dict.fromkeys(finding for answer in asked for finding in answer.result()))


def answer_question(settings: Settings, question: Question) -> list[Finding]:
    """The findings of one question; if it could not be answered, those until then and why."""
    findings: list[Finding] = []
    try:
        with explained("not seen", settings):
            for finding in question.look():
                findings.append(finding)
    except (WorkFailed, RequestError) as failure:
        seen, *hint = str(failure).splitlines()
        # A wrong request is one of ours (no credentials): it would fail again, whatever Google has to say.
        level: Level = "error" if isinstance(failure, RequestError) else "unknown"
        findings.append(Finding(question.check, question.subject, level, seen, "\n".join(map(str.strip, hint))))
    except Exception as error:
        # An answer in an unexpected form must not hide what the other questions found.
        seen = f"the answer was not understood: {type(error).__name__}: {error}"
        findings.append(Finding(question.check, question.subject, "unknown", seen))
    return findings


def findings_json(name: str, findings: Sequence[Finding]) -> JsonObject:
    """The findings, and how many there are of each level."""
    return {"pipeline": name, "counts": counts(findings), "findings": [finding.as_json() for finding in findings]}


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    levels = Counter(finding.level for finding in findings)
    return {level: levels[level] for level in get_args(Level)}


def lines(findings: Sequence[Finding]) -> Iterator[Text]:
    """A line for each finding with what to do below it; what matters most comes last, where a person looks.

    Not in a table: a command that is folded to a column cannot be copied.
    """
    for one in sorted(findings, key=lambda finding: _RANK.index(finding.level)):
        mark, style = _MARKS[one.level]
        subject = _DIGEST.sub(r"\1", one.subject)
        rest = "dim" if one.level in ("ok", "skipped") else ""
        yield Text.assemble((mark, style), (f" {one.check:<20}", "dim"), (one_line(f"{subject} {one.seen}"), rest))
        for line in printable(one.hint).splitlines():
            yield Text(f"    {line}", style="cyan")


def summary(findings: Sequence[Finding]) -> str:
    """4 ok, 1 error, ...: the levels that occur."""
    words = {"warning": "warnings", "error": "errors"}
    present = [(number, level) for level, number in counts(findings).items() if number]
    return ", ".join(f"{number} {words.get(level, level) if number != 1 else level}" for number, level in present) + "."
