"""Judges what a worker pool runs: its image, its command, and what several GPUs need."""

from vgp.base.documents.node import Node
from vgp.check import images
from vgp.check.fields import Reader
from vgp.check.machine_spec import MachineSpec
from vgp.check.spec.script import read

#: Words of commands that start a process for each GPU.
_LAUNCHES = (
    "torchrun", "torch.distributed", "deepspeed", "accelerate", "mpirun", "horovodrun", "spawn", "launch",
    "MirroredStrategy", "nproc", "processes", "ray", "strategy",
)  # fmt: skip


def judge_body(reader: Reader, pool: Node, spec: MachineSpec, *, is_chief: bool) -> None:
    """One of containerSpec and pythonPackageSpec, its image, and how it starts on several GPUs."""
    container = reader.object(pool.get("containerSpec"), "containerSpec")
    package = reader.object(pool.get("pythonPackageSpec"), "pythonPackageSpec")
    if container is not None and package is not None:
        text = "A pool runs containerSpec or pythonPackageSpec, not both."
        reader.judgement.add(reader.step, package, "GPU007", text, "Keep one of them.")
    body = container if container is not None else package
    if body is not None:
        reader.variables(body.get("env"))
    if body is None:
        if pool.get("containerSpec").known and pool.get("pythonPackageSpec").known:
            text = "The pool has neither containerSpec nor pythonPackageSpec: it has nothing to run."
            reader.judgement.add(reader.step, pool, "GPU007", text, "Add containerSpec.imageUri.")
        return
    field = "imageUri" if container is not None else "executorImageUri"
    node = body.get(field)
    image = reader.text(node, field)
    # A program may leave it to what it calls: a component's own image, a script that is built into one.
    if node.value in (None, "") and node.known and not node.assumed and reader.judgement.document.places is None:
        text = f"The pool has no {field}: it has nothing to run."
        reader.judgement.add(reader.step, node if node.value == "" else body, "GPU007", text, "Name the image.")
    command = _command(reader, body)
    problems = images.problems(image or "", command, spec.gpu, spec.machine)
    reader.judgement.report(reader.step, node, *problems)
    script = spec.machine.nccl_script if spec.machine and not is_chief else None
    if spec.machine and script and command.strip() and script not in command:
        text = f"{spec.machine.name} has GPUDirect-RDMA, and NCCL needs to be told how to use it between machines."
        fix = f"Begin the command with: source {script}"
        reader.judgement.add(reader.step, body.get("command"), "GPU022", text, fix)
    if is_chief and spec.combination and spec.count > 1:
        _several_gpus(reader, body, command, spec)


def _command(reader: Reader, body: Node) -> str:
    """Command and arguments in one text; of a command that our launching text starts, what it says itself."""
    text = reader.words(body, "command", "args")
    script = read(body.value) if isinstance(body.value, dict) else None
    if script is None:
        return text
    return " ".join([*script.command, "" if script.launch == "plain" else f"launch={script.launch}"])


def _several_gpus(reader: Reader, body: Node, command: str, spec: MachineSpec) -> None:
    env = reader.words(body, "env")
    at = body.get("command") if body.get("command").value else body
    # What a kfp component's function starts cannot be seen from here.
    is_component = "executor_main" in command
    if command.strip() and not is_component and not any(word in command for word in _LAUNCHES):
        text = f"The command starts one process for {spec.count} GPUs; DDP uses one GPU per process."
        fix = f"Start it with torchrun --nproc_per_node={spec.count}."
        reader.judgement.add(reader.step, at, "GPU022", text, fix)
    if spec.machine is not None and spec.machine.nccl and "NCCL_P2P_LEVEL" not in env:
        text = f"On {spec.machine.name} NCCL needs to be told how far peer-to-peer traffic may go."
        reader.judgement.add(reader.step, body, "GPU022", text, f"Set {spec.machine.nccl} in env.")
    text = f"{spec.count} GPUs mean many DataLoader workers, and /dev/shm cannot be made larger."
    fix = "Keep workers few, or torch.multiprocessing.set_sharing_strategy('file_system')."
    if "sharing_strategy" not in command:
        reader.judgement.add(reader.step, body, "GPU023", text, fix)
