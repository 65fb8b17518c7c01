"""A pipeline of seconds, in a repository of its own: vgp run small --set text=hello"""

from kfp import dsl

from vgp.workflow import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def show(text: str, things: dict, mark: str) -> str:
    import os
    import time

    print(f"shown: {text!a} {things!r} \u2713")
    print(things.get("say", ""))
    os.write(1, b"title \x1b]0;evil\x07 \x1b[2J byte \xff\n")
    if mark:
        open(mark, "w").close()
        time.sleep(60)
    return text


@dsl.component(base_image="example.com/own:1", install_kfp_package=False)
def own(text: str):
    print(f"own: {text}")


def build(target):
    showing, owning = target.step(show), target.step(own)

    @dsl.pipeline(name="small", description="Shows [what] it is given.")
    def small(text: str = "hello", things: dict = {}, mark: str = "", job: str = "{{$.pipeline_job_uuid}}"):  # noqa: B006
        shown = showing(text=text, things=things, mark=mark)
        with dsl.If(shown.output == "go"):
            owning(text=job)

    return small
