"""Python expressions -> the values that they have in every run, found without running anything.

Constants and names that are set once are followed, and so are texts and lists put together from them; all else is
`Computed`, with the reason. Each value's line is kept.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from vgp.documents.budget import spend
from vgp.documents.field_path import FieldPath
from vgp.documents.node import Computed

MAX_DEPTH = 30
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}  # fmt: skip
_MAX_TEXT = 1_000_000
#: Ends of names that are called with the fields of a message, or of a dictionary.
_MESSAGES = ("dict", "Spec", "Scheduling", "Resources", "CustomJob", "DeployedModel")


class Constants:
    """The values of a module's expressions."""

    def __init__(self, tree: ast.AST) -> None:
        self.names = _set_once(tree)
        #: Literals that were read as part of a larger one or of a call.
        self.used: set[ast.AST] = set()
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        self._runs: dict[object, ast.Call] = {}
        for call in self.calls:
            if called(call) in ("run", "submit") and isinstance(call.func, ast.Attribute):
                owner = call.func.value
                self._runs.setdefault(owner.id if isinstance(owner, ast.Name) else owner, call)
        self._targets: dict[ast.AST, list[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                self._targets[node.value] = [name.id for name in node.targets if isinstance(name, ast.Name)]

    def run_of(self, maker: ast.Call) -> ast.Call | None:
        """The run or submit of the job that a call makes: CustomJob(...).run(...), or by the name that it has."""
        owners = [maker, *self._targets.get(maker, [])]
        return next((self._runs[owner] for owner in owners if owner in self._runs), None)

    def value(self, node: ast.AST, path: FieldPath, places: dict[FieldPath, int], depth: int = 0) -> Any:
        """The value, its parts' lines in `places` under `path`."""
        spend("look-ups")
        places.setdefault(path, getattr(node, "lineno", 1))
        if depth > MAX_DEPTH:
            return Computed("it refers to too much")
        match node:
            case ast.Constant(value=bool() | str() | int() | float() | None):
                return node.value
            case ast.Name():
                return self._name(node, path, places, depth)
            case ast.Dict() | ast.List() | ast.Tuple():
                self.used.add(node)
                return self._container(node, path, places, depth)
            case ast.Call():
                return self._call(node, path, places, depth)
            case ast.Attribute() if node.attr.isupper():  # AcceleratorType.NVIDIA_L4, Scheduling.Strategy.SPOT
                return node.attr
            case ast.BinOp() | ast.UnaryOp() | ast.JoinedStr():
                return self._operation(node, path, depth)
        return Computed(f"the program computes it: {_short(node)}")

    def assigned(self, node: ast.AST | None) -> ast.AST | None:
        """What a name stands for, if it is set once; any other expression is itself."""
        for _ in range(MAX_DEPTH):
            if not isinstance(node, ast.Name) or self.names.get(node.id) is None:
                return node
            node = self.names[node.id]
        return node

    def _name(self, node: ast.Name, path: FieldPath, places: dict[FieldPath, int], depth: int) -> Any:
        value = self.names.get(node.id)
        if value is None:
            why = "is set more than once" if node.id in self.names else "has no constant value in this file"
            return Computed(f"{node.id} {why}")
        places[path] = value.lineno
        return self.value(value, path, places, depth + 1)

    def _container(
        self, node: ast.Dict | ast.List | ast.Tuple, path: FieldPath, places: dict[FieldPath, int], depth: int
    ) -> Any:
        if not isinstance(node, ast.Dict):
            if any(isinstance(item, ast.Starred) for item in node.elts):
                return Computed("the program computes the list")
            return [self.value(item, (*path, index), places, depth + 1) for index, item in enumerate(node.elts)]
        values: dict[str, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:  # **other
                other = self.value(item, path, {}, depth + 1)
                values |= other if isinstance(other, dict) else {}
                continue
            name = self.value(key, path, {}, depth + 1)
            if isinstance(name, str) and not isinstance(name, Computed):
                values[name] = self.value(item, (*path, name), places, depth + 1)
        return values

    def _call(self, node: ast.Call, path: FieldPath, places: dict[FieldPath, int], depth: int) -> Any:
        """dict(...) and the API's messages are what their arguments say; str, int and json.dumps what they hold."""
        name = called(node)
        if not node.args and name.endswith(_MESSAGES):
            self.used.add(node)
            return {
                word.arg: self.value(word.value, (*path, word.arg), places, depth + 1)
                for word in node.keywords
                if word.arg
            }
        if name in ("str", "int", "float", "dumps") and len(node.args) == 1 and not node.keywords:
            value = self.value(node.args[0], path, places, depth + 1)
            if isinstance(value, Computed) or name == "dumps":
                return value
            try:
                return {"str": str, "int": int, "float": float}[name](value)
            except (TypeError, ValueError, OverflowError):
                pass
        return Computed(f"the program computes it: {_short(node)}")

    def _operation(self, node: ast.BinOp | ast.UnaryOp | ast.JoinedStr, path: FieldPath, depth: int) -> Any:
        unknown = Computed(f"the program computes it: {_short(node)}")
        if isinstance(node, ast.JoinedStr):
            parts = [self.value(_part(part), path, {}, depth + 1) for part in node.values]
            if any(isinstance(part, Computed | dict | list) for part in parts):
                return unknown
            return "".join(map(str, parts))[:_MAX_TEXT]
        if isinstance(node, ast.UnaryOp):
            value = self.value(node.operand, path, {}, depth + 1)
            negative = isinstance(node.op, ast.USub) and isinstance(value, int | float)
            return -value if negative else unknown
        left, right = (self.value(side, path, {}, depth + 1) for side in (node.left, node.right))
        function = _OPERATORS.get(type(node.op))
        if function is None or any(isinstance(side, Computed | dict) for side in (left, right)) or _large(left, right):
            return unknown
        try:
            return function(left, right)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            return unknown


def called(node: ast.AST) -> str:
    """The last word of what is called: CustomJob of aiplatform.CustomJob(...)."""
    function = node.func if isinstance(node, ast.Call) else node
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _large(left: Any, right: Any) -> bool:
    """Whether an operation could make much of little: 'x' * 10 ** 9."""
    sizes = [len(side) if isinstance(side, str | list) else abs(side) if isinstance(side, int | float) else 0
             for side in (left, right)]  # fmt: skip
    return (
        any(size > _MAX_TEXT * 100 for size in sizes)
        or sizes[0] * sizes[1] > _MAX_TEXT * 1_000
        or (any(isinstance(side, str | list) for side in (left, right)) and max(sizes) > 10_000)
    )


def _part(node: ast.expr) -> ast.expr:
    """The expression of {...} in a text; one with a format is computed."""
    plain = isinstance(node, ast.FormattedValue) and node.format_spec is None and node.conversion < 0
    return node.value if isinstance(node, ast.FormattedValue) and plain else node


def _short(node: ast.AST) -> str:
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):
        return "..."
    return text if len(text) <= 60 else f"{text[:57]}..."


def _set_once(tree: ast.AST) -> dict[str, ast.expr | None]:
    """Name -> the expression that it is set to; None where it is set in more than one way, or by a loop."""
    names: dict[str, ast.expr | None] = {}
    for name, value in _assignments(tree):
        names[name] = None if name in names else value
    return names


def _assignments(tree: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target):
                yield target.id, node.value
            case ast.Assign():
                yield from ((name, None) for each in node.targets for name in _names(each))
            case ast.AugAssign(target=ast.Name() as target) | ast.NamedExpr(target=target):
                yield target.id, None
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                yield from ((name, None) for name in _names(node.target))
            case ast.arg():
                yield node.arg, None
            case ast.withitem(optional_vars=ast.Name() as target):
                yield target.id, None


def _names(tree: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
