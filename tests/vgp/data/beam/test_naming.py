"""Names of Dataflow jobs."""

from vgp.base.storage.storage import File
from vgp.data import tasks
from vgp.data.beam.dataflow import job_name


def test_the_name_follows_from_run_step_and_data_and_not_from_the_attempt():
    def name(run="run-1", step=1111111, inputs=(), image="image@sha256:1", **options):
        output = f"gs://test-bucket/1234/{run}/prepare_-{step}/data"
        return job_name("letters:Letters", tasks.load("letters:Letters", options), inputs, output, image)

    assert name() == name(step=2222222) and name().startswith("run-1-prepare-")
    of_file, of_other = ([File("gs://b/words.txt", 120, generation)] for generation in (1, 2))
    others = [
        name(run="run-2"),
        name(shards=4),
        name(image="image@sha256:2"),
        name(inputs=of_file),
        name(inputs=of_other),
    ]
    assert len({name(), *others}) == 6
