"""Builds the command of a Python step on Vertex AI, which forwards SIGTERM and obeys a timeout, and its job's fields.

kfp starts a Python step by `sh -ec '... python3 -m kfp.dsl.executor_main ...'`, and a step that installs packages by an
additional `sh -c 'pip install ... && "$0" "$@"'`. The first process of a container ignores every signal for which it
has no handler, and a shell forwards none. Therefore a shell that forwards SIGTERM starts first, and each later shell
replaces itself by its last command. Python cannot be the first process, because a step without a handler would ignore
SIGTERM until it is killed.

Vertex AI has no timeout for plain steps. If the container's environment has STEP_TIMEOUT_S, coreutils' `timeout` sends
SIGTERM after that many seconds and SIGKILL a minute later; the exit code is then 124. `timeout` sends that SIGKILL
after every SIGTERM that it forwards, so steps that may continue after SIGTERM are started without the option.

Google's wrapper of a custom job (create_custom_training_job_from_component of google-cloud-pipeline-components 2.22)
takes most fields of a job as arguments. The other fields are inserted into the JSON that the wrapper's launcher reads
with json.loads and passes to `JobServiceClient.create_custom_job` unchanged.
"""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.machines.placement import plain
from vgp.machines.placement.job_options import JobOptions
from vgp.machines.placement.machine_rules import Problem
from vgp.machines.placement.placement import Placement
from vgp.protocol.spec_version import SPEC_VARIABLE, spec_version
from vgp.settings import Settings

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent

EXECUTOR = "kfp.dsl.executor_main"
_INSTALLS = re.compile(r'(?<=&& )"\$0" "\$@"\s*\Z')
_STARTS = re.compile(rf'^((?:\w+=\w+ )?)(python3 -m {re.escape(EXECUTOR)} [^\n;&|]*"\$@")\s*\Z', re.MULTILINE)
#: A signal interrupts `wait`, so it runs in a loop until the process has ended. `--foreground` keeps `timeout` from
#: signalling all processes of the step; BusyBox neither has nor needs that option.
_FIRST = """
limit_s=$@VARIABLE
if [ -n "$limit_s" ]; then
  limited="timeout --foreground@KILL $limit_s"
  timeout --foreground 1 true 2>/dev/null || limited="timeout@KILL $limit_s"
fi
began=$(date +%s)
${limited-} "$0" "$@" &
trap "kill -TERM $! 2>/dev/null || :" TERM
while code=0; wait $! || code=$?; kill -0 $! 2>/dev/null; do :; done
if [ -n "$limit_s" ] && [ $code -ne 0 ] && [ $(($(date +%s) - began)) -ge "$limit_s" ]; then
  echo @STEP took longer than its timeout of "$limit_s" s and was ended. To give it more: @SETTING. >&2
  code=124
fi
exit $code
""".replace("@VARIABLE", plain.TIMEOUT_VARIABLE)


def is_python(command: Sequence[object] | None) -> bool:
    """Whether this is the command by which kfp starts a Python step."""
    return any(EXECUTOR in str(word) for word in command or ())


def build_spec_environment(command: Sequence[object] | None) -> dict[str, str]:
    """Returns the variable that holds the spec's version for a Python step; {} for another container."""
    return {SPEC_VARIABLE: spec_version()} if is_python(command) else {}


def build_command(command: Sequence[object], step: str) -> list[object]:
    """Returns a Python step's command that forwards SIGTERM and obeys the timeout; any other command unchanged.

    Raises:
        RequestError: the installed kfp starts Python steps by an unknown command.
    """
    if not is_python(command):
        return list(command)
    return [*build_signal_prefix(step), *_replace_shells(command)]


def build_signal_prefix(step: str, setting: str = "timeout", *, kill: bool = True) -> list[str]:
    """Returns the words that start a command in a shell that forwards SIGTERM and stops it after STEP_TIMEOUT_S.

    Args:
        step: The step's name, for the message about a timeout.
        setting: The step's key in the settings that allows more time.
        kill: Whether SIGKILL follows a minute after SIGTERM.
    """
    setting = f"{setting} in [steps.{step}] of pipelines.toml"
    first = _FIRST.replace("@KILL", " -k 60" if kill else "").replace("@STEP", shlex.quote(step))
    return ["sh", "-c", first.replace("@SETTING", shlex.quote(setting))]


