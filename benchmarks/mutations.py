"""Does the checker survive seeded mutations of real files, and answer each in time?

python -m benchmarks.mutations --count 20000 --seed 1
python -m benchmarks.mutations --count 20000 --seed 1 FILES_AND_FOLDERS...

By default it mutates the examples on the rules' pages. A file is mutated as text (characters, words and lines are cut
out, doubled, swapped, or taken from another file) and, if it is JSON or YAML, as data. Equal seeds and files give equal
mutations; --only NUMBER repeats one of them.
"""

import argparse
import json
import math
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from vgp.check.check_report import Report, lines, sarif
from vgp.check.checker import check
from vgp.check.document_kinds import SUFFIXES, parse

RULES = Path(__file__).parents[1] / "docs/reference/rules"
DAY = date(2026, 11, 20)
#: Limit of processor seconds for a file of ordinary size.
SECONDS = 2.0
MOST_BYTES = 200_000
_WORD = re.compile(r"[\w-]+")
_TEXTS = (
    "", "0", "-1", "9" * 30, "true", "null", "{{$.inputs.parameters['x']}}", "${X}", "NVIDIA_L4", "a3-highgpu-8g",
    "spot", "us-central1-a", '"', "'", "{", "[", "]", ": ", "- ", "&a ", "*a", "<<: ", "\\\n", "\t", "\x00", "\\ud800",
    "#", "<<EOF\n",
)  # fmt: skip
_VALUES = (
    None,
    True,
    0,
    -1,
    1e999,
    2**70,
    "",
    "x" * 500,
    "NVIDIA_H100_80GB",
    "1.5",
    [],
    {},
    [[]],
    {"a": {}},
    "600s",
    3.7,
)


