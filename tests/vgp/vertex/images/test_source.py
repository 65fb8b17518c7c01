"""What a Dockerfile takes from its folder is known before anything is sent. Docker's patterns, as its documentation
describes them."""

import pytest

from vgp.vertex.images.source import IgnoreRules, list_copied_files, matches


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("FROM x\nRUN make", ()),
        ("COPY a b/c ./d/", ("a", "b/c")),
        ("copy a .", ("a",)),
        ('COPY ["a b", "c", "/d"]', ("a b", "c")),
        ("COPY 'a b' /d", ("a b",)),
        ("COPY --chown=1:1 --chmod=755 a /d", ("a",)),
        ("COPY --from=build /x /y\nCOPY a .", ("a",)),
        ("COPY a \\\n  # a comment\n  b \\\n  /d", ("a", "b")),
        ("# COPY a .", ()),
        ("ADD https://example.com/x.tgz /x\nADD git@github.com:a/b.git /y\nADD z.tgz /", ("z.tgz",)),
        ("COPY <<EOF /etc/x\nCOPY secret .\nEOF\nCOPY a .", ("a",)),
        ("RUN <<-'END'\nCOPY secret .\nEND\nCOPY a .", ("a",)),
        (
            "RUN --mount=type=bind,source=lock.txt,target=/l --mount=type=cache,target=/c pip install -r /l",
            ("lock.txt",),
        ),
        ("RUN --mount=type=bind,from=base,source=/a,target=/b ls", ()),
        ("RUN --mount=type=secret,id=token ls", ()),
        ("ARG WHAT=a\nCOPY ${WHAT} .", (".",)),
        ("COPY a .\nCOPY a b .", ("a", "b")),
        ("COPY . .", (".",)),
    ],
)
def test_what_is_copied_is_read_from_every_form(text: str, copied: tuple[str, ...]) -> None:
    assert list_copied_files(text) == copied


@pytest.mark.parametrize(
    ("pattern", "name", "match"),
    [
        ("training", "training/a/b.py", True),
        ("training", "training2/a.py", False),
        ("training", "old/training/a.py", False),  # from the top, unlike git's
        ("/training/", "training/a.py", True),
        ("./training", "training/a.py", True),
        ("*.py", "a.py", True),
        ("*.py", "a/b.py", False),
        ("*/temp*", "a/temporary.txt", True),
        ("*/*/temp*", "a/b/temp", True),
        ("temp?", "tempa", True),
        ("temp?", "temp", False),
        ("**/*.go", "a/b/c.go", True),
        ("**/*.go", "c.go", True),
        ("a/**", "a/b/c", True),
        ("[ab].txt", "b.txt", True),
        ("[^ab].txt", "b.txt", False),
        ("a.b", "aXb", False),
        (".", "anything/at/all", True),
        ("\\*.py", "a.py", False),
    ],
)
def test_a_pattern_is_of_a_file_or_of_its_folder(pattern: str, name: str, match: bool) -> None:
    assert matches(pattern, name) is match


def test_the_last_line_that_matches_decides() -> None:
    ignored = IgnoreRules.read("# comment\n*.md\n!README*.md\nREADME-secret.md\n")
    assert ignored.excludes("a.md") and ignored.excludes("README-secret.md")
    assert not ignored.excludes("README.md") and not ignored.excludes("a.py")
    assert not ignored.is_allowlist
    assert IgnoreRules.read("*\n!training\n").is_allowlist
