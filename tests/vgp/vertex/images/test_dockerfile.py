"""What a Dockerfile takes from its folder is known before anything is sent."""

import pytest

from vgp.vertex.images.source import copied_files


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
    assert copied_files(text) == copied
