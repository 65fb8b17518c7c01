"""Converts a step of pipelines.toml into a job of Vertex AI, or into a machine of Compute Engine.

The container runs `python -m vgp.steps STEP` with the arguments, under the service account of the settings.

Compute Engine is not verified. The flags are those of `gcloud compute instances create`:
https://docs.cloud.google.com/sdk/gcloud/reference/compute/instances/create
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean
from vgp.check.convert import conversion
from vgp.check.convert.conversion import Conversion
from vgp.check.sources.command_line import Note
from vgp.machines.placement.placement import Placement
from vgp.machines.placement.placing import place
from vgp.settings import Settings, load

_NO_RETRIES = "only tasks of a pipeline are retried"


def placement(settings: Settings, step: str) -> Placement:
    """Returns the placement of the step.

    Raises:
        RequestError: the settings lack the step, its machine is impossible, or it has its own command.
    """
    if step not in settings.steps:
        if not settings.steps:
            raise RequestError(
                f"no settings found for [steps.{step}]: run this where pipelines.toml is, or pass --settings FILE."
            )
        raise RequestError(f"pipelines.toml has no [steps.{step}]. {did_you_mean(step, settings.steps)}")
    if settings.steps[step].command is not None:
        raise RequestError(
            f"[steps.{step}] has its own command, which needs the folders of a pipeline; this command "
            f"converts `python -m vgp.steps {step}`. Run it in a pipeline, or write a job with the command itself."
        )
    return place(settings.steps[step], region=settings.region, name=step)


def job(file: Path | None, step: str, arguments: Sequence[str] = ()) -> Conversion:
    """Converts the step of a settings file into a custom job."""
    settings = load(file)
    where = placement(settings, step)
    config = job_config(where, _choose_image(settings, step, where), command(step, arguments))
    config |= {"serviceAccount": settings.service_account} if settings.service_account else {}
    config |= {"network": settings.network} if settings.network else {}
    if where.options.tensorboard and where.options.base_output_directory is None:
        config |= _build_tensorboard(settings, step)
    conversion = Conversion(
        config, region=where.region, display_name=step, kms_key=settings.encryption_key, project=settings.project,
        labels=dict(settings.labels),
    )  # fmt: skip
    if where.retries:
        conversion.note_dropped("retries", _NO_RETRIES)
    return conversion


def vm(file: Path | None, step: str, arguments: Sequence[str] = ()) -> tuple[str, list[Note]]:
    """Returns the step of a settings file as a Compute Engine command, and notes on what such a machine lacks."""
    settings = load(file)
    where = placement(settings, step)
    labels = ",".join(f"{key}={value}" for key, value in settings.labels.items())
    flags = {
        "project": settings.project, "service-account": settings.service_account,
        "boot-disk-kms-key": settings.encryption_key, "labels": labels,
    }  # fmt: skip
    words = [f"--{flag}={value}" for flag, value in flags.items() if value]
    line = vm_line(where, step, _choose_image(settings, step, where), command(step, arguments), words)
    return line, _list_vm_losses(where, settings)


def _build_tensorboard(settings: Settings, step: str) -> JsonObject:
    """Returns the TensorBoard fields of a job outside of a run, which has no folder of its own."""
    if not settings.bucket:
        raise RequestError(f"[steps.{step}] has tensorboard: set bucket, or base_output_directory, for its curves.")
    return {"baseOutputDirectory": {"outputUriPrefix": f"{settings.bucket.rstrip('/')}/tensorboard/{step}"}}


def _choose_image(settings: Settings, step: str, where: Placement) -> str:
    return settings.request(step).image or settings.step_image(has_gpu=where.combination.accelerator is not None)


def command(step: str, arguments: Sequence[str]) -> list[str]:
    return ["python", "-m", "vgp.steps", step, *arguments]


def job_config(placement: Placement, image: str, command: Sequence[str] = (), args: Sequence[str] = ()) -> JsonObject:
    """Returns a placement as the config of `gcloud ai custom-jobs create --config`."""
    spec = {"worker_pool_specs": placement.worker_pool_specs(image, command, args)}
    return conversion.conversion({**spec, **placement.job_fields()}).config


def vm_line(placement: Placement, name: str, image: str, run: Sequence[str] = (), flags: Sequence[str] = ()) -> str:
    """Returns a placement as a `gcloud compute instances create` command, one flag per line."""
    argv = vm_command(placement, name=name, image=image, run=run)
    words = [shlex.quote(word) for word in [*argv, *flags]]
    return " \\\n  ".join([" ".join(words[:5]), *words[5:]])


def _list_vm_losses(placement: Placement, settings: Settings) -> list[Note]:
    lost = {
        "nodes": f"the command creates one of {placement.nodes} machines" if placement.nodes > 1 else "",
        "reduction_server": "a VM has none" if placement.reduction_server else "",
        "network": f"{settings.network} is the network that Vertex AI peers with" if settings.network else "",
        "retries": _NO_RETRIES if placement.retries else "",
    }
    lost |= dict.fromkeys(placement.options.list_set_keys(), "only jobs of Vertex AI have it")
    return [Note(name, why, dropped=True) for name, why in lost.items() if why]


#: Google's VM images with driver, CUDA and Docker. https://docs.cloud.google.com/deep-learning-vm/docs/images
_IMAGE = ("common-cu128-ubuntu-2204-nvidia-570", "deeplearning-platform-release")
_CPU_IMAGE = ("cos-stable", "cos-cloud")


def vm_command(
    placement: Placement, *, name: str, image: str, run: Sequence[str] = (), zone: str | None = None
) -> list[str]:
    """Returns the argv of `gcloud compute instances create`, for one node.

    Args:
        placement: Placement of the step on Vertex AI.
        name: Name of the VM.
        image: The step's container image.
        run: Command of the container; empty: the image's entry point.
        zone: A zone that has the GPU; without one, the placeholder ZONE.
    """
    combination = placement.combination
    argv = ["gcloud", "compute", "instances", "create", name]
    argv += [f"--zone={zone or placement.region + '-ZONE'}", f"--machine-type={combination.machine_type}"]
    if combination.accelerator and combination.machine.accelerator is None:
        argv.append(f"--accelerator=type={combination.accelerator.compute_name},count={combination.count}")
    if combination.accelerator:
        # A VM with GPUs cannot move to another host.
        argv.append("--maintenance-policy=TERMINATE")
    argv += _build_provisioning(placement)
    argv += [f"--boot-disk-type={placement.boot_disk_type}", f"--boot-disk-size={placement.boot_disk_gb}GB"]
    family, project = _IMAGE if combination.accelerator else _CPU_IMAGE
    argv += [f"--image-family={family}", f"--image-project={project}", "--scopes=cloud-platform"]
    # ^|^ makes | the separator of entries: commands have commas. `gcloud topic escaping`
    argv.append(f"--metadata=^|^startup-script={_build_startup_script(placement, image, run)}")
    return argv


def _build_provisioning(placement: Placement) -> list[str]:
    stop = [f"--max-run-duration={placement.timeout_s}s", "--instance-termination-action=DELETE"]
    if placement.strategy == "spot":
        return ["--provisioning-model=SPOT", *stop]
    if placement.strategy == "flex_start":
        wait = [] if placement.max_wait_s is None else [f"--request-valid-for-duration={placement.max_wait_s}s"]
        return ["--provisioning-model=FLEX_START", "--reservation-affinity=none", *wait, *stop]
    if placement.reservation == "any":
        return ["--reservation-affinity=any", *stop]
    if placement.reservation:
        return ["--reservation-affinity=specific", f"--reservation={placement.reservation}", *stop]
    return stop


def _build_startup_script(placement: Placement, image: str, run: Sequence[str]) -> str:
    """Returns the script that starts the container with all GPUs and the largest /dev/shm, which Vertex AI does not
    offer."""
    words = ["docker", "run", "--rm", "--ipc=host", "--network=host"]
    words += ["--gpus=all"] if placement.combination.accelerator else []
    words += [word for key, value in placement.env.items() for word in ("--env", f"{key}={value}")]
    return "#!/bin/bash\n" + shlex.join([*words, image, *run])
