from vgp.protocol import run_folder

OUTPUT = "/gcs/bucket/runs/of us/123456789012/training-20261120-a2/train_-8123456789012345678/model"


def test_the_path_of_an_output_names_root_project_run_and_step():
    output = run_folder.parse(OUTPUT)
    assert output == run_folder.parse(OUTPUT.replace("/gcs/", "gs://"))
    assert (output.root, output.project, output.run) == (
        "gs://bucket/runs/of us",
        "123456789012",
        "training-20261120-a2",
    )
    assert (output.step, output.name) == ("train", "model")


def test_the_name_of_a_step_may_itself_end_in_digits():
    output = run_folder.parse("gs://b/1/2/3/part_1234567_7654321/out/")
    assert (output.root, output.project, output.run, output.step) == ("gs://b/1", "2", "3", "part_1234567")


def test_a_chosen_path_is_no_output():
    for path in ("runs/checkpoints", "/gcs/bucket/a_1/checkpoints", "gs://b/p/run/train_1234567/x", ""):
        assert run_folder.parse(path) is None


def test_pins_and_checkpoints_lie_at_the_root_or_in_the_folder_of_a_local_run(tmp_path):
    assert run_folder.pins(OUTPUT, {}) == "gs://bucket/runs/of us/pins"
    assert run_folder.checkpoints(OUTPUT, {}) == "gs://bucket/runs/of us/checkpoints"
    local = {"TRAINING_PINS": f"{tmp_path}/pins", "TRAINING_CHECKPOINTS": f"{tmp_path}/saved"}
    assert run_folder.pins("steps/resolve/record", local) == f"{tmp_path}/pins"
    assert run_folder.checkpoints("steps/train/checkpoints", local) == f"{tmp_path}/saved"
    assert run_folder.checkpoints("steps/train/checkpoints", {}) == ""
    assert run_folder.pins(tmp_path / "record", {}) == f"{tmp_path}/pins"


def test_the_folder_of_pins_has_their_name_wherever_it_is(tmp_path):
    assert run_folder.pins_at("gs://bucket/mine/") == "gs://bucket/mine/pins"
    assert run_folder.pins_at(f"{tmp_path}/pins/") == f"{tmp_path}/pins"
