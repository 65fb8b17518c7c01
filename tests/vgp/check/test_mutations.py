"""The drill of benchmarks.mutations in its short form, and that it notices what it is there for."""

import pytest

from benchmarks import mutations


@pytest.fixture(scope="module")
def pages():
    return mutations.read_rule_pages()


def test_mutated_files_are_judged_in_time_and_nothing_crashes(pages):
    outcome = mutations.run(pages, seed=5, count=100)
    assert not outcome.faults and sum(outcome.codes.values()) == 100
    assert outcome.codes[0] and outcome.codes[1] and outcome.codes[2], "the mutations are of all kinds"


def test_the_same_seed_gives_the_same_mutations_and_one_can_be_repeated(pages):
    several = list(mutations.mutations(pages, 9, 5))
    assert several == list(mutations.mutations(pages, 9, 5)) != list(mutations.mutations(pages, 10, 5))
    assert list(mutations.mutations(pages, 9, 1, 3)) == several[3:4]


def test_a_crash_and_a_slow_answer_are_faults(pages, monkeypatch):
    monkeypatch.setattr(mutations, "SECONDS", -1.0)
    assert len(mutations.run(pages, 1, 2).faults) == 2

    def broken(*_):
        raise IndexError("list index out of range")

    monkeypatch.setattr(mutations, "check_text", broken)
    assert "IndexError" in mutations.run(pages, 1, 1).faults[0]
