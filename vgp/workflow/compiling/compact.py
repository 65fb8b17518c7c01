"""A program without its docstrings, its comments and most of its indentation.

Each worker pool of a spec carries the launching text, and what starts the job gets all pools in one argument, of which
Linux takes 128 KiB.
"""

import ast
import io
import tokenize


def compact(text: str) -> str:
    """The same program in fewer characters; the same on every version of Python, since caching goes by it."""
    lines = text.splitlines()
    quoted: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        quoted.update(range(token.start[0], token.end[0]))  # the lines of a text but the first, counted from 0
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            words = node.body[0]
            lines[words.lineno - 1 : words.end_lineno] = [""] * ((words.end_lineno or 0) - words.lineno + 1)
            if len(node.body) == 1:
                lines[words.lineno - 1] = " " * words.col_offset + '""'
    short = [line if number in quoted else _indented(line) for number, line in enumerate(lines)]
    return "\n".join(line for line in short if line) + "\n"


def _indented(line: str) -> str:
    """By one space for each four."""
    rest = line.lstrip(" ")
    return " " * ((len(line) - len(rest)) // 4) + rest
