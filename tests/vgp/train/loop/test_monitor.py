"""Ranks meet without waiting for the steps that their devices compute."""

import json

from vgp.train.processes.launch import launch


def test_a_meeting_reads_the_losses_of_the_meeting_before_and_all_of_them_before_a_save(digits, tmp_path, monkeypatch):
    """25 steps in 2 epochs, with a meeting after each."""
    settings = {"task": "digits:Digits", "epochs": 2, "checkpoint_every_steps": 5}
    folder = tmp_path / "run"
    monkeypatch.setenv("FAULT", "none:-1:0")
    found = launch("meetings:run", {"config": settings, "folder": str(folder), "data": str(digits)}, nproc=2)
    complete = {5, 10, 13, 15, 20, 25}  # saves, the ends of epochs and the last step
    expected = []
    for step in range(1, 26):
        expected += [(step, step - 1)] if step - 1 and step - 1 not in complete else []
        expected += [(step, step)] if step in complete else []
    assert [tuple(pair) for pair in found["read"]] == expected
    figures = json.loads((folder / "training.json").read_text())
    assert figures["steps"] == 25 and figures["loss"] == found["figures"]["loss"]
