"""Parses Terraform's language, or its JSON, into blocks whose expressions are trees of its grammar.

The other files of the folder set variables; unreadable ones are treated as unknown.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from vgp.base.documents import json_text
from vgp.base.documents.bounded_text import Exhausted, FieldPath, Unreadable, read
from vgp.base.documents.json_text import Json, JsonObject

if TYPE_CHECKING:
    from lark import Token, Tree
    from typing_extensions import TypeIs

SUFFIXES = (".tf", ".tf.json")
MAX_CHARACTERS, MAX_FILES = 300_000, 200
#: Other files of the folder are read only if they contain one of these.
_SHARED = re.compile(r"^\s*\"?(?:variable|locals|provider)\b", re.MULTILINE)


#: An expression: a tree of the grammar, or a value of Terraform's JSON.
Expression: TypeAlias = "Tree[Token] | Json"


@dataclass
class Block:
    """`resource "google_x" "y" {...}`: kind, labels, attributes with their lines, and the blocks inside."""

    kind: str
    labels: list[str]
    line: int
    attributes: dict[str, tuple[Expression, int]] = field(default_factory=dict)
    blocks: list["Block"] = field(default_factory=list)


def blocks(name: str, text: str) -> list[Block]:
    """Returns the blocks of a file.

    Raises:
        Unreadable: it is not Terraform.
        Exhausted: it is too large.
    """
    if len(text) > MAX_CHARACTERS:
        raise Exhausted(f"The file has more than {MAX_CHARACTERS:,} characters of Terraform.")
    if name.endswith(".json"):
        return _parse_json_blocks(name, text)
    return fill_block(parse_hcl(name, text), Block("", [], 1)).blocks


@lru_cache(maxsize=32)
def parse_hcl(name: str, text: str) -> "Tree[Token]":
    """Returns the body of an HCL text as a tree of its grammar."""
    from hcl2.api import parses_to_tree
    from lark.exceptions import UnexpectedInput

    try:
        body: Tree[Token] = parses_to_tree(text).children[0]
        return body
    except UnexpectedInput as error:
        line, column = getattr(error, "line", 1), getattr(error, "column", 1)
        raise Unreadable(name, f"not Terraform: line {line}, column {column} is not understood") from None


def fill_block(tree: "Tree[Token]", block: Block) -> Block:
    for child in trees(tree):
        name = word(child.children[0])
        if child.data == "attribute":
            block.attributes[name] = child.children[-1], child.meta.line
        else:
            labels = [word(each) for each in trees(child)[1:] if each.data != "body"]
            block.blocks.append(fill_block(trees(child)[-1], Block(name, labels, child.meta.line)))
    return block


def is_tree(node: "Expression | Token") -> "TypeIs[Tree[Token]]":
    return hasattr(node, "data")


def trees(tree: "Tree[Token]") -> list["Tree[Token]"]:
    """Returns the children of a tree without punctuation and comments."""
    return [each for each in tree.children if is_tree(each) and each.data != "new_line_or_comment"]


def word(tree: "Tree[Token] | Token") -> str:
    return "".join(str(token) for token in tree.scan_values(lambda token: token != '"')) if is_tree(tree) else str(tree)


def _parse_json_blocks(name: str, text: str) -> list[Block]:
    """Returns the resources, variables, locals and providers of Terraform's JSON, whose expressions are texts."""
    try:
        data = json_text.loads(text)[0]
    except (ValueError, RecursionError) as error:
        raise Unreadable(name, f"not JSON: {error}") from None
    depths = {"resource": 2, "variable": 1, "provider": 1, "locals": 0}
    given = data if isinstance(data, dict) else {}
    found = [
        (Block(kind, list(labels), 1), value, path)
        for kind, depth in depths.items()
        for labels, value, path in _list_json_blocks(given.get(kind), depth, (kind,))
    ]
    paths = {at for _, value, path in found for at in [path, *((*path, key) for key in value)]}
    lines = json_text.lines(text, paths)
    for block, value, path in found:
        block.line = lines[path]
        block.attributes = {key: (item, lines[(*path, key)]) for key, item in value.items()}
    return [block for block, _, _ in found]


def _list_json_blocks(
    value: object, depth: int, path: FieldPath
) -> Iterator[tuple[tuple[str, ...], JsonObject, FieldPath]]:
    """Yields (labels, body, path) of each block of JSON, which may be inside lists."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _list_json_blocks(item, depth, (*path, index))
    elif isinstance(value, dict) and depth:
        for key, item in value.items():
            for labels, body, where in _list_json_blocks(item, depth - 1, (*path, key)):
                yield (key, *labels), body, where
    elif isinstance(value, dict):
        yield (), value, path


def read_blocks(path: Path) -> list[Block]:
    try:
        text = read(path)
        return blocks(path.name, text) if _SHARED.search(text) else []
    except (Unreadable, Exhausted):
        return []


def read_values(path: Path) -> dict[str, tuple[Expression, int]]:
    """Returns the values that a file assigns to variables."""
    try:
        text = read(path, MAX_CHARACTERS)
        if path.name.endswith(".json"):
            return {key: (value, 1) for key, value in json_text.loads(text)[0].items()}
        return fill_block(parse_hcl(path.name, text), Block("", [], 1)).attributes
    except (Unreadable, ValueError, AttributeError, RecursionError):
        return {}
