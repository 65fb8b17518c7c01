"""Where a pipeline is compiled for. `Local` is this machine; `vgp.compiling.vertex.Vertex` is Vertex AI."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent


class Target(Protocol):
    """Turns components into steps. Both methods return what a pipeline function calls with the step's inputs."""

    #: Whether steps may take results of earlier runs: vgp/spec/caching.py.
    caching: bool

    def step(self, component: "BaseComponent") -> "BaseComponent":
        """A plain step."""

    def job(self, component: "BaseComponent") -> "BaseComponent":
        """A training step: may have several GPUs and several machines."""


class Local:
    """This machine: every component as it is. A run that is resumed takes its own results."""

    caching = True

    def step(self, component: "BaseComponent") -> "BaseComponent":
        return component

    def job(self, component: "BaseComponent") -> "BaseComponent":
        return component
