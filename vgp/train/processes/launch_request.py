"""What a launch is asked for, on its way from the caller through the launcher to every rank."""

from pydantic import BaseModel, ConfigDict

from vgp.protocol.cluster import Cluster


class LaunchRequest(BaseModel):
    """A function to run in every process of this machine, and how they are watched."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: `module:function`; it is called with the argument and its `Rank`.
    target: str
    #: JSON, which only the target reads: as what its first parameter is annotated with.
    argument: str
    cluster: Cluster
    #: Processes on this machine, the same on all.
    nproc: int
    rendezvous_timeout_s: float
    lost_after_s: float
    hang_after_s: float
    #: The caller's process, with which the launcher ends.
    parent: int
    #: The caller's `sys.path`.
    path: tuple[str, ...]
    #: Whether stderr is a person's terminal.
    terminal: bool

    @property
    def world_size(self) -> int:
        return self.cluster.nodes * self.nproc

    @property
    def first_rank(self) -> int:
        """The rank of this machine's first process."""
        return self.cluster.node * self.nproc