@dataclass
class Outcome:
    """The results of the mutations."""

    codes: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    seconds: list[tuple[float, str]] = field(default_factory=list)

    def add(self, name: str, report: Report, taken: float) -> None:
        self.codes[report.exit_code] += 1
        self.seconds.append((taken, name))
        for finding in report.findings:
            if "The checker failed here" in finding.message:
                self.faults.append(f"{name}: {finding.message}")
        if taken > SECONDS:
            self.faults.append(f"{name}: {taken:.1f} s")

    def __str__(self) -> str:
        taken = sorted(seconds for seconds, _ in self.seconds)
        slowest = max(self.seconds, default=(0.0, "-"))
        half, most = taken[len(taken) // 2] if taken else 0.0, slowest[0]
        codes = ", ".join(f"{count:,} with {code}" for code, count in sorted(self.codes.items()))
        return (
            f"{len(taken):,} mutations: {codes}; {len(self.faults)} faults; median {half * 1000:.1f} ms, "
            f"slowest {most:.2f} s ({slowest[1]}), of the processor"
        )


def read_diff(page: str) -> tuple[str, str]:
    """Returns the file before and after the page's diff, which shows every line."""
    lines = re.findall(r"```diff\n(.*?)```", page, re.DOTALL)[0].splitlines()
    before, after = ([line[1:] for line in lines if line[:1] in ("", " ", sign)] for sign in "-+")
    return "\n".join(before) + "\n", "\n".join(after) + "\n"


def read_rule_pages() -> dict[str, str]:
    """Returns the examples on the rules' pages: name -> text."""
    examples = {}
    for page in sorted(RULES.glob("GPU*.md")):
        text = page.read_text(encoding="utf-8")
        kind = "sh" if "example.sh" in text else "yaml"
        examples |= {f"{page.stem}-{number}.{kind}": file for number, file in enumerate(read_diff(text))}
    return examples


def read_files(paths: Sequence[str]) -> dict[str, str]:
    """Returns the text of the files, and of those in the folders that the checker reads, by name."""
    found = {}
    for path in map(Path, paths):
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if each.suffix in SUFFIXES and each.is_file() and each.stat().st_size <= MOST_BYTES:
                found[str(each)] = each.read_text(encoding="utf-8", errors="replace")
    return found


def mutations(originals: dict[str, str], seed: int, count: int, first: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yields the names of mutation and file, and the text; each mutation has a random generator of its own."""
    names = list(originals)
    for number in range(first, first + count):
        chance = random.Random(f"{seed}/{number}")
        name = chance.choice(names)
        yield f"{number} of {name}", name, mutate(originals[name], name, originals[chance.choice(names)], chance)


def mutate(text: str, name: str, other: str, chance: random.Random) -> str:
    """Returns the text after a few changes."""
    is_data = name.endswith((".json", ".yaml", ".yml")) and chance.random() < 0.6
    text = _mutate_data(text, name, chance) if is_data else text
    for _ in range(chance.randint(0 if is_data else 1, 2)):
        text = _as_text(text, other, chance)
    return text


def _mutate_data(text: str, name: str, chance: random.Random) -> str:
    """Returns the text with values replaced, dropped, renamed or wrapped; unchanged if it is not data."""
    try:
        data = json.loads(text) if name.endswith(".json") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError):
        return text
    for _ in range(chance.randint(1, 3)):
        data = _change(data, chance)
    changed = json.dumps(data, default=str)
    return changed if len(changed) <= MOST_BYTES else text  # aliases can expand to huge texts


def _change(data: Any, chance: random.Random) -> Any:
    """Changes one random place of the data; every level is equally likely."""
    if not isinstance(data, dict | list) or not data or chance.random() < 0.15:
        return chance.choice([*_VALUES, [data], {"workerPoolSpecs": data}])
    result = dict(data) if isinstance(data, dict) else list(data)
    key: Any = chance.choice(list(data)) if isinstance(data, dict) else chance.randrange(len(data))
    how = chance.random()
    if how < 0.1:
        del result[key]
    elif how < 0.2 and isinstance(result, dict):
        result[f"{key}x"] = result.pop(key)
    elif how < 0.3 and isinstance(result, list):
        result += [result[key]] * chance.choice([1, 30])
    else:
        result[key] = _change(data[key], chance)
    return result


def _as_text(text: str, other: str, chance: random.Random) -> str:
    start = chance.randint(0, len(text))
    end = min(len(text), start + chance.choice([1, 3, 20, 200]))
    words = [match.span() for match in _WORD.finditer(text, max(0, start - 300), start + 300)]
    match chance.randrange(6):
        case 0:
            return text[:start] + text[end:]
        case 1:
            return text[:end] + text[start:end] * chance.choice([1, 2, 50]) + text[end:]
        case 2:
            return text[:start] + chance.choice(_TEXTS) + text[start:]
        case 3:
            begin = chance.randint(0, len(other))
            return text[:start] + other[begin : begin + 300] + text[start:]
        case 4:
            rows = text.splitlines(keepends=True)
            chance.shuffle(rows) if len(rows) < 30 else rows.pop(chance.randrange(len(rows)))
            return "".join(rows)
    begin, end = chance.choice(words) if words else (start, end)
    return text[:begin] + chance.choice(_TEXTS) + text[end:]


def check_text(text: str, name: str) -> Report:
    """Checks a text and converts the report to every format."""
    report = check(parse(name, text), regions=["us-central1"], as_of=DAY)
    json.dumps([report.as_json(), sarif(report)])
    list(lines(report))
    return report


def run(originals: dict[str, str], seed: int, count: int, first: int = 0, within_s: float = math.inf) -> Outcome:
    """Checks `count` mutations, or as many as fit into `within_s`."""
    outcome, end = Outcome(), time.monotonic() + within_s
    for name, file, text in mutations(originals, seed, count, first):
        if time.monotonic() > end:
            break
        begin = time.process_time()
        try:
            report = check_text(text, file)
        except Exception as error:
            outcome.faults.append(f"{name}: {type(error).__name__}: {error}")
            continue
        outcome.add(name, report, time.process_time() - begin)
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", help="Files and folders; default: the examples of docs/reference/rules.")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="The number of the one mutation to judge, whose text is printed.")
    parser.add_argument("--minutes", type=float, default=math.inf, help="Ends after these, with fewer mutations.")
    options = parser.parse_args()
    originals = read_files(options.paths) if options.paths else read_rule_pages()
    if options.only is not None:
        ((_, file, text),) = mutations(originals, options.seed, 1, options.only)
        print(text)
        print("\n".join(lines(check_text(text, file))))
        return
    outcome = run(originals, options.seed, options.count, within_s=options.minutes * 60)
    print(f"{len(originals)} files, seed {options.seed}. {outcome}")
    for fault in outcome.faults[:50]:
        print(fault)
    raise SystemExit(bool(outcome.faults))


if __name__ == "__main__":
    main()
