"""The repeated blocks of a model, such as a transformer's layers.

By default these are the members of the outermost `nn.ModuleList`s that contain further layers; a list of single layers,
such as embeddings, has none. `Task.blocks` may override it.
"""

from collections.abc import Iterator

from torch import nn


def find_blocks(module: nn.Module) -> list[nn.Module]:
    """Returns the members of the outermost `nn.ModuleList`s that contain further layers, in order of their names."""
    return [block for member in _find_outermost_lists(module) for block in member if next(block.children(), None)]


def _find_outermost_lists(module: nn.Module) -> Iterator[nn.ModuleList]:
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            yield child
        else:
            yield from _find_outermost_lists(child)
