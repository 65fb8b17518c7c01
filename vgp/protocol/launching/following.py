"""The watch on the heartbeat of a capacity launcher: a job begins only if it may run, and an orphaned one stops.

docs/explanation/how-capacity-is-chosen.md describes the documents. They are read as files, below /gcs on Vertex AI,
without a client or a token. A mount may show an old heartbeat for about a minute, so only a change of its text counts,
and the time limits are longer. Time in which the mount cannot be read does not count as silence. Creating a folder is
atomic on the mount, too: gcsfuse creates its object only if it does not exist (`CreateChildDir` of
github.com/GoogleCloudPlatform/gcsfuse).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from typing import Any

from vgp.protocol.launching.folders import path_of
from vgp.protocol.launching.request import log

#: Exit code if another job does the work or a later one will: EX_TEMPFAIL of sysexits.h.
ELSEWHERE = 75
#: Seconds to wait for a missing or unreadable heartbeat, and between two reads.
PATIENCE_S, LOOK_S = 120.0, 2.0


class Following:
    """The launcher's heartbeat as this machine reads it; inactive without the variables of a launcher."""

    def __init__(self, environment: Mapping[str, str]):
        folder, self.attempt = environment.get("TRAINING_CAPACITY", ""), environment.get("TRAINING_ATTEMPT", "")
        self.folder = path_of(folder.rstrip("/"))
        self.path = self.folder + "/heartbeat.json" if folder and self.attempt else ""
        #: The custom job's id, which is the same on all its machines and after restarts.
        self.job = environment.get("CLOUD_ML_JOB_ID", "")
        self.beat: dict[str, Any] = {}
        #: Whether the last read succeeded.
        self.can_read = False

    def await_turn(self, patience_s: float = PATIENCE_S) -> str:
        """Waits for permission to begin; returns why the command may not begin, or ""."""
        deadline = time.monotonic() + patience_s
        while self.path:
            before, why = self.beat, self.look()
            if self.beat and self.beat.get("next") != self.attempt:
                return self.refusal() or self.claim_job(time.monotonic() + patience_s)
            if self.beat != before:  # this job is the next one, and waits while the launcher is alive
                deadline = time.monotonic() + max(patience_s, float(self.beat["orphan_s"]))
            if time.monotonic() > deadline:
                return f"no heartbeat for {patience_s:g} s that permits this job to run ({why})"
            time.sleep(min(LOOK_S, patience_s))
        return ""

    def claim_job(self, deadline: float) -> str:
        """Claims the attempt, because Google may create two jobs from one request; returns why not, or ""."""
        folder = os.path.join(self.folder, "jobs", self.attempt)
        while self.job:
            try:
                names, why = self.claim(folder), f"{folder} is empty"
            except OSError as error:
                names, why = [], str(error)
            if names:
                return "" if self.job in names else f"another job does this work: {folder} names job {names[0]}"
            if time.monotonic() > deadline:
                return f"cannot read whether another job does this work ({why})"
            time.sleep(LOOK_S)
        return ""

    def claim(self, folder: str) -> list[str]:
        """Returns the jobs that have claimed the folder; the one that creates it writes its name there."""
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
            with open(os.path.join(folder, self.job), "x", encoding="utf-8"):
                pass
        return os.listdir(folder)

    def watch(self) -> None:
        """Watches the heartbeat from a thread, which stops the job by a SIGTERM to this process."""
        if self.path:
            threading.Thread(target=self.stop_orphan, name="heartbeat", daemon=True).start()

    def stop_orphan(self) -> None:
        looked_at, beat, silent_s = time.monotonic(), self.beat, 0.0
        while True:
            time.sleep(min(beat["every_s"], beat["orphan_s"] / 8))
            could_read = self.can_read
            self.look()
            since_s, looked_at = time.monotonic() - looked_at, time.monotonic()
            if self.beat != beat:
                silent_s, beat = 0.0, self.beat
            elif could_read and self.can_read:  # the launcher cannot write either to a store that is down
                silent_s += since_s
            why, most_s = self.refusal(), beat["orphan_s"]
            if not why and silent_s > most_s:
                why = f"no heartbeat from the launcher for {most_s:g} s (orphan_s)"
            if why:
                log(f"stopping: {why}.")
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def look(self) -> str:
        """Reads the heartbeat; returns why it cannot be read, or ""."""
        try:
            self.can_read = False
            with open(self.path, encoding="utf-8") as file:
                text = file.read()
            self.can_read = True
            beat = json.loads(text)
            fits = isinstance(beat, dict) and beat.get("format") == 1 and isinstance(beat.get("attempt"), str)
            if not fits or min(float(beat["every_s"]), float(beat["orphan_s"])) <= 0:
                raise ValueError("not a heartbeat")
            self.beat = beat
        except (OSError, ValueError, TypeError, KeyError) as error:
            self.can_read = self.can_read or isinstance(error, FileNotFoundError | UnicodeDecodeError)
            return f"{self.path}: {error}"
        return ""

    def refusal(self) -> str:
        """Returns a sentence on the attempt that may run instead of this job, or ""."""
        if self.beat["attempt"] == self.attempt:
            return ""
        named = f"names attempt {self.beat['attempt']}" if self.beat["attempt"] else "names none"
        return f"this job, attempt {self.attempt}, may not run: {self.path} {named}"
