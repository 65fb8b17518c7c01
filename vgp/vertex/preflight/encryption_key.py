"""Checks of the encryption key of runs: it exists, is enabled, and Vertex AI may use it.

https://cloud.google.com/vertex-ai/docs/general/cmek
"""

from collections.abc import Iterator
from functools import partial

from vgp.check.container_facts import engines_of_steps
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.permissions import role_for
from vgp.vertex.preflight.access import KEYS, Policies, Policy, Resource, list_service_agents
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Level, Question, call_options, skip_question
from vgp.vertex.resource_names import short

#: The agents that need the key if the project sets it as a default of the service:
#: https://cloud.google.com/bigquery/docs/customer-managed-encryption and
#: https://cloud.google.com/dataflow/docs/guides/customer-managed-encryption-keys
_AGENTS = {
    "bigquery": ("bq-{number}@bigquery-encryption.iam.gserviceaccount.com",),
    "dataflow": (
        "service-{number}@dataflow-service-producer-prod.iam.gserviceaccount.com",
        "service-{number}@compute-system.iam.gserviceaccount.com",
    ),
}


def list_questions(settings: Settings, project: Project, policies: Policies, spec: PipelineSpec) -> Iterator[Question]:
    name = settings.encryption_key
    if not name:
        yield skip_question("key.exists", "encryption key", "none is set: Google's own keys encrypt")
        return
    yield Question("key.exists", short(name), lambda: _check_key(settings, name))
    yield Question("key.agent", short(name), lambda: _check_agent(settings, name, project, policies))
    used = [service for engines in engines_of_steps(spec).values() for service in _AGENTS if getattr(engines, service)]
    for service in dict.fromkeys(used):
        yield Question(f"key.{service}", short(name), partial(_warn_of_service, name, project, service))


def _check_key(settings: Settings, name: str) -> Iterator[Finding]:
    from google.api_core import exceptions

    try:
        key = clients.keys(settings).get_crypto_key(name=name, **call_options())
    except exceptions.NotFound:
        yield _build_finding(name, "error", "is not there", f"{_format_command('create', name)} --purpose encryption")
        return
    if key.purpose.name != "ENCRYPT_DECRYPT":
        seen = f"is for {key.purpose.name}, Vertex AI takes symmetric encryption"
        yield _build_finding(name, "error", seen, "Name a key made with --purpose encryption")
    elif key.primary.state.name != "ENABLED":
        state = key.primary.state.name.removeprefix("CRYPTO_KEY_VERSION_STATE_").lower()
        number = short(key.primary.name) if key.primary.name else "VERSION"
        yield _build_finding(
            name, "error", f"its primary version is {state}", f"{_format_command('versions enable', name, number)}"
        )
    else:
        yield _build_finding(name, "ok", f"is enabled, in {settings.region}")


def _check_agent(settings: Settings, name: str, project: Project, policies: Policies) -> Iterator[Finding]:
    """Checks the key for Vertex AI's service agent, which encrypts no matter who started the run."""
    from google.iam.v1.iam_policy_pb2 import GetIamPolicyRequest

    client = clients.keys(settings)
    own = Policy.from_message(client.get_iam_policy(request=GetIamPolicyRequest(resource=name), **call_options()))
    thing = Resource("key.agent", short(name), name.split("/")[1], own, _format_command("add-iam-policy-binding", name))
    yield policies.check(next(iter(list_service_agents(project)), None), KEYS, thing)


def _warn_of_service(name: str, project: Project, service: str) -> Iterator[Finding]:
    """Warns that the steps' jobs of another service do not use the key, and names the agents that a default needs."""
    agents = [agent.format(number=project.number or "PROJECT_NUMBER") for agent in _AGENTS[service]]
    role = role_for(*KEYS)
    grants = [
        f"{_format_command('add-iam-policy-binding', name)} --member serviceAccount:{agent} --role {role}"
        for agent in agents
    ]
    seen = f"the steps' {service} jobs do not get it: their data is encrypted with {service}'s default key"
    hint = "\n".join(["If the project's default is this key, its agents need it:", *grants])
    yield Finding(f"key.{service}", short(name), "warning", seen, hint)


def _format_command(verb: str, name: str, argument: str = "") -> str:
    _, project, _, location, _, ring, _, key = name.split("/")
    arguments = f"{argument} --key {key}" if argument else key
    return f"gcloud kms keys {verb} {arguments} --keyring {ring} --location {location} --project {project}"


def _build_finding(name: str, level: Level, observation: str, hint: str = "") -> Finding:
    return Finding("key.exists", short(name), level, observation, hint)
