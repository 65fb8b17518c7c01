"""The loopback project as infra/ makes one: for `python -m tests.loopback`, and the pages that were written with it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cloud import Cloud

_L4 = "custom_model_training_nvidia_l4_gpus"


def furnish(cloud: "Cloud") -> None:
    """Adds the bucket, the repositories, the runner with its roles, and a quota of L4, which is 0 in a new project."""
    project, region, bucket = cloud.project, cloud.region, f"{cloud.project}-pipelines"
    runner = f"pipelines-runner@{project}.iam.gserviceaccount.com"
    repositories = f"projects/{project}/locations/{region}/repositories"
    cloud.accounts.add(runner)
    cloud.artifacts.add_repository(f"{repositories}/pipelines-images", "DOCKER")
    cloud.artifacts.add_repository(f"{repositories}/pipelines-templates", "KFP")
    access = {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"}
    cloud.storage.buckets[bucket] = cloud.storage.described() | {"iamConfiguration": access}
    member = [f"serviceAccount:{runner}"]
    cloud.storage.bindings[bucket] = {"roles/storage.objectUser": member}
    cloud.policies.bindings |= {
        f"projects/{project}": {"roles/aiplatform.user": member, "roles/logging.logWriter": member},
        f"{repositories}/pipelines-images": {"roles/artifactregistry.reader": member},
        f"projects/{project}/serviceAccounts/{runner}": {"roles/iam.serviceAccountUser": member},
    }
    l4 = f"aiplatform.googleapis.com/{_L4}"
    cloud.quotas.set("CustomModelTrainingL4GPUsPerProjectPerRegion", 8, metric=l4, region=region)
    _play(cloud)


def _play(cloud: "Cloud") -> None:
    """How long the steps of the shipped pipeline take, and what they report."""
    cloud.script("prepare", seconds=190)
    cloud.script("train", seconds=2700)
    cloud.script("evaluate", seconds=400, metrics={"auc": 0.778, "log_loss": 0.5051, "baseline_log_loss": 0.5125})
    cloud.script("decide", seconds=130, outputs={"Output": "promote"})
