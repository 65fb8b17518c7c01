"""Resolves attributes of the program's classes and its flags: `Config.MACHINE`, `Machine.TRAIN.value`.

It follows values in the body of a class, defaults of dataclasses, arguments of their only call, members of
enums, values that only `__init__` sets, and fields of a SimpleNamespace. An attribute set elsewhere is unknown.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vgp.check.sources.program_names import is_void

_ENUMS = {"Enum", "StrEnum", "IntEnum"}
#: Number of classes of a file, and of bases of a class, above which an attribute is unknown: a look-up visits all.
_MOST_CLASSES, _MOST_BASES = 500, 20
#: Resolves a name to the expression assigned to it.
Assigned = Callable[[ast.AST], ast.AST | None]


@dataclass
class _Class:
    node: ast.ClassDef
    bases: list[str]
    is_dataclass: bool
    #: Values by name; None: set more than once, or under a condition.
    attributes: dict[str, ast.expr | None] = field(default_factory=dict)
    #: Annotated names in their order, the arguments of a dataclass.
    fields: list[str] = field(default_factory=list)
    #: Attributes that `__init__` sets from constant expressions or from its arguments.
    own: dict[str, ast.expr | None] = field(default_factory=dict)
    has_init: bool = False


class Classes:
    """The classes of a program."""

    def __init__(self, nodes: Sequence[ast.AST], assigned: Assigned) -> None:
        self._assigned = assigned
        self._classes: dict[str, _Class | None] = {}
        self._set_elsewhere: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                self._classes[node.name] = None if node.name in self._classes else _read(node)
        inside = {id(target) for each in self._classes.values() if each for target in _list_init_attributes(each.node)}
        for node in nodes:
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and id(node) not in inside:
                self._set_elsewhere.add(node.attr)

    def attribute(self, node: ast.Attribute) -> ast.expr | None:
        """Returns the expression of an attribute; None if it is unknown."""
        if node.attr in ("value", "name") and isinstance(node.value, ast.Attribute):
            return self._find_member(node.value, node.attr)
        if node.attr in self._set_elsewhere or len(self._classes) > _MOST_CLASSES:
            return None
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            return self._read_self_attribute(node)
        base = self._assigned(node.value)
        if isinstance(base, ast.Name):
            return self._find_class_attribute(base.id, node.attr)
        return self._find_call_argument(base, node.attr) if isinstance(base, ast.Call) else None

    def _find_member(self, node: ast.Attribute, part: str) -> ast.expr | None:
        """Returns the member for Machine.TRAIN.value, and for .name."""
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        value = self._find_class_attribute(name, node.attr) if self._is_enum(name) else None
        return ast.copy_location(ast.Constant(node.attr), node) if value is not None and part == "name" else value

    def _is_enum(self, name: str) -> bool:
        return any(_ENUMS & set(each.bases) for each in self._line(name))

    def _line(self, name: str) -> Iterator[_Class]:
        """Yields the class and its bases, if they are in the file."""
        names: list[str] = [name]
        seen: set[str] = set()
        while names and len(seen) < _MOST_BASES:
            known = self._classes.get(current := names.pop(0))
            if known is not None and current not in seen:
                seen.add(current)
                names += known.bases
                yield known

    def _find_class_attribute(self, name: str, attribute: str) -> ast.expr | None:
        for each in self._line(name):
            if attribute in each.attributes:
                return _find_default(each.attributes[attribute]) if each.is_dataclass else each.attributes[attribute]
        return None

    def _read_self_attribute(self, node: ast.Attribute) -> ast.expr | None:
        """Returns an attribute of a method's own class, if no class of the file changes it."""
        around = [each for each in self._classes.values() if each and _holds(each.node, node.lineno)]
        if len(around) != 1:
            return None
        owner = around[0]
        subclasses = [
            each for each in self._classes.values() if each and each is not owner and owner.node.name in each.bases
        ]
        if any(node.attr in heir.attributes or node.attr in heir.own for heir in subclasses):
            return None
        if node.attr in owner.own:
            return owner.own[node.attr]
        return None if owner.is_dataclass else self._find_class_attribute(owner.node.name, node.attr)

    def _find_call_argument(self, call: ast.Call, attribute: str) -> ast.expr | None:
        """Returns the attribute of the object that Config(machine=...) creates."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        arguments = {word.arg: word.value for word in call.keywords if word.arg}
        if any(word.arg is None for word in call.keywords) or any(isinstance(arg, ast.Starred) for arg in call.args):
            return None
        if name == "SimpleNamespace" and not call.args:
            return arguments.get(attribute)
        line = list(self._line(name))
        if not line:
            return None
        fields = [each for kind in reversed(line) for each in kind.fields]
        if line[0].is_dataclass and not line[0].has_init:
            arguments |= dict(zip(dict.fromkeys(fields), call.args, strict=False))
            return arguments[attribute] if attribute in arguments else self._find_class_attribute(name, attribute)
        if attribute in line[0].own:
            return line[0].own[attribute]
        return None if call.args or call.keywords else self._find_class_attribute(name, attribute)


def _read(node: ast.ClassDef) -> _Class:
    words = {_last_word(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list}
    bases = [_last_word(base) for base in node.bases]
    result = _Class(node, bases, "dataclass" in words or "BaseModel" in bases)
    for statement in node.body:
        for name, value in _list_assignments(statement):
            result.attributes[name] = None if name in result.attributes else value
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            result.fields.append(statement.target.id)
        result.has_init = result.has_init or (isinstance(statement, ast.FunctionDef) and statement.name == "__init__")
    plain = [each for each in _init_body(node) if isinstance(each, ast.Assign | ast.AnnAssign)]
    values = {id(target): statement.value for statement in plain for target in _list_targets(statement)}
    for target in _list_init_attributes(node):
        result.own[target.attr] = None if target.attr in result.own else values.get(id(target))
    return result


def _init_body(node: ast.ClassDef) -> list[ast.stmt]:
    found = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    return found[0].body if found else []


def _list_init_attributes(node: ast.ClassDef) -> list[ast.Attribute]:
    """Returns the attributes of `self` that `__init__` sets."""
    return [
        each
        for statement in _init_body(node)
        for each in ast.walk(statement)
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and _last_word(each.value) == "self"
    ]


def _list_assignments(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """Yields the names that a statement of a class's body sets; one under a condition with an unknown value."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name, None
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        single = [target for target in _list_targets(statement) if isinstance(target, ast.Name)]
        if statement.value is not None:
            yield from ((target.id, statement.value) for target in single)
    else:
        stored = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
        yield from ((each.id, None) for each in stored if isinstance(each.ctx, ast.Store))


