"""A workflow that pins first: resolve -> work -> after, with an exit handler around them."""

from typing import NamedTuple

from kfp import dsl

step = dsl.component(base_image="example.com/image:1", install_kfp_package=False)


@step
def resolve(run: str, scheduled: str, inputs: str, pins: str = "") -> NamedTuple("Pins", [("uri", str)]):  # type: ignore
    import pathlib

    return (pins or f"{inputs}/{pathlib.Path(inputs, 'data').read_text()}",)


@step
def work(pins: str) -> str:
    return pins


@step
def after(text: str, inputs: str):
    import pathlib
    import sys

    print(f"after {text}", flush=True)
    if pathlib.Path(inputs, "broken").exists():
        sys.exit("error: the disk is full")


@step
def notify(prices: dict, webhook: str, status: dsl.PipelineTaskFinalStatus) -> str:
    print(f"the run {status.state}")
    return status.state


def build(target):
    resolve_step, work_step = target.step(resolve), target.job(work, pinned=True)
    after_step, notify_step = target.step(after), target.step(notify)

    @dsl.pipeline(name="nightly")
    def nightly(inputs: str, pins: str = ""):
        with dsl.ExitHandler(notify_step(prices=target.prices(), webhook=target.webhook)):
            resolved = resolve_step(
                run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER, scheduled=target.scheduled, inputs=inputs, pins=pins
            )
            worked = work_step(pins=resolved.outputs["uri"])
            after_step(text=worked.outputs["Output"], inputs=inputs)

    return nightly
