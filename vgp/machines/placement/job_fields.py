"""The fields of a custom job around its machine: boot disk, reservation, durations; and the setting for each field."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vgp.base.text.figures import join_words
from vgp.base.text.nearest import did_you_mean, nearest
from vgp.machines.catalog.catalog import Machine
from vgp.machines.placement.machine_rules import Problem

DISK_TYPES = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
MIN_DISK_GB, MAX_DISK_GB, DEFAULT_DISK_GB = 100, 64_000, 100
MAX_TIMEOUT_S = 604_800
AFFINITIES = ("TYPE_UNSPECIFIED", "NO_RESERVATION", "ANY_RESERVATION", "SPECIFIC_RESERVATION")
RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_RESERVATION = re.compile(r"projects/[^/]+/zones/([^/]+)/reservations/[^/]+")

#: https://horovod.readthedocs.io/en/stable/running_include.html: its launcher needs SSH without a password.
HOROVOD = (
    "horovod.torch use torch.distributed with DistributedDataParallel, for horovod.tensorflow "
    "MultiWorkerMirroredStrategy"
)


def default_disk(machine: Machine) -> tuple[str, int]:
    """Returns type and GB of the machine's default boot disk."""
    return machine.default_boot_disk, DEFAULT_DISK_GB


def disk(machine: Machine | None, disk_type: str | None, size_gb: int | None) -> Iterator[Problem]:
    """Yields the problems of a boot disk's type and size; None stands for the API's default."""
    if size_gb is not None and not MIN_DISK_GB <= size_gb <= MAX_DISK_GB:
        text = f"A boot disk of {size_gb} GB is not possible: {MIN_DISK_GB} to {MAX_DISK_GB} GB."
        near_gb = MIN_DISK_GB if size_gb < MIN_DISK_GB else MAX_DISK_GB
        fix, size = f"The default is {DEFAULT_DISK_GB} GB.", (("bootDiskSizeGb", near_gb),)
        yield Problem("GPU012", "bootDiskSizeGb", text, fix, nearest=size)
    if disk_type and disk_type not in DISK_TYPES:
        near = machine.default_boot_disk if machine else nearest(disk_type, DISK_TYPES, 0.7) or "pd-ssd"
        text = f"No boot disk type of training is called '{disk_type}'."
        yield Problem("GPU012", "bootDiskType", text, f"Nearest: {near}.", nearest=(("bootDiskType", near),))
    elif machine and disk_type and disk_type not in machine.boot_disks:
        fix = f"Set bootDiskType to {machine.default_boot_disk}."
        if disk_type in machine.unconfirmed_boot_disks:
            text = f"No page confirms {disk_type} as boot disk of {machine.name}."
            yield Problem("GPU012", "bootDiskType", text, fix, severity="warning")
        else:
            text = f"{machine.name} takes {join_words(machine.boot_disks)} as boot disk, not {disk_type}."
            change = (("bootDiskType", machine.default_boot_disk),)
            yield Problem("GPU012", "bootDiskType", text, fix, nearest=change)


def reservation(
    affinity: str, key: str | None, values: Sequence[str] | None, strategy: str, regions: Sequence[str]
) -> Iterator[Problem]:
    """Yields the problems of a reservationAffinity. `key`, `values` None: missing; empty `regions`: any."""
    name, drop = "reservationAffinity", "Remove the reservation, or set strategy STANDARD."
    if affinity not in AFFINITIES:
        text = f"No reservation affinity is called '{affinity}'."
        fix = did_you_mean(affinity, AFFINITIES, f"Did you mean {AFFINITIES[3]}?", cutoff=0.4)
        yield Problem("GPU013", f"{name}.reservationAffinityType", text, fix)
        return
    if strategy == "FLEX_START" and affinity in AFFINITIES[2:]:
        yield Problem("GPU013", name, "FLEX_START takes no reservation.", drop)
    if strategy in ("SPOT", "LOW_COST") and affinity in AFFINITIES[2:]:
        yield Problem("GPU013", name, "Spot machines cannot come from a reservation.", drop)
    if affinity == "SPECIFIC_RESERVATION":
        yield from _check_reservation_values(name, key, values, regions)
    elif key or values:
        text = f"key and values belong to SPECIFIC_RESERVATION, not to {affinity}."
        yield Problem("GPU013", name, text, "Set reservationAffinityType to SPECIFIC_RESERVATION.")


