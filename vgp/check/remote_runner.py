"""Steps of Google Cloud Pipeline Components 0.x and 1.x that call the SDK by its method's name.

Their container gets `--cls_name CustomContainerTrainingJob --method_name run --method.machine_type ...`: the arguments
of the SDK's method, which here become the object that the SDK would send.
"""

from typing import Any

from vgp.base.documents.node import Node

#: What the SDK takes when no machine type is given (google-cloud-aiplatform 1.x, CustomTrainingJob.run).
_DEFAULT_MACHINE = "n1-standard-4"


def job(container: Node) -> Node | None:
    """The job, batch prediction or deployment that the step asks for; None if it is no such step."""
    command = container.get("command")
    words = command.value if isinstance(command.value, list) else []
    if not any(isinstance(word, str) and "remote_runner" in word for word in words):
        return None
    options = _options(container.get("args").value)
    if "cls_name" not in options:
        return None
    value = _object(options)
    return None if value is None else Node(value, (*container.path, "args"), container.scope)


def _options(args: Any) -> dict[str, Any]:
    """Last part of the option's name -> its value as written: --method.machine_type x."""
    items = args if isinstance(args, list) else []
    return {
        name.lstrip("-").rsplit(".", 1)[-1]: value
        for name, value in zip(items, items[1:], strict=False)
        if isinstance(name, str) and name.startswith("--")
    }


def _object(options: dict[str, Any]) -> dict[str, Any] | None:
    kind, method = str(options["cls_name"]), str(options.get("method_name", ""))
    machine: dict[str, Any] = {
        name: options[name] for name in ("machine_type", "accelerator_type", "accelerator_count") if name in options
    }
    if "TrainingJob" in kind and kind.startswith("Custom"):
        return {"job_spec": {"worker_pool_specs": _pools({"machine_type": _DEFAULT_MACHINE, **machine}, options)}}
    if not machine:
        return None
    if method == "batch_predict":
        return {"dedicated_resources": {"machine_spec": machine}}
    return {"deployed_model": {"dedicated_resources": {"machine_spec": machine}}} if method == "deploy" else None


def _pools(machine: dict[str, Any], options: dict[str, Any]) -> list[dict[str, Any]]:
    image = options.get("container_uri", options.get("image_uri", ""))
    pool: dict[str, Any] = {"machine_spec": machine, "replica_count": 1, "container_spec": {"image_uri": image}}
    disk = {name: options[name] for name in ("boot_disk_type", "boot_disk_size_gb") if name in options}
    return [{**pool, "disk_spec": disk} if disk else pool]