def _list_targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _find_default(value: ast.expr | None) -> ast.expr | None:
    """Returns the default of a dataclass's field: the value itself, or field(default=...)."""
    if not isinstance(value, ast.Call) or _last_word(value.func) not in ("field", "Field"):
        return value
    named = {word.arg: word.value for word in value.keywords}
    return named.get("default", value.args[0] if value.args else None)


def _last_word(node: ast.AST) -> str:
    """Returns the last word of a name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _holds(node: ast.ClassDef, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


_DEFINES = ("DEFINE_string", "DEFINE_integer", "DEFINE_enum")


def environment_default(node: ast.Call) -> ast.expr | None:
    """Returns the default of os.environ.get(NAME, DEFAULT) and os.getenv; None if there is none."""
    function = ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
    if function not in ("os.environ.get", "environ.get", "os.getenv", "getenv"):
        return None
    default = node.args[1] if len(node.args) > 1 else _read_text(node, "default")
    return None if default is None or is_void(default) else default


def flags(calls: Iterable[ast.Call]) -> Mapping[str, ast.expr]:
    """Returns the defaults of the flags that the program defines once."""
    defaults: dict[str, ast.expr | None] = {}
    for call in calls:
        name, default = _read_flag(call)
        if name:
            defaults[name] = None if name in defaults else default
    return {name: default for name, default in defaults.items() if default is not None and not is_void(default)}


def _read_flag(call: ast.Call) -> tuple[str, ast.expr | None]:
    """Returns the flag that a call defines, and its default."""
    function = getattr(call.func, "attr", getattr(call.func, "id", ""))
    texts = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if function == "add_argument" and texts:
        name = next((text for text in texts if text.startswith("--")), texts[0])
        target = _read_text(call, "dest")
        name = str(target.value) if isinstance(target, ast.Constant) else name
        return name.lstrip("-").replace("-", "_"), _read_text(call, "default")
    if function in _DEFINES and texts:
        return texts[0], call.args[1] if len(call.args) > 1 else _read_text(call, "default")
    return "", None


def _read_text(call: ast.Call, name: str) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == name), None)
