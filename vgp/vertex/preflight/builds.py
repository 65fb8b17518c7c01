"""Checks of the service account of image builds: which one it is, who may act as it, and its permissions.

Every problem is a warning, because a run may use an existing image.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from vgp.base.text import google_names
from vgp.settings import Settings
from vgp.vertex import clients, rest
from vgp.vertex.permissions import ACT_AS, act_as, list_needed_permissions
from vgp.vertex.preflight.access import Policies, Policy, Resource
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options, skip_question
from vgp.vertex.preflight.step_image import Image, parse_image, read_repository_policy

#: Cloud Build's own account in older projects, which every caller with the permission to build may use.
_LEGACY = "@cloudbuild.gserviceaccount.com"
_WHERE = re.compile(r"resource\.name\.startsWith\(\s*[\"']projects/_/buckets/(?P<place>[^\"']+)[\"']\s*\)")


def list_questions(settings: Settings, project: Project, policies: Policies) -> Iterator[Question]:
    image = parse_image(settings.image)
    if image is None or not settings.bucket:
        yield skip_question(
            "builds.account", "image builds", "no image in Artifact Registry, or no bucket for its sources"
        )
        return
    subject = settings.build_service_account or "Cloud Build's default account"
    yield Question("builds.account", subject, lambda: _check_account(settings, project, policies, image))


def _check_account(settings: Settings, project: Project, policies: Policies, image: Image) -> Iterator[Finding]:
    email = settings.build_service_account or _read_default(settings, project)
    yield _report_account(settings, email, project)
    if not email:
        return
    if not email.endswith(_LEGACY):
        yield from _check_act_as(settings, email, project)
    may = [
        policies.check(email, list_needed_permissions("builder", "images"), _image_repository(settings, image)),
        *(policies.check(email, permissions, thing) for permissions, thing in _list_bucket_needs(settings, project)),
        policies.check(email, list_needed_permissions("builder", "project"), _project(project)),
    ]
    yield from (replace(one, level="warning") if one.level == "error" else one for one in may)


def _read_default(settings: Settings, project: Project) -> str:
    """https://cloud.google.com/build/docs/cloud-build-service-account-updates"""
    path = f"v1/projects/{project.id}/locations/{settings.region}/defaultServiceAccount"
    named = rest.call(settings, "cloudbuild", path, **call_options()).get("serviceAccountEmail", "")
    return str(named).rpartition("/")[2]


def _report_account(settings: Settings, email: str, project: Project) -> Finding:
    if settings.build_service_account:
        return Finding("builds.account", email, "ok", "runs the image builds")
    create = (
        f"gcloud iam service-accounts create pipelines-builder --project {project.id}\n"
        f'then in pipelines.toml: build_service_account = "pipelines-builder@{project.id}.iam.gserviceaccount.com"'
    )
    if not email:
        seen = "is none in this project, and build_service_account is not set: every build would be refused"
        return Finding("builds.account", "Cloud Build's default account", "warning", seen, create)
    seen = "runs the image builds, because build_service_account is not set; it has more permissions than a build needs"
    return Finding("builds.account", email, "warning", seen, create)


def _check_act_as(settings: Settings, email: str, project: Project) -> Iterator[Finding]:
    from google.api_core import exceptions

    path, body = f"v1/projects/-/serviceAccounts/{email}:testIamPermissions", {"permissions": [ACT_AS]}
    try:
        answer = rest.call(settings, "iam", path, body=body, **call_options())
    except exceptions.NotFound:
        yield Finding("builds.act_as", email, "warning", "is not there: no image can be built as it")
        return
    if ACT_AS in answer.get("permissions", ()):
        yield Finding("builds.act_as", email, "ok", "lets you act as it")
        return
    member = project.principal if ":" in project.principal else "user:YOU"
    seen = "does not let you act as it: you can build no image"
    yield Finding("builds.act_as", email, "warning", seen, act_as(email, member, project.id))


def _image_repository(settings: Settings, image: Image) -> Resource:
    subject = f"{image.location}-docker.pkg.dev/{image.project}/{image.repository}"
    return Resource("builds.images", subject, image.project, read_repository_policy(settings, image), image.grant)


def _project(project: Project) -> Resource:
    grant = f"gcloud projects add-iam-policy-binding {project.id}"
    return Resource("builds.logs", project.id, project.id, Policy(), grant)


def _list_bucket_needs(settings: Settings, project: Project) -> Iterator[tuple[tuple[str, ...], Resource]]:
    """Yields the permissions that the builder needs, on the objects below builds/ and on the bucket."""
    name, folder = google_names.split_uri(f"{clients.bucket(settings)}/builds/")
    policy = clients.storage(settings).bucket(name).get_iam_policy(requested_policy_version=3, **call_options())
    grant = f"gcloud storage buckets add-iam-policy-binding gs://{name}"
    below = Policy.from_json(
        {"bindings": [_drop_infra_condition(binding, f"{name}/objects/{folder}") for binding in policy.bindings]}
    )
    yield (
        list_needed_permissions("builder", "builds"),
        Resource("builds.source", f"gs://{name}/{folder}", project.id, below, grant),
    )
    yield (
        list_needed_permissions("builder", "bucket"),
        Resource("builds.source", f"gs://{name}", project.id, Policy.from_storage(policy), grant),
    )


def _drop_infra_condition(binding: dict[str, object], place: str) -> dict[str, object]:
    """Returns the binding without the condition that infra/ sets, if that condition covers `place`."""
    condition = binding.get("condition")
    where = _WHERE.fullmatch(str(condition["expression"]).strip()) if isinstance(condition, dict) else None
    return {**binding, "condition": None} if where and place.startswith(where["place"]) else binding
