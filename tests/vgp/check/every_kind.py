"""A pipeline with every kind of step, compiled by kfp and GCPC; also what benchmarks.checking measures."""

import json
import warnings
from pathlib import Path


def compiled(folder: Path) -> tuple[Path, Path]:
    """Writes it as JSON and as YAML."""
    from google_cloud_pipeline_components.types import artifact_types
    from google_cloud_pipeline_components.v1.batch_predict_job import ModelBatchPredictOp
    from google_cloud_pipeline_components.v1.custom_job import (
        CustomTrainingJobOp,
        create_custom_training_job_from_component,
    )
    from google_cloud_pipeline_components.v1.endpoint import EndpointCreateOp, ModelDeployOp
    from google_cloud_pipeline_components.v1.hyperparameter_tuning_job import HyperparameterTuningJobRunOp
    from kfp import compiler, dsl

    image = "us-docker.pkg.dev/p/r/i:1"

    @dsl.component(base_image=image)
    def plain(x: int) -> int:
        return x

    @dsl.component(base_image=image)
    def train(x: int) -> int:
        return x

    wrapped = create_custom_training_job_from_component(
        train, machine_type="g2-standard-24", accelerator_type="NVIDIA_L4", accelerator_count=2, replica_count=3,
        strategy="SPOT", timeout="3600s", env=[{"name": "A", "value": "b"}],
    )  # fmt: skip

    def pool(machine, accelerator, count):
        spec = {"machine_type": machine, "accelerator_type": accelerator, "accelerator_count": count}
        return [{"machine_spec": spec, "replica_count": 1, "container_spec": {"image_uri": image}}]

    @dsl.pipeline(name="all-kinds")
    def all_kinds(
        count: int,
        gpu: str = "NVIDIA_L4",
        machine: str = "g2-standard-8",
        pools: list = [{"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}],  # noqa: B006
    ):
        limits = plain(x=1).set_accelerator_type("NVIDIA_TESLA_T4").set_accelerator_limit(1)
        limits.set_cpu_limit("4").set_memory_limit("15G").set_display_name("limits")
        wrong = plain(x=2).set_accelerator_type("NVIDIA_TESLA_T4").set_accelerator_limit(8)
        plain(x=3).set_accelerator_type(gpu).set_accelerator_limit(2)
        plain(x=4).set_accelerator_type(gpu).set_accelerator_limit(count)
        wrapped(x=wrong.output).set_env_variable("LOST", "1")
        CustomTrainingJobOp(display_name="a", worker_pool_specs=pool(machine, gpu, 1))
        CustomTrainingJobOp(display_name="b", worker_pool_specs=pool("n1-standard-4", "NVIDIA_TESLA_V100", 3))
        CustomTrainingJobOp(display_name="c", worker_pool_specs=pools)
        HyperparameterTuningJobRunOp(
            display_name="h", worker_pool_specs=pool("n1-standard-4", "NVIDIA_TESLA_T4", 1), max_trial_count=4,
            study_spec_metrics=[{"metric_id": "a", "goal": "MAXIMIZE"}], study_spec_parameters=[],
            parallel_trial_count=2, base_output_directory="gs://b",
        )  # fmt: skip
        uri = "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1/models/1"
        model = dsl.importer(
            artifact_uri=uri, artifact_class=artifact_types.VertexModel, metadata={"resourceName": "x"}
        )
        ModelBatchPredictOp(
            job_display_name="b", model=model.output, gcs_source_uris=["gs://a"], machine_type="n1-standard-4",
            gcs_destination_output_uri_prefix="gs://b", accelerator_type="NVIDIA_TESLA_T4", accelerator_count=8,
        )  # fmt: skip
        endpoint = EndpointCreateOp(display_name="e")
        ModelDeployOp(
            model=model.output, endpoint=endpoint.outputs["endpoint"], dedicated_resources_min_replica_count=1,
            dedicated_resources_machine_type="g2-standard-12", dedicated_resources_accelerator_type="NVIDIA_L4",
            dedicated_resources_accelerator_count=1,
        )  # fmt: skip
        with dsl.ParallelFor(["NVIDIA_L4", "NVIDIA_TESLA_T4"]) as each:
            plain(x=5).set_accelerator_type(each).set_accelerator_limit(1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiler.Compiler().compile(all_kinds, str(folder / "p.json"))
        compiler.Compiler().compile(all_kinds, str(folder / "p.yaml"))
    assert json.loads((folder / "p.json").read_text())
    return folder / "p.json", folder / "p.yaml"
