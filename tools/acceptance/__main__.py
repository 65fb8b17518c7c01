"""Checks on a real project the behaviour that the documents call not verified, for about a dollar.

    scripts/acceptance.sh PROJECT                    # shows its cost and asks
    scripts/acceptance.sh PROJECT --yes --no-gpu     # without asking, without a GPU
    scripts/acceptance.sh PROJECT --clean            # deletes what an interrupted acceptance left

Region, bucket, image, account, network and key are those of pipelines.toml or PIPELINES_... variables; set the last
three to check their placeholders. Only the transcript stays, and all names are removed from it.

Exit codes: 0 all as expected, or unknown; 1 a check differs; 2 wrong request; 130 interrupted.
"""

import argparse
import secrets
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vgp import __version__
from vgp.base.clock import Clock
from vgp.base.documents.document import Document
from vgp.base.errors import RequestError, WorkFailed
from vgp.check import cost_bound
from vgp.check.checker import check
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.placement.step_request import Request
from vgp.settings import Settings, load
from vgp.vertex import clients
from vgp.workflow.compiling.compile import note_placeholder_image

from . import checks, cloud, transcript, workflows

#: The price of a run in Vertex AI Pipelines: https://cloud.google.com/vertex-ai/pricing#pipelines
RUN_USD = 0.03
SMALL = Request(machine="e2-standard-4", timeout="10m", retries=0)
STEPS = {
    **dict.fromkeys(("write", "again", "read", "echo", "turn", "stay", "tick", "fit"), SMALL),
    "late": Request(machine="e2-standard-4", timeout="30s", retries=1),
    "gpu": Request(machine="n1-standard-4", accelerator="T4", count=1, timeout="15m"),
}


def main() -> int:
    given = _arguments()
    try:
        settings = load(overrides={"project": given.project}).model_copy(update={"steps": STEPS, "experiment": None})
        clients.bucket(settings)
        if not given.public and not given.clean and note_placeholder_image(settings):
            raise RequestError("no image is built yet: vgp image build, or --public for one of Docker Hub.")
        stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        here = cloud.Cloud(settings, stamp, Clock(), given.poll, lambda line: print(line, flush=True))
        if given.clean:
            return 1 if cloud.clean(here, "*") else 0
        specs = workflows.specs(settings, public=given.public, gpu=given.gpu)
        confirm(settings, specs, given.yes)
        rows = accept(here, specs)
    except (RequestError, WorkFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    owner = "another: endpoints are set" if settings.endpoints else "Google's"
    about = {"stamp": stamp, "cloud": owner, "region": settings.region, "version": __version__}
    paths = transcript.write(given.out, about, rows, list_private_names(settings))
    print(f"\nwritten: {', '.join(map(str, paths))}. Put the first into tools/acceptance/transcripts/.")
    return int(any(row.verdict == transcript.DIFFERENT for row in rows))


def accept(here: cloud.Cloud, specs: dict[str, PipelineSpec]) -> list[transcript.Row]:
    """Runs the checks, prints each row at once, and returns all rows. Deletes everything that it created."""
    rows = []
    with cloud.clean_up_after(here):
        for row in checks.rows(here, specs):
            here.log(transcript.redact(f"\n{row}", list_private_names(here.settings)))
            rows.append(row)
    return rows


def list_private_names(settings: Settings) -> list[str]:
    """Returns the names that a transcript must not contain."""
    bucket = (settings.bucket or "").removeprefix("gs://").split("/")[0]
    return [settings.project or "", bucket]


def confirm(settings: Settings, specs: dict[str, PipelineSpec], yes: bool) -> None:
    """Shows the cost and asks for confirmation. Raises RequestError without one."""
    report = check([Document(name, dict(spec.content), spec.text) for name, spec in specs.items()],
                   regions=[settings.region])  # fmt: skip
    machines, runs = cost_bound.most_usd(report.steps), len(specs) + 1
    print(f"{runs} runs of small steps in {settings.region} of {settings.project}: half an hour, usually below $1.")
    print(f"At most ${machines:.2f} for machines and ${runs * RUN_USD:.2f} for runs; one comes mostly from the cache.")
    print(f"Everything lies below {settings.bucket}/{cloud.LABEL}/ and is deleted at the end.")
    if yes:
        return
    if not sys.stdin.isatty() or input("Go on? [y/N]: ").strip().lower() not in ("y", "yes"):
        raise RequestError("nothing was started: answer y, or give --yes.")


def _arguments() -> Any:
    parser = argparse.ArgumentParser(prog="scripts/acceptance.sh", description=__doc__.splitlines()[0])
    parser.add_argument("project", metavar="PROJECT")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--gpu", action=argparse.BooleanOptionalAction, default=True, help="also on one T4")
    parser.add_argument(
        "--public", action="store_true", help=f"steps in {workflows.PUBLIC}, not in the project's image"
    )
    parser.add_argument("--clean", action="store_true", help="only delete what earlier ones left")
    parser.add_argument("--out", type=Path, default=Path("build/acceptance"), help="folder of the transcript")
    parser.add_argument("--poll", type=float, default=10.0, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # SIGTERM cleans up too
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        print(
            "interrupted; what was made is deleted. To be sure: scripts/acceptance.sh PROJECT --clean", file=sys.stderr
        )
        raise SystemExit(130) from None
