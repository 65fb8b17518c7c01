"""Facts about a container, from the name of its image and from the services that its environment allows.

The name of an image shows its registry, its tag, its GPU support and its architecture. One variable of a step that
prepares data holds the settings of BigQuery and Dataflow, with their maximum cost.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgp.base.documents.node import Node
from vgp.base.text.figures import format_duration, number
from vgp.check.spec.dag import Component, table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.catalog import catalog, prices
from vgp.machines.catalog.catalog import Machine
from vgp.machines.placement import plain
from vgp.machines.placement.machine_rules import Problem

if TYPE_CHECKING:
    from vgp.machines.placement.request_parts import BigQuery, Engines, Job


_OLD_REGISTRY = re.compile(r"(?:(us|eu|asia)\.)?gcr\.io/")
#: Images whose name users cannot change: Google's own launchers.
_GOOGLE_OWN = ("gcr.io/ml-pipeline/", "us-docker.pkg.dev/vertex-ai-restricted/")
_LAUNCHER = "google-cloud-pipeline-components"
_CPU_ONLY = re.compile(r"[-_.:/]cpu\b|[-_]cpu[-_.:]|(?:^|/)tensorflow/tensorflow(?!\S*gpu)|/jax-cpu")
_BARE = re.compile(r"(?:docker\.io/)?(?:library/)?(python|alpine|debian|ubuntu|busybox|golang|node)(?::|@|$)")
_INSTALLS = re.compile(r"pip3? +install[^\n]*(torch|tensorflow|jax|cuda|cupy|xgboost|rapids|vllm|transformers)", re.I)
_CUDA = re.compile(r"(?<![a-z])(?:cuda|cu)[-_.:]?(\d{2})[-_.]?(\d)", re.I)


def is_launcher(image: str) -> bool:
    """Whether the image is Google's launcher, which starts a job and waits for it."""
    return _LAUNCHER in image


def sends_mail(image: str, command: object) -> bool:
    """Whether it is Google's e-mail component. Vertex AI sends the mail itself and needs no machine for the container,
    whose code does nothing but raise.
    """
    words = command if isinstance(command, list) else []
    return is_launcher(image) and any("vertex_notification_email.executor" in str(word) for word in words)


def image_problems(image: str, command: str, accelerator: str | None, machine: Machine | None) -> list[Problem]:
    """Returns the problems that the image's name shows. `command` is the command and its arguments as one text."""
    gpu = _check_gpu(image, command, accelerator) if accelerator and not is_launcher(image) else []
    arm = _check_arm(image, machine) if machine is not None and machine.architecture == "arm64" else []
    return [*_check_naming(image), *gpu, *arm]


def _check_naming(image: str) -> list[Problem]:
    if image.startswith(_GOOGLE_OWN) or not image:
        return []
    image_problems = []
    match = _OLD_REGISTRY.match(image)
    if match:
        host = f"{ {'eu': 'europe'}.get(match.group(1) or 'us', match.group(1) or 'us') }-docker.pkg.dev"
        project, _, rest = image[match.end() :].partition("/")
        fix = f"Push it to Artifact Registry: {host}/{project}/REPOSITORY/{rest or 'IMAGE'}."
        image_problems.append(
            Problem("GPU019", "imageUri", f"{image} is in Container Registry, shut down in 2025.", fix)
        )
    name = image.rsplit("/", 1)[-1]
    if "@" in name or "{{" in image:
        return image_problems
    if ":" not in name or name.endswith(":latest"):
        fault = "has no tag, which means :latest" if ":" not in name else "is :latest"
        text = f"{image} {fault}: a rerun may get another image, and step caching does not see it change."
        prebuilt = "-docker.pkg.dev/vertex-ai/" in image
        fix = "Name a version, or better a digest: IMAGE@sha256:..."
        image_problems.append(Problem("GPU020", "imageUri", text, fix, severity="note" if prebuilt else ""))
    return image_problems


def _check_gpu(image: str, command: str, accelerator: str) -> list[Problem]:
    if _CPU_ONLY.search(image):
        text = f"{image} is a CPU image by its name; the {accelerator} would stay idle."
        return [Problem("GPU016", "imageUri", text, "Use the GPU variant of the image.")]
    bare = _BARE.match(image)
    if bare and not _INSTALLS.search(command):
        text = f"{image} has no CUDA libraries, and the command installs none: the {accelerator} would stay idle."
        return [Problem("GPU016", "imageUri", text, "Use an image with CUDA and PyTorch.")]
    return kernels(image, accelerator)


def kernels(image: str, accelerator: str) -> list[Problem]:
    """Returns a problem if the CUDA version in the image's name does not support the GPU."""
    match = _CUDA.search(image)
    return _check_kernels(image, (int(match.group(1)), int(match.group(2))), accelerator) if match else []


