"""Evaluates the trigger conditions of a compiled pipeline, such as

    inputs.parameter_values['pipelinechannel--decide-Output'] == 'promote' && int(...) > 2

kfp writes them in a subset of CEL (https://github.com/google/cel-spec): comparisons, `&&`, `||`, `!(...)` and casts.
They are parsed, never `eval`ed.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CASTS: dict[str, Callable[[Any], Any]] = {"int": int, "double": float, "string": str, "bool": bool}
_CONSTANTS = {"true": True, "false": False, "null": None}
# Quoted text first, so that operators inside it stay what they are.
_TOKENS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|&&|\|\||!(?!=)")
_PYTHON = {"&&": " and ", "||": " or ", "!": " not "}


def holds(condition: str, values: Mapping[str, Any]) -> bool:
    """Whether `condition` is true for the task's input parameters.

    Raises:
        ValueError: the condition uses something outside the subset, or a parameter that has no value.
    """
    source = _TOKENS.sub(lambda token: _PYTHON.get(token[0], token[0]), condition).strip()
    try:
        tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError):
        raise ValueError(f"cannot read the condition {condition!r}") from None
    return bool(_value(tree.body, values, condition))


def names(condition: str) -> list[str]:
    """The task's input parameters that `condition` looks at."""
    return re.findall(r"inputs\.parameter_values\['([^']+)'\]", condition)


def _value(node: ast.expr, values: Mapping[str, Any], condition: str) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.Subscript(value=ast.Attribute(attr="parameter_values"), slice=ast.Constant(value=str(key))):
            if key not in values:
                raise ValueError(f"the condition {condition!r} needs {key}, which has no value")
            return values[key]
        case ast.Call(func=ast.Name(id=cast), args=[argument]) if cast in _CASTS:
            return _CASTS[cast](_value(argument, values, condition))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, values, condition)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values, condition)
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, values, condition) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=parts):
            return any(_value(part, values, condition) for part in parts)
        case ast.Compare(left=left, ops=[comparison], comparators=[right]):
            return _compare(comparison, _value(left, values, condition), _value(right, values, condition))
    raise ValueError(f"cannot read the condition {condition!r}")


def _compare(comparison: ast.cmpop, left: Any, right: Any) -> bool:
    if isinstance(comparison, ast.Eq | ast.NotEq):
        return _equal(left, right) == isinstance(comparison, ast.Eq)
    if type(comparison) not in _COMPARISONS:
        raise ValueError(f"unknown comparison {type(comparison).__name__}")
    if isinstance(left, str) != isinstance(right, str):
        left, right = float(left), float(right)
    return _COMPARISONS[type(comparison)](left, right)


def _equal(left: Any, right: Any) -> bool:
    """Equality in the author's sense: kfp quotes what it does not know the type of, so `2` and `'2'` are equal."""
    if isinstance(left, str) == isinstance(right, str):
        return bool(left == right)
    text, number = (left, right) if isinstance(left, str) else (right, left)
    if isinstance(number, bool):
        return str(text).lower() == str(number).lower()
    try:
        return bool(float(text) == number)
    except (TypeError, ValueError):
        return False