def _replace_shells(command: Sequence[object]) -> list[object]:
    """Returns the command, with each shell replacing itself (`exec`) by its last command."""
    changed: list[object] = list(command)
    for number in range(2, len(command)):
        if command[number - 2 : number] == ["sh", "-c"]:
            changed[number] = _INSTALLS.sub('exec "$0" "$@"\n', str(changed[number]))
        elif command[number - 2 : number] == ["sh", "-ec"]:
            changed[number], known = _STARTS.subn(_rewrite_line, str(changed[number]))
            if not known:
                raise RequestError(
                    "the installed kfp starts Python steps by a command that SIGTERM does not reach: install the "
                    "version in constraints.txt."
                )
    return changed


def _rewrite_line(line: re.Match[str]) -> str:
    """Returns `export A=b` and `exec python3 ...` for a line `A=b python3 ...`."""
    return f"export {line[1].rstrip()}\nexec {line[2]}\n" if line[1] else f"exec {line[2]}\n"


_NO_ARGUMENT = ("enable_dashboard_access", "protected_artifact_location_id")
#: Beginnings of the objects in the launcher's JSON into which fields are inserted.
_SPEC, _SCHEDULING = '"job_spec": {', '"scheduling": {'
_ADVICE = "Set it at the top of pipelines.toml, or in the environment."


def build_wrapper_arguments(placement: Placement) -> JsonObject:
    """Returns the arguments of Google's wrapper; an empty `network` if the job has a private interface instead."""
    fields = placement.job_fields()
    scheduling = {name: value for name, value in fields.pop("scheduling").items() if name != "disable_retries"}
    directory = fields.pop("base_output_directory", {}).get("output_uri_prefix")
    arguments = {name: value for name, value in fields.items() if name not in _NO_ARGUMENT}
    arguments |= {"base_output_directory": directory} if directory else {}
    arguments |= {"network": ""} if "psc_interface_config" in arguments else {}
    return {**scheduling, **arguments}


def complete_job(job: "BaseComponent", placement: Placement) -> None:
    """Inserts the fields for which the wrapper has no argument into the JSON of its launcher."""
    fields = placement.job_fields()
    _insert_fields(job, _SPEC, {name: fields[name] for name in _NO_ARGUMENT if name in fields})
    _insert_fields(job, _SCHEDULING, {name: True for name in ("disable_retries",) if name in fields["scheduling"]})


def _insert_fields(job: "BaseComponent", at: str, fields: JsonObject) -> None:
    container = job.component_spec.implementation.container
    if fields:
        number = next(index for index, text in enumerate(container.args) if isinstance(text, str) and at in text)
        inner = json.dumps(fields)[1:-1]
        container.args[number] = container.args[number].replace(at, f"{at}{inner}, ", 1)


def find_wrapper_problems(options: JobOptions, settings: Settings) -> Iterator[Problem]:
    """Yields the problems of a job's options in a run with these settings."""
    if options.private_service_connect and settings.network:
        text = "private_service_connect and network exclude each other: a job connects to a network by one of the two."
        fix = 'Drop one of the two; network = "" in an environment drops network.'
        yield Problem("GPU035", "private_service_connect", text, fix)
    if options.reserved_ip_ranges and not settings.network:
        text = "reserved_ip_ranges needs network: the ranges belong to that network."
        yield Problem("GPU035", "reserved_ip_ranges", text, _ADVICE)
    if options.nfs and not (settings.network or options.private_service_connect):
        text = "nfs needs network or private_service_connect: the job reaches the server through it."
        yield Problem("GPU035", "nfs", text, _ADVICE)
    if options.tensorboard and not settings.service_account:
        text = "tensorboard needs service_account: Vertex AI uploads the curves as that account."
        yield Problem("GPU035", "tensorboard", text, _ADVICE)
