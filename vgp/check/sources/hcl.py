"""Evaluates the expressions of Terraform's language, without running anything.

Variables have the value of terraform.tfvars, else their default. Values that only Terraform or the cloud knows are
`Computed`, with the reason.
"""

import json
import math
import operator
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgp.base.documents import json_text
from vgp.base.documents.bounded_text import Unreadable, spend
from vgp.base.documents.json_text import Json, JsonObject
from vgp.base.documents.node import Computed
from vgp.check.sources.hcl_blocks import (
    MAX_FILES,
    SUFFIXES,
    Block,
    Expression,
    is_tree,
    parse_hcl,
    read_blocks,
    read_values,
    trees,
    word,
)

if TYPE_CHECKING:
    from lark import Token, Tree

MAX_DEPTH, MAX_TEXT = 60, 100_000
Scope = Mapping[str, Json]
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": operator.mod,
    "&&": lambda left, right: left and right, "||": lambda left, right: left or right,
}  # fmt: skip
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class _Absent(Computed):
    """A missing field of a known object, for which try() uses another value."""

    __slots__ = ()


class Module:
    """The variables, locals and provider region that the files of a folder set together."""

    def __init__(
        self, own_blocks: list[Block], others: list[Block], values: Mapping[str, tuple[Expression, int]]
    ) -> None:
        self.variables: dict[str, Block] = {}
        self.locals: dict[str, Expression] = {}
        self.values = values
        self.regions: list[Expression] = []
        for block in [*own_blocks, *others]:
            if block.kind == "variable" and block.labels:
                self.variables.setdefault(block.labels[0], block)
            elif block.kind == "locals":
                self.locals |= {name: expression for name, (expression, _) in block.attributes.items()}
            elif block.kind == "provider" and "alias" not in block.attributes and "region" in block.attributes:
                self.regions.append(block.attributes["region"][0])

    def region(self) -> str | None:
        """Returns the region of the provider, if the folder has one."""
        found = {self.value(expression, {}) for expression in self.regions}
        region = found.pop() if len(found) == 1 else None
        return region if isinstance(region, str) and not isinstance(region, Computed) else None

    def value(self, node: Expression, scope: Scope, depth: int = 0) -> Json:
        """Returns the value of an expression; `scope`: the values of each, count and the iterators around it."""
        spend("look-ups")
        if depth > MAX_DEPTH:
            return Computed("it has too many references")
        if not is_tree(node):
            return self._evaluate_json(node, scope, depth)
        inside = trees(node)
        match node.data:
            case "int_lit" | "float_lit":
                return _parse_number(word(node))
            case "literal_value":
                return {"true": True, "false": False}.get(word(node))
            case "identifier" if word(node) in scope:
                return scope[word(node)]
            case "string":
                return self._text(node, scope, depth)
            case "heredoc_template" | "heredoc_template_trim":
                return _read_heredoc(node)
            case "tuple":
                return [self.value(each, scope, depth + 1) for each in inside]
            case "object":
                return self._evaluate_object(inside, scope, depth)
            case "conditional":
                condition = self.value(inside[0], scope, depth + 1)
                known = isinstance(condition, bool)
                return self.value(inside[1 if condition else 2], scope, depth + 1) if known else _make_computed(node)
            case "unary_op":
                value = self.value(inside[0], scope, depth + 1)
                if node.children[0] == "!":
                    return not value if isinstance(value, bool) else _make_computed(node)
                return -value if isinstance(value, int | float) else _make_computed(node)
            case "binary_op":
                return self._evaluate_binary(node, inside, scope, depth)
            case "get_attr_expr_term" | "index_expr_term":
                return self._evaluate_item(node, inside, scope, depth)
            case "function_call":
                return self._call(node, inside, scope, depth)
            case "expr_term" | "get_attr" | "braces_index" | "interpolation" | "object_elem_key" if len(inside) == 1:
                return self.value(inside[0], scope, depth + 1)
        return _make_computed(node)

    def _evaluate_json(self, value: Json, scope: Scope, depth: int) -> Json:
        """Returns a value of Terraform's JSON, whose texts may hold ${...}."""
        if isinstance(value, dict):
            return {key: self.value(item, scope, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, scope, depth + 1) for item in value]
        if not isinstance(value, str) or isinstance(value, Computed) or "${" not in value:
            return value
        whole = re.fullmatch(r"\$\{([^{}]*)\}", value)
        text = f"({whole.group(1)})" if whole else json.dumps(value)
        try:
            return self.value(trees(parse_hcl("", f"x = {text}"))[0].children[-1], scope, depth + 1)
        except Unreadable:
            return Computed(f"Terraform computes {value[:60]}")

    def _text(self, node: "Tree[Token]", scope: Scope, depth: int) -> Json:
        """Returns a text with the values of its ${...}."""
        parts: list[Json] = []
        for part in trees(node):
            if not trees(part):
                parts.append(_unescape(word(part) if part.children[0] != '"' else ""))
                continue
            value = self.value(trees(part)[0], scope, depth + 1)
            if isinstance(value, Computed):
                return value
            if isinstance(value, dict | list | None) and len(trees(node)) > 1:
                return _make_computed(node)
            parts.append(value)
        if len(parts) == 1:
            return parts[0]
        return "".join(_as_text(part) for part in parts)[:MAX_TEXT]

    def _evaluate_object(self, elements: list["Tree[Token]"], scope: Scope, depth: int) -> Json:
        values = {}
        for element in elements:
            key, value = trees(element)
            inner = key.children[0]
            assert is_tree(inner)
            first = getattr(inner.children[0], "data", "")
            is_name = inner.data == "keyword" or inner.data == "expr_term" and first in ("identifier", "literal_value")
            name = word(key) if is_name else self.value(key, scope, depth + 1)
            if isinstance(name, Computed | dict | list):
                return _make_computed(element)
            values[_as_text(name)] = self.value(value, scope, depth + 1)
        return values

    def _evaluate_binary(self, node: "Tree[Token]", inside: list["Tree[Token]"], scope: Scope, depth: int) -> Json:
        left = self.value(inside[0], scope, depth + 1)
        symbol, right_node = trees(inside[1])
        right = self.value(right_node, scope, depth + 1)
        if isinstance(left, Computed | dict | list) or isinstance(right, Computed | dict | list):
            return _make_computed(node)
        try:
            value = _OPERATORS[word(symbol)](left, right)
        except (TypeError, ArithmeticError, ValueError):
            return _make_computed(node)
        if isinstance(value, float) and not (math.isfinite(value) and abs(value) < 2**53):
            return _make_computed(node)
        return int(value) if isinstance(value, float) and value.is_integer() else value

    def _evaluate_item(self, node: "Tree[Token]", inside: list["Tree[Token]"], scope: Scope, depth: int) -> Json:
        """Evaluates var.x, local.x, each.value, and fields and items of known values."""
        owner, last = inside
        name = word(last).removeprefix(".") if last.data in ("get_attr", "short_index") else None
        origin = word(owner) if len(trees(owner)) == 1 and trees(owner)[0].data == "identifier" else ""
        if origin == "var" and name:
            return self._evaluate_variable(name, depth)
        if origin == "local" and name in self.locals:
            return self.value(self.locals[name], {}, depth + 1)
        if origin and origin not in scope:
            return _make_computed(node)
        whole = self.value(owner, scope, depth + 1)
        key = name if name is not None else self.value(last, scope, depth + 1)
        if isinstance(whole, Computed):
            return whole
        if isinstance(whole, list) and str(key).isdigit() and int(str(key)) < len(whole):
            item: Json = whole[int(str(key))]
            return item
        if isinstance(whole, dict) and not isinstance(key, Computed):
            item = whole.get(_as_text(key), _Absent(f"Terraform knows no {_remove_blanks(node)}"))
            return item
        return _make_computed(node)

    def _evaluate_variable(self, name: str, depth: int) -> Json:
        if name in self.values:
            return self.value(self.values[name][0], {}, depth + 1)
        block = self.variables.get(name)
        if block is None or "default" not in block.attributes:
            return Computed(f"var.{name} has no default" if block else f"var.{name} is not declared in this folder")
        return self.value(block.attributes["default"][0], {}, depth + 1)

    def _call(self, node: "Tree[Token]", inside: list["Tree[Token]"], scope: Scope, depth: int) -> Json:
        name = word(inside[0])
        arguments = trees(inside[1]) if len(inside) == 2 else []
        if len(inside) > 2 or any(str(each) == "..." for each in (inside[1].children if arguments else ())):
            return _make_computed(node)
        values = [self.value(each, scope, depth + 1) for each in arguments]
        if name == "try":
            return next((each for each in values if not isinstance(each, _Absent)), _make_computed(node))
        if name == "jsonencode" and len(values) == 1:
            return values[0]  # the text is evaluated
        if name not in _FUNCTIONS or any(isinstance(each, Computed) for each in values):
            return _make_computed(node)
        try:
            result: Json = _FUNCTIONS[name](*values)
            return result
        except (TypeError, ValueError, AttributeError, IndexError, KeyError):
            return _make_computed(node)


