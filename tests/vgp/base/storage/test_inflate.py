import gzip
import os
from types import SimpleNamespace

import pytest

from vgp.base.exits import UserError
from vgp.base.storage import inflate


def test_what_was_packed_comes_out(tmp_path):
    data = os.urandom(3000) + bytes(3000)
    (tmp_path / "x.gz").write_bytes(gzip.compress(data))
    inflate.gunzip("x.gz", tmp_path / "x.gz", tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == data


def test_a_file_may_inflate_to_a_size_or_to_so_many_times_its_own_whichever_is_more(tmp_path, monkeypatch):
    packed = gzip.compress(bytes(1 << 20))
    (tmp_path / "x.gz").write_bytes(packed)
    monkeypatch.setattr(inflate, "MAX_BYTES", 1 << 20)
    inflate.gunzip("x.gz", tmp_path / "x.gz", tmp_path / "x")
    monkeypatch.setattr(inflate, "MAX_BYTES", 0)
    monkeypatch.setattr(inflate, "MAX_RATIO", -(-(1 << 20) // len(packed)))
    inflate.gunzip("x.gz", tmp_path / "x.gz", tmp_path / "x")
    monkeypatch.setattr(inflate, "MAX_RATIO", (1 << 20) // len(packed) - 1)
    with pytest.raises(UserError, match=rf"x.gz inflates to more than . MiB \({len(packed):,} bytes packed\)"):
        inflate.gunzip("x.gz", tmp_path / "x.gz", tmp_path / "x")


def test_a_disk_is_not_filled_to_the_last_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(inflate, "RESERVE_BYTES", 100 << 20)
    monkeypatch.setattr(inflate.shutil, "disk_usage", lambda _: SimpleNamespace(free=110 << 20))
    inflate.require_space(tmp_path, 200 << 20, 10 << 20, "x")
    with pytest.raises(UserError, match=r"x does not fit into .*, which has 110 MiB free \(100 are reserved\).*TMPDIR"):
        inflate.require_space(tmp_path, 200 << 20, 11 << 20, "x")
    inflate.require_space(tmp_path, 0, 99 << 20, "x")  # a small file may use the last of it
    monkeypatch.setattr(inflate, "RESERVE_BYTES", 1 << 20)
    monkeypatch.setattr(inflate.shutil, "disk_usage", lambda _: SimpleNamespace(free=2 << 20))
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(4 << 20)))
    with pytest.raises(UserError, match="x.gz does not fit"):
        inflate.gunzip("x.gz", tmp_path / "x.gz", tmp_path / "x")
