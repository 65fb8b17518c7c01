"""A Google Cloud on this machine, to try every command without an account.

    python -m tools.emulator                     # a minute passes in a second; Ctrl-C ends it
    source build/loopback.env                    # in another terminal
    vgp init --project test-project --yes
    vgp image build --allow-dirty
    vgp submit training --wait

Real clients, Google's published protocol, nothing of Google: no step does any work here, its time only passes. With
`--work FOLDER` each step and each machine of a custom job is a process on this machine: use --speed 20 or less.
Who works in another region gives `--region europe-west4` here and to `init`.
"""

import argparse
import os
import shlex
import signal
from pathlib import Path

from .capacity import World
from .cloud import Cloud
from .example import add_flights, furnish

#: Variables that would override the settings file, and the proxy that would block all other hosts of a terminal.
SETTINGS = ("PIPELINES_PROJECT", "PIPELINES_REGION", "PIPELINES_BUCKET", "PIPELINES_TEMPLATE_REPOSITORY")
PROXY = ("HTTPS_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE")


def folder(text: str) -> Path:
    """Returns the folder of an option, and creates it if needed."""
    try:
        Path(text).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{text} cannot be a folder for the files of steps: {error.strerror}"
        ) from None
    return Path(text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.emulator", description=__doc__.splitlines()[0])
    parser.add_argument("--region", default="us-central1", help="of its bucket and repositories (default: us-central1)")
    parser.add_argument("--speed", type=float, default=60, help="seconds that pass in a second (default: 60)")
    parser.add_argument("--out", type=Path, default=Path("build/loopback.env"), help="where the variables are written")
    parser.add_argument(
        "--work", type=folder, metavar="FOLDER", help="steps and jobs work, their files are below FOLDER"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the capacity that jobs find (with --work; default: 0)")
    given = parser.parse_args()
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before there are threads, one of which would get them
    with Cloud(region=given.region) as cloud:
        furnish(cloud)
        add_flights(cloud)
        cloud.clock.run(given.speed)
        if given.work:
            machines = cloud.custom_jobs.works(given.work.resolve(), World(given.seed)).machines
            machines.gpus_as_processes = True
            cloud.pipeline_jobs.works(machines)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        variables = cloud.environment | cloud.bigquery.environment
        variables = {name: value for name, value in variables.items() if name.upper() not in SETTINGS + PROXY}
        os.environ.update(variables)  # pipelines of Dataflow run in this process
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
        given.out.write_text("".join(lines))
        print(f"Google Cloud is on loopback, {given.speed:g} times as fast as time. In another terminal:", flush=True)
        print(f"  source {given.out}\nCtrl-C ends it.", flush=True)
        signal.sigwait(ends)
    given.out.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
