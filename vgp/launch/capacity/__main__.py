"""The program in the container of a step with a capacity ladder on Vertex AI.

    python3 -m vgp.launch.capacity --plan JSON [--size NAME] --executor_input JSON

Exit codes: 0 success; 1 failure; 2 invalid plan or input; 143 the run and its job were cancelled.
"""

import argparse
import signal
import sys
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType

from vgp.base import google_api
from vgp.base.clock import Clock
from vgp.base.text.figures import format_duration
from vgp.base.text.printable import one_line, printable
from vgp.launch.capacity.launcher_loop import Climb
from vgp.launch.capacity.outage_retry import Stopped, Superseded, Unreachable, reason
from vgp.launch.capacity.step_run import StepRun, reason_to_end
from vgp.launch.capacity.verdict import Verdict
from vgp.protocol.capacity.plan import Plan


def main(arguments: Sequence[str] | None = None, clock: Clock | None = None) -> int:
    """Runs the launcher with command-line arguments and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python3 -m vgp.launch.capacity", description=__doc__)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--size", default="")
    parser.add_argument("--executor_input", required=True)
    options = parser.parse_args(arguments)
    try:
        plan, run = _read_plan(options.plan, options.size), StepRun.read(options.executor_input)
    except ValueError as error:
        log_line(f"error: {error}")
        return 2
    verdict = run_launcher(plan, run, clock or Clock())
    for line in verdict.lines:
        print(line, file=sys.stderr, flush=True)
    log_line(verdict.words)
    return verdict.code


def run_launcher(plan: Plan, run: StepRun, clock: Clock) -> Verdict:
    """Runs the step and returns its verdict.

    Installs a SIGTERM handler; after the call, SIGTERM is ignored.
    """
    launcher, climbs, since = uuid.uuid4().hex, list[Climb](), clock.now()

    def climb(action: Callable[[Climb], Verdict]) -> Verdict:
        with google_api.session() as session:
            climbs.append(Climb(plan, run, session, launcher, clock, log_line))
            return action(climbs[-1])

    def after_sigterm() -> Verdict:
        """Cancels the job, or continues if the run is still active. A further SIGTERM checks the run again."""
        had_term = any(climb.journal.term for climb in climbs)
        if why := reason_to_end(plan, run.run, clock):
            signal.signal(signal.SIGTERM, _pass_over)
            log_line(f"SIGTERM: {why}; cancelling its job")
            return climb(partial(Climb.cancel, why=why, again=had_term, since=since))
        log_line(
            "SIGTERM, but the run is still active, so this machine is shutting down. The job keeps running for the "
            f"next launcher; without one, it saves a checkpoint and stops after {format_duration(plan.orphan_s)}"
        )
        return climb(partial(Climb.resume, again=had_term, since=since))

    action: Callable[[], Verdict] = partial(climb, Climb.start)
    while True:
        try:
            signal.signal(signal.SIGTERM, _stop)
            verdict = _run_explained(action)
            signal.signal(signal.SIGTERM, _pass_over)
            return verdict
        except Stopped:
            action = after_sigterm


def log_line(text: str) -> None:
    """Prints a line to the log of the step."""
    print(one_line(printable(text)), file=sys.stderr, flush=True)


def _read_plan(text: str, size: str) -> Plan:
    plan = Plan.from_json(text).of_size(size)
    if plan.project.startswith("{{"):
        raise ValueError(
            f"the plan's project is still the placeholder {plan.project}. Run this command in a step on Vertex AI."
        )
    return plan


def _run_explained(action: Callable[[], Verdict]) -> Verdict:
    """Returns the verdict of `action`, or a failed verdict for an error of Google's or of the launcher."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError

    try:
        return action()
    except Superseded as error:
        return Verdict(1, f"{error}")
    except Unreachable as error:
        return Verdict(1, f"{error} A running job saves a checkpoint and stops when the heartbeat ends.")
    except GoogleAPICallError as error:
        return Verdict(1, f"{reason(error)}. Permissions: docs/explanation/permissions-and-secrets.md.")
    except GoogleAuthError as error:
        return Verdict(1, f"the step has no credentials: {one_line(error, 300)}")
    except ValueError as error:
        return Verdict(2, f"{error}")


def _stop(number: int, frame: FrameType | None) -> None:
    """Raises Stopped, and ignores further SIGTERMs until the launcher has handled this one."""
    signal.signal(signal.SIGTERM, _pass_over)
    raise Stopped


def _pass_over(number: int, frame: FrameType | None) -> None:
    """Ignores SIGTERM. Unlike SIG_IGN, child processes do not inherit this handler."""


if __name__ == "__main__":
    sys.exit(main())
