"""The verb that looks before a run: preflight."""

import typer

from vgp.cli.options import Environment, Json, SettingsFile, Workflow, console, load_settings, print_json

app = typer.Typer()


@app.command(epilog="Example: vgp preflight training --env prod")
def preflight(
    name: Workflow,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Look for what would stop a run, before it costs money: nothing is changed, nothing started.

    Credentials, APIs, machines in the region, quota, bucket, image, service account, key, network and repository,
    each with the command that puts it right. What you may not see is unknown, not ok. Exit code 1: there are errors.
    """
    from vgp.vertex.preflight import preflight, preflight_questions
    from vgp.workflow.compiling.compile import compiled

    loaded = load_settings(settings, environment)
    workflow = compiled(name, loaded)
    with console(stderr=True).status("looking ...") as status:
        findings = preflight(
            loaded, workflow.spec, workflow.report.steps,
            progress=lambda done, of: status.update(f"looking ... {done} of {of}"),
        )  # fmt: skip
    if as_json:
        print_json(preflight_questions.findings_json(name, findings))
    else:
        for line in preflight_questions.lines(findings):
            console().print(line, soft_wrap=True)
        console().print(preflight_questions.summary(findings), highlight=False)
    raise typer.Exit(int(preflight_questions.counts(findings)["error"] > 0))
