"""What was meant is found, in whatever case, and a hostile text cannot make the search long."""

import time

from vgp.base.text.nearest import MAX_NAME, at_most, count_searches, did_you_mean, nearest


def test_a_near_name_is_proposed():
    assert did_you_mean("trainig", ["serving", "training"]) == "Did you mean training?"


def test_without_a_near_name_the_choices_or_the_hint_of_the_caller_are_shown():
    assert did_you_mean("xyz", {"training", "serving"}) == "Choices: serving, training."
    assert did_you_mean("xyz", ["training"], "See the docs.") == "See the docs."


def test_case_is_no_difference_and_the_choice_is_returned_as_it_is_written():
    assert nearest("nvidia_l5", ["NVIDIA_L4", "NVIDIA_TESLA_T4"]) == "NVIDIA_L4"


def test_the_cutoff_decides_how_much_alike_they_must_be():
    assert nearest("abcd", ["abxy"], cutoff=0.4) == "abxy"
    assert nearest("abcd", ["abxy"], cutoff=0.6) is None


def test_a_long_word_resembles_nothing_and_costs_nothing():
    before = time.process_time()
    assert nearest("a" * 10_000_000, ["a" * 10_000_000]) is None
    assert time.process_time() - before < 10
    assert nearest("a" * MAX_NAME, ["a" * MAX_NAME]) is not None


def test_beyond_their_number_searches_find_nothing_and_none_is_made():
    made = []

    @count_searches
    def search(word: str) -> str | None:
        made.append(word)
        return word

    with at_most(2) as searches:
        assert [search(word) for word in ("a", "b", "c", "d")] == ["a", "b", None, None]
    assert made == ["a", "b"] and searches.left < 0
    assert search("c") == "c"


def test_the_same_search_is_made_and_counted_once():
    with at_most(1) as searches:
        assert [nearest("counted onc", ["counted once"]) for _ in range(3)] == ["counted once"] * 3
    assert searches.left == 0
