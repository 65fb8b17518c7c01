"""The values of the names of a Python program at a line, if they are equal in every run.

Statements of one scope run in their order, so the last assignment above a line counts; one that stands under a
condition or in a loop makes the name unknown from there on, and so does a method that fills a list or dictionary: an
empty one is filled wherever that stands, for others may hold it. A function sees what its module sets once, and
of its arguments what the one call of it in the program gives, or the defaults that no call overrides.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vgp.base.documents.bounded_text import spend

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
_MODULE = (0, 1 << 60)
#: Number of calls of a function above which its arguments are unknown, because each argument is searched in all calls.
_MOST_CALLS = 100
#: Methods that change the value of a name.
_FILLING = ("append", "extend", "insert", "update", "setdefault", "add", "pop", "remove", "clear")


@dataclass(frozen=True)
class Assignment:
    """An assignment of an expression to a name on a line; None: a computed value."""

    line: int
    value: ast.expr | None
    scope: tuple[int, int]
    #: Lines of the condition or loop around it.
    under: tuple[int, int] | None
    #: The statement that sets or changes the name; None for an argument.
    statement: ast.stmt | None = None


class Names:
    """The assignments of a program."""

    def __init__(self, tree: ast.Module, nodes: Sequence[ast.AST]) -> None:
        self._set: dict[str, list[Assignment]] = {}
        self._scopes: list[tuple[int, int]] = []
        self._calls = _calls(nodes)
        self._made_by = _map_constructors(nodes)
        for name, assignment in self._statements(tree.body, _MODULE, None):
            self._set.setdefault(name, []).append(assignment)
        self._scopes.sort(key=lambda scope: scope[0] - scope[1])

    def read_value(self, name: str, line: int) -> ast.expr | str:
        """Returns the expression of a name at a line, or the reason why it is unknown."""
        assignments = self._set.get(name)
        if not assignments:
            return f"{name} has no constant value in this file"
        spend("look-ups", len(assignments) // 5)
        scope = self._find_scope(line)
        in_scope = [each for each in assignments if each.scope == scope]
        above = [each for each in in_scope if each.line <= line]
        if not in_scope:
            outer = [each for each in assignments if each.scope == _MODULE]
            above = outer if len(outer) == 1 and len(assignments) == len(outer) else []
        last = max(above, key=lambda each: each.line, default=None)
        if last is None or last.under or any(_is_in_block(each, line) for each in in_scope):
            return f"{name} is set in more than one way"
        if _is_empty(last.value) and any(each.value is None and each.line > last.line for each in in_scope):
            return f"{name} is filled by the program"
        return last.value if last.value is not None else f"{name} is computed by the program"

    def read_history(self, name: str, line: int) -> list[Assignment]:
        """Returns the last assignment of a value to a name above a line, and the changes since; empty if some runs skip
        or repeat one of them."""
        scope = self._find_scope(line)
        above = sorted((each for each in self._set.get(name, []) if each.scope == scope), key=lambda each: each.line)
        above = [each for each in above if each.line < line]
        start = max((at for at, each in enumerate(above) if each.value is not None), default=len(above))
        return [] if any(each.under for each in above[start:]) else above[start:]

    def may_hold(self, name: str, value: ast.expr, line: int) -> bool:
        """Whether a name at a line may hold the expression assigned above it."""
        assignments = [each for each in self._set.get(name, []) if each.value is not None]
        scope = self._find_scope(line)
        in_scope = [each for each in assignments if each.scope == scope] or [
            each for each in assignments if each.scope == _MODULE
        ]
        above = [each for each in in_scope if each.line <= line]
        last = max((each.line for each in above if not each.under), default=0)
        return any(each.value is value for each in above if each.line >= last)

    def _find_scope(self, line: int) -> tuple[int, int]:
        return next((each for each in reversed(self._scopes) if each[0] <= line <= each[1]), _MODULE)

    def _statements(
        self, body: list[ast.stmt], scope: tuple[int, int], under: tuple[int, int] | None
    ) -> Iterator[tuple[str, Assignment]]:
        for node in body:
            yield from self._list_assignments(node, scope, under)
            if isinstance(node, _FUNCTIONS):
                inner = node.lineno, node.end_lineno or node.lineno
                self._scopes.append(inner)
                if not isinstance(node, ast.ClassDef):
                    yield from (
                        (name, Assignment(node.lineno, value, inner, None))
                        for name, value in self._list_arguments(node)
                    )
                yield from self._statements(getattr(node, "body", []), inner, None)
                continue
            always = isinstance(node, ast.With | ast.AsyncWith | ast.Try) or _is_main(node)
            below = under if always else under or (node.lineno, node.end_lineno or node.lineno)
            for part in ("body", "orelse", "finalbody"):
                within = (
                    below if part == "body" or part == "finalbody" else (node.lineno, node.end_lineno or node.lineno)
                )
                yield from self._statements(getattr(node, part, []), scope, within)
            for handler in getattr(node, "handlers", []):
                yield from self._statements(handler.body, scope, (node.lineno, node.end_lineno or node.lineno))

    def _list_arguments(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    ) -> Iterator[tuple[str, ast.expr | None]]:
        """Yields the arguments of a function, each with the value of its only call, or with the default."""
        called = self._made_by.get(node, ()) or (getattr(node, "name", ""),)
        calls = [call for name in called for call in self._calls.get(name, [])[: _MOST_CALLS + 1]]
        positional = [*node.args.posonlyargs, *node.args.args]
        implicit = sum(each.arg in ("self", "cls") for each in positional[:1])  # arguments that no call passes
        defaults = dict(zip([each.arg for each in positional][::-1], node.args.defaults[::-1], strict=False))
        keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        defaults |= {each.arg: value for each, value in keywords if value is not None}
        for each in ast.walk(node.args):
            if isinstance(each, ast.arg):
                place = positional.index(each) - implicit if each in positional else len(positional)
                arguments = [value for call in calls if (value := _find_argument(call, each.arg, place))]
                is_known = len(calls) <= _MOST_CALLS and (len(calls) == 1 or not arguments)
                yield each.arg, _read_only_argument(arguments, defaults.get(each.arg)) if is_known else None

    def _list_assignments(
        self, node: ast.stmt, scope: tuple[int, int], under: tuple[int, int] | None
    ) -> Iterator[tuple[str, Assignment]]:
        """Yields the names that a statement sets."""
        for name, value in _list_targets(node):
            yield name, Assignment(node.lineno, value, scope, under, node)


def _is_in_block(assignment: Assignment, line: int) -> bool:
    """Whether the line is in the loop or condition in which the name is set."""
    return assignment.under is not None and assignment.under[0] <= line <= assignment.under[1]


def _calls(nodes: Sequence[ast.AST]) -> dict[str, list[ast.Call]]:
    """Returns the calls of a program by the last word of the callable."""
    calls: dict[str, list[ast.Call]] = {}
    for node in nodes:
        if isinstance(node, ast.Call):
            calls.setdefault(getattr(node.func, "attr", getattr(node.func, "id", "")), []).append(node)
    return calls


def _map_constructors(nodes: Sequence[ast.AST]) -> dict[ast.AST, tuple[str, str]]:
    """Returns (class name, "__init__") for each `__init__`, because calls use the name of the class."""
    return {
        each: (node.name, "__init__")
        for node in nodes
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if getattr(each, "name", "") == "__init__"
    }


def _find_argument(call: ast.Call, name: str, place: int) -> ast.expr | bool:
    """Returns the argument of a call by name or position; True: hidden in *args or **kwargs."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return True
    if 0 <= place < len(call.args):
        return call.args[place]
    named = next((word.value for word in call.keywords if word.arg == name), None)
    return named or any(word.arg is None for word in call.keywords)


