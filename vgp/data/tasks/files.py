"""Any files, handed on as they are: for a script of the user's that reads raw data, or brings its own.

    [steps.train]
    command = ["python", "train.py", "--data", "{data}"]

    vgp run training --set task=files --set data=gs://bucket/images

Nothing is split or encoded: `prepare` copies the pinned files, in their folders, to where the script finds them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from vgp.base.exits import UserError
from vgp.base.storage.storage import File
from vgp.data import raw
from vgp.data.task import Batch, Task
from vgp.data.tasks import NO_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

    from vgp.protocol.manifest import Manifest


class Files(Task):
    """Files as they are. Its options: none."""

    as_they_are = True
    classes = ()
    settings: ClassVar[Mapping[str, Any]] = {}

    def files(self, data: str) -> Sequence[File]:
        """Every file, with its path below what was given as its title; none for `data` = ""."""
        return [replace(file, title=name) for name, file in raw.find(data).items()]

    def shards(self, data: str) -> NoReturn:
        raise UserError(NO_ROWS)

    def rows(self, shard: Any, statistics: Mapping[str, Any]) -> "dict[str, pa.Table]":
        raise UserError(NO_ROWS)

    def model(self, data: "Manifest") -> NoReturn:
        raise UserError(NO_ROWS)

    def loss(self, model: Any, batch: Batch) -> NoReturn:
        raise UserError(NO_ROWS)

    def predict(self, model: Any, batch: Batch) -> NoReturn:
        raise UserError(NO_ROWS)
