"""The command of a Python step on Vertex AI: SIGTERM reaches Python, and a step that takes too long is ended.

kfp starts a Python step by `sh -ec '... python3 -m kfp.dsl.executor_main ...'`, and one that installs packages by
`sh -c 'pip install ... && "$0" "$@"'` before it. The first process of a container gets no signal that it has no handler
for, and a shell passes none on. So a shell that does comes first, and every later one gives way to what it starts. Were
Python itself the first process, a step without a handler would run on until it is killed.

A plain step has no timeout on Vertex AI. Where the container's environment has STEP_TIMEOUT_S, coreutils' `timeout`
stands between: after so many seconds it sends SIGTERM, and SIGKILL a minute later. The step's exit code is 124 then.
That SIGKILL follows any SIGTERM which comes through it, so a step that may go on after one is started without.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Any

from vgp.base.errors import RequestError
from vgp.machines.placement import plain

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


def is_python(command: Sequence[Any] | None) -> bool:
    """Whether kfp starts a Python step by this command."""
    return any(EXECUTOR in str(word) for word in command or ())


def entrypoint(command: Sequence[Any], step: str) -> list[Any]:
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


def _giving_way(command: Sequence[Any]) -> list[Any]:
    """The command with each shell of it replaced by what it starts last."""
    changed = list(command)
    for number in range(2, len(command)):
        if command[number - 2 : number] == ["sh", "-c"]:
            changed[number] = _INSTALLS.sub('exec "$0" "$@"\n', changed[number])
        elif command[number - 2 : number] == ["sh", "-ec"]:
            changed[number], known = _STARTS.subn(_exported, changed[number])
            if not known:
                raise RequestError(
                    "this kfp starts Python steps by a command that SIGTERM would not reach: install the version of "
                    "constraints.txt."
                )
    return changed


def _exported(line: re.Match[str]) -> str:
    """`A=b python3 ...` -> `export A=b` and `exec python3 ...`."""
    return f"export {line[1].rstrip()}\nexec {line[2]}\n" if line[1] else f"exec {line[2]}\n"
