"""The command of a Python step on Vertex AI, which SIGTERM reaches and a timeout ends; its fields as a custom job.

kfp starts a Python step by `sh -ec '... python3 -m kfp.dsl.executor_main ...'`, and one that installs packages by
`sh -c 'pip install ... && "$0" "$@"'` before it. The first process of a container gets no signal that it has no handler
for, and a shell passes none on. So a shell that does comes first, and every later one gives way to what it starts. Were
Python itself the first process, a step without a handler would run on until it is killed.

A plain step has no timeout on Vertex AI. Where the container's environment has STEP_TIMEOUT_S, coreutils' `timeout`
stands between: after so many seconds it sends SIGTERM, and SIGKILL a minute later. The step's exit code is 124 then.
That SIGKILL follows any SIGTERM which comes through it, so a step that may go on after one is started without.

Google's wrapper of a custom job (create_custom_training_job_from_component of google-cloud-pipeline-components 2.22)
takes most fields as arguments. Those that it does not take go into the JSON that its launcher sends: the launcher
reads that text with json.loads, and hands it to `JobServiceClient.create_custom_job` as it is.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent

import json
import re
import shlex
from collections.abc import Iterator, Sequence

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.machines.placement import plain
from vgp.machines.placement.job_options import JobOptions
from vgp.machines.placement.machine_rules import Problem
from vgp.machines.placement.placement import Placement
from vgp.protocol.spec_version import SPEC_VARIABLE, spec_version
from vgp.settings import Settings

EXECUTOR = "kfp.dsl.executor_main"
_INSTALLS = re.compile(r'(?<=&& )"\$0" "\$@"\s*\Z')
_STARTS = re.compile(rf'^((?:\w+=\w+ )?)(python3 -m {re.escape(EXECUTOR)} [^\n;&|]*"\$@")\s*\Z', re.MULTILINE)
#: A signal ends `wait` early, with a code of its own: it waits until the process is gone. `timeout` would pass signals
#: on to all processes of the step: not with --foreground, which BusyBox does not know, and does not need.
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
    """Whether kfp starts a Python step by this command."""
    return any(EXECUTOR in str(word) for word in command or ())


def spec_environment(command: Sequence[object] | None) -> dict[str, str]:
    """Returns the variable by which a Python step knows the version of its spec; nothing for another container."""
    return {SPEC_VARIABLE: spec_version()} if is_python(command) else {}


def entrypoint(command: Sequence[object], step: str) -> list[object]:
    """`command` with SIGTERM passed on and the timeout kept, if it is kfp's for a Python step; any other as it is.

    Raises:
        RequestError: this kfp starts Python steps by a command that is not known here.
    """
    if not is_python(command):
        return list(command)
    return [*passing_on(step), *_giving_way(command)]


def passing_on(step: str, setting: str = "timeout", *, kill: bool = True) -> list[str]:
    """The words before a command to which SIGTERM is passed on, and which is ended after STEP_TIMEOUT_S.

    Args:
        step: Its name.
        setting: The key of the step that would give it more time.
        kill: Whether SIGKILL follows a minute after SIGTERM.
    """
    setting = f"{setting} in [steps.{step}] of pipelines.toml"
    first = _FIRST.replace("@KILL", " -k 60" if kill else "").replace("@STEP", shlex.quote(step))
    return ["sh", "-c", first.replace("@SETTING", shlex.quote(setting))]


def _giving_way(command: Sequence[object]) -> list[object]:
    """The command with each shell of it replaced by what it starts last."""
    changed: list[object] = list(command)
    for number in range(2, len(command)):
        if command[number - 2 : number] == ["sh", "-c"]:
            changed[number] = _INSTALLS.sub('exec "$0" "$@"\n', str(changed[number]))
        elif command[number - 2 : number] == ["sh", "-ec"]:
            changed[number], known = _STARTS.subn(_exported, str(changed[number]))
            if not known:
                raise RequestError(
                    "this kfp starts Python steps by a command that SIGTERM would not reach: install the version of "
                    "constraints.txt."
                )
    return changed


def _exported(line: re.Match[str]) -> str:
    """`A=b python3 ...` -> `export A=b` and `exec python3 ...`."""
    return f"export {line[1].rstrip()}\nexec {line[2]}\n" if line[1] else f"exec {line[2]}\n"


_WITHOUT_ARGUMENT = ("enable_dashboard_access", "protected_artifact_location_id")
#: Where the text of the launcher has the objects that fields are added to.
_SPEC, _SCHEDULING = '"job_spec": {', '"scheduling": {'
_ADVICE = "Set it at the top of pipelines.toml, or in the environment."


def wrapper_arguments(placement: Placement) -> JsonObject:
    """What the wrapper takes; `network` is left to the run unless the job has an interface of its own."""
    fields = placement.job_fields()
    scheduling = {name: value for name, value in fields.pop("scheduling").items() if name != "disable_retries"}
    directory = fields.pop("base_output_directory", {}).get("output_uri_prefix")
    given = {name: value for name, value in fields.items() if name not in _WITHOUT_ARGUMENT}
    given |= {"base_output_directory": directory} if directory else {}
    given |= {"network": ""} if "psc_interface_config" in given else {}
    return {**scheduling, **given}


def complete_job(job: "BaseComponent", placement: Placement) -> None:
    """Puts what the wrapper has no argument for into what its launcher sends."""
    fields = placement.job_fields()
    _add(job, _SPEC, {name: fields[name] for name in _WITHOUT_ARGUMENT if name in fields})
    _add(job, _SCHEDULING, {name: True for name in ("disable_retries",) if name in fields["scheduling"]})


def _add(job: "BaseComponent", at: str, fields: JsonObject) -> None:
    container = job.component_spec.implementation.container
    if fields:
        number = next(index for index, text in enumerate(container.args) if isinstance(text, str) and at in text)
        inner = json.dumps(fields)[1:-1]
        container.args[number] = container.args[number].replace(at, f"{at}{inner}, ", 1)


def wrapper_problems(options: JobOptions, settings: Settings) -> Iterator[Problem]:
    """What speaks against a job's options in a run with these settings."""
    if options.private_service_connect and settings.network:
        text = "private_service_connect and network exclude each other: a job reaches a network by one of the two."
        yield Problem("GPU035", "private_service_connect", text, 'Drop one: network = "" in an environment drops it.')
    if options.reserved_ip_ranges and not settings.network:
        text = "reserved_ip_ranges needs network: they are ranges of it."
        yield Problem("GPU035", "reserved_ip_ranges", text, _ADVICE)
    if options.nfs and not (settings.network or options.private_service_connect):
        text = "nfs needs network or private_service_connect: the job reaches the server through it."
        yield Problem("GPU035", "nfs", text, _ADVICE)
    if options.tensorboard and not settings.service_account:
        text = "tensorboard needs service_account: Vertex AI uploads the curves as that account."
        yield Problem("GPU035", "tensorboard", text, _ADVICE)
