"""Predicts in a fork that a test kills; `tests.killing` describes the requests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "helpers"))

import prices
import torch

from tests.killing import serve
from vgp.serve.prediction import predict
from vgp.serve.prediction.predictor import run
from vgp.train.processes.rank import Rank

assert prices


def here(target, request, *, nproc, hang_after_s):
    """All processes' shards, in this one."""
    before = torch.get_num_threads()
    for rank in range(nproc):
        run(request, Rank(rank, nproc, 0, 1, torch.device("cpu")))
    torch.set_num_threads(before)


def work(data, model, folder, shard_rows):
    predict.launch = here
    predict.predict(data, model, folder, options=predict.Options(shard_rows=shard_rows, nproc=2))


if __name__ == "__main__":
    serve(work)
