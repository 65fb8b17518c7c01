"""A project in which everything is fine, for tests that break one thing each."""

import pytest

from tools.emulator.cloud import Cloud, status
from vgp.check.check_finding import StepRow
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Settings, load
from vgp.vertex.preflight import preflight

DIGEST = "sha256:" + "0123456789abcdef" * 4
RUNNER = "pipelines@test-project.iam.gserviceaccount.com"
BUILDER = "builder@test-project.iam.gserviceaccount.com"
AGENT = "service-123456789012@gcp-sa-aiplatform.iam.gserviceaccount.com"
IMAGE = "us-central1-docker.pkg.dev/test-project/images/training"
KEY = "projects/test-project/locations/us-central1/keyRings/ring/cryptoKeys/key"
SECRET = "projects/test-project/secrets/runs-webhook"
IMAGES = "projects/test-project/locations/us-central1/repositories/images"
ACCOUNT = f"projects/test-project/serviceAccounts/{RUNNER}"
VERTEX = "aiplatform.googleapis.com"
L4, T4 = "custom_model_training_nvidia_l4_gpus", "custom_model_training_nvidia_t4_gpus"
CPUS = "custom_model_training_cpus"

#: What the shipped pipeline asks for by default.
STEPS = (
    StepRow("prepare", "e2-standard-4", None, 0, 1, "STANDARD", 0.3, "us-central1"),
    StepRow("train", "g2-standard-24", "NVIDIA_L4", 2, 1, "STANDARD", 2.3, "us-central1"),
    StepRow("evaluate", "n1-standard-8", "NVIDIA_TESLA_T4", 1, 1, "STANDARD", 0.8, "us-central1"),
    StepRow("decide", "e2-standard-4", None, 0, 1, "STANDARD", 0.2, "us-central1"),
)


def chain(*names):
    """A spec of steps that wait for one another."""
    tasks = {
        name: {"componentRef": {"name": "comp"}, "dependentTasks": list(names[:at])} for at, name in enumerate(names)
    }
    return {"root": {"dag": {"tasks": tasks}}, "components": {"comp": {"executorLabel": "exec"}}}


class World:
    """The project, and what preflight finds in it."""

    def __init__(self, cloud: Cloud, **settings: object):
        self.cloud = cloud
        self.own = settings
        self.steps, self.spec = STEPS, chain(*(row.step for row in STEPS))

    def settings(self) -> Settings:
        given = {key: value for key, value in self.own.items() if value is not None}
        return load(overrides=given)

    def quota(self, metric: str, value: int, **dimensions: str) -> None:
        """Sets the limit of a quota; with no region for all regions that have none of their own."""
        full = f"{VERTEX}/{metric}"
        known = [quota_id for (_, quota_id), info in self.cloud.quotas.infos.items() if info.metric == full]
        self.cloud.quotas.set(known[0] if known else f"Id-of-{metric}", value, metric=full, **dimensions)

    def grant(self, resource: str, role: str, *members: str) -> None:
        self.cloud.policies.bindings.setdefault(resource, {})[role] = list(members)

    def forbid(self, method: str, permission: str) -> None:
        """The caller lacks the permission for the method."""
        metadata = {"permission": permission, "resource": "it"}
        message = f"Permission '{permission}' denied on resource 'it' (or it may not exist)."
        denied = status(403, message, reason="IAM_PERMISSION_DENIED", domain="iam.googleapis.com", metadata=metadata)
        self.cloud.fail(method, denied, forever=True)

    def calls(self):
        """The methods called so far, without those that give tokens."""
        called = [call.method for call in self.cloud.requests]
        return [method for method in called if not method.startswith(("oauth2.", "iamcredentials."))]

    def look(self):
        return preflight(self.settings(), PipelineSpec(self.spec), self.steps)

    def found(self):
        """What is not fine, but for builds: the tests take from the runner what the builder shares."""
        return [each for each in self.everything() if not each.check.startswith("builds.")]

    def everything(self):
        """What is not fine."""
        return [each for each in self.look() if each.level in ("warning", "error", "unknown")]

    def only(self, check: str, level: str):
        """The one thing that is not fine."""
        found = self.found()
        assert [(each.check, each.level) for each in found] == [(check, level)], found
        return found[0]


@pytest.fixture
def world(cloud, monkeypatch):
    """Everything fine: no finding of this project is a warning, an error or unknown."""
    made = World(cloud, image=f"{IMAGE}@{DIGEST}", service_account=RUNNER, encryption_key=KEY,
                 build_service_account=BUILDER,
                 network="projects/123456789012/global/networks/default")  # fmt: skip
    cloud.artifacts.add_image(f"{IMAGE}@{DIGEST}", "v1")
    cloud.services.enabled |= {"servicenetworking.googleapis.com", "secretmanager.googleapis.com"}
    monkeypatch.setenv("PIPELINES_NOTIFY__WEBHOOK", f"{SECRET}/versions/3")
    cloud.secrets.versions["runs-webhook"] = ["https://example.com"] * 3
    made.grant(SECRET, "roles/secretmanager.secretAccessor", f"serviceAccount:{RUNNER}")
    access = {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"}}
    cloud.storage.buckets["test-bucket"].update(access)
    cloud.accounts.add(BUILDER)
    builder = f"serviceAccount:{BUILDER}"
    both = [f"serviceAccount:{RUNNER}", builder]
    cloud.storage.bindings["test-bucket"] = {"roles/storage.objectUser": both, "roles/storage.bucketViewer": [builder]}
    made.grant("projects/test-project", "roles/aiplatform.user", f"serviceAccount:{RUNNER}")
    made.grant("projects/test-project", "roles/logging.logWriter", *both)
    made.grant(IMAGES, "roles/artifactregistry.reader", f"serviceAccount:{RUNNER}")
    made.grant(IMAGES, "roles/artifactregistry.writer", builder)
    made.grant(ACCOUNT, "roles/iam.serviceAccountUser", f"serviceAccount:{RUNNER}")
    made.grant(KEY, "roles/cloudkms.cryptoKeyEncrypterDecrypter", f"serviceAccount:{AGENT}")
    cloud.quotas.set("CustomModelTrainingL4GPUsPerProjectPerRegion", 8, metric=f"{VERTEX}/{L4}", region="us-central1")
    made.quota(T4, 8, region="us-central1")
    made.quota(CPUS, 2200, region="us-central1")
    return made
