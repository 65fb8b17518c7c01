"""The repository of templates: there, and of the format that holds pipelines."""


def test_a_repository_that_is_not_there_comes_with_the_command_that_makes_it(world):
    world.own["template_repository"] = "https://us-central1-kfp.pkg.dev/test-project/other"
    assert world.only("repository.exists", "error").hint == (
        "gcloud artifacts repositories create other --repository-format=kfp "
        "--location=us-central1 --project=test-project"
    )


def test_a_repository_of_images_is_an_error(world):
    world.own["template_repository"] = "https://us-central1-kfp.pkg.dev/test-project/images"
    assert world.only("repository.exists", "error").seen == "holds DOCKER, not pipelines (KFP)"


def test_no_repository_is_nothing_to_look_at(world, monkeypatch):
    monkeypatch.delenv("PIPELINES_TEMPLATE_REPOSITORY")
    assert [each.level for each in world.look() if each.check.startswith("repository.")] == ["skipped"]
