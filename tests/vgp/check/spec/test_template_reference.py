"""What names a template, and what cannot."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vgp.base.errors import RequestError
from vgp.settings.schedule_settings import Reference, package, parse, tag

DIGEST = "sha256:" + "4be6" * 16
PLACE = "https://us-central1-kfp.pkg.dev/my-project/templates"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("training", Reference("training", "latest", None)),
        ("training:v3", Reference("training", "v3", None)),
        ("training@v3", Reference("training", "v3", None)),
        (f"training@{DIGEST}", Reference("training", None, DIGEST)),
        (f"training:{DIGEST}", Reference("training", None, DIGEST)),
        ("training@sha256:4be64be6", Reference("training", None, "sha256:4be64be6")),
        (f"{PLACE}/training/v3", Reference("training", "v3", None, PLACE)),
        (f"{PLACE}/training/{DIGEST}", Reference("training", None, DIGEST, PLACE)),
        (f"gs://bucket/a/b/training/{DIGEST[7:]}.json", Reference("training", None, DIGEST, "gs://bucket/a/b")),
        (f"training@{PLACE}/training/v3", Reference("training", "v3", None, PLACE)),
        (f"training@gs://b/training/{DIGEST[7:]}.json", Reference("training", None, DIGEST, "gs://b")),
        (f"gs://bucket/training/{DIGEST[7:]}.json", Reference("training", None, DIGEST, "gs://bucket")),
    ],
)
def test_a_reference_is_a_name_with_a_tag_or_a_digest(given: str, expected: Reference) -> None:
    assert parse(given) == expected


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("abc", "4 to 128 lower-case letters"),
        ("Training", "4 to 128 lower-case letters"),
        ("../training", "4 to 128 lower-case letters"),
        (f"scoring@{PLACE}/training/v3", "is a version of training, not of 'scoring'"),
        ("training@gs://bucket/x", "is no template"),
        ("@" * 10_000 + "://", "is no template"),
        ("training:", "no . or - first"),
        ("training:-v3", "no . or - first"),
        ("training:a/b", "no . or - first"),
        ("training:v3@v4", "4 to 128 lower-case letters"),
        ("training@sha256:4be6", "at least 8 of its 64"),
        ("training@sha256:" + "4BE6" * 16, "lower case"),
        (f"training@{DIGEST}0", "at least 8 of its 64"),
        ("http://us-central1-kfp.pkg.dev/p/r/training/v3", "is no template"),
        ("https://evil.example/p/r/training/v3", "is no template"),
        ("https://evil.example?-kfp.pkg.dev/p/r/training/v3", "is no template"),
        ("https://evil.example#-kfp.pkg.dev/p/r/training/v3", "is no template"),
        ("gs://bucket/training/latest.json", "is no template"),
        (f"{PLACE}/training/v3?x=1", "no . or - first"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_the_rule(given: str, rule: str) -> None:
    with pytest.raises(RequestError, match=rule):
        parse(given)


@given(st.text())
@example("a\nb")
@example("v3\n")
@example("v3/../../x")
@example("%2e%2e")
def test_what_is_taken_as_a_name_or_a_tag_needs_no_quoting_in_a_url(text: str) -> None:
    from urllib.parse import quote

    for rule in (package, tag):
        try:
            taken = rule(text)
        except RequestError:
            continue
        assert taken == text == quote(text, safe="") and text.isascii() and text not in (".", "..")


@given(st.from_regex(r"[a-z0-9][a-z0-9-]{3,12}", fullmatch=True), st.from_regex(r"[\w][\w.-]{0,12}", fullmatch=True))
def test_a_reference_reads_as_it_was_written(name: str, version: str) -> None:
    if not version.isascii():
        return
    found = parse(f"{name}:{version}")
    assert str(found) == f"{name}:{version}" and parse(str(found)) == found
