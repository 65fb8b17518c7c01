"""What can be told to be wrong about how a run's model is to be released, without a look at anything."""

from typing import Literal, get_args

from training.errors import UserError
from training.pins import model_name as names
from training.pins import reigning
from training.printable import quoted

#: Who decides that a better model reigns: the run itself, or a person, for whom it waits as a candidate.
Approval = Literal["auto", "manual"]


def check(champion: str, model_name: str, approve: str) -> None:
    """Raises UserError for a champion, a name or an approval that cannot be."""
    reigning.check(champion)
    names.check(model_name)
    if approve not in get_args(Approval):
        raise UserError(
            f"approve = {quoted(approve)}: auto, where a model that is better becomes the champion at once, or manual, "
            "where it waits as a candidate for pipelines models promote."
        )
