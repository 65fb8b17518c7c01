"""Slice 4: rows per second of evaluation and prediction, and the latency of a served model."""

import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tools.gpu_hour.loops import become_rank
from tools.gpu_hour.parts import Place
from tools.gpu_hour.tasks import write
from vgp.protocol import manifest
from vgp.train import fit
from vgp.train.train_config import TrainConfig

TASK = "tools.gpu_hour.models:Numbers"


def measure_scoring(place: Place) -> None:
    """Measures how fast the scorer of `evaluate` predicts prepared rows."""
    from vgp.data.rows import Shards
    from vgp.evaluation import score

    data, model = _train(place)
    scorer = score.load(model, manifest.load(data))
    shards = Shards(data, manifest.load(data), "train")
    batches = list(shards.batches(scorer.task.batch_rows))
    scorer(batches[0])
    began = time.perf_counter()
    rows = sum(len(scorer(batch)) for batch in batches)
    place.record("rows", rows=rows, rows_per_s=rows / (time.perf_counter() - began))


def measure_prediction(place: Place) -> None:
    """Measures a batch prediction of new rows, from the files to the written predictions."""
    from vgp.serve.prediction.predict import predict

    data, model = _train(place)
    began = time.perf_counter()
    made = predict(str(data / "train-00000.parquet"), str(model), str(place.folder / "predictions"), task=TASK)
    seconds, rows = time.perf_counter() - began, made.metadata["rows"]
    place.record("rows", rows=rows, seconds=seconds, rows_per_s=rows / seconds)


def measure_requests(place: Place) -> None:
    """Measures a served model: until it is ready, its first request, and the latency of many."""
    data, model = _train(place)
    count = 20 if place.on_cpu else 500
    shutil.rmtree(data)
    words = [sys.executable, "-m", "vgp.steps", "serve", str(model), "--task", TASK, "--port", "0"]
    began = time.perf_counter()
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ}) as server:
        assert server.stderr
        lines = iter(server.stderr.readline, "")
        found = next(filter(None, (re.search(r"http://([\w.]+):(\d+)", line) for line in lines)), None)
        ready_s = time.perf_counter() - began
        try:
            if not found:
                raise RuntimeError("the server ended before it was ready")
            place.record("start", ready_s=ready_s)
            for rows in (1, 32):
                first, latencies = _ask(found[1], int(found[2]), rows, count)
                place.record(f"{rows} rows", requests=count, first_ms=first, p50_ms=statistics.median(latencies),
                             p99_ms=float(np.percentile(latencies, 99)),
                             rows_per_s=rows * 1000 / statistics.mean(latencies))  # fmt: skip
        finally:
            server.terminate()
            server.communicate(timeout=60)


def _ask(host: str, port: int, rows: int, count: int) -> tuple[float, list[float]]:
    """Returns the milliseconds of the first request and of `count` later ones, on one connection."""
    body = json.dumps({"instances": [{f"x{number}": 0.5 for number in range(24)}] * rows})
    connection, times = http.client.HTTPConnection(host, port, timeout=60), []
    for _ in range(count + 1):
        began = time.perf_counter()
        connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        times.append(1000 * (time.perf_counter() - began))
        if answer.status != 200:
            raise RuntimeError(f"the server answered {answer.status}: {text[:300]!r}")
    connection.close()
    return times[0], times[1:]


def _train(place: Place) -> tuple[Path, Path]:
    """Trains the table for some steps; returns the folders of the data and of the model."""
    data, model = place.folder / "data", place.folder / "model"
    dataset = write(TASK, {}, 2_000 if place.on_cpu else 2_000_000, data)
    config = TrainConfig(task=TASK, epochs=10 * 1024 / dataset.rows("train"))
    with become_rank():
        fit.train(config, data=data, model=model, checkpoints=place.folder / "runs", nproc=1)
    return data, model
