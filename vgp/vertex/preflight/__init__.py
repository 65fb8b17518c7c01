"""Checks before a run, so that a wrong setup fails before it costs money.

preflight(settings, spec, steps)   runs every check, concurrently, in a few seconds
require_basics(settings)           makes the three calls before every submission

preflight_questions.py  findings, the questions that lead to them, and their output
account.py      credentials, project, billing, and what the caller may do
apis.py         the APIs that a run needs
region.py       machines and GPUs in the region
quota.py        whether the quotas cover the GPUs and vCPU that the steps need at one time
run_bucket.py   the bucket that runs write to, and whether it keeps the files of cached results
step_image.py   the image of the steps
builds.py       the service account of image builds
step_account.py  the account that the steps run as
encryption_key.py  the encryption key
notify_secrets.py  the secrets of notifications and MLflow
network.py      the network of training jobs
resources.py    existing resources that training jobs use: persistent resources, TensorBoards, network attachments
bigquery_needs.py  permissions and tables of steps that use BigQuery
dataflow_needs.py  permissions, machines and quotas of steps that use Dataflow
template_repository.py  the repository of templates
access.py       the permissions of an account, read from IAM policies"""

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

__all__ = ["Finding", "check_basics", "preflight", "require_basics", "require_persistent_resource"]


def preflight(
    settings: Settings,
    spec: PipelineSpec,
    steps: Sequence[StepRow],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Finding]:
    """Runs every check for a run of the compiled pipeline `spec`, whose machines are `steps`.

    `progress` receives the number of answered questions and the total.

    Raises:
        RequestError: no project is set.
    """
    project, findings = _check_project(settings)
    if not _can_continue(findings):
        return findings
    questions = _list_questions(settings, project, spec, steps)
    done = iter(range(1, len(questions) + 1))
    return findings + answer_questions(settings, questions, lambda: progress(next(done), len(questions)))


def _list_questions(
    settings: Settings, project: account.Project, spec: PipelineSpec, steps: Sequence[StepRow]
) -> list[Question]:
    policies = Policies(settings)
    return [
        *account.list_questions(settings, project),
        *apis.list_questions(settings, project, spec),
        *region.list_questions(settings, project, steps),
        *quota.list_questions(settings, project, steps, spec),
        *run_bucket.list_questions(settings, project, policies, steps),
        *step_image.list_questions(settings, project, policies),
        *builds.list_questions(settings, project, policies),
        *step_account.list_questions(settings, project, policies),
        *encryption_key.list_questions(settings, project, policies, spec),
        *network.list_questions(settings, steps),
        *resources.list_questions(settings, project, spec, steps),
        *notify_secrets.list_questions(settings, project, policies),
        *template_repository.list_questions(settings),
        *bigquery_needs.list_questions(settings, project, policies, spec),
        *dataflow_needs.list_questions(settings, project, policies, spec),
    ]


def require_basics(settings: Settings) -> list[Finding]:
    """Returns the findings of `check_basics` if none of them is an error.

    Raises:
        RequestError: no project is set.
        WorkFailed: a check failed; the message has a line and a fix for each error.
    """
    return _refuse_errors(check_basics(settings))


def require_persistent_resource(settings: Settings) -> None:
    """Raises WorkFailed if the settings name a persistent resource that does not run."""
    _refuse_errors(answer_questions(settings, resources.ask_run_resource(settings)))


def _refuse_errors(findings: list[Finding]) -> list[Finding]:
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        lines = [f"{one.subject} {one.seen}  [{one.check}]\n{indent(one.hint, '  ')}".rstrip() for one in errors]
        more = "List all checks: vgp preflight NAME. Skip the checks: --no-preflight."
        raise WorkFailed("\n".join(["preflight: nothing was started.", *lines, more]).replace("\n", "\n  "))
    return findings


def check_basics(settings: Settings) -> list[Finding]:
    """Checks credentials, project, bucket, and whether the caller may act as the runner, with three calls.

    With a persistent resource, a fourth call checks whether it runs.

    Raises:
        RequestError: no project is set.
    """
    project, findings = _check_project(settings)
    if not _can_continue(findings):
        return findings
    return findings + answer_questions(
        settings,
        [
            run_bucket.ask_state(settings, project),
            step_account.ask_act_as(settings, project),
            *resources.ask_run_resource(settings),
        ],
    )


def _check_project(settings: Settings) -> tuple[account.Project, list[Finding]]:
    """Returns the project, as far as it can be read, with the findings about it and about the credentials."""
    project = account.Project(clients.project(settings))
    question = Question("account.credentials", "credentials", lambda: account.check_credentials(project))
    findings = answer_question(settings, question)
    if _can_continue(findings):
        findings += answer_question(
            settings, Question("account.project", project.id, lambda: account.check_project(settings, project))
        )
    return project, findings


def _can_continue(findings: list[Finding]) -> bool:
    """Whether credentials and project work, without which every further question would fail."""
    signed_in = any(one.check == "account.credentials" and one.level == "ok" for one in findings)
    return signed_in and not any(one.level == "error" for one in findings)
