"""Searches for files: local names, folders and globs, past states of a bucket, and unsupported schemes."""

import glob
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage.files import Version
from vgp.base.text.printable import quote

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket

# ---- unsupported schemes, and the fix for each

#: URLs of Cloud Storage's pages and downloads, which name an object.
_STORAGE = re.compile(
    r"https?://(?:storage\.(?:googleapis|cloud\.google)\.com/(?P<bucket>[^/]+)"
    r"|(?P<host>[^/]+)\.storage\.googleapis\.com)/(?P<name>[^?#]+)"
)
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://")


def refuse_scheme(part: str) -> None:
    """Raises UserError if a part of `data`, or another source, is neither a path, gs:// nor bq://."""
    match = _SCHEME.match(part)
    scheme = match["scheme"].lower() if match else ""
    if not match or part.startswith("gs://") or scheme == "bq":
        return
    if scheme in ("http", "https"):
        raise UserError(_download(part))
    if scheme in ("gs", "gcs", "s3", "s3a", "r2"):
        right = "gs://" + part[match.end() :]
        if scheme in ("gs", "gcs"):
            raise UserError(f"{quote(part)}: Cloud Storage is written gs://. Is it {right}?")
        copy = f"gcloud storage cp -r {shlex.quote('s3://' + part[match.end() :])} gs://BUCKET/FOLDER"
        raise UserError(f"{quote(part)}: only buckets of Google Cloud (gs://) can be read. Copy it: {copy}.")
    if scheme == "file":
        raise UserError(f"{quote(part)}: write only the path: {part[match.end() :]}.")
    raise UserError(
        f"{quote(part)}: {scheme}:// cannot be read. Data is a file, folder or glob, local or in a bucket (gs://), "
        "or a table of BigQuery (bq://PROJECT.DATASET.TABLE)."
    )


def _download(part: str) -> str:
    if match := _STORAGE.match(part):
        right = f"gs://{match['bucket'] or match['host']}/{match['name']}"
        return f"{quote(part)}: write the object as {right}."
    return (
        f"{quote(part)}: data is not downloaded from the web, because a URL may change or vanish "
        "and has no version to pin. Copy it to a bucket once: "
        f"curl -fL {shlex.quote(part)} | gcloud storage cp - gs://BUCKET/NAME."
    )


# ---- past states of a bucket, from its object versions


@dataclass
class Past:
    """A moment, and whether each bucket shows its state at that moment."""

    moment: datetime
    #: Whether the object versions of each bucket show the state at the moment.
    shown: dict[str, bool] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether all listed buckets show the state at the moment."""
        return bool(self.shown) and all(self.shown.values())

    def live(self, bucket: str, versions: Sequence["Blob"], described: Callable[[], "Bucket"]) -> list["Blob"]:
        """Returns the versions that were live at the moment, or the current ones if the bucket does not show it."""
        if bucket not in self.shown:
            self.shown[bucket] = self._keeps_versions(versions, described)
        if not self.shown[bucket]:
            return [blob for blob in versions if blob.time_deleted is None]
        born = (blob for blob in versions if blob.time_created <= self.moment)
        return [blob for blob in born if blob.time_deleted is None or blob.time_deleted > self.moment]

    def _keeps_versions(self, versions: Sequence["Blob"], described: Callable[[], "Bucket"]) -> bool:
        """Whether the bucket still has every version that was live at the moment."""
        from google.api_core.exceptions import Forbidden

        try:
            bucket = described()
        except Forbidden:  # object roles lack storage.buckets.get; deleted versions prove versioning
            return any(blob.time_deleted for blob in versions)
        return bool(bucket.versioning_enabled) and all(self._spares(rule) for rule in bucket.lifecycle_rules)

    def _spares(self, rule: JsonObject) -> bool:
        """Whether a lifecycle rule of the bucket keeps the versions of the moment.

        https://cloud.google.com/storage/docs/lifecycle
        """
        condition = rule.get("condition", {})
        if rule.get("action", {}).get("type") != "Delete" or condition.get("isLive") is True:
            return True
        kept_days = condition.get("daysSinceNoncurrentTime")
        return kept_days is not None and (datetime.now(UTC) - self.moment).days < int(kept_days)


#: Globs of files one and two folders deeper.
DEEPER = ("*/*", "*/*/*")


@dataclass(frozen=True)
class File:
    """A file or an object; the path of a pinned object ends in #generation."""

    path: str
    bytes: int
    #: Generation of an object in Cloud Storage.
    generation: int = field(default=0, compare=False)
    #: Version of a local file.
    version: Version | None = field(default=None, compare=False)
    #: Name for the task; "" = the path.
    title: str = field(default="", compare=False)


