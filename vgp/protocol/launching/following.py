"""A job that a launcher follows: begins only if it is the one that may run, and stops once nobody follows it.

The documents are those of docs/explanation/how-capacity-is-chosen.md. They are read as files, below /gcs on Vertex AI:
no client and no token are needed. A mount may show an old heartbeat for about a minute, so what counts
is that its text changes, and patience is longer than that; a mount that cannot be read tells nothing.
Of two that make one folder one succeeds there as well: gcsfuse asks for an object that is not there yet
(`CreateChildDir` of github.com/GoogleCloudPlatform/gcsfuse).
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
from vgp.protocol.launching.request import say

#: EX_TEMPFAIL of sysexits.h: the work is done elsewhere, or later.
ELSEWHERE = 75
#: How long a heartbeat is waited for that is not there or cannot be read, and between two looks.
PATIENCE_S, LOOK_S = 120.0, 2.0


class Following:
    """What this machine knows of the launcher; nothing where no launcher has set the variables."""

    def __init__(self, environment: Mapping[str, str]):
        folder, self.attempt = environment.get("TRAINING_CAPACITY", ""), environment.get("TRAINING_ATTEMPT", "")
        self.folder = path_of(folder.rstrip("/"))
        self.path = self.folder + "/heartbeat.json" if folder and self.attempt else ""
        #: The custom job's id, the same on all its machines and whenever one is started again.
        self.job = environment.get("CLOUD_ML_JOB_ID", "")
        self.beat: dict[str, Any] = {}
        #: Whether the last look could read what is there.
        self.can_read = False

    def obstacle(self, patience_s: float = PATIENCE_S) -> str:
        """Why the command may not begin; "" = it may."""
        deadline = time.monotonic() + patience_s
        while self.path:
            before, why = self.beat, self.look()
            if self.beat and self.beat.get("next") != self.attempt:
                return self.others() or self.rival(time.monotonic() + patience_s)
            if self.beat != before:  # this job is the next one: it waits as long as the launcher lives
                deadline = time.monotonic() + max(patience_s, float(self.beat["orphan_s"]))
            if time.monotonic() > deadline:
                return f"nobody has said for {patience_s:g} s that this job may run ({why})"
            time.sleep(min(LOOK_S, patience_s))
        return ""

    def rival(self, deadline: float) -> str:
        """Takes the attempt for this job; else why not: Google may make two jobs of one request, told the same."""
        folder = os.path.join(self.folder, "jobs", self.attempt)
        while self.job:
            try:
                names, why = self.take(folder), f"{folder} is empty"
            except OSError as error:
                names, why = [], str(error)
            if names:
                return "" if self.job in names else f"another job does this work: {folder} names job {names[0]}"
            if time.monotonic() > deadline:
                return f"nobody can tell whether another job does this work ({why})"
            time.sleep(LOOK_S)
        return ""

    def take(self, folder: str) -> list[str]:
        """Who has taken it: whoever made the folder leaves its name there, on any machine and again after a restart."""
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
            with open(os.path.join(folder, self.job), "x", encoding="utf-8"):
                pass
        return os.listdir(folder)

    def watch(self) -> None:
        """Looks from a thread, for as long as the process lives; what stops the job is a SIGTERM to itself."""
        if self.path:
            threading.Thread(target=self.stop_once_alone, name="heartbeat", daemon=True).start()

    def stop_once_alone(self) -> None:
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
            why, most_s = self.others(), beat["orphan_s"]
            if not why and silent_s > most_s:
                why = f"the launcher of this job has given no sign of life for {most_s:g} s (orphan_s)"
            if why:
                say(f"stopping: {why}.")
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def look(self) -> str:
        """Takes in what the heartbeat says now, if it can be read; else says why not."""
        try:
            self.can_read = False
            with open(self.path, encoding="utf-8") as file:
                text = file.read()
            self.can_read = True
            beat = json.loads(text)
            fits = isinstance(beat, dict) and beat.get("format") == 1 and isinstance(beat.get("attempt"), str)
            if not fits or min(float(beat["every_s"]), float(beat["orphan_s"])) <= 0:
                raise ValueError("it is no heartbeat")
            self.beat = beat
        except (OSError, ValueError, TypeError, KeyError) as error:
            self.can_read = self.can_read or isinstance(error, FileNotFoundError | UnicodeDecodeError)
            return f"{self.path}: {error}"
        return ""

    def others(self) -> str:
        """Who may run in this job's place; "" = it may itself."""
        if self.beat["attempt"] == self.attempt:
            return ""
        named = f"names attempt {self.beat['attempt']}" if self.beat["attempt"] else "names none"
        return f"this job, attempt {self.attempt}, is not to run: {self.path} {named}"
