"""A stand-in for training, with real checkpoints, fence, heartbeat and progress, and a hash in place of a model.

It uses the standard library only, so it starts in a tenth of a second. It is written from the documented formats and
shares no line with the training or the launcher, so it finds mistakes that both have.

    python3 standin.py --steps 40 --every 5 --seconds 20 --executor_input JSON

The model of N steps is the N-th hash of a hash. The variable TRACE_VARIABLE names the file that records every step.
"""

import argparse
import hashlib
import http.client
import json
import os
import signal
import sys
import time
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

TRACE_VARIABLE = "DRILL_TRACE"
#: Exit code of a program that has saved and must be restarted.
AGAIN = 75
TRIES = 8
#: Seconds between two progress reports.
REPORT_S = 30.0


class Stop(Exception):
    pass


def call(method: str, path: str, body: bytes = b"", kind: str = "application/json") -> tuple[int, bytes]:
    """Sends a request to the storage server, with retries."""
    for number in range(TRIES):
        try:
            connection = http.client.HTTPConnection(urlsplit(os.environ["STORAGE_EMULATOR_HOST"]).netloc, timeout=10)
            connection.request(method, path, body, {"Content-Type": kind})
            answer = connection.getresponse()
            status, text = answer.status, answer.read()
            connection.close()
            if status < 500 and status != 429:
                return status, text
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(2.0 * number)
    raise SystemExit("the storage server does not answer")


def place(uri: str) -> tuple[str, str]:
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    return bucket, name


def read(uri: str) -> bytes | None:
    bucket, name = place(uri)
    status, text = call("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media")
    return text if status == 200 else None


def generation(uri: str) -> str:
    bucket, name = place(uri)
    status, text = call("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}")
    return json.loads(text)["generation"] if status == 200 else ""


def write(uri: str, body: bytes, condition: str = "") -> None:
    """Uploads in two parts, like Google's clients, because the storage server checks conditions only there."""
    bucket, name = place(uri)
    parts = ("application/json", json.dumps({"name": name}).encode()), ("application/octet-stream", body)
    lines = [b"--part\r\nContent-Type: " + kind.encode() + b"\r\n\r\n" + part + b"\r\n" for kind, part in parts]
    kind = "multipart/related; boundary=part"
    path = f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart{condition}"
    call("POST", path, b"".join([*lines, b"--part--"]), kind)


def names(uri: str) -> list[str]:
    bucket, prefix = place(uri)
    items = json.loads(call("GET", f"/storage/v1/b/{bucket}/o?prefix={quote(prefix, safe='')}")[1]).get("items", [])
    return sorted(item["name"].rpartition("/")[2] for item in items)


def next_state(state: str, step: int) -> str:
    return hashlib.sha256(f"{state} {step}".encode()).hexdigest()


def note(token: str, step: int) -> None:
    """Records a step for the drill, as a whole line, so that several programs may write."""
    if name := os.environ.get(TRACE_VARIABLE):
        trace = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        job = os.environ.get("CLOUD_ML_JOB_ID", "-")
        os.write(trace, f"{token} {job} {step} {time.monotonic_ns()}\n".encode())
        os.close(trace)


class Work:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.token = given, os.environ["TRAINING_ATTEMPT"]
        self.control = os.environ["TRAINING_CAPACITY"].rstrip("/")
        self.model = json.loads(given.executor_input)["outputs"]["artifacts"]["model"]["artifacts"][0]["uri"]
        self.checkpoints = f"{self.control.replace('/capacity/', '/checkpoints/')}/"
        self.began, self.stopping = time.monotonic(), False
        self.step, self.saved, self.began, self.state = 0, 0, 0, "begin"

    def fence(self) -> None:
        """Waits while this attempt is the next one; ends if the heartbeat names another attempt."""
        while True:
            self.heartbeat = json.loads(read(f"{self.control}/heartbeat.json") or b"{}")
            if self.stopping or self.heartbeat.get("next") != self.token or self.heartbeat["attempt"] == self.token:
                break
            time.sleep(2.0)
        if self.heartbeat.get("attempt") != self.token:
            print(f"another attempt may run, and this is {self.token}", flush=True)
            raise Stop
        self.seen, self.seen_at = generation(f"{self.control}/heartbeat.json"), time.monotonic()
        claim = f"{self.control}/jobs/{self.token}.txt"
        write(claim, os.environ["CLOUD_ML_JOB_ID"].encode(), "&ifGenerationMatch=0")
        if read(claim) != os.environ["CLOUD_ML_JOB_ID"].encode():
            print(f"another job of attempt {self.token} came first", flush=True)
            raise Stop

    def watch(self) -> None:
        """Ends if the heartbeat names another attempt or is too old."""
        now = generation(f"{self.control}/heartbeat.json")
        if now != self.seen:
            self.seen, self.seen_at = now, time.monotonic()
            if json.loads(read(f"{self.control}/heartbeat.json") or b"{}").get("attempt") != self.token:
                raise Stop
        if time.monotonic() - self.seen_at > self.heartbeat["orphan_s"]:
            print("no heartbeat from the launcher", flush=True)
            self.save()
            raise Stop

    def resume(self) -> None:
        if saved := names(self.checkpoints):
            kept = json.loads(read(self.checkpoints + saved[-1]) or b"{}")
            self.step = self.saved = self.began = kept["step"]
            self.state = kept["state"]
        self.progress()

    def save(self) -> None:
        if self.step > self.saved:
            kept = {"step": self.step, "state": self.state}
            write(f"{self.checkpoints}{self.step:08}.json", json.dumps(kept).encode(), "&ifGenerationMatch=0")
            self.saved = self.step
            self.progress()

    def progress(self) -> None:
        self.reported_at = time.monotonic()
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        document = {
            "format": 1, "attempt": self.token, "at": now, "step": self.step, "steps": self.given.steps,
            "saved_step": self.saved, "from_step": self.began, "seconds_per_step": self.given.seconds, "save_s": 1,
            "start_s": 1,
        }  # fmt: skip
        write(f"{self.control}/progress.json", json.dumps(document).encode())

    def run(self) -> int:
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "stopping", True))
        try:
            self.fence()
            self.resume()
            while self.step < self.given.steps:
                self.one()
        except Stop:
            return AGAIN
        self.save()
        write(f"{self.model}/model.txt", self.state.encode())
        return 0

    def one(self) -> None:
        """Runs one step, or saves and ends after SIGTERM."""
        until = time.monotonic() + self.given.seconds
        while (left := until - time.monotonic()) > 0 and not self.stopping:
            time.sleep(min(left, 5.0))
        if self.stopping:
            self.save()
            raise Stop
        self.watch()
        self.step += 1
        self.state = next_state(self.state, self.step)
        note(self.token, self.step)
        if self.step == self.given.fails_at:
            print("ValueError: a mistake in the program", file=sys.stderr, flush=True)
            sys.exit(1)
        if self.step % self.given.every == 0:
            self.save()
        elif time.monotonic() - self.reported_at > REPORT_S:
            self.progress()


def main() -> int:
    parser = argparse.ArgumentParser()
    for name, default in (("steps", 40), ("every", 5), ("seconds", 20.0), ("fails_at", 0)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--executor_input", required=True)
    return Work(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