def _lookup(values: JsonObject, key: Json, *default: Json) -> Any:
    return values.get(_as_text(key), *default) if default else values[_as_text(key)]


def _merge(*values: JsonObject | None) -> JsonObject:
    return {key: item for value in values if value is not None for key, item in value.items()}


def _set(value: list[Json]) -> list[str]:
    return sorted({_as_text(item) for item in value})


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "toset": _set, "tolist": list, "tomap": dict, "tostring": lambda value: _as_text(value),
    "tonumber": lambda value: _parse_number(_as_text(value)), "length": len, "lower": str.lower, "upper": str.upper,
    "trimspace": str.strip, "lookup": _lookup, "merge": _merge, "concat": lambda *lists: sum(lists, []),
    "coalesce": lambda *values: next(value for value in values if value not in (None, "")),
    "keys": sorted, "max": max, "min": min,
}  # fmt: skip


def _parse_number(text: str) -> int | float:
    if len(text) > json_text.MAX_DIGITS:
        raise ValueError("longer than any number")
    value = float(text)
    return int(value) if math.isfinite(value) and value.is_integer() and abs(value) < 2**53 else value


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _unescape(text: str) -> str:
    text = re.sub(r"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(1)), text)
    return text.replace("$${", "${").replace("%%{", "%{")


def _read_heredoc(node: "Tree[Token]") -> str:
    """Returns the text of <<EOT ... EOT without placeholders."""
    first, *lines = word(node).rstrip("\n").split("\n")
    text = "\n".join([*lines[:-1], ""])
    if re.search(r"(?<!\$)\$\{|(?<!%)%\{", text):
        return _make_computed(node)
    return textwrap.dedent(text) if first.startswith("<<-") else text


def _make_computed(node: "Tree[Token]") -> Computed:
    return Computed(f"Terraform computes it: {_remove_blanks(node)}")


def _remove_blanks(node: "Tree[Token]") -> str:
    """Returns the expression without blanks."""
    text = " ".join(source(node).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def source(node: Expression) -> str:
    """Returns the text of an expression without blanks; an expression of JSON is returned as it is."""
    return "".join(str(token) for token in node.scan_values(lambda _: True)) if is_tree(node) else str(node)


def module(name: str, own_blocks: list[Block], folder: Path | None) -> Module:
    """Returns the file together with the others of its folder; unreadable ones are treated as unknown."""
    others: list[Block] = []
    variables: dict[str, tuple[Expression, int]] = {}
    neighbours = sorted(path for path in folder.iterdir() if path.is_file())[:MAX_FILES] if folder else []
    for path in neighbours:
        if path.name.endswith(SUFFIXES) and path.name != Path(name).name:
            others += read_blocks(path)
        elif path.name.removesuffix(".json").endswith(("terraform.tfvars", ".auto.tfvars")):
            variables |= read_values(path)
    return Module(own_blocks, others, variables)
