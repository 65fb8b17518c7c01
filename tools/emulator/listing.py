"""Lists in pages, filtered and ordered: https://google.aip.dev/158 and https://google.aip.dev/160."""

import fnmatch
import re
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .errors import ApiError

TOKEN = re.compile(
    r"""\s*(?:([()])
    |(=~|!~|!=|<=|>=|=|<|>|:)
    |("(?:[^"\\]|\\.)*"|'[^']*'|(?:[^\s()=<>!:"']|"[^"]*"|(?<=\d):(?=\d))+))""",
    re.VERBOSE,
)

Test = Callable[[dict[str, Any]], bool]


class Filter:
    """An expression such as `state="ACTIVE" AND labels.env:*`, over the fields that a method documents.

    `fields` has the operators of each field, separated by spaces: "= != < > <= >= :". A name ending in ".*" is a map.
    """

    def __init__(self, text: str, fields: dict[str, str]):
        self.text, self.fields = text, fields
        self.tokens: list[str] = []
        self.at = end = 0
        for found in TOKEN.finditer(text):
            if found.start() != end:
                break
            self.tokens.append(next(filter(None, found.groups())))
            end = found.end()
        if text[end:].strip():
            raise self.wrong(f"cannot be read from {text[end:].strip()!r} on")
        self.test: Test = self.conjunction() if self.tokens else lambda _: True
        if self.at < len(self.tokens):
            raise self.wrong(f"has '{self.tokens[self.at]}' where it should end")

    def wrong(self, what: str) -> ApiError:
        return ApiError(400, f"Invalid filter: {self.text!r} {what}.")

    def next(self) -> str:
        if self.at == len(self.tokens):
            raise self.wrong("ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def conjunction(self) -> Test:
        tests = [self.disjunction()]
        while self.peek() not in ("", ")"):
            if self.peek() == "AND":
                self.next()
            tests.append(self.disjunction())
        return lambda item: all(test(item) for test in tests)

    def disjunction(self) -> Test:
        """Parses terms joined by OR, which binds tighter than AND."""
        tests = [self.term()]
        while self.peek() == "OR":
            self.next()
            tests.append(self.term())
        return lambda item: any(test(item) for test in tests)

    def term(self) -> Test:
        token = self.next()
        if token in ("NOT", "-"):
            negated = self.term()
            return lambda item: not negated(item)
        if token == "(":
            inside = self.conjunction()
            if self.next() != ")":
                raise self.wrong("lacks a ')'")
            return inside
        return self.comparison(token)

    def comparison(self, name: str) -> Test:
        operator = self.next()
        supported = self.fields.get(name) or self.fields.get(name.partition(".")[0] + ".*")
        if supported is None:
            raise self.wrong(f"uses the field '{name}', which cannot be filtered on")
        if operator not in supported.split():
            raise self.wrong(f"uses '{operator}' on '{name}', which takes {supported}")
        value = self.next()
        literal = value[1:-1] if value[0] in "\"'" else value
        return lambda item: compare(find(item, name), operator, literal)


def find(item: dict[str, Any], name: str) -> Any:
    for part in name.split("."):
        item = item.get(part) if isinstance(item, dict) else None  # type: ignore[assignment]
    return item


def compare(found: Any, operator: str, literal: str) -> bool:
    if operator == ":":
        return found not in (None, "") and (literal == "*" or fnmatch.fnmatchcase(str(found), literal))
    if operator in ("=", "!="):
        return (str(found or "") == literal) == (operator == "=")
    if found in (None, ""):
        return False
    left, right = moment(str(found)), moment(literal)
    return {"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[operator]


def moment(text: str) -> Any:
    """Parses a time of RFC 3339, for comparisons."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ApiError(400, f"Invalid filter: {text!r} is not a time in RFC 3339 format.") from None


def sort_items(items: list[Any], order_by: str, fields: Sequence[str], key: Callable[[Any, str], Any]) -> list[Any]:
    """Sorts items by a list of fields such as "create_time desc, end_time"."""
    for part in reversed([p.split() for p in order_by.split(",") if p.strip()]):
        if part[0] not in fields or part[1:] not in ([], ["asc"], ["desc"]):
            raise ApiError(400, f"Invalid order_by: {' '.join(part)!r}; the fields are {', '.join(fields)}.")
        name = part[0]
        items = sorted(items, key=partial(key_of, key, name), reverse=part[1:] == ["desc"])
    return items


def key_of(key: Callable[[Any, str], Any], name: str, item: Any) -> Any:
    found = key(item, name)
    return (found is None, found or 0)  # items without the field come last


class Pages:
    """The remaining pages of each list; a list is fixed when its first page is read."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[dict[str, str], list[str]]] = {}
        #: The longest page, also if the client requests a longer one.
        self.longest = 100

    def cut_page(
        self, query: dict[str, str], find: Callable[[], list[str]], *, size: str = "pageSize"
    ) -> tuple[list[str], str]:
        """Returns the names on this page, and the token of the next page ("" at the end)."""
        asked = int(query.get(size) or 0)
        if asked < 0:
            raise ApiError(400, f"{size} must not be negative: {asked}.")
        same = {k: v for k, v in query.items() if k not in ("pageToken", size)}
        token = query.get("pageToken")
        if token:
            was, names = self._left.get(token, ({}, None))
            if names is None or was != same:
                raise ApiError(400, f"Invalid page token: {token!r}.")
        else:
            names = find()
        count = min(asked or self.longest, self.longest)
        if len(names) <= count:
            return names, ""
        following = secrets.token_urlsafe(12)
        self._left[following] = (same, names[count:])
        return names[:count], following


def one_page(key: str, shown: list[Any], following: str) -> dict[str, Any]:
    """Returns the answer with one page; as in Google's answers, empty fields are left out."""
    return {name: value for name, value in ((key, shown), ("nextPageToken", following)) if value}
