"""Container images: what their names tell about registry, pinning, GPU support and architecture."""

import re

from vgp.machines.catalog.hardware import Machine
from vgp.machines.placement.machine_rules import Problem

_OLD_REGISTRY = re.compile(r"(?:(us|eu|asia)\.)?gcr\.io/")
#: Images that their readers cannot rename: Google's own launchers.
_GOOGLE_OWN = ("gcr.io/ml-pipeline/", "us-docker.pkg.dev/vertex-ai-restricted/")
_LAUNCHER = "google-cloud-pipeline-components"
_CPU_ONLY = re.compile(r"[-_.:/]cpu\b|[-_]cpu[-_.:]|(?:^|/)tensorflow/tensorflow(?!\S*gpu)|/jax-cpu")
_BARE = re.compile(r"(?:docker\.io/)?(?:library/)?(python|alpine|debian|ubuntu|busybox|golang|node)(?::|@|$)")
_INSTALLS = re.compile(r"pip3? +install[^\n]*(torch|tensorflow|jax|cuda|cupy|xgboost|rapids|vllm|transformers)", re.I)
_CUDA = re.compile(r"(?<![a-z])(?:cuda|cu)[-_.:]?(\d{2})[-_.]?(\d)", re.I)

#: Oldest CUDA with kernels for the GPU. https://docs.nvidia.com/cuda/archive (release notes; read 2026-11-20)
_MIN_CUDA = {
    "NVIDIA_TESLA_A100": (11, 0), "NVIDIA_A100_80GB": (11, 0), "NVIDIA_L4": (11, 1),
    "NVIDIA_H100_80GB": (11, 8), "NVIDIA_H100_MEGA_80GB": (11, 8), "NVIDIA_H200_141GB": (11, 8),
    "NVIDIA_B200": (12, 8), "NVIDIA_GB200": (12, 8), "NVIDIA_RTX_PRO_6000": (12, 8),
}  # fmt: skip
#: First CUDA whose compiler and libraries have none for the GPU any more: 13.0 ends with compute capability 7.5.
#: https://developer.nvidia.com/blog/navigating-gpu-architecture-support-a-guide-for-nvidia-cuda-developers and
#: https://github.com/pytorch/pytorch/issues/172352 (PyTorch's builds; both read 2026-11-22)
_TOO_NEW_CUDA = dict.fromkeys(("NVIDIA_TESLA_V100", "NVIDIA_TESLA_P100", "NVIDIA_TESLA_P4"), (13, 0))


def is_launcher(image: str) -> bool:
    """Google's image that starts a job and waits: it trains nothing itself."""
    return _LAUNCHER in image


def sends_mail(image: str, command: object) -> bool:
    """Whether it is Google's e-mail component: Vertex AI sends the mail itself, and needs no machine for the container,
    whose code does nothing but raise.
    """
    words = command if isinstance(command, list) else []
    return is_launcher(image) and any("vertex_notification_email.executor" in str(word) for word in words)


def problems(image: str, command: str, accelerator: str | None, machine: Machine | None) -> list[Problem]:
    """What the image's name says against it. `command` is command and arguments in one text."""
    gpu = _gpu(image, command, accelerator) if accelerator and not is_launcher(image) else []
    arm = _arm(image, machine) if machine is not None and machine.architecture == "arm64" else []
    return [*_naming(image), *gpu, *arm]


def _naming(image: str) -> list[Problem]:
    if image.startswith(_GOOGLE_OWN) or not image:
        return []
    problems = []
    match = _OLD_REGISTRY.match(image)
    if match:
        host = f"{ {'eu': 'europe'}.get(match.group(1) or 'us', match.group(1) or 'us') }-docker.pkg.dev"
        project, _, rest = image[match.end() :].partition("/")
        fix = f"Push it to Artifact Registry: {host}/{project}/REPOSITORY/{rest or 'IMAGE'}."
        problems.append(Problem("GPU019", "imageUri", f"{image} is in Container Registry, shut down in 2025.", fix))
    name = image.rsplit("/", 1)[-1]
    if "@" in name or "{{" in image:
        return problems
    if ":" not in name or name.endswith(":latest"):
        what = "has no tag, which means :latest" if ":" not in name else "is :latest"
        text = f"{image} {what}: a rerun may get another image, and step caching does not see it change."
        prebuilt = "-docker.pkg.dev/vertex-ai/" in image
        fix = "Name a version, or better a digest: IMAGE@sha256:..."
        problems.append(Problem("GPU020", "imageUri", text, fix, severity="note" if prebuilt else ""))
    return problems


def _gpu(image: str, command: str, accelerator: str) -> list[Problem]:
    if _CPU_ONLY.search(image):
        text = f"{image} is a CPU image by its name; the {accelerator} would stay idle."
        return [Problem("GPU016", "imageUri", text, "Take the GPU variant of the image.")]
    bare = _BARE.match(image)
    if bare and not _INSTALLS.search(command):
        text = f"{image} has no CUDA libraries, and the command installs none: the {accelerator} would stay idle."
        return [Problem("GPU016", "imageUri", text, "Take an image with CUDA and PyTorch.")]
    return kernels(image, accelerator)


def kernels(image: str, accelerator: str) -> list[Problem]:
    """Whether the CUDA that the image's name tells has kernels for the GPU; nothing where it tells none."""
    match = _CUDA.search(image)
    return _kernels(image, (int(match.group(1)), int(match.group(2))), accelerator) if match else []


def _kernels(image: str, cuda: tuple[int, int], accelerator: str) -> list[Problem]:
    """Whether the image's CUDA has kernels for the GPU."""
    least, too_new = _MIN_CUDA.get(accelerator, cuda), _TOO_NEW_CUDA.get(accelerator)
    if cuda < least:
        text = f"{image} has CUDA {_dotted(cuda)}; {accelerator} needs {_dotted(least)} or newer."
        return [Problem("GPU016", "imageUri", text, f"Take an image with CUDA {_dotted(least)} or newer.")]
    if too_new and cuda >= too_new:
        text = f"{image} has CUDA {_dotted(cuda)}, without kernels for {accelerator}: {_dotted(too_new)} dropped them."
        return [Problem("GPU016", "imageUri", text, "Take an image with CUDA 12.6, or a newer GPU.")]
    return []


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _arm(image: str, machine: Machine) -> list[Problem]:
    lowered = image.lower()
    if "arm64" in lowered or "aarch64" in lowered:
        return []
    wrong = "amd64" in lowered or "x86" in lowered
    text = f"{machine.name} has an Arm host ({machine.cpu_platform}); the name of {image} does not say arm64."
    if wrong:
        text = f"{machine.name} has an Arm host ({machine.cpu_platform}); {image} is for x86."
    fix = "Build for linux/arm64, or as a multi-platform image."
    return [Problem("GPU018", "imageUri", text, fix, severity="error" if wrong else "")]
