from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgp.base.exits import UserError
from vgp.data import shards as tree
from vgp.data.shard import id_parts, require_unique_ids


@given(st.integers(0, 400), st.integers(2, 5))
def test_the_tree_has_the_shape_of_groups_of_groups(count, fan_in):
    def grouped(values):
        if len(values) <= 1:
            return values[0] if values else None
        groups = [values[i : i + fan_in] for i in range(0, len(values), fan_in)]
        return grouped([merge_in_order(group) for group in groups])

    def merge_in_order(group):
        whole = group[0]
        for value in group[1:]:
            whole = f"({whole} {value})"
        return whole

    values = [str(n) for n in range(count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "FAN_IN", fan_in)
        assert tree.merge_in_tree(values, lambda one, other: f"({one} {other})") == grouped(values)


ids = st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 30), max_size=12), min_size=1, max_size=5)


@given(ids, st.integers(1, 6))
def test_ids_are_refused_exactly_if_one_occurs_twice(shards, count):
    cut = [(n, f"s{n}", id_parts(np.array(shard, np.int64), count)) for n, shard in enumerate(shards)]
    counts = Counter(value for shard in shards for value in shard)
    twice = {value for value, times in counts.items() if times > 1}
    refused = set()
    for part in range(count):
        try:
            require_unique_ids((n, name, pieces[part]) for n, name, pieces in cut)
        except UserError as error:
            value = int(str(error).split()[1])
            refused.add(value)
            owners = [n for n, shard in enumerate(shards) for each in sorted(shard) if each == value]
            assert all(f"(s{n})" in str(error) for n in owners[:2])
    assert refused <= twice and bool(refused) == bool(twice)
