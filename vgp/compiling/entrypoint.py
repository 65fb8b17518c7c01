"""The command of a Python step as the first process of its container: SIGTERM reaches Python.

kfp starts a Python step by `sh -ec '... python3 -m kfp.dsl.executor_main ...'`, and one that installs packages by
`sh -c 'pip install ... && "$0" "$@"'` before it. The first process of a container gets no signal that it has no handler
for, and a shell passes none on. So the installing shell gives way to the next, which stays, passes SIGTERM on and ends
as Python does. Were Python itself the first process, a step without a handler would run on until it is killed.
"""

import re
from collections.abc import Sequence
from typing import Any

from vgp.errors import RequestError

EXECUTOR = "kfp.dsl.executor_main"
_INSTALLS = re.compile(r'(?<=&& )"\$0" "\$@"\s*\Z')
_STARTS = re.compile(rf'^((?:\w+=\w+ )?python3 -m {re.escape(EXECUTOR)} [^\n;&|]*"\$@")\s*\Z', re.MULTILINE)
#: A signal ends `wait` early, with a code of its own: it waits until the process is gone.
_AND_WAITS = """ &
trap "kill -TERM $! 2>/dev/null || :" TERM
while code=0; wait $! || code=$?; kill -0 $! 2>/dev/null; do :; done
exit $code
"""


def passing_signals(command: Sequence[Any]) -> list[Any]:
    """`command` with SIGTERM passed on, if it is kfp's for a Python step; any other as it is.

    Raises:
        RequestError: this kfp starts Python steps by a command that is not known here.
    """
    made = list(command)
    if not any(EXECUTOR in str(word) for word in command):
        return made
    for number in range(2, len(command)):
        if command[number - 2 : number] == ["sh", "-c"]:
            made[number] = _INSTALLS.sub('exec "$0" "$@"\n', made[number])
        elif command[number - 2 : number] == ["sh", "-ec"]:
            made[number], known = _STARTS.subn(lambda line: line[1] + _AND_WAITS, made[number])
            if not known:
                raise RequestError(
                    "this kfp starts Python steps by a command that SIGTERM would not reach: install the version of "
                    "constraints.txt."
                )
    return made
