"""The child process of a local run: kfp.local over a compiled spec, in a process group of its own.

    python -m pipelines.worker SPEC.json ARGUMENTS.json STEPS_FOLDER CACHE_FOLDER < PIPE

Ends itself and every process it started when the pipe is closed: the command that started it is gone.
"""

import json
import os
import signal
import sys
import threading
import warnings


def main(spec: str, arguments: str, steps: str, cache: str) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # kfp says for every step that machine settings have no effect here, and that its own modules are deprecated.
    warnings.simplefilter("ignore")
    from kfp import components, local

    with open(arguments) as file:
        values = json.load(file)
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=steps, enable_caching=True, cache_root=cache)
    pipeline = components.load_component_from_file(spec)
    try:
        pipeline(**values)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
