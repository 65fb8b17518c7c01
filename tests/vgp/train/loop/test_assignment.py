"""Whether a run can go on with the processes of every rung: known before anything starts."""

import pytest

from vgp.base.exits import UserError
from vgp.train.config import TrainConfig
from vgp.train.loop.process_counts import check_rungs


@pytest.mark.parametrize(
    ("settings", "world_sizes"),
    [({}, (3, 8)), ({"exact": True}, (1, 2, 16)), ({"microbatches": 12}, (3, 8)), ({"exact": True}, ())],
)
def test_rungs_of_any_number_that_suits_are_fine(settings, world_sizes):
    check_rungs(TrainConfig(**settings), world_sizes)


@pytest.mark.parametrize(
    ("settings", "world_sizes", "words"),
    [
        ({"exact": True}, (8, 6), "not 6 microbatches on 6 processes, one for each GPU of the step"),
        (
            {"exact": True, "microbatches": 8},
            (8, 16),
            "microbatches=8 cannot be assigned to 16 processes, one for each",
        ),
        ({"microbatches": 8}, (16,), "microbatches=8 cannot be assigned to 16 processes, one for each"),
    ],
)
def test_a_rung_whose_processes_cannot_be_is_refused(settings, world_sizes, words):
    with pytest.raises(UserError, match=words):
        check_rungs(TrainConfig(**settings), world_sizes)