def _check_reservation_values(
    name: str, key: str | None, values: Sequence[str] | None, regions: Sequence[str]
) -> Iterator[Problem]:
    form = "projects/PROJECT/zones/ZONE/reservations/NAME."
    if key != RESERVATION_KEY:
        text = f"SPECIFIC_RESERVATION needs the key {RESERVATION_KEY}, not '{key or ''}'."
        yield Problem("GPU013", f"{name}.key", text, f"Set key to {RESERVATION_KEY}.")
    elif not values or len(values) != 1:
        text = f"SPECIFIC_RESERVATION needs exactly one value; {len(values or ())} are given."
        yield Problem("GPU013", f"{name}.values", text, form)
    elif not (match := _RESERVATION.fullmatch(values[0])):
        yield Problem("GPU013", f"{name}.values", f"'{values[0]}' is not the name of a reservation.", form)
    elif regions and (home := match.group(1).rsplit("-", 1)[0]) not in regions:
        text = f"The reservation is in {match.group(1)}, the job in {join_words(regions)}."
        yield Problem("GPU013", f"{name}.values", text, f"Run the job in {home}.")


def scheduling(strategy: str, timeout_s: float | None, max_wait_s: float | None) -> Iterator[Problem]:
    """Yields the problems of timeout and waiting time with the strategy; None is the API's default."""
    if timeout_s is not None and timeout_s <= 0:
        yield Problem("GPU028", "timeout", "The timeout is not above zero.", "Set seconds, for example 86400s.")
    if strategy == "FLEX_START" and timeout_s is not None and timeout_s > MAX_TIMEOUT_S:
        text = f"FLEX_START runs for at most 7 days ({MAX_TIMEOUT_S} s); the timeout is {timeout_s:.0f} s."
        yield Problem("GPU028", "timeout", text, f"Set timeout to {MAX_TIMEOUT_S}s.")
    if max_wait_s is not None and max_wait_s < 0:
        yield Problem("GPU028", "maxWaitDuration", "The waiting time is below zero.", "Use 0s to wait without limit.")
    # Clients send 24 h for every strategy, so only another value shows intent.
    if strategy != "FLEX_START" and max_wait_s not in (None, 0, 86_400):
        text = f"maxWaitDuration has no effect with {strategy}."
        yield Problem("GPU028", "maxWaitDuration", text, "It is for FLEX_START.", severity="warning")


