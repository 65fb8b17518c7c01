from benchmarks import release


def test_a_release_killed_at_any_effect_is_wholly_done_or_not_at_all_and_ends_the_same(tmp_path):
    """Every seventh effect and the last ones; all of them: python -m benchmarks.release."""
    lives = list(release.kill_releases(tmp_path, every=7))
    assert [(life.point, life.effect, life.wrong) for life in lives if life.wrong] == []
    assert {life.after_kill for life in lives} == {"nothing", "champion"} and len(lives) > 10
