"""Sets up the loopback project as infra/ does, for `python -m tools.emulator` and the tests of pages."""

import zipfile
from typing import TYPE_CHECKING

from .acceptance import add_scripts

if TYPE_CHECKING:
    from .cloud import Cloud

#: Quotas of a new project: https://cloud.google.com/vertex-ai/docs/quotas
QUOTAS = {
    "CustomModelTrainingCPUsPerProjectPerRegion": ("custom_model_training_cpus", 2200),
    "CustomModelTrainingT4GPUsPerProjectPerRegion": ("custom_model_training_nvidia_t4_gpus", 12),
    "CustomModelTrainingL4GPUsPerProjectPerRegion": ("custom_model_training_nvidia_l4_gpus", 0),
}


def furnish(cloud: "Cloud") -> None:
    """Adds the bucket, the repositories, runner and builder with their roles, and the quotas of a new project."""
    project, region, bucket = cloud.project, cloud.region, f"{cloud.project}-pipelines"
    runner, builder = (f"pipelines-{name}@{project}.iam.gserviceaccount.com" for name in ("runner", "builder"))
    repositories = f"projects/{project}/locations/{region}/repositories"
    cloud.accounts.add(runner)
    cloud.accounts.add(builder)
    cloud.artifacts.add_repository(f"{repositories}/pipelines-images", "DOCKER")
    cloud.artifacts.add_repository(f"{repositories}/pipelines-templates", "KFP")
    access = {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"}
    cloud.storage.buckets[bucket] = cloud.storage.describe_bucket() | {"iamConfiguration": access}
    member, building = [f"serviceAccount:{runner}"], [f"serviceAccount:{builder}"]
    below = f"resource.name.startsWith('projects/_/buckets/{bucket}/objects/builds/')"
    cloud.storage.bindings[bucket] = {
        "roles/storage.objectUser": member,
        "roles/storage.bucketViewer": member + building,
    }
    cloud.storage.conditional[bucket] = [
        {
            "role": "roles/storage.objectUser",
            "members": building,
            "condition": {"title": "builds-only", "expression": below},
        }
    ]
    cloud.policies.bindings |= {
        f"projects/{project}": {
            "roles/aiplatform.user": member,
            "roles/logging.logWriter": member + building,
            "roles/logging.viewer": member,
        },
        f"{repositories}/pipelines-images": {
            "roles/artifactregistry.reader": member,
            "roles/artifactregistry.writer": building,
        },
        f"{repositories}/pipelines-templates": {"roles/artifactregistry.reader": member},
        f"projects/{project}/serviceAccounts/{runner}": {"roles/iam.serviceAccountUser": member},
    }
    for quota_id, (metric, value) in QUOTAS.items():
        cloud.quotas.set(quota_id, value, metric=f"aiplatform.googleapis.com/{metric}", region=region)
    _play(cloud)
    add_scripts(cloud)


def _play(cloud: "Cloud") -> None:
    """Sets the durations and results of the steps of the shipped pipeline."""
    cloud.script("prepare", seconds=190)
    cloud.script("train", seconds=2700)
    cloud.script("evaluate", seconds=400, metrics={"auc": 0.778, "log_loss": 0.5051, "baseline_log_loss": 0.5125})
    cloud.script("decide", seconds=130, outputs={"Output": "promote"})


def add_flights(cloud: "Cloud") -> None:
    """Adds the data of the task `flights` as a table of BigQuery: bq://PROJECT.flights.rows."""
    import pyarrow as pa
    from pyarrow import csv

    from training.tasks.flights import Flights

    task = Flights()
    kinds = csv.ConvertOptions(
        column_types={field.name: field.type for field in task.schema},
        include_columns=[field.name for field in task.schema],
    )
    with zipfile.ZipFile(task.default_data()) as archive:
        rows = csv.read_csv(pa.BufferReader(archive.read("flights.csv")), convert_options=kinds)
    cloud.bigquery.add_dataset("flights")
    cloud.bigquery.write(f"{cloud.project}.flights.rows", rows)
