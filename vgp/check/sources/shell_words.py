"""The words of a command as bash splits them: quotes, substitutions, continuation lines, redirections and comments."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_OPENERS = {"'": "'", '"': '"', "`": "`", "$(": ")", "${": "}", "(": ")", "<(": ")", ">(": ")"}
_COMMENT = r"(?<![^\s;&|()])#[^\n]*"
#: What closes -> what may stand before it: an escape, an opener, the end, a comment.
_INSIDE = {
    closer: re.compile(pattern, re.DOTALL)
    for closer, pattern in {
        "'": r"'",
        '"': r'\\.|"|`|\$[({]',
        "}": r"\\.|['\"`}]|\$[({]",
        ")": rf"\\.|['\"`()]|\$[({{]|{_COMMENT}",
        "`": rf"\\.|['\"`]|\$[({{]|{_COMMENT}",
    }.items()
}
_WORD_PART = re.compile(
    rf"""(?P<continued>\\(?:\n|\Z))|(?P<escaped>\\.)|(?P<opener>['"`]|\$[({{]|[<>]\()|(?P<placeholder><[A-Za-z][\w.-]*>)"""
    rf"""|(?P<redirection>&>>?|<<<|<<-?|<>|>>|>\||[<>]&?)|(?P<operator>[;&|()\n])|(?P<comment>{_COMMENT})"""
    r"""|(?P<blank>[ \t]+)|(?P<plain>[^\s\\'"`$<>;&|()#]+|[\s\S])""",
    re.DOTALL,
)
_ESCAPED_IN_QUOTES = re.compile(r"\\(?:([$`\"\\])|\n)")


class Unclosed(ValueError):
    """A quote, substitution or list begins and does not end."""


@dataclass
class Split:
    """The words of one command, and where in the text it ends."""

    words: list[str] = field(default_factory=list)
    end: int = 0
    #: The text from its first redirection on, such as `2>&1`.
    redirection: str = ""


def close(text: str, start: int, closer: str) -> int:
    """Returns the position behind the closer of what is open at `start`; raises Unclosed."""
    stack, position = [closer], start
    while stack:
        match = _INSIDE[stack[-1]].search(text, position)
        if match is None:
            raise Unclosed(
                f"nothing closes the {stack[-1]} that is open" if stack[-1] in ")}" else "No closing quotation"
            )
        mark, position = match.group(), match.end()
        if mark == stack[-1]:
            stack.pop()
        elif mark in _OPENERS:
            stack.append(_OPENERS[mark])
    return position


def opened(text: str, stack: Sequence[str] = ()) -> list[str]:
    """Returns what closes the quotes, substitutions and lists that go on below the text, the innermost last.

    `stack`: what is open where the text begins.
    """
    waiting, position = list(stack), 0
    while match := _INSIDE[waiting[-1] if waiting else ")"].search(text, position):
        mark, position = match.group(), match.end()
        if waiting and mark == waiting[-1]:
            waiting.pop()
        elif mark in _OPENERS:
            waiting.append(_OPENERS[mark])
    return waiting


def split(text: str, *, is_list: bool = False) -> Split:
    """Returns the words up to where the command ends; what a substitution does stays as it is written.

    Args:
        text: Begins with the command.
        is_list: Words of an array: they end with the closing bracket, and line breaks are blanks.

    Raises:
        Unclosed: a quote, a substitution or the list does not end.
    """
    done = Split()
    word: str | None = None
    position, is_target = 0, False
    while position < len(text):
        match = _WORD_PART.match(text, position)
        assert match is not None
        kind, part, position = str(match.lastgroup), match.group(), match.end()
        if kind in ("blank", "comment") or is_list and part == "\n":
            is_target, word = _finish(done, word, is_target), None
        elif kind == "redirection":
            is_descriptor = word is not None and word.isdigit() and text[match.start() - 1].isdigit()
            is_target, word = _finish(done, None if is_descriptor else word, is_target), None
            done.redirection = done.redirection or text[match.start() - is_descriptor :]
            is_target = True
        elif kind == "operator":
            _finish(done, word, is_target)
            done.end = match.start()
            return done
        else:
            piece, position = _piece(text, match.start(), kind, part, position)
            word = piece if word is None and kind != "continued" else word if kind == "continued" else f"{word}{piece}"
    if is_list:
        raise Unclosed("nothing closes the list")
    _finish(done, word, is_target)
    done.end = position
    return done


def _finish(done: Split, word: str | None, is_target: bool) -> bool:
    """Adds the word unless it names the file of a redirection; returns whether that name is still to come."""
    if word is None:
        return is_target
    if not is_target:
        done.words.append(word)
    return False


def _piece(text: str, start: int, kind: str, part: str, end: int) -> tuple[str, int]:
    """What one part adds to a word, and where it ends."""
    if kind == "escaped":
        return part[1:], end
    if kind != "opener":
        return part, end
    end = close(text, end, _OPENERS[part])
    if part == "'":
        return text[start + 1 : end - 1], end
    return (unescaped(text[start + 1 : end - 1]) if part == '"' else text[start:end]), end


def unescaped(text: str) -> str:
    """Returns the text between double quotes as the shell reads it."""
    return _ESCAPED_IN_QUOTES.sub(lambda match: match.group(1) or "", text)
