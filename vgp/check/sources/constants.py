"""Evaluates Python expressions that have the same value in every run, without running anything.

It follows constants, names that are set once, and texts and lists composed of them. Values from callers have their
default: arguments of functions, flags of the program, environment variables. All others are `Computed`,
with the reason. Each value's line is kept.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from vgp.base.documents.bounded_text import FieldPath, spend
from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import Computed, spellings
from vgp.check.sources.classes import Classes, environment_default, flags
from vgp.check.sources.program_names import Names, find_changes, read_keys

MAX_DEPTH = 30
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}  # fmt: skip
_MAX_TEXT = 1_000_000
#: Suffixes of callables that take the fields of a message or of a dictionary.
_MESSAGES = ("dict", "Spec", "Scheduling", "Resources", "CustomJob", "DeployedModel")
#: Suffixes of objects that hold flags: args, FLAGS, parser.parse_args().
_FLAG_HOLDERS = ("args", "arguments", "opt", "opts", "options", "flags")
#: Fields of the API that appear together.
_FIELD_GROUPS = (
    ("machineType", "acceleratorType", "acceleratorCount"), ("machineSpec", "replicaCount", "containerSpec"),
    ("workerPoolSpecs",),
)  # fmt: skip
#: Enums of the API, whose members evaluate to their names.
_ENUMS = ("AcceleratorType", "Strategy")


class Constants:
    """The values of a module's expressions."""

    def __init__(self, tree: ast.Module) -> None:
        #: All nodes of the program, outer before inner; collected once, because walking the tree is slow.
        self.nodes = list(ast.walk(tree))
        self.names = Names(tree, self.nodes)
        #: Literals that were read as part of a larger literal or of a call.
        self.used: set[ast.AST] = set()
        self.calls = [node for node in self.nodes if isinstance(node, ast.Call)]
        self._runs: dict[object, ast.Call] = {}
        for call in self.calls:
            if read_callable_name(call) in ("run", "submit") and isinstance(call.func, ast.Attribute):
                owner = call.func.value
                self._runs.setdefault(owner.id if isinstance(owner, ast.Name) else owner, call)
        #: Line and value by name; so a text composed of itself is read once.
        self._known: dict[ast.AST, tuple[int, Any]] = {}
        self._targets: dict[ast.AST, list[str]] = {}
        for node in self.nodes:
            if isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
                self._targets[node.value] = [node.target.id]
            elif isinstance(node, ast.Assign):
                self._targets[node.value] = [name.id for name in node.targets if isinstance(name, ast.Name)]

    @cached_property
    def _flags(self) -> Mapping[str, ast.expr]:
        return flags(self.calls)

    def _is_parsed(self, node: ast.Name) -> bool:
        """Whether a name holds the parsed flags, by its name or its value."""
        return (read_callable_name(self.resolve_name(node) or node) or node.id).lower().endswith(_FLAG_HOLDERS)

    @cached_property
    def _classes(self) -> Classes:
        return Classes(self.nodes, self.resolve_name)

    def run_of(self, maker: ast.Call) -> ast.Call | None:
        """Returns the run or submit call of the created job: CustomJob(...).run(...), or a call on its name."""
        owners = [maker, *self._targets.get(maker, [])]
        return next((self._runs[owner] for owner in owners if owner in self._runs), None)

    @cached_property
    def _changes(self) -> dict[str, list[tuple[list[ast.expr | None], int]]]:
        """Returns the keys and the line of each change to a list or dictionary, by name."""
        changes: dict[str, list[tuple[list[ast.expr | None], int]]] = {}
        for node in self.nodes:
            for name, keys in find_changes(node):
                changes.setdefault(name, []).append((keys, getattr(node, "lineno", 1)))
        return changes

    def changes(self, literal: ast.expr) -> Iterator[tuple[FieldPath, int]]:
        """Yields path and line of each change to a list or dictionary after its definition, also by way of the
        dictionary around it."""
        root, inner = self._roots.get(literal, (literal, ()))
        for name in self._targets.get(root, []):
            for keys, line in self._changes.get(name, []):
                spend("look-ups")
                outer = [key and ast.dump(key) for key in keys[: len(inner)]]
                if outer == list(inner[: len(outer)]) and self.names.may_hold(name, root, line):
                    yield tuple(self._take_known_keys(keys[len(inner) :])), line

    @cached_property
    def _roots(self) -> dict[ast.AST, tuple[ast.expr, tuple[str, ...]]]:
        """Returns the outermost dictionary, which a name holds, of each inner one, and the keys to the inner one."""
        roots: dict[ast.AST, tuple[ast.expr, tuple[str, ...]]] = {}
        for node in self.nodes:  # the outer before the inner
            if isinstance(node, ast.Dict) and (node in self._targets or node in roots):
                root, keys = roots.get(node, (node, ()))
                pairs = ((key, value) for key, value in zip(node.keys, node.values, strict=True) if key)
                roots |= {value: (root, (*keys, ast.dump(key))) for key, value in pairs if isinstance(value, ast.Dict)}
        return roots

    def _take_known_keys(self, keys: list[ast.expr | None]) -> Iterator[str | int]:
        """Yields the keys before the first unknown one."""
        for key in keys:
            value = None if key is None else self.value(key, (), {})
            if not isinstance(value, str | int) or isinstance(value, Computed):
                return
            yield value

    def value(self, node: ast.AST, path: FieldPath, places: dict[FieldPath, int], depth: int = 0) -> Any:
        """Returns the value, and adds the lines of its parts to `places` under `path`."""
        spend("look-ups")
        places.setdefault(path, getattr(node, "lineno", 1))
        if depth > MAX_DEPTH:
            return Computed("it has too many references")
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
            case ast.Attribute() if _is_member(node):  # AcceleratorType.NVIDIA_L4, Strategy.SPOT
                return node.attr
            case ast.Attribute(attr="name") if _is_member(self.resolve_name(node.value)):
                return self.value(node.value, path, places, depth + 1)
            case ast.Attribute() if (value := self._classes.attribute(node)) is not None:
                places[path] = value.lineno
                return self.value(value, path, places, depth + 1)
            case ast.Attribute(value=ast.Name() as owner) if node.attr in self._flags and self._is_parsed(owner):
                return self.value(self._flags[node.attr], path, places, depth + 1)
            case ast.Subscript():
                return self._evaluate_item(node, path, places, depth)
            case ast.BinOp() | ast.UnaryOp() | ast.JoinedStr():
                return self._evaluate_operation(node, path, depth)
        return _make_computed(node)

    def resolve_name(self, node: ast.AST | None) -> ast.AST | None:
        """Returns the expression that a name is set to, if it is set once; any other expression is returned
        unchanged."""
        for _ in range(MAX_DEPTH):
            if not isinstance(node, ast.Name):
                return node
            value = self.names.read_value(node.id, node.lineno)
            if isinstance(value, str):
                return node
            node = value
        return node

    def _name(self, node: ast.Name, path: FieldPath, places: dict[FieldPath, int], depth: int) -> Any:
        value = self.names.read_value(node.id, node.lineno)
        if isinstance(value, str):
            built = self._build(node, path, places, depth)
            return Computed(value) if built is None else built
        if value in self._known:
            places[path], known = self._known[value]
            return known
        places[path] = value.lineno
        result = self.value(value, path, places, depth + 1)
        if not isinstance(result, Computed | dict | list):
            self._known[value] = places[path], result
        return result

    def _build(self, node: ast.Name, path: FieldPath, places: dict[FieldPath, int], depth: int) -> Any:
        """Returns a list or dictionary that statements fill one after the other in every run; None for other names."""
        history = self.names.read_history(node.id, node.lineno)
        spend("look-ups", 5 * len(history))
        if len(history) < 2 or history[0].value is None:
            return None
        result = self.value(history[0].value, path, places, depth + 1)
        is_known = all(self._apply(each.statement, result, path, places, depth) for each in history[1:])
        return result if is_known else None

    def _apply(
        self, statement: ast.stmt | None, whole: Any, path: FieldPath, places: dict[FieldPath, int], depth: int
    ) -> bool:
        """Makes the change of a["x"] = y, a["x"].update(y) or a["x"].append(y); returns False for others."""
        match statement:
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                keys, method = read_keys(target)[1], "set"
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(attr="append" | "update" as method) as owner, args=[value])
            ):
                keys = read_keys(owner.value)[1]
            case _:
                return False
        known = list(self._take_known_keys(keys))
        if len(known) < len(keys):
            return False
        try:
            for key in known[:-1] if method == "set" else known:
                whole = whole[key]
        except (LookupError, TypeError):
            return False
        added = known if method == "set" else [*known, len(whole)] if method == "append" else known
        change = self.value(value, (*path, *added), places, depth + 1)
        if method == "append" and isinstance(whole, list):
            whole.append(change)
        elif method == "update" and isinstance(whole, dict) and isinstance(change, dict):
            whole.update(change)
        elif method == "set" and isinstance(whole, dict):
            whole[known[-1]] = change
        else:
            return False
        return True

    def _evaluate_item(self, node: ast.Subscript, path: FieldPath, places: dict[FieldPath, int], depth: int) -> Any:
        """Evaluates CONFIG["machine"] for a known dictionary or list."""
        inside: dict[FieldPath, int] = {}
        whole = self.value(node.value, (), inside, depth + 1)
        key = self.value(node.slice, path, {}, depth + 1)
        known = isinstance(whole, dict) and isinstance(key, str) and not isinstance(key, Computed) and key in whole
        if not known and not (isinstance(whole, list) and isinstance(key, int) and -len(whole) <= key < len(whole)):
            return _make_computed(node)
        places[path] = inside.get((key,), node.lineno)
        return whole[key]

    def _container(
        self, node: ast.Dict | ast.List | ast.Tuple, path: FieldPath, places: dict[FieldPath, int], depth: int
    ) -> Any:
        if not isinstance(node, ast.Dict):
            if any(isinstance(item, ast.Starred) for item in node.elts):
                return Computed("the program computes the list")
            return [self.value(item, (*path, index), places, depth + 1) for index, item in enumerate(node.elts)]
        values: JsonObject = {}
        is_open = False
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:  # **other
                other = self.value(item, path, {}, depth + 1)
                values |= other if isinstance(other, dict) else {}
                is_open = is_open or not isinstance(other, dict)
                continue
            name = self.value(key, path, {}, depth + 1)
            if isinstance(name, str) and not isinstance(name, Computed):
                values[name] = self.value(item, (*path, name), places, depth + 1)
        return _mark_unpacked(values) if is_open else values

    def _call(self, node: ast.Call, path: FieldPath, places: dict[FieldPath, int], depth: int) -> Any:
        """Evaluates dict(...) and the API's messages from their arguments; str, int and json.dumps from their
        content."""
        name = read_callable_name(node)
        if not node.args and name.endswith(_MESSAGES):
            self.used.add(node)
            values = {
                word.arg: self.value(word.value, (*path, word.arg), places, depth + 1)
                for word in node.keywords
                if word.arg
            }
            return _mark_unpacked(values) if any(word.arg is None for word in node.keywords) else values
        if name in ("str", "int", "float", "dumps") and len(node.args) == 1 and not node.keywords:
            value = self.value(node.args[0], path, places, depth + 1)
            if isinstance(value, Computed) or name == "dumps":
                return value
            try:
                return {"str": str, "int": int, "float": float}[name](value)
            except (TypeError, ValueError, OverflowError):
                pass
        if (default := environment_default(node)) is not None:
            return self.value(default, path, places, depth + 1)
        if name == "format" and isinstance(node.func, ast.Attribute) and not node.keywords:
            return self._evaluate_format(node, node.func.value, path, depth)
        return _make_computed(node)

    def _evaluate_format(self, node: ast.Call, template: ast.expr, path: FieldPath, depth: int) -> Any:
        """Evaluates '{}-{}'.format(...) with known arguments."""
        text = self.value(template, path, {}, depth + 1)
        parts = [self.value(each, path, {}, depth + 1) for each in node.args]
        simple = isinstance(text, str) and text.count("{}") == text.count("{") == text.count("}") == len(parts)
        if not simple or any(isinstance(each, Computed | dict | list) for each in (text, *parts)):
            return _make_computed(node)
        return text.format(*parts)[:_MAX_TEXT]

    def _evaluate_operation(self, node: ast.BinOp | ast.UnaryOp | ast.JoinedStr, path: FieldPath, depth: int) -> Any:
        parts = []
        for part in _list_operands(node):
            value = self.value(part, path, {}, depth + 1)
            if isinstance(value, Computed):
                return _make_computed(node)  # the other operands no longer matter
            parts.append(value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return parts[0] | parts[1] if all(isinstance(part, dict) for part in parts) else _make_computed(node)
        if any(isinstance(part, dict) for part in parts):
            return _make_computed(node)
        if isinstance(node, ast.JoinedStr):
            has_list = any(isinstance(part, list) for part in parts)
            return _make_computed(node) if has_list else "".join(map(str, parts))[:_MAX_TEXT]
        if isinstance(node, ast.UnaryOp):
            negative = isinstance(node.op, ast.USub) and isinstance(parts[0], int | float)
            return -parts[0] if negative else _make_computed(node)
        function = _OPERATORS.get(type(node.op))
        if function is None or _may_be_large(*parts):
            return _make_computed(node)
        try:
            return function(*parts)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            return _make_computed(node)


def _mark_unpacked(values: JsonObject) -> Any:
    """Returns an object with **other, whose unknown content may include fields related to the known ones."""
    unknown = Computed("the program may pass it in **other")
    for group in _FIELD_GROUPS:
        spelled = next((index for name in group for index, key in enumerate(spellings(name)) if key in values), None)
        if spelled is not None:
            values = {spellings(name)[spelled]: unknown for name in group} | values
    return values or unknown


def read_callable_name(node: ast.AST) -> str:
    """Returns the last word of the callable: CustomJob for aiplatform.CustomJob(...)."""
    function = node.func if isinstance(node, ast.Call) else node
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_member(node: ast.AST | None) -> bool:
    """Whether an expression is a member of one of the API's enums."""
    return isinstance(node, ast.Attribute) and read_callable_name(node.value) in _ENUMS


def _may_be_large(left: object, right: object) -> bool:
    """Whether the result of an operation may be huge: 'x' * 10 ** 9."""
    sizes = [len(side) if isinstance(side, str | list) else abs(side) if isinstance(side, int | float) else 0
             for side in (left, right)]  # fmt: skip
    return (
        any(size > _MAX_TEXT * 100 for size in sizes)
        or sizes[0] * sizes[1] > _MAX_TEXT * 1_000
        or (any(isinstance(side, str | list) for side in (left, right)) and max(sizes) > 10_000)
    )


def _list_operands(node: ast.BinOp | ast.UnaryOp | ast.JoinedStr) -> list[ast.expr]:
    """Returns the operands of an operation in their order."""
    match node:
        case ast.JoinedStr():
            return [_read_placeholder(part) for part in node.values]
        case ast.UnaryOp():
            return [node.operand]
    return [node.left, node.right]


def _make_computed(node: ast.AST) -> Computed:
    return Computed(f"the program computes it: {_shorten_code(node)}")


def _read_placeholder(node: ast.expr) -> ast.expr:
    """Returns the expression of {...} in a text; one with a format is computed."""
    plain = isinstance(node, ast.FormattedValue) and node.format_spec is None and node.conversion < 0
    return node.value if isinstance(node, ast.FormattedValue) and plain else node


def _shorten_code(node: ast.AST) -> str:
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):
        return "..."
    return text if len(text) <= 60 else f"{text[:57]}..."
