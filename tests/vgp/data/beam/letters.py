"""A small task that is no table: words of text, whose rows need to know how often each letter occurs in all shards."""

import errno
import os
import signal
import time
from collections import Counter

import numpy as np
import pyarrow as pa

from vgp.base.storage import storage
from vgp.data import current_place
from vgp.data.task import Task

WORDS = ("anna", "otto", "lagerregal", "nebel", "regen", "hannah", "kajak", "sand", "radar", "wolke")


class Letters(Task):
    """Is a word the same backwards? Options: how many `shards`, and which one does what is `wrong`."""

    classes = ("no", "yes")
    settings = {"shards": 2, "wrong": "", "wait_s": 0.0}

    def shards(self, data):
        if data:
            return [(file.path, n) for n, file in enumerate(storage.find(data))]
        return [("", n) for n in range(self.options.get("shards", 2))]

    def words(self, shard):
        path, number = shard
        words = storage.read(path, most=1 << 20).decode().split() if path else list(WORDS) * 12
        for n in range(len(words)):
            current_place.record_place(path or f"words-{number}.txt", n)
            if number == 1 and n == 7:
                self.go_wrong()
        return words

    def go_wrong(self):
        match self.options.get("wrong"):
            case "value":
                raise ValueError("this word has no letters")
            case "ends":
                raise SystemExit(4)
            case "full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)

    def scan(self, shard):
        return Counter("".join(self.words(shard)))

    def combine(self, scans):
        total = Counter()
        for scan in scans:
            total.update(scan)
        return {"letters": dict(sorted(total.items())), "rows_read": 0, "notes": ["Letters were counted."]}

    def rows(self, shard, statistics):
        time.sleep(self.options.get("wait_s", 0))
        words, letters = self.words(shard), statistics["letters"]
        rare = [sum(1 / letters[letter] for letter in word) + shard[1] / 7 for word in words]
        table = pa.table(
            {
                "first": [word[0] for word in words],
                "rare": np.array(rare, np.float64),
                "length": pa.FixedSizeListArray.from_arrays(pa.array([float(len(w)) for w in words], pa.float32()), 1),
                "label": [int(word == word[::-1]) for word in words],
            }
        )
        if self.options.get("wrong") == "ids":
            table = table.append_column(
                "row_id", pa.array(range(shard[1] * 100, shard[1] * 100 + len(words)), pa.int64())
            )
        return {"train": table.slice(0, 80), "test": table.slice(80)}

    def model(self, data):
        raise NotImplementedError

    loss = predict = model


class Merging(Letters):
    """Merges two scans into one."""

    settings = {**Letters.settings, "seen": 0}

    def merge(self, first, second):
        return first + second

    def combine(self, scans):
        scans = list(scans)
        return {**super().combine(scans), "scans": len(scans)}
