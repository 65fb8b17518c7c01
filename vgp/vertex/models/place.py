"""Which registry is meant: the one beside the runs of this machine, that of a bucket, or one by its name."""

from dataclasses import dataclass
from pathlib import Path

from vgp.base.errors import RequestError
from vgp.settings import Settings, load, repository_of

#: Beside the folders of local runs.
LOCAL = Path("runs") / "registry"


@dataclass(frozen=True)
class Place:
    """A registry, the repository whose training code knows it, and the settings of the project that it is of."""

    root: str
    repository: Path
    #: None where it is of no project: on this machine, or in a bucket that the settings do not name.
    settings: Settings | None = None

    @property
    def remote(self) -> bool:
        return self.root.startswith("gs://")


def find(file: Path | None, environment: str | None, *, registry: str | None, vertex: bool) -> Place:
    """The registry that the options mean.

    Args:
        file: The settings file; default: the nearest.
        environment: Of the settings; naming one means the registry in its bucket.
        registry: A folder here, or gs://...
        vertex: The registry in the bucket of the settings, also without naming an environment.

    Raises:
        RequestError: the settings name no bucket, or are wrong.
    """
    repository = repository_of(file).root
    if registry is None and not environment and not vertex:
        here = LOCAL if LOCAL.is_dir() or not (repository / LOCAL).is_dir() else repository / LOCAL
        return Place(str(here), repository)
    if registry is not None and not registry.startswith("gs://"):
        return Place(registry, repository)
    settings = load(file, environment=environment)
    own = settings.registry_root
    if registry is not None:
        root = registry.rstrip("/")
        return Place(root, repository, settings if root == own else None)
    if not own:
        named = f" of {settings.environment}" if settings.environment else ""
        raise RequestError(
            f"the settings{named} name no bucket, in which the registry of Vertex AI's runs is: set bucket in "
            "pipelines.toml, or name the registry with --registry gs://..."
        )
    return Place(own, repository, settings)
