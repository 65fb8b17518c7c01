"""A model that is on no rank whole: how it comes to be, goes on, and is written. What is checked: `sharding`."""

from vgp.train.processes.launch import launch


def test_a_sharded_model_is_made_resumed_and_written_with_the_bits_of_a_whole_one(tmp_path, capfd):
    assert launch("sharding:everything", str(tmp_path), nproc=2) == "all held"
    said = capfd.readouterr().err
    assert "checkpoint skipped: run000-step000000002-ab-1.safetensors fails its checksum" in said