def _check_kernels(image: str, cuda: tuple[int, int], accelerator: str) -> list[Problem]:
    """Returns a problem if this CUDA version does not support the GPU."""
    gpu = catalog.accelerators().get(accelerator)
    least, too_new = (gpu.oldest_cuda, gpu.dropped_in_cuda) if gpu else ((), ())
    if cuda < least:
        text = f"{image} has CUDA {_format_version(cuda)}; {accelerator} needs {_format_version(least)} or newer."
        return [Problem("GPU016", "imageUri", text, f"Use an image with CUDA {_format_version(least)} or newer.")]
    if too_new and cuda >= too_new:
        dropped = f"{_format_version(too_new)} dropped them"
        text = f"{image} has CUDA {_format_version(cuda)}, without kernels for {accelerator}: {dropped}."
        return [Problem("GPU016", "imageUri", text, "Use an image with CUDA 12.6, or a newer GPU.")]
    return []


def _format_version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _check_arm(image: str, machine: Machine) -> list[Problem]:
    lowered = image.lower()
    if "arm64" in lowered or "aarch64" in lowered:
        return []
    wrong = "amd64" in lowered or "x86" in lowered
    text = f"{machine.name} has an Arm host ({machine.cpu_platform}); arm64 is not in the name of {image}."
    if wrong:
        text = f"{machine.name} has an Arm host ({machine.cpu_platform}); {image} is for x86."
    fix = "Build for linux/arm64, or as a multi-platform image."
    return [Problem("GPU018", "imageUri", text, fix, severity="error" if wrong else "")]


@dataclass(frozen=True)
class Service:
    """Another service that one attempt of a step may use."""

    name: str
    #: Its limits in words: `500 GB of queries`, `10 x n2-standard-4 for 24 h`.
    what: str
    region: str
    #: Its maximum cost; None if unknown.
    usd: float | None
    #: Maximum duration of the service's job that the step waits for.
    limit_s: float = 0

    @property
    def unknown_reason(self) -> str:
        return "" if self.usd is not None else f"no price of {self.name}, {self.what} in {self.region or 'its region'}"

    @property
    def price_date(self) -> str:
        """Returns the date of its price."""
        return prices.service_price_date(self.name)

    def as_json(self) -> dict[str, object]:
        return {"name": self.name, "what": self.what, "region": self.region, "max_usd_a_try": self.usd}


def services_of(env: Node) -> tuple[Service, ...]:
    """Returns the services in the container's environment variable; none if the variable is missing or unreadable."""
    values = [item.get("value") for item in env.items() if item.get("name").text() == plain.ENGINES_VARIABLE]
    text = values[-1].text() if values and values[-1].known else None
    engines = _parse_engines(text) if text else None
    if engines is None:
        return ()
    bigquery = [_bigquery(engines.bigquery)] if engines.bigquery else []
    return (*bigquery, *([_dataflow(engines.dataflow)] if engines.dataflow else []))


def _parse_engines(text: str) -> "Engines | None":
    from pydantic import ValidationError  # few documents need it

    from vgp.machines.placement.request_parts import Engines

    try:
        return Engines.model_validate_json(text)
    except ValidationError:
        return None


def find_early_end(used: tuple[Service, ...], timeout_s: float | None) -> Iterator[Problem]:
    """Yields a problem if the step may end before its job. An ending step cancels the job, and each retry starts a new
    one."""
    for service in used:
        if timeout_s is not None and timeout_s <= service.limit_s:
            text = (
                f"The step is ended after {format_duration(timeout_s)} and then cancels its {service.name} "
                "job, which max_hours "
                f"lets run for {format_duration(service.limit_s)}."
            )
            fix = "Raise the timeout of the step above the job's max_hours, or lower max_hours."
            yield Problem("GPU028", "timeout", text, fix, "warning")


def _bigquery(limits: "BigQuery") -> Service:
    usd = prices.bigquery_usd(limits.max_gb, limits.location)
    return Service("BigQuery", f"{number(limits.max_gb)} GB", limits.location or "anywhere", usd)


def _dataflow(limits: "Job") -> Service:
    usd = prices.dataflow_usd(limits.machine, limits.disk_gb, limits.max_workers, limits.max_hours, limits.region)
    use = f"{limits.max_workers} x {limits.machine} for {number(limits.max_hours)} h"
    return Service("Dataflow", use, limits.region, usd, limits.max_hours * 3600)


def engines_of_steps(spec: PipelineSpec) -> dict[str, "Engines"]:
    """Returns the services of each step by the name of its component; steps without any are left out."""
    every = {name.removeprefix("comp-"): _engines_of(spec, component) for name, component in spec.components.items()}
    return {name: engines for name, engines in every.items() if engines}


def bigquery_steps(spec: PipelineSpec) -> tuple[str, ...]:
    """Returns the steps that may use BigQuery."""
    return tuple(step for step, engines in engines_of_steps(spec).items() if engines.bigquery)


def _engines_of(spec: PipelineSpec, component: Component) -> "Engines | None":
    pools = table(component.content, "inputDefinitions", "parameters", "worker_pool_specs").get("defaultValue")
    if isinstance(pools, list) and pools:
        environment = table(pools[0], "container_spec").get("env")
    else:
        environment = table(spec.executor(component), "container").get("env")
    pairs = environment if isinstance(environment, list) else []
    values = [table(pair).get("value") for pair in pairs if table(pair).get("name") == plain.ENGINES_VARIABLE]
    return _parse_engines(str(values[-1])) if values else None