_DURATION = re.compile(r"\s*(\d+(?:\.\d{1,9})?)\s*([smhd]?)\s*")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def duration_s(value: object, *, units: str = "s") -> float | None:
    """Returns the seconds of '3600s' (the API's form) or, with units='smhd', also of '24h' and numbers; None if
    invalid."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if units != "s" else None
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or (units == "s" and match.group(2) != "s") or match.group(2) not in units:
        return None
    return float(match.group(1)) * _SECONDS[match.group(2)]


def check_duration(value: str | int | None) -> str | int | None:
    """Returns a duration of pipelines.toml unchanged, after checking it.

    Raises:
        ValueError: the value is not a duration.
    """
    if value is not None and duration_s(value, units="smhd") is None:
        raise ValueError(f"'{value}' is not a duration. Write 24h, 90m or 3600s.")
    return value


@dataclass(frozen=True)
class FieldSource:
    """The origin of a field of a custom job: keys of the step, a part of the library that sets it, or the reason why no
    setting exists."""

    keys: tuple[str, ...] = ()
    by_itself: str = ""
    refused: str = ""


def _keys(*names: str) -> FieldSource:
    return FieldSource(keys=names)


def _set_by_command(who: str) -> FieldSource:
    return FieldSource(by_itself=who)


def _refuse(why: str) -> FieldSource:
    return FieldSource(refused=why)


def _add_prefix(way: str, fields: dict[str, FieldSource]) -> dict[str, FieldSource]:
    return {f"{way}.{name}": known for name, known in fields.items()}


#: In the order of Google's page; inner fields by their path.
PUBLISHED: dict[str, FieldSource] = {
    "persistent_resource_id": _keys("persistent_resource"),
    **_add_prefix("worker_pool_specs.container_spec", {
        "image_uri": _keys("image"), "command": _keys("command", "launch"), "args": _keys("command"),
        "env.name": _keys("env"), "env.value": _keys("env"),
    }),
    **_add_prefix("worker_pool_specs.python_package_spec", dict.fromkeys(
        ("executor_image_uri", "package_uris", "python_module", "args", "env.name", "env.value"),
        _refuse("a step is a container, of image and command: put the package into the image"),
    )),
    **_add_prefix("worker_pool_specs.machine_spec", {
        "machine_type": _keys("machine", "accelerator", "min_memory_gb", "min_vcpu", "min_gpu_memory_gb"),
        "accelerator_type": _keys("accelerator"), "accelerator_count": _keys("count"),
        "gpu_partition_size": _refuse(
            "each training process has a whole GPU; Google's page on training machines lists no GPU partitions"
        ),
        "tpu_topology": _refuse("training uses PyTorch on GPUs, not TPUs"),
        **_add_prefix("reservation_affinity", dict.fromkeys(
            ("reservation_affinity_type", "key", "values"), _keys("reservation")
        )),
    }),
    "worker_pool_specs.replica_count": _keys("nodes", "reduction_server", "parameter_server"),
    **_add_prefix("worker_pool_specs.nfs_mounts", dict.fromkeys(("server", "path", "mount_point"), _keys("nfs"))),
    **_add_prefix("worker_pool_specs.lustre_mounts", dict.fromkeys(
        ("instance_ip", "volume_handle", "filesystem", "mount_point"), _keys("lustre")
    )),
    "worker_pool_specs.disk_spec.boot_disk_type": _keys("boot_disk_type"),
    "worker_pool_specs.disk_spec.boot_disk_size_gb": _keys("boot_disk_gb"),
    **_add_prefix("scheduling", {
        "timeout": _keys("timeout"), "restart_job_on_worker_restart": _keys("restart_job_on_worker_restart"),
        "strategy": _keys("strategy"), "disable_retries": _keys("disable_retries"),
        "max_wait_duration": _keys("max_wait"),
    }),
    "service_account": _set_by_command("jobs of a run have the service_account of the top of the file"),
    "network": _set_by_command("jobs of a run have the network of the top of the file"),
    "reserved_ip_ranges": _keys("reserved_ip_ranges"),
    **_add_prefix("psc_interface_config", dict.fromkeys((
        "network_attachment", "dns_peering_configs.domain", "dns_peering_configs.target_project",
        "dns_peering_configs.target_network",
    ), _keys("private_service_connect"))),
    "base_output_directory.output_uri_prefix": _keys("base_output_directory", "tensorboard"),
    "protected_artifact_location_id": _keys("protected_artifact_location_id"),
    "tensorboard": _keys("tensorboard"),
    "enable_web_access": _keys("web_access"), "enable_dashboard_access": _keys("dashboard_access"),
    "experiment": _refuse("the run itself is listed in the experiment of the top of the file, with what it trained"),
    "experiment_run": _refuse("the run itself is listed in the experiment, and a job in it would be listed twice"),
    "models": _refuse("only jobs that Google provides take models; a step gets a model as its input"),
}  # fmt: skip


def explain_field(name: str) -> str:
    """Explains the setting of a field by Google's name, in snake_case or camelCase; empty for other names."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    paths = [path for path in PUBLISHED if snake in path.split(".")]
    if not paths:
        return ""
    known = [PUBLISHED[path] for path in paths]
    reason = next((each.refused or each.by_itself for each in known if not each.keys), "")
    if reason:
        return f"{name} cannot be set for a step: {reason}."
    keys = dict.fromkeys(key for each in known for key in each.keys)
    return f"{name} is Google's name; the key here is {' and '.join(keys)}."
