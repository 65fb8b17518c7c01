"""Finds the gcloud commands that a Python program runs: subprocess.run(["gcloud", ...]), os.system("gcloud ...")."""

import ast
import re

from vgp.base.documents.bounded_text import Exhausted
from vgp.base.documents.document import At, Document
from vgp.base.documents.node import Computed
from vgp.check.sources import embedded_commands, shell_script
from vgp.check.sources.constants import Constants, read_callable_name
from vgp.check.sources.shell_script import MAX_COMMANDS

#: Functions that show their text and run nothing.
_SHOWING = ("print", "debug", "info", "warning", "error", "exception", "write", "add_argument", "Markdown", "echo")


def find_commands(file: str, constants: Constants, at: At) -> list[Document]:
    """Returns the requests of the commands in the arguments of the program's calls; each text counts once."""
    texts = {
        id(node): (node.lineno, text)
        for call in constants.calls
        if read_callable_name(call) not in _SHOWING
        for argument in _list_arguments(call)
        if isinstance(node := constants.resolve_name(argument), ast.expr) and (text := _read_command(node, constants))
    }
    if len(texts) > MAX_COMMANDS:
        fault = Exhausted(f"The program has more than {MAX_COMMANDS:,} commands of gcloud.")
        return [Document(file, None, "", fault=fault, places={})]
    return [
        document
        for line, text in texts.values()
        for document in shell_script.documents(file, text, None, lambda _, line=line: at(line))  # type: ignore[misc]
    ]


def _list_arguments(call: ast.Call) -> list[ast.expr]:
    """Returns the arguments of a call, and TEXT of TEXT.split()."""
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) and call.func.attr == "split" else []
    return [*owner, *call.args, *(word.value for word in call.keywords)]


def _read_command(node: ast.expr, constants: Constants) -> str:
    """Returns the command line of an argument; "" if it holds none."""
    if isinstance(node, ast.List | ast.Tuple):
        return embedded_commands.join_words([_read_text(item, constants) for item in node.elts])
    text = _read_text(node, constants).strip()
    return text if text.startswith("gcloud ") and embedded_commands.may_ask(text) else ""


def _read_text(node: ast.expr, constants: Constants) -> str:
    """Returns the text of an expression, with a shell variable for each unknown part."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _read_text(part.value if isinstance(part, ast.FormattedValue) else part, constants) for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _read_text(node.left, constants) + _read_text(node.right, constants)
    value = constants.value(node, (), {})
    if isinstance(value, str | int | float) and not isinstance(value, Computed):
        return str(value)
    return "" if isinstance(value, dict | list) else f"${{{re.sub(r'[^A-Za-z_]+', '_', ast.unparse(node))[:40]}}}"
