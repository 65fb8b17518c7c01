"""What Google's page tells a custom job of several machines to do about the network between their GPUs.

A3 Mega (GPUDirect-TCPXO) comes configured; A3 Ultra, A4 and A4X (GPUDirect-RDMA) want the NCCL variables of gIB, from a
script that the training command begins with; of A3 High (GPUDirect-TCPX) the page says nothing.
https://docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/training/configure-compute#gpudirect-rdma,
state of 2026-08-20. Not verified on Vertex AI.
"""

from collections.abc import Mapping, Sequence

from vgp.machines.catalog.hardware import Machine

#: $0 is the script, and "$@" the command. A container without the script, or without bash, starts all the same.
_NETWORK_TEXT = (
    'if [ -r "$0" ] && command -v bash >/dev/null; then '
    'exec bash -c \'. "$0" || echo "network: $0 failed" >&2; exec "$@"\' "$0" "$@"; fi; '
    'echo "network: no $0 here: NCCL goes by TCP, slower, unless the image configures it" >&2; exec "$@"'
)
_SHELL = ("sh", "-c", _NETWORK_TEXT)
#: Who sets it has chosen the network for themselves, and the script would choose again.
_CHOSEN = ("NCCL_NET", "NCCL_NET_PLUGIN")


def network_command(words: Sequence[str], machine: Machine, nodes: int, env: Mapping[str, str]) -> list[str]:
    """The command of a training container, begun as the machine's network wants it; an image's own command as it is."""
    if not (words and machine.nccl_script and nodes > 1) or any(name in env for name in _CHOSEN):
        return list(words)
    return [*_SHELL, machine.nccl_script, *words]


def without_network(words: Sequence[str]) -> list[str]:
    """The command itself."""
    return list(words[len(_SHELL) + 1 :] if tuple(words[: len(_SHELL)]) == _SHELL else words)


def network_variables(machine: Machine, gpus: int) -> dict[str, str]:
    """What NCCL needs to be told on a machine with several GPUs, whatever the number of machines."""
    name, equals, value = (machine.nccl or "").partition("=")
    return {name: value} if equals and gpus > 1 else {}
