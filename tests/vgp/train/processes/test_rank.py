"""Ranks meet without a collective: threads over one key-value store."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist

from vgp.train.processes.rank import Late, Rank


@pytest.fixture
def ranks():
    store, ranks = dist.HashStore(), [Rank(number, 3, number, 3, torch.device("cpu")) for number in range(3)]
    for rank in ranks:
        rank.rendezvous = store
    return ranks


def test_every_rank_gets_every_value_when_the_last_has_come(ranks):
    def meet(rank):
        time.sleep(0.3 * (rank.rank == 1))
        return [rank.exchange({"from": rank.rank, "turn": turn}, within_s=20) for turn in range(3)]

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(meet, ranks))
    assert found == [[[{"from": rank, "turn": turn} for rank in range(3)] for turn in range(3)]] * 3


def test_the_ranks_that_do_not_come_are_named(ranks):
    with pytest.raises(Late, match=r"timed out waiting 0.1 s for rank 1, 2"):
        ranks[0].exchange(None, within_s=0.1)
