"""The rules of the checker: stable ids, names and severities. docs/reference/rules has a page for each id."""

from collections.abc import Iterable
from dataclasses import dataclass

from vgp.base.errors import RequestError

ERROR, WARNING, NOTE = "error", "warning", "note"


@dataclass(frozen=True)
class Rule:
    id: str
    name: str
    severity: str
    title: str

    @property
    def page(self) -> str:
        return f"docs/reference/rules/{self.id}.md"


@dataclass(frozen=True)
class Problem:
    """A problem of a request, without its file and step."""

    rule: str
    field: str
    message: str
    suggestion: str = ""
    severity: str = ""
    #: Field values of the nearest working request.
    nearest: tuple[tuple[str, str | int], ...] = ()

    @property
    def level(self) -> str:
        return self.severity or RULES[self.rule].severity


class PlacementError(RequestError):
    """No machine meets the request; with the step, if there are several, and the problem."""

    def __init__(self, problem: Problem, asked: str = "") -> None:
        self.problem, self.asked = problem, asked
        reason = f"{problem.message}\n  {problem.suggestion}".rstrip()
        super().__init__(f"{asked}.  [{problem.rule}]\n  {reason}" if asked else reason)


def first_error(problems: Iterable[Problem]) -> Problem | None:
    return next((problem for problem in problems if problem.level == "error"), None)


def refuse(problems: Iterable[Problem], asked: str = "") -> None:
    """Raises PlacementError for the first error among the problems."""
    problem = first_error(problems)
    if problem is not None:
        raise PlacementError(problem, asked)


_ROWS = (
    ("GPU001", "unknown-machine", ERROR, "The machine type does not exist in custom training"),
    ("GPU002", "unknown-accelerator", ERROR, "The accelerator does not exist"),
    ("GPU003", "count-not-allowed", ERROR, "The machine does not take this many of the accelerator"),
    ("GPU004", "accelerator-not-on-machine", ERROR, "The machine takes no accelerator, or another one"),
    ("GPU005", "half-a-gpu-request", ERROR, "Accelerator type without count, or count without type"),
    ("GPU006", "machine-without-its-gpu", ERROR, "A machine with built-in GPUs is asked for without them"),
    ("GPU007", "pool-shape", ERROR, "The worker pools have a shape that no job can have"),
    ("GPU008", "mixed-machines-flex-start", ERROR, "Flex-start needs the same machine in every pool"),
    ("GPU009", "strategy-not-offered", ERROR, "The machine is not offered with this scheduling strategy"),
    ("GPU010", "region-without-accelerator", ERROR, "The region has no such accelerator for training"),
    ("GPU011", "retired-hardware", ERROR, "The accelerator is retired or about to be"),
    ("GPU012", "boot-disk", ERROR, "The machine does not take this boot disk"),
    ("GPU013", "reservation", ERROR, "The reservation contradicts itself or the job"),
    ("GPU014", "plain-step-limits", ERROR, "A plain pipeline step cannot get this machine"),
    ("GPU015", "unresolvable-value", ERROR, "A placeholder that no run time can resolve"),
    ("GPU016", "image-cannot-use-gpu", WARNING, "The image cannot use the GPU that the step asks for"),
    ("GPU017", "default-quota", WARNING, "The default quota is 0 or below what the job needs"),
    ("GPU018", "arm-image", WARNING, "The machine's host is Arm: the image must be too"),
    ("GPU019", "deprecated-registry", WARNING, "The image is in Container Registry, which is shut down"),
    ("GPU020", "latest-tag", WARNING, "The image is not pinned"),
    ("GPU021", "missing-timeout", WARNING, "A GPU job without a timeout may run, and cost, for seven days"),
    ("GPU022", "nccl", NOTE, "Several GPUs need several processes, and NCCL may need settings"),
    ("GPU023", "shared-memory", NOTE, "Vertex AI training has no setting for /dev/shm"),
    ("GPU024", "not-checkable", NOTE, "The value is known only at run time"),
    ("GPU025", "malformed", ERROR, "The field has a value of the wrong kind, or a needed one is missing"),
    ("GPU026", "pools-as-mapping", WARNING, "workerPoolSpecs is a mapping, which Google's Python client refuses"),
    ("GPU027", "legacy-service", WARNING, "AI Platform Training is shut down"),
    ("GPU028", "scheduling", ERROR, "The scheduling of the job contradicts itself"),
    ("GPU029", "request-on-launcher", WARNING, "The request reaches the launcher, not the training job"),
    ("GPU030", "unknown-region", ERROR, "Vertex AI custom training has no such region"),
    ("GPU031", "internal", ERROR, "The document could not be judged to its end"),
    ("GPU032", "tpu-topology", ERROR, "The TPU machine has no such topology"),
    ("GPU033", "secret-in-env", WARNING, "A variable of the container looks like a credential"),
    ("GPU034", "broken-command", ERROR, "The command or call fails before it asks for a machine"),
    ("GPU035", "job-fields", ERROR, "Two fields of the job exclude each other, or one cannot be"),
    ("GPU036", "reduction-server", WARNING, "Reduction servers that the workers may not use"),
)

RULES = {row[0]: Rule(*row) for row in _ROWS}
_BY_NAME = {rule.name: rule for rule in RULES.values()}


def rule(name: str) -> Rule:
    """The rule with that id (GPU003, any case) or name (count-not-allowed)."""
    rule = RULES.get(name.upper()) or _BY_NAME.get(name.lower())
    if rule is None:
        raise ValueError(
            f"No rule is called '{name}'. The rules: {', '.join(RULES)}; docs/reference/rules describes them."
        )
    return rule
