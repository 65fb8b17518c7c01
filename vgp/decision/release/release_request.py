"""What can be told to be wrong about how a run's model is to be released, without a look at anything."""

from typing import get_args

from vgp.base.exits import UserError
from vgp.base.text.printable import quoted
from vgp.decision.decision import Approval
from vgp.registry import documents as names
from vgp.registry import reigning


def check(champion: str, model_name: str, approve: str) -> None:
    """Raises UserError for a champion, a name or an approval that cannot be."""
    reigning.check(champion)
    names.check(model_name)
    if approve not in get_args(Approval):
        raise UserError(
            f"approve = {quoted(approve)}: auto, where a model that is better becomes the champion at once, unless a "
            "simple model such as gradient boosting is better still; manual, where it waits as a candidate for "
            "vgp models promote; or despite_rivals, where it becomes the champion whatever simple models do."
        )
