"""What would stop a run, found before it costs money.

preflight(settings, spec, steps)   everything, side by side, in a few seconds
refuse_cheaply(settings)           the three calls before every submission

preflight_questions.py  what is said of one thing, the question whose answer it is, all asked side by side, and shown
account.py      credentials, project, billing, and what the caller may do
apis.py         the APIs that a run needs
region.py       machines and GPUs in the region
quota.py        whether the quotas cover what the steps draw on each at a time
run_bucket.py   the bucket that runs write to, and whether it keeps what a cached result points at
step_image.py   the image of the steps
builds.py       the account that image builds work as
step_account.py  the account that the steps run as
encryption_key.py  the encryption key
notify_secrets.py  the secrets of notifications and MLflow
network.py      the network of training jobs
resources.py    what training jobs name besides: persistent resources, TensorBoards, network attachments
bigquery_needs.py  what steps use of BigQuery
dataflow_needs.py  what steps use of Dataflow
template_repository.py  the repository of templates
access.py       whether an account may do what a run needs, read from policies"""

from collections.abc import Callable, Sequence
from textwrap import indent

from vgp.base.errors import WorkFailed
from vgp.check.check_finding import StepRow
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.preflight import (
    account,
    apis,
    bigquery_needs,
    builds,
    dataflow_needs,
    encryption_key,
    network,
    notify_secrets,
    quota,
    region,
    resources,
    run_bucket,
    step_account,
    step_image,
    template_repository,
)
from vgp.vertex.preflight.access import Policies
from vgp.vertex.preflight.preflight_questions import Finding, Question, answer_question, answer_questions

__all__ = ["Finding", "cheap", "preflight", "refuse_cheaply"]


def preflight(
    settings: Settings,
    spec: PipelineSpec,
    steps: Sequence[StepRow],
    *,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Finding]:
    """Everything that can be looked at before a run of the compiled pipeline `spec`, whose machines are `steps`.

    `progress` receives the number of answered questions and the total.

    Raises:
        RequestError: no project is set.
    """
    project, findings = _project(settings)
    if not _goes_on(findings):
        return findings
    questions = _questions(settings, project, spec, steps)
    done = iter(range(1, len(questions) + 1))
    return findings + answer_questions(settings, questions, lambda: progress(next(done), len(questions)))


def _questions(
    settings: Settings, project: account.Project, spec: PipelineSpec, steps: Sequence[StepRow]
) -> list[Question]:
    policies = Policies(settings)
    return [
        *account.questions(settings, project),
        *apis.questions(settings, project, spec),
        *region.questions(settings, project, steps),
        *quota.questions(settings, project, steps, spec),
        *run_bucket.questions(settings, project, policies, steps),
        *step_image.questions(settings, project, policies),
        *builds.questions(settings, project, policies),
        *step_account.questions(settings, project, policies),
        *encryption_key.questions(settings, project, policies),
        *network.questions(settings, steps),
        *resources.questions(settings, project, spec),
        *notify_secrets.questions(settings, project, policies),
        *template_repository.questions(settings),
        *bigquery_needs.questions(settings, project, policies, spec),
        *dataflow_needs.questions(settings, project, policies, spec),
    ]


def refuse_cheaply(settings: Settings) -> list[Finding]:
    """The findings of `cheap`, if none is an error.

    Raises:
        RequestError: no project is set.
        WorkFailed: one line for each error, with what to do.
    """
    findings = cheap(settings)
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        lines = [f"{one.subject} {one.seen}  [{one.check}]\n{indent(one.hint, '  ')}".rstrip() for one in errors]
        more = "List all checks: vgp preflight NAME. Skip the checks: --no-preflight."
        raise WorkFailed("\n".join(["preflight: nothing was started.", *lines, more]).replace("\n", "\n  "))
    return findings


def cheap(settings: Settings) -> list[Finding]:
    """Credentials, project, bucket, and whether the caller may act as the runner: three calls, less than a second.

    Raises:
        RequestError: no project is set.
    """
    project, findings = _project(settings)
    if not _goes_on(findings):
        return findings
    return findings + answer_questions(
        settings, [run_bucket.state(settings, project), step_account.act_as(settings, project)]
    )


def _project(settings: Settings) -> tuple[account.Project, list[Finding]]:
    """The project as far as it can be seen, and the findings about it and about who asks."""
    known = account.Project(clients.project(settings))
    asked = Question("account.credentials", "credentials", lambda: account.credentials(known))
    findings = answer_question(settings, asked)
    if _goes_on(findings):
        findings += answer_question(
            settings, Question("account.project", known.id, lambda: account.project(settings, known))
        )
    return known, findings


def _goes_on(findings: list[Finding]) -> bool:
    """Without credentials or project every further question would only fail."""
    signed_in = any(one.check == "account.credentials" and one.level == "ok" for one in findings)
    return signed_in and not any(one.level == "error" for one in findings)
