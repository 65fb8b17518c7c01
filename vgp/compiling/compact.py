"""A program without its docstrings and comments.

Each worker pool of a spec carries the launching text, and what starts the job gets all pools in one argument, of which
Linux takes 128 KiB.
"""

import ast
import io
import tokenize


def compact(text: str) -> str:
    """The same program in fewer characters; the same on every version of Python, since caching goes by it."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            words = node.body[0]
            lines[words.lineno - 1 : words.end_lineno] = [""] * ((words.end_lineno or 0) - words.lineno + 1)
            lines[words.lineno - 1] = " " * words.col_offset + '""'  # it may be all that there is
    return "\n".join(line for line in lines if line) + "\n"
