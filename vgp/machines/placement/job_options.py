"""The options of a custom job besides its machines: fields of Google's CustomJobSpec that are passed through.

[steps.train]
web_access = true
tensorboard = "projects/my-project/locations/us-central1/tensorboards/123"

Rungs of a ladder have them too. The key of each field, and the fields without one: job_fields.py.
https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec, of google-cloud-aiplatform 1.165.1.
"""

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from vgp.base.documents.json_text import JsonObject
from vgp.base.text import google_names
from vgp.base.text.google_names import (
    RFC1035,
    check_persistent_resource,
    network_attachment_region,
    pattern_check,
    tensorboard_region,
)

#: Default folder of a step's TensorBoard logs, separate for every run. Vertex AI replaces the placeholder.
LOGS = "{{$.pipeline_root}}/tensorboard/{{$.pipeline_job_name}}"
_MOUNT = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")


def _validate_name(rule: Callable[[str], str]) -> AfterValidator:
    """Returns a validator that accepts names by the rule, and leaves them unchanged."""
    return AfterValidator(lambda value: (rule(value), value)[1])


_domain = pattern_check(
    r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+",
    "'{value}' is no domain that can be peered: it ends with a dot, like my-internal.corp.",
)
_name = pattern_check(
    RFC1035, "'{value}' is not a valid name: use at most 63 lower-case letters, digits and -, a letter first."
)
_path = pattern_check("/(?s:.)*", "'{value}': a path that the server exports starts with /.")


def _check_folder(value: str) -> str:
    google_names.split_uri(value)
    return value.rstrip("/")


def _mount(value: str) -> str:
    if not _MOUNT.fullmatch(value) or ".." in value.split("/"):
        raise ValueError(
            f"'{value}' is not a mount folder: use a relative path, for example data; Vertex AI mounts it below /mnt."
        )
    return value


def none_if_empty(value: object) -> Any:
    """Returns None for an empty text, which removes a value from a place with lower precedence."""
    return None if value == "" else value


_Empty = BeforeValidator(none_if_empty)
_Resource = Annotated[Annotated[str, _validate_name(check_persistent_resource)] | None, _Empty]
_Tensorboard = Annotated[Annotated[str, _validate_name(tensorboard_region)] | None, _Empty]
_Folder = Annotated[Annotated[str, AfterValidator(_check_folder)] | None, _Empty]
_Region = Annotated[Annotated[str, AfterValidator(google_names.check_region)] | None, _Empty]


class Strict(BaseModel):
    """A frozen table of pipelines.toml without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DnsPeering(Strict):
    """A domain whose names are resolved in a network of yours."""

    #: DNS suffix, such as `corp.`
    domain: Annotated[str, AfterValidator(_domain)]
    #: Project of the network.
    project: Annotated[str, AfterValidator(google_names.check_project)]
    #: Name of the network.
    network: Annotated[str, AfterValidator(_name)]


class PrivateServiceConnect(Strict):
    """A network interface of the job in the user's network:
    https://cloud.google.com/vertex-ai/docs/training/psc-i-egress"""

    #: `projects/PROJECT/regions/REGION/networkAttachments/NAME`.
    network_attachment: Annotated[str, _validate_name(network_attachment_region)]
    #: Domains that your network resolves: a list of `{domain, project, network}`.
    dns_peering: tuple[DnsPeering, ...] = ()

    def as_field(self) -> JsonObject:
        """Returns PscInterfaceConfig in snake_case."""
        peerings = [
            {"domain": each.domain, "target_project": each.project, "target_network": each.network}
            for each in self.dns_peering
        ]
        attached: JsonObject = {"network_attachment": self.network_attachment}
        return attached | ({"dns_peering_configs": peerings} if peerings else {})


class Nfs(Strict):
    """A share below /mnt/nfs: https://cloud.google.com/vertex-ai/docs/training/train-nfs-share"""

    server: str = Field(min_length=1)
    path: Annotated[str, AfterValidator(_path)]
    mount: Annotated[str, AfterValidator(_mount)]

    def as_field(self) -> JsonObject:
        return {"server": self.server, "path": self.path, "mount_point": self.mount}


