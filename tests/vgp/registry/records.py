"""Records as tests need them: versions that are registered, promoted and taken back."""

import hashlib
import os

from vgp.base.storage import storage
from vgp.registry import changes
from vgp.registry.documents import CHAMPION, Record, Version

#: Who and why, of a change that a test makes.
WORDS = {"who": "ana", "why": "a reason"}


def key_of(text):
    return hashlib.sha256(str(text).encode()).hexdigest()


def version(name, **facts):
    return Version(key=key_of(name), model=f"/registry/flights/versions/{key_of(name)}", **facts)


def registered(*names):
    """A record with a version for each name, none promoted."""
    record = Record(model="flights")
    for name in names:
        record = changes.register(record, version(name), who="run")
    return record


def promoted(record, *numbers):
    """The record after each of these versions became champion."""
    for number in numbers:
        words = {**WORDS, "key": f"promotion {len(record.events)}"}
        record = changes.promote(record, number, expected=record.aliases.get(CHAMPION), **words)
    return record


def rolled_back(record, expected=None):
    return changes.rollback(record, expected=expected, **WORDS, key=f"rollback {len(record.events)}")


def champion(record):
    return record.aliases.get(CHAMPION)


def written(path):
    """What is another whenever the file or object is written anew."""
    return storage.get_blob(path).generation if storage.is_remote(path) else os.stat(path).st_mtime_ns
