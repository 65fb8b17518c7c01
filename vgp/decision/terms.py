"""By which rule a model is promoted, and by whom: the terms that the steps decide and register are given."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from vgp.base.exits import UserError
from vgp.decision import decision
from vgp.decision.decision import NIGHTS, Approval
from vgp.decision.release import release_request
from vgp.protocol.manifest import Frozen


class Terms(Frozen):
    """The terms of a promotion; `read_terms` checks them."""

    #: What the lower confidence bound of the gain must exceed.
    margin: float = 0.0
    #: That no model is promoted by luck, over all decisions of a year together.
    confidence: float = 0.95
    #: Decisions planned for a year.
    nights: int = NIGHTS
    approve: Approval = "auto"


def read_terms(values: Mapping[str, Any]) -> Terms:
    """Returns the terms that the values state. Raises UserError for a value that breaks its rule."""
    release_request.check("", "", values.get("approve", "auto"))
    try:
        terms = Terms.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{'.'.join(map(str, first['loc']))} = {first['input']!r}: {first['msg']}.") from None
    decision.check(terms.margin, terms.confidence, terms.nights)
    return terms
