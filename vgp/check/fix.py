"""Writes the nearest working values into the checked files; only the values of findings change.

A file is replaced as a whole or not at all; the new text must have fewer errors, and none of a new kind.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from vgp.base.documents import document as documents
from vgp.base.documents.bounded_text import Unreadable, read
from vgp.base.documents.document import Document
from vgp.base.documents.edits import CannotEdit, Editor
from vgp.base.errors import RequestError
from vgp.base.whole_files import write
from vgp.check import document_kinds
from vgp.check.check_finding import Finding
from vgp.check.check_report import Report
from vgp.check.checker import check, files
from vgp.check.document_kinds import is_program, parse

#: Rounds of fixes: a corrected machine name may lead to another finding about its GPUs.
_ROUNDS = 4
_MAX_CHARACTERS = 2_000_000


@dataclass
class Fix:
    """The changes to one file, and the errors that remain although a similar value is known."""

    path: Path
    before: str
    after: str
    left: list[str] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def write(self) -> None:
        """Replaces the file and keeps its line endings; raises RequestError if it was changed meanwhile or is not
        writable."""
        if not self.changes:
            return
        try:
            content = self.path.read_bytes()
            raw = content.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            content, raw = b"", ""
        if _unify_line_ends(raw) != self.before:
            raise RequestError(f"{self.path} was changed meanwhile and is left as it is. Run the command again.")
        text = self.after.replace("\n", "\r\n") if "\r\n" in raw else self.after
        write(self.path, text.encode("utf-8-sig" if content.startswith(b"\xef\xbb\xbf") else "utf-8"))


@dataclass(frozen=True)
class Options:
    """The options of a check that judges fixes."""

    regions: Sequence[str] = ()
    strategy: str | None = None
    ignore: Sequence[str] = ()
    as_of: date | None = None

    def report(self, documents: Iterable[Document]) -> Report:
        return check(
            documents, regions=self.regions, strategy=self.strategy, ignore=self.ignore, as_of=self.as_of
        )  # fmt: skip


def fixes(paths: Iterable[str], options: Options) -> Iterator[Fix]:
    """Yields the fix of each file, also of files in the folders; unreadable files are skipped."""
    for path in paths:
        if path == "-":
            raise RequestError("--fix writes into files: give their paths, not standard input.")
        for file in files(Path(path), Report()):
            try:
                fix = _fix_file(file, options, named=file == Path(path))
            except Unreadable:
                continue  # the check reports it
            if fix is not None:
                yield fix


def _fix_file(path: Path, options: Options, *, named: bool) -> Fix | None:
    """Returns the fix of a file; None if no error has a similar working value."""
    raw = read(path)
    before = _unify_line_ends(raw)
    requests = [each for each in parse(str(path), before, path.parent) if named or document_kinds.recognises(each)]
    wrong = [each for each in requests if _list_fixable(options.report([each]))]
    if not wrong:
        return None
    why = _explain_refusal(path, raw)
    if why:
        return Fix(path, before, before, [f"{path}: {why}"])
    fix = Fix(path, before, before)
    for document in reversed(wrong):  # from the end, so that lines above keep their numbers
        start = _start(fix.after, document)
        if start is None:
            fix.left.append(
                f"{path}:{document.above + 1}: this document cannot be separated from the others in its file"
            )
            continue
        text, left = fix_document(document, options)
        fix.after = fix.after[:start] + text + fix.after[start + len(document.text) :]
        fix.left[:0] = [f"{path}:{line}" for line in left]
    return fix


def _unify_line_ends(raw: str) -> str:
    return raw.replace("\r\n", "\n")


def _explain_refusal(path: Path, raw: str) -> str:
    if is_program(str(path)):
        return "programs, notebooks, scripts and Terraform are not changed automatically: edit them yourself"
    if len(raw) > _MAX_CHARACTERS:
        return f"more than {_MAX_CHARACTERS:,} characters: change the program that generates it"
    lines = raw.count("\n")
    if raw.count("\r\n") not in (0, lines) or raw.replace("\r\n", "").count("\r"):
        return "its lines end in different ways"
    return ""


def _start(text: str, document: Document) -> int | None:
    """Returns where the document begins in the text of its file; None if that is ambiguous."""
    start = 0
    for _ in range(document.above):
        start = text.index("\n", start) + 1
    return start if text.startswith(document.text, start) and document.text else None


def _list_fixable(report: Report) -> list[Finding]:
    return [finding for finding in report.of_severity("error") if finding.changes]


def fix_document(document: Document, options: Options) -> tuple[str, list[str]]:
    """Returns the corrected text of one document, and a line for each remaining error."""
    left: list[str] = []
    first, now = options.report([document]), document
    for _ in range(_ROUNDS):
        findings = _list_fixable(options.report([now]))
        # Only the last round counts: a value behind an alias is right once its anchor is.
        text, left = _edit_document(now, findings, document.above)
        if text == now.text:
            break
        now = documents.parse(document.file, text)[0]
    if now is document:
        return document.text, list(dict.fromkeys(left))
    last, kinds_before = options.report([now]), Counter(each.rule for each in first.of_severity("error"))
    new = Counter(each.rule for each in last.of_severity("error")) - kinds_before
    if new or last.errors >= first.errors:
        kinds = ", ".join(sorted(new)) or "as many as before"
        return document.text, [f"{document.above + 1}: the nearest values have errors too ({kinds})"]
    return now.text, list(dict.fromkeys(left))


def _edit_document(document: Document, findings: Sequence[Finding], above: int) -> tuple[str, list[str]]:
    editor = Editor(document, [change.path for finding in findings for change in finding.changes])
    left = []
    for finding in findings:
        try:
            editor.take(finding.changes)
        except CannotEdit as error:
            line = above + document.line(finding.path) - document.above
            left.append(f"{line}: {finding.rule} stays: {error}")
    try:
        return editor.result(), left
    except CannotEdit as error:
        return document.text, [f"{above + 1}: unchanged: {error}"]