def _read_only_argument(arguments: Sequence[ast.expr | bool], default: ast.expr | None) -> ast.expr | None:
    """Returns the argument of the only call, else the default, unless that is a placeholder."""
    value = arguments[0] if arguments else default
    return None if isinstance(value, bool) or value is None or is_void(value) else value


def is_void(default: ast.expr) -> bool:
    """Whether a default is only a placeholder: None, "", 0."""
    return isinstance(default, ast.Constant) and not default.value


def _is_empty(value: ast.expr | None) -> bool:
    """Whether the value is [] or {}, which the program may fill later."""
    return (isinstance(value, ast.List) and not value.elts) or (isinstance(value, ast.Dict) and not value.values)


def _is_main(node: ast.stmt) -> bool:
    """Whether the statement is `if __name__ == "__main__"`."""
    test = node.test if isinstance(node, ast.If) else None
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _list_targets(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    match node:
        case ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target):
            yield target.id, node.value
        case ast.Assign(targets=[ast.Tuple() as targets], value=ast.Tuple() as values) if len(targets.elts) == len(
            values.elts
        ):
            for part, value in zip(targets.elts, values.elts, strict=True):
                yield from ((name, value if isinstance(part, ast.Name) else None) for name in _names(part))
        case ast.Assign():
            yield from ((name, None) for each in node.targets for name in _names(each))
        case ast.AugAssign() | ast.For() | ast.AsyncFor():
            yield from ((name, None) for name in _names(node.target))
        case ast.With() | ast.AsyncWith():
            yield from (
                (name, None) for item in node.items if item.optional_vars for name in _names(item.optional_vars)
            )
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method) as function)) if method in _FILLING:
            yield from ((name, None) for name in _names(function.value))
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return
    if isinstance(node, ast.Expr | ast.Assign):
        for each in ast.walk(node):
            if isinstance(each, ast.NamedExpr):
                yield each.target.id, None


def _names(tree: ast.AST) -> list[str]:
    """Returns the names that a target sets; a["x"] and a.x change a."""
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]


def find_changes(node: ast.AST) -> Iterator[tuple[str, list[ast.expr | None]]]:
    """Yields (name, keys) of each change to a list or dictionary: a["x"][0].update(y=1) gives a, x, 0, y.

    None stands for an unknown key.
    """
    match node:
        case ast.Assign():
            targets = node.targets
        case ast.AugAssign():
            targets = [node.target]
        case ast.Delete():
            targets = node.targets
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method) as function) as call) if method in _FILLING:
            name, keys = read_keys(function.value)
            yield from ((name, [*keys, key]) for key in _read_updated_keys(method, call))
            return
        case _:
            return
    yield from (read_keys(target) for target in targets if isinstance(target, ast.Subscript))


def read_keys(node: ast.expr) -> tuple[str, list[ast.expr | None]]:
    """Returns the name and the keys of a["x"][0]."""
    keys: list[ast.expr | None] = []
    while isinstance(node, ast.Subscript):
        keys.insert(0, node.slice)
        node = node.value
    return node.id if isinstance(node, ast.Name) else "", keys


def _read_updated_keys(method: str, call: ast.Call) -> list[ast.expr | None]:
    """Returns the keys that a method sets; None: all."""
    if method in ("setdefault", "pop") and call.args:
        return [call.args[0]]
    update = call.args[0] if call.args else None
    is_plain = method == "update" and (update is None or isinstance(update, ast.Dict)) and len(call.args) < 2
    keys = [*update.keys] if is_plain and isinstance(update, ast.Dict) else []
    words = [word.arg and ast.Constant(word.arg) for word in call.keywords]
    return [*keys, *(word or None for word in words)] if is_plain else [None]
