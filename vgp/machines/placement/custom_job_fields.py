"""Every published field of CustomJobSpec, and what sets it: a key of [steps.NAME], the run by itself, or nothing.

A test walks Google's message (google.cloud.aiplatform_v1, 1.165.1), and fails on a field that stands not here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """What sets a field: keys of the step, or else who does it by itself, or else why it cannot be set."""

    keys: tuple[str, ...] = ()
    by_itself: str = ""
    refused: str = ""


def _keys(*names: str) -> Known:
    return Known(keys=names)


def _itself(who: str) -> Known:
    return Known(by_itself=who)


def _refused(why: str) -> Known:
    return Known(refused=why)


_PACKAGE = _refused("a step is a container, of image and command: put the package into the image")
_RESERVATION = _keys("reservation")
_MACHINE = _keys("machine", "accelerator", "min_memory_gb", "min_vcpu", "min_gpu_memory_gb")

#: In the order of Google's page; inner fields by the way to them.
FIELDS: dict[str, Known] = {
    "persistent_resource_id": _keys("persistent_resource"),
    "worker_pool_specs.container_spec.image_uri": _keys("image"),
    "worker_pool_specs.container_spec.command": _keys("command", "launch"),
    "worker_pool_specs.container_spec.args": _keys("command"),
    "worker_pool_specs.container_spec.env.name": _keys("env"),
    "worker_pool_specs.container_spec.env.value": _keys("env"),
    "worker_pool_specs.python_package_spec.executor_image_uri": _PACKAGE,
    "worker_pool_specs.python_package_spec.package_uris": _PACKAGE,
    "worker_pool_specs.python_package_spec.python_module": _PACKAGE,
    "worker_pool_specs.python_package_spec.args": _PACKAGE,
    "worker_pool_specs.python_package_spec.env.name": _PACKAGE,
    "worker_pool_specs.python_package_spec.env.value": _PACKAGE,
    "worker_pool_specs.machine_spec.machine_type": _MACHINE,
    "worker_pool_specs.machine_spec.accelerator_type": _keys("accelerator"),
    "worker_pool_specs.machine_spec.accelerator_count": _keys("count"),
    "worker_pool_specs.machine_spec.gpu_partition_size": _refused(
        "a process of a training has a whole GPU; Google's page on machines of training names no parts of one"
    ),
    "worker_pool_specs.machine_spec.tpu_topology": _refused("training here is PyTorch on GPUs, which no TPU runs"),
    "worker_pool_specs.machine_spec.reservation_affinity.reservation_affinity_type": _RESERVATION,
    "worker_pool_specs.machine_spec.reservation_affinity.key": _RESERVATION,
    "worker_pool_specs.machine_spec.reservation_affinity.values": _RESERVATION,
    "worker_pool_specs.replica_count": _keys("nodes", "reduction_server", "parameter_server"),
    "worker_pool_specs.nfs_mounts.server": _keys("nfs"),
    "worker_pool_specs.nfs_mounts.path": _keys("nfs"),
    "worker_pool_specs.nfs_mounts.mount_point": _keys("nfs"),
    "worker_pool_specs.lustre_mounts.instance_ip": _keys("lustre"),
    "worker_pool_specs.lustre_mounts.volume_handle": _keys("lustre"),
    "worker_pool_specs.lustre_mounts.filesystem": _keys("lustre"),
    "worker_pool_specs.lustre_mounts.mount_point": _keys("lustre"),
    "worker_pool_specs.disk_spec.boot_disk_type": _keys("boot_disk_type"),
    "worker_pool_specs.disk_spec.boot_disk_size_gb": _keys("boot_disk_gb"),
    "scheduling.timeout": _keys("timeout"),
    "scheduling.restart_job_on_worker_restart": _keys("restart_job_on_worker_restart"),
    "scheduling.strategy": _keys("strategy"),
    "scheduling.disable_retries": _keys("disable_retries"),
    "scheduling.max_wait_duration": _keys("max_wait"),
    "service_account": _itself("jobs of a run have the service_account of the top of the file"),
    "network": _itself("jobs of a run have the network of the top of the file"),
    "reserved_ip_ranges": _keys("reserved_ip_ranges"),
    "psc_interface_config.network_attachment": _keys("private_service_connect"),
    "psc_interface_config.dns_peering_configs.domain": _keys("private_service_connect"),
    "psc_interface_config.dns_peering_configs.target_project": _keys("private_service_connect"),
    "psc_interface_config.dns_peering_configs.target_network": _keys("private_service_connect"),
    "base_output_directory.output_uri_prefix": _keys("base_output_directory", "tensorboard"),
    "protected_artifact_location_id": _keys("protected_artifact_location_id"),
    "tensorboard": _keys("tensorboard"),
    "enable_web_access": _keys("web_access"),
    "enable_dashboard_access": _keys("dashboard_access"),
    "experiment": _refused("the run itself is listed in the experiment of the top of the file, with what it trained"),
    "experiment_run": _refused("the run itself is listed in the experiment, and a job in it would be listed twice"),
    "models": _refused("only jobs that Google provides take models; a step gets a model as its input"),
}


def told(name: str) -> str:
    """Of a field by Google's name, in snake_case or camelCase: what sets it, or why nothing does; empty: no field."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    paths = [path for path in FIELDS if snake in path.split(".")]
    if not paths:
        return ""
    known = [FIELDS[path] for path in paths]
    reason = next((each.refused or each.by_itself for each in known if not each.keys), "")
    if reason:
        return f"{name} cannot be set for a step: {reason}."
    keys = dict.fromkeys(key for each in known for key in each.keys)
    return f"{name} is Google's name of what is called {' and '.join(keys)} here."
