"""Finds the newest checkpoint whose parts all verify, and deletes old ones. No torch here."""

from collections.abc import Callable

import google_crc32c

from vgp.base.storage.files import CHECKSUM_BLOCK as BLOCK
from vgp.train.checkpoint.checkpoint_manifest import Manifest, Part, parse_manifest_name, parse_part_name
from vgp.train.checkpoint.checkpoint_store import Store

#: Keeps a forged manifest from filling the memory; a manifest of 1,000 ranks and 1,000 tensors has about 50 MB.
_MOST_MANIFEST_BYTES = 1 << 30


class Damaged(Exception):
    """A manifest or part is missing, cut short or altered."""


def find_newest_run(store: Store) -> int:
    """Returns the number of the newest run with a committed checkpoint; -1 if there is none."""
    return max((place[0] for place in map(parse_manifest_name, store.names()) if place), default=-1)


def list_manifests(store: Store, run: int) -> list[str]:
    """Returns the names of the run's manifests, newest first."""
    steps = [(place[1], name) for name in store.names() if (place := parse_manifest_name(name)) and place[0] == run]
    return [name for _, name in sorted(steps, reverse=True)]


def read_manifest(store: Store, name: str) -> Manifest:
    """Reads a manifest. Raises Damaged if it cannot be read or belongs to another name."""
    try:
        if store.size(name) > _MOST_MANIFEST_BYTES:
            raise Damaged(f"{name} is larger than any manifest")
        manifest = Manifest.decode(store.read(name))
    except ConnectionError:  # an unreachable store does not mean a damaged checkpoint
        raise
    except (OSError, ValueError) as error:
        raise Damaged(f"{name} cannot be read ({_format_reason(error)})") from None
    if manifest.name != name:
        raise Damaged(f"{name} is the manifest of {manifest.name}")
    return manifest


def read_block(store: Store, part: Part, number: int) -> bytes:
    """Returns the verified bytes of a part's block. Raises Damaged if they are missing or altered."""
    start = number * BLOCK
    stop = min(start + BLOCK, part.bytes)
    for _ in range(2):  # a second read shows whether the bytes were altered in transit or in the store
        try:
            data = store.read(part.name, start, stop)
        except ConnectionError:
            raise
        except OSError as error:
            raise Damaged(f"{part.name} cannot be read ({_format_reason(error)})") from None
        if len(data) == stop - start and google_crc32c.value(data) == part.checksums[number]:
            return data
    require_size(store, part)
    raise Damaged(f"{part.name} fails its checksum")


def verify(store: Store, manifest: Manifest) -> None:
    """Reads every part, block by block. Raises Damaged if a byte is missing or altered."""
    for part in manifest.parts:
        require_size(store, part)
        for number in range(len(part.checksums)):
            read_block(store, part, number)


def read_back(store: Store, manifest: Manifest) -> None:
    """Raises Damaged unless the size and checksum of every part in the store match the manifest.

    A bucket reports its own checksum; a disk is read.
    """
    for part in manifest.parts:
        require_size(store, part)
        if store.checksum(part.name) != part.crc32c:
            raise Damaged(f"{part.name} fails its checksum")


def find_newest(store: Store, run: int, log: Callable[[str], None]) -> Manifest | None:
    """Returns the newest intact checkpoint of the run, or None; reports each damaged one to `log` in a line."""
    for name in list_manifests(store, run):
        try:
            manifest = read_manifest(store, name)
            verify(store, manifest)
            return manifest
        except Damaged as damage:
            log(f"checkpoint skipped: {damage}")
    return None


def prune(store: Store, run: int, keep: int) -> None:
    """Deletes all but the newest `keep` checkpoints of the run, each manifest before its parts.

    Also deletes parts of unfinished attempts from steps before the oldest remaining checkpoint.
    """
    names = list_manifests(store, run)
    for name in names[keep:]:
        store.delete(name)
    kept = [parse_manifest_name(name) for name in names[:keep]]
    oldest = min((place for place in kept if place), default=(run, 0))
    for name in store.names():
        place = parse_part_name(name)
        if place and place[0] == run and place[1] < oldest[1]:
            store.delete(name)


def require_size(store: Store, part: Part) -> None:
    """Raises Damaged unless the stored part has the size in the manifest."""
    try:
        size = store.size(part.name)
    except ConnectionError:
        raise
    except OSError as error:
        raise Damaged(f"{part.name} cannot be read ({_format_reason(error)})") from None
    if size != part.bytes:
        raise Damaged(f"{part.name} has {size} bytes instead of {part.bytes}")


def _format_reason(error: Exception) -> str:
    return str(error) if type(error) is ValueError else type(error).__name__