def find_local(pattern: str, suffixes: Sequence[str]) -> list[File]:
    pattern = os.path.expanduser(pattern)
    if os.path.isdir(pattern):
        paths = [str(p) for p in Path(pattern).iterdir() if p.name.endswith(tuple(suffixes))]
    elif os.path.exists(pattern):  # also a name that contains a wildcard
        if not os.path.isfile(pattern):
            raise UserError(f"{pattern} is a pipe, a socket or a device, not a regular file.")
        paths = [pattern]
    elif "**" in pattern:
        paths = list(_walk_pattern(pattern))
    else:
        paths = glob.glob(pattern)
    return [stat_file(path) for path in paths if os.path.isfile(path)]


def find_deeper(folder: str, suffixes: Sequence[str]) -> str:
    """Returns a glob of files with one of `suffixes` one or two folders deeper, or "" without any."""
    for levels in DEEPER:
        for path in glob.iglob(os.path.join(glob.escape(os.path.expanduser(folder)), levels)):
            if (suffix := find_ending(path, suffixes)) and os.path.isfile(path):
                return os.path.join(folder, levels) + suffix
    return ""


def find_ending(path: str, suffixes: Sequence[str]) -> str:
    return next((suffix for suffix in suffixes if suffix and path.endswith(suffix)), "")


def _walk_pattern(pattern: str) -> Iterator[str]:
    """Yields the paths that a glob with `**` matches; hidden ones only if the fixed beginning of the pattern has
    them."""
    root = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]
    start = root or ("/" if pattern.startswith("/") else ".")
    matches = re.compile(glob_regex(pattern)).fullmatch
    for folder, folders, names in _walk(start, links=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = folder if root or start == "/" else folder.removeprefix(".").removeprefix("/")
        paths = (os.path.join(below, name) for name in names if not name.startswith("."))
        yield from (path for path in paths if matches(path))


def below(folder: str, *, links: bool) -> list[File]:
    """Returns all files in a folder and its subfolders, with hidden ones, sorted by path.

    Args:
        links: Whether to follow symbolic links or skip them.
    """
    paths = (os.path.join(place, name) for place, _, names in _walk(folder, links=links) for name in names)
    return [stat_file(path) for path in sorted(paths) if os.path.isfile(path) and (links or not os.path.islink(path))]


def _walk(start: str, *, links: bool) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walks like `os.walk`, but enters no folder twice: a link to a parent folder would be followed forty times."""
    entered = set[tuple[int, int]]()
    for folder, folders, names in os.walk(start, followlinks=links):
        place = os.stat(folder)
        if (place.st_dev, place.st_ino) in entered:
            folders.clear()
            continue
        entered.add((place.st_dev, place.st_ino))
        yield folder, folders, names


def stat_file(path: str) -> File:
    """Returns a local file with its current version."""
    status = os.stat(path)
    return File(path, status.st_size, version=Version(status.st_size, status.st_mtime_ns))


def glob_regex(pattern: str) -> str:
    """Converts a glob to a regular expression; `*` and `?` stay within a folder, `**/` crosses folders."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\])", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        meaning.get(part) or (part.replace("[!", "[^") if part.startswith("[") and i % 2 else re.escape(part))
        for i, part in enumerate(parts)
    )
