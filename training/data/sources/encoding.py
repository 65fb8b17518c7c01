"""Text of any encoding as UTF-8."""

import codecs
from collections.abc import Iterator
from itertools import chain

from training.errors import UserError

#: What a text may begin with, and the encoding that it tells; the longer ones first.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def found(head: bytes, name: str, encoding: str) -> tuple[str, int]:
    """The encoding of a text that begins so, and the length of the mark that says it.

    Args:
        encoding: As it was given; a mark outweighs it, since no table begins with its letters by chance.

    Raises:
        UserError: it is UTF-16 without a mark, or no text at all.
    """
    for mark, told in MARKS.items():
        if head.startswith(mark):
            return told, len(mark)
    encoding = codecs.lookup(encoding or "utf-8").name
    zeros = [head[start:1000:2].count(0) for start in (0, 1)]
    if encoding == "utf-8" and 3 * sum(zeros) > len(head[:1000]):
        guess = "" if all(zeros) else "utf-16-le" if zeros[1] else "utf-16-be"
        fix = f'it is UTF-16: give task_options={{"encoding": "{guess}"}}, or save it as UTF-8.'
        raise UserError(f"{name} holds NUL bytes: {fix if guess else 'it is no text.'}")
    return encoding, 0


def as_utf8(blocks: Iterator[bytes], name: str, encoding: str) -> Iterator[bytes]:
    """The blocks of a text, decoded and encoded again. Raises UserError for bytes that the encoding does not have."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    try:
        for block in blocks:
            text = decoder.decode(block)
            yield text.encode()
            line += text.count("\n")
        yield decoder.decode(b"", final=True).encode()
    except UnicodeDecodeError as error:
        line += error.object[: error.start].decode(encoding, errors="replace").count("\n")
        wrong = error.object[error.start : error.end].hex(" ")
        raise UserError(f"{name}, line {line}: the text is not {encoding}: bytes {wrong} stand for nothing.") from None


def decoded(blocks: Iterator[bytes], name: str, given: str) -> tuple[str, Iterator[bytes]]:
    """The encoding of a text, and its blocks in UTF-8 without a mark. Raises UserError as `found` and `as_utf8`."""
    head = next(blocks, b"")
    encoding, mark = found(head, name, given)
    rest = chain([head[mark:]], blocks)
    return encoding, rest if encoding == "utf-8" else as_utf8(rest, name, encoding)
