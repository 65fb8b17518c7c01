"""Defaults of what a program is started with: flags of argparse and absl, variables of the environment."""

import ast
from collections.abc import Iterable, Mapping

from vgp.check.sources.names import is_void

_DEFINES = ("DEFINE_string", "DEFINE_integer", "DEFINE_enum")


def of_environment(node: ast.Call) -> ast.expr | None:
    """The default of os.environ.get(NAME, DEFAULT) and os.getenv; None where there is none."""
    function = ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
    if function not in ("os.environ.get", "environ.get", "os.getenv", "getenv"):
        return None
    given = node.args[1] if len(node.args) > 1 else _word(node, "default")
    return None if given is None or is_void(given) else given


def flags(calls: Iterable[ast.Call]) -> Mapping[str, ast.expr]:
    """Name of a flag -> its default, for those that the program defines once."""
    found: dict[str, ast.expr | None] = {}
    for call in calls:
        name, default = _flag(call)
        if name:
            found[name] = None if name in found else default
    return {name: default for name, default in found.items() if default is not None and not is_void(default)}


def _flag(call: ast.Call) -> tuple[str, ast.expr | None]:
    """The flag that a call defines, and its default."""
    function = getattr(call.func, "attr", getattr(call.func, "id", ""))
    texts = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if function == "add_argument" and texts:
        name = next((text for text in texts if text.startswith("--")), texts[0])
        given = _word(call, "dest")
        name = str(given.value) if isinstance(given, ast.Constant) else name
        return name.lstrip("-").replace("-", "_"), _word(call, "default")
    if function in _DEFINES and texts:
        return texts[0], call.args[1] if len(call.args) > 1 else _word(call, "default")
    return "", None


def _word(call: ast.Call, name: str) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == name), None)
