"""A placement as a Compute Engine VM: the same training on the same machine, without Vertex AI.

Not verified on Compute Engine. The flags are those of `gcloud compute instances create`:
https://docs.cloud.google.com/sdk/gcloud/reference/compute/instances/create
"""

import shlex
from collections.abc import Sequence

from vgp.machines.placement.placement import Placement

#: Google's VM images with driver, CUDA and Docker. https://docs.cloud.google.com/deep-learning-vm/docs/images
_IMAGE = ("common-cu128-ubuntu-2204-nvidia-570", "deeplearning-platform-release")
_CPU_IMAGE = ("cos-stable", "cos-cloud")


def command(
    placement: Placement, *, name: str, image: str, run: Sequence[str] = (), zone: str | None = None
) -> list[str]:
    """The argv of `gcloud compute instances create`, for one node.

    Args:
        placement: Where the step runs on Vertex AI.
        name: Of the VM.
        image: The step's container image.
        run: Command of the container; its own entry point if empty.
        zone: A zone that has the GPU; ZONE is left to fill in where none is given.
    """
    combination = placement.combination
    argv = ["gcloud", "compute", "instances", "create", name]
    argv += [f"--zone={zone or placement.region + '-ZONE'}", f"--machine-type={combination.machine_type}"]
    if combination.accelerator and combination.machine.accelerator is None:
        argv.append(f"--accelerator=type={combination.accelerator.compute_name},count={combination.count}")
    if combination.accelerator:
        # A VM with GPUs cannot move to another host.
        argv.append("--maintenance-policy=TERMINATE")
    argv += _provisioning(placement)
    argv += [f"--boot-disk-type={placement.boot_disk_type}", f"--boot-disk-size={placement.boot_disk_gb}GB"]
    family, project = _IMAGE if combination.accelerator else _CPU_IMAGE
    argv += [f"--image-family={family}", f"--image-project={project}", "--scopes=cloud-platform"]
    # ^|^ makes | the separator of entries: commands have commas. `gcloud topic escaping`
    argv.append(f"--metadata=^|^startup-script={_script(placement, image, run)}")
    return argv


def _provisioning(placement: Placement) -> list[str]:
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


def _script(placement: Placement, image: str, run: Sequence[str]) -> str:
    """Starts the container with all GPUs; /dev/shm as large as the host allows, which Vertex AI does not offer."""
    words = ["docker", "run", "--rm", "--ipc=host", "--network=host"]
    words += ["--gpus=all"] if placement.combination.accelerator else []
    words += [word for key, value in placement.env.items() for word in ("--env", f"{key}={value}")]
    return "#!/bin/bash\n" + shlex.join([*words, image, *run])
