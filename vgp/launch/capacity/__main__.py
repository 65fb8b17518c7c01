"""The container of a step with a ladder on Vertex AI.

    python3 -m vgp.launch.capacity --plan JSON [--size NAME] --executor_input JSON

Exit codes: 0 the work is done; 1 it failed; 2 the plan or an input is wrong; 143 the run was cancelled, and its job.
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
from vgp.base.text.figures import took
from vgp.base.text.printable import one_line, printable
from vgp.launch.capacity.climb import Climb
from vgp.launch.capacity.patience import Stopped, Superseded, Unreachable, reason
from vgp.launch.capacity.step_run import StepRun, why_ended
from vgp.launch.capacity.verdict import Verdict
from vgp.protocol.capacity.plan import Plan


def main(arguments: Sequence[str] | None = None, clock: Clock | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python3 -m vgp.launch.capacity", description=__doc__)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--size", default="")
    parser.add_argument("--executor_input", required=True)
    given = parser.parse_args(arguments)
    try:
        plan, run = _checked(given.plan, given.size), StepRun.read(given.executor_input)
    except ValueError as error:
        tell(f"error: {error}")
        return 2
    verdict = launched(plan, run, clock or Clock())
    for line in verdict.lines:
        print(line, file=sys.stderr, flush=True)
    tell(verdict.words)
    return verdict.code


def launched(plan: Plan, run: StepRun, clock: Clock) -> Verdict:
    """How the step ends; SIGTERM is handled from here on, and means nothing any more once this has returned."""
    launcher, climbs, since = uuid.uuid4().hex, list[Climb](), clock.now()

    def climb(go: Callable[[Climb], Verdict]) -> Verdict:
        with google_api.session() as session:
            climbs.append(Climb(plan, run, session, launcher, clock, tell))
            return go(climbs[-1])

    def after_sigterm() -> Verdict:
        """Another SIGTERM that comes while the state is asked may be a cancellation's: then it is asked again."""
        began = any(each.journal.term for each in climbs)
        if why := why_ended(plan, run.run, clock):
            signal.signal(signal.SIGTERM, _pass_over)
            tell(f"SIGTERM: {why}; its job is cancelled")
            return climb(partial(Climb.cancel, why=why, again=began, since=since))
        tell(
            "SIGTERM, but the run goes on, so it is this machine that goes: the job is left to the launcher that "
            f"follows. Without one it saves and stops after {took(plan.orphan_s)}"
        )
        return climb(partial(Climb.go_on, again=began, since=since))

    work: Callable[[], Verdict] = partial(climb, Climb.go)
    while True:
        try:
            signal.signal(signal.SIGTERM, _stop)
            ended = _explained(work)
            signal.signal(signal.SIGTERM, _pass_over)
            return ended
        except Stopped:
            work = after_sigterm


def tell(text: str) -> None:
    """A line in the log of the step."""
    print(one_line(printable(text)), file=sys.stderr, flush=True)


def _checked(text: str, size: str) -> Plan:
    plan = Plan.from_json(text).of_size(size)
    if plan.project.startswith("{{"):
        raise ValueError(f"the project of the plan is {plan.project}: Vertex AI replaces that in a container.")
    return plan


def _explained(go: Callable[[], Verdict]) -> Verdict:
    """What Google refused, or did not answer, as a sentence."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError

    try:
        return go()
    except Superseded as error:
        return Verdict(1, f"{error}")
    except Unreachable as error:
        return Verdict(1, f"{error} A job that runs saves and stops once it misses the heartbeat.")
    except GoogleAPICallError as error:
        return Verdict(1, f"{reason(error)}. Permissions: docs/explanation/permissions-and-secrets.md.")
    except GoogleAuthError as error:
        return Verdict(1, f"the step has no credentials: {one_line(error, 300)}")
    except ValueError as error:
        return Verdict(2, f"{error}")


def _stop(number: int, frame: FrameType | None) -> None:
    """Once: others that come before the launcher is ready for the next one mean the same."""
    signal.signal(signal.SIGTERM, _pass_over)
    raise Stopped


def _pass_over(number: int, frame: FrameType | None) -> None:
    """In place of SIG_IGN, which processes inherit, and of which Python complains where a signal has just come."""


if __name__ == "__main__":
    sys.exit(main())
