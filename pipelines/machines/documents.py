"""Files as documents: JSON or YAML (several in one file), loaded safely, with the line on which each key stands."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Path_ = tuple[str | int, ...]

#: Deeper than this is no spec. The C parser of YAML crashes somewhere above 10,000 levels.
MAX_DEPTH = 500


class Unreadable(Exception):
    """A file or a part of it that no judgement is possible on: which file, where in it, and why."""

    def __init__(self, file: str, reason: str, path: Path_ = ()) -> None:
        where = f"{file}: {dotted(path)}" if path else file
        super().__init__(f"{where}: {reason}")


@dataclass(frozen=True)
class Document:
    """One JSON or YAML document. `node` is YAML's own tree, which knows its lines; JSON is searched when asked."""

    file: str
    data: Any
    text: str
    node: Any = None
    #: Which of several documents in its file, from 0; None where it is the only one.
    index: int | None = None

    @property
    def default_step(self) -> str:
        """What a job without a name is called."""
        return "job" if self.index is None else f"job[{self.index}]"

    def line(self, path: Path_) -> int:
        """Line (from 1) of the key at `path`, or of its nearest parent that is in the file."""
        return self.lines([path])[path]

    def lines(self, paths: Iterable[Path_]) -> dict[Path_, int]:
        """The lines of several paths, for which the text is read once."""
        if self.node is not None:
            return {path: _yaml_line(self.node, path) for path in paths}
        return _json_lines(self.text, set(paths))


def load(path: Path) -> list[Document]:
    """The documents of a file; raises Unreadable."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise Unreadable(str(path), error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise Unreadable(str(path), f"not a text file (byte {error.start} is no UTF-8)") from None
    return parse(str(path), text)


def parse(file: str, text: str) -> list[Document]:
    """The documents in `text`; empty ones are left out."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [Document(file, json.loads(text), text)]
        except RecursionError:
            raise Unreadable(file, "nested too deeply") from None
        except ValueError as error:
            if file.endswith(".json"):
                raise Unreadable(file, f"no JSON: {error}") from None
    try:
        _refuse_depth(file, text)
        found = [(data, node) for data, node in _yaml(text) if data is not None]
        several = len(found) > 1
        return [
            Document(file, data, text, node, index if several else None) for index, (data, node) in enumerate(found)
        ]
    except yaml.YAMLError as error:
        raise Unreadable(file, f"no YAML: {_one_line(error)}") from None
    except RecursionError:
        raise Unreadable(file, "nested too deeply") from None
    except (ValueError, TypeError, AttributeError, OverflowError, KeyError) as error:
        # What YAML's constructors raise for scalars that look like a date or number and are none.
        raise Unreadable(file, f"no YAML: {_one_line(error)}") from None


def dotted(path: Path_) -> str:
    """root.dag.tasks.train, workerPoolSpecs[0].machineSpec."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _yaml(text: str) -> Iterator[tuple[Any, Any]]:
    """Each document once as data and as tree, from one parse."""
    loader = yaml.CSafeLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            yield loader.construct_document(node), node
    finally:
        loader.dispose()


_OPENING = re.compile(r"[\[{]")
_LEADING = re.compile(r"^[ \t\-?:]{250,}", re.MULTILINE)


def _refuse_depth(file: str, text: str) -> None:
    """Counts levels from YAML's events, which need no recursion; only where the text could be deep at all."""
    if len(_OPENING.findall(text)) < MAX_DEPTH and not _LEADING.search(text) and text.count("- - ") < MAX_DEPTH:
        return
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise Unreadable(file, "nested too deeply")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _yaml_line(node: Any, path: Path_) -> int:
    line = int(node.start_mark.line) + 1
    for part in path:
        found = _child(node, part)
        if found is None:
            break
        key, node = found
        line = int(key.start_mark.line) + 1
    return line


def _child(node: Any, part: str | int) -> tuple[Any, Any] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if getattr(key, "value", None) == str(part)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def _json_lines(text: str, paths: set[Path_]) -> dict[Path_, int]:
    """Walks the tokens of a valid JSON text once, and notes where the paths and their parents stand."""
    wanted = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
    offsets: dict[Path_, int] = {}
    for found, offset in _places(text, wanted) if wanted else ():
        offsets.setdefault(found, offset)
        if len(offsets) == len(wanted):
            break
    return {path: text.count("\n", 0, _deepest(offsets, path)) + 1 for path in paths}


def _deepest(offsets: dict[Path_, int], path: Path_) -> int:
    known = (offsets[path[:depth]] for depth in range(len(path), 0, -1) if path[:depth] in offsets)
    return next(known, 0)


def _places(text: str, wanted: set[Path_]) -> Iterator[tuple[Path_, int]]:
    """(path, offset) of each key or item that is wanted."""
    path: list[Any] = []
    kinds: list[str] = []
    expects_key = fresh_item = False
    deepest = max(map(len, wanted))
    for match in _TOKEN.finditer(text):
        token = match.group()
        if fresh_item and token != "]" and len(path) <= deepest and tuple(path) in wanted:
            yield tuple(path), match.start()
        fresh_item = False
        if token in ("{", "["):
            kinds.append(token)
            path.append(0 if token == "[" else None)
            expects_key, fresh_item = token == "{", token == "["
        elif token in ("}", "]"):
            kinds.pop()
            path.pop()
        elif token == ",":
            expects_key, fresh_item = kinds[-1] == "{", kinds[-1] == "["
            if fresh_item:
                path[-1] = int(path[-1] or 0) + 1
        elif token != ":" and expects_key:
            path[-1] = token[1:-1] if "\\" not in token else json.loads(token)
            expects_key = False
            if len(path) <= deepest and tuple(path) in wanted:
                yield tuple(path), match.start()
