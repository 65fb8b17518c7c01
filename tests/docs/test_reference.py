"""The generated pages of the reference."""

from tools.docs import reference
from tools.docs.site import DOCS


def test_generated_pages_are_as_the_code_is() -> None:
    """To renew them: python -m tools.docs.reference --write."""
    assert [page for page in reference.GENERATORS if reference.render(page) != (DOCS / page).read_text()] == []