class Lustre(Strict):
    """A file system below /mnt/lustre: https://cloud.google.com/managed-lustre/docs"""

    instance_ip: str = Field(min_length=1)
    volume_handle: str = Field(min_length=1)
    filesystem: str = Field(min_length=1)
    mount: Annotated[str, AfterValidator(_mount)]

    def as_field(self) -> JsonObject:
        return {**self.model_dump(exclude={"mount"}), "mount_point": self.mount}


class JobOptions(Strict):
    """Fields of a custom job. With none of them a job is as Google makes it."""

    #: Id of existing machines in the job's project and region. Excludes `strategy` and `reservation`.
    persistent_resource: _Resource = None
    #: `projects/PROJECT/locations/REGION/tensorboards/NUMBER` in the job's region, for curves during the training.
    #: Needs `service_account`.
    tensorboard: _Tensorboard = None
    #: `gs://BUCKET/FOLDER`, the prefix of AIP_MODEL_DIR, AIP_CHECKPOINT_DIR and AIP_TENSORBOARD_LOG_DIR.
    base_output_directory: _Folder = None
    #: Whether `vgp shell RUN STEP` may open a shell on every machine of the job.
    web_access: bool | None = None
    #: Whether the browser reaches a dashboard that the chief's container serves.
    dashboard_access: bool | None = None
    #: Interface in a network of your own. Excludes `network`.
    private_service_connect: PrivateServiceConnect | None = None
    #: Names of address ranges of `network` for the job's machines.
    reserved_ip_ranges: tuple[Annotated[str, AfterValidator(_name)], ...] = ()
    #: Mounts below `/mnt/nfs`: a list of `{server, path, mount}`. Needs `network` or `private_service_connect`.
    nfs: tuple[Nfs, ...] = ()
    #: Mounts below `/mnt/lustre`: a list of `{instance_ip, volume_handle, filesystem, mount}`.
    lustre: tuple[Lustre, ...] = ()
    #: Whether the restart of one machine restarts all.
    restart_job_on_worker_restart: bool | None = None
    #: Whether Vertex AI restarts neither machines nor the job. Excludes `restart_job_on_worker_restart`.
    disable_retries: bool | None = None
    #: Region for protected artifacts, if not the job's.
    protected_artifact_location_id: _Region = None

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.restart_job_on_worker_restart and self.disable_retries:
            text = (
                "restart_job_on_worker_restart and disable_retries exclude each other: with disable_retries Vertex AI"
            )
            raise ValueError(f"{text} restarts nothing. Keep one of them.")
        return self

    @classmethod
    def copy_from(cls, options: "JobOptions") -> "JobOptions":
        """Returns only the options of a larger request."""
        return JobOptions(**{name: getattr(options, name) for name in JobOptions.model_fields})

    def list_set_keys(self) -> tuple[str, ...]:
        """Returns the names of the keys that are set."""
        return tuple(name for name in JobOptions.model_fields if getattr(self, name))

    def places(self) -> Iterator[tuple[str, str]]:
        """Yields key and region of the resources that must be in the job's region."""
        if self.tensorboard:
            yield "tensorboard", tensorboard_region(self.tensorboard)
        if self.private_service_connect:
            yield "private_service_connect", network_attachment_region(self.private_service_connect.network_attachment)

    def spec(self) -> JsonObject:
        """Returns the options as CustomJobSpec fields in snake_case, without those of scheduling and of the pools."""
        directory = self.base_output_directory or (LOGS if self.tensorboard else None)
        connect = self.private_service_connect
        values = {
            "persistent_resource_id": self.persistent_resource,
            "tensorboard": self.tensorboard,
            "base_output_directory": {"output_uri_prefix": directory} if directory else None,
            "enable_web_access": self.web_access,
            "enable_dashboard_access": self.dashboard_access,
            "psc_interface_config": connect.as_field() if connect else None,
            "reserved_ip_ranges": list(self.reserved_ip_ranges),
            "protected_artifact_location_id": self.protected_artifact_location_id,
        }
        return {name: value for name, value in values.items() if value}

    def scheduling(self) -> dict[str, bool]:
        names = ("restart_job_on_worker_restart", "disable_retries")
        return {name: True for name in names if getattr(self, name)}

    def pool(self) -> JsonObject:
        """Returns the fields that go into every worker pool."""
        mounts = {
            "nfs_mounts": [each.as_field() for each in self.nfs],
            "lustre_mounts": [each.as_field() for each in self.lustre],
        }
        return {name: given for name, given in mounts.items() if given}
