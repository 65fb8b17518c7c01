"""vgp image build: the same sources are one image, whatever happens on the way; its digest is in the file. The command
that `vgp image build --dry-run` prints, run by the real gcloud on the loopback cloud."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tools.emulator.cloud import Cloud, lose_response, reset, status
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import load
from vgp.vertex import clients
from vgp.vertex.images import cloud_build
from vgp.vertex.images.image_build import Options, build, plan, read_order
from vgp.vertex.images.source import archive, find_source

ROOT = Path(__file__).parents[4]
CREATE = "cloudbuild.projects.locations.builds.create"
BUILDER = "pipelines-builder@test-project.iam.gserviceaccount.com"
FILES = {
    ".dockerignore": "*\n!pyproject.toml\n!training\n**/__pycache__\n",
    ".gitignore": "__pycache__/\n",
    "pyproject.toml": "[project]\n",
    "training/Dockerfile": "FROM scratch\nCOPY pyproject.toml ./\nCOPY training ./training\n",
    "training/__init__.py": "",
    "training/__pycache__/x.pyc": "no source",
    "pipelines/training.py": "not in the image",
}
TOML = """\
environment = "prod" # the usual one

[environments.prod]
image = "us-central1-docker.pkg.dev/test-project/images/training:not-built" # by digest, soon
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one commit, and a settings file that git does not know."""
    folder = tmp_path / "repository"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q")
    commit(folder)
    (folder / "pipelines.toml").write_text(TOML)
    return folder


@pytest.fixture
def built(
    cloud: Cloud, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, Any]]:
    """Builds the repository's image; a build takes half a second."""
    monkeypatch.setattr(cloud_build, "LOOK_S", 0.05)
    monkeypatch.chdir(root)
    cloud.clock.run(100)

    def run(write: bool = True, **options: Any) -> dict[str, Any]:
        return build(load(), Options(**options), console=Console(width=200), write=write, root=root)

    return run


def test_the_image_is_built_from_the_sources_and_its_digest_written(
    cloud: Cloud, root: Path, built: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    result = built(service_account=BUILDER)
    (made,) = cloud.builds.builds.values()
    assert made.files == ["pyproject.toml", "training/Dockerfile", "training/__init__.py"]
    assert made.message["serviceAccount"] == f"projects/test-project/serviceAccounts/{BUILDER}"
    assert made.message["logsBucket"] == "gs://test-bucket/builds/logs"
    reference = f"us-central1-docker.pkg.dev/test-project/images/training@{result['digest']}"
    assert result["image"] == reference
    assert (root / "pipelines.toml").read_text() == TOML.replace(
        "us-central1-docker.pkg.dev/test-project/images/training:not-built", reference
    )
    assert load().image == reference
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:5] == ["FETCHSOURCE", "BUILD", "PUSH", "DONE"]
    assert lines[-1] == "written to pipelines.toml: environments.prod.image"


def test_the_tags_are_the_sources_and_the_commit(root: Path, built: Callable[..., dict[str, Any]]) -> None:
    source, sha = built()["tags"]
    assert source == f"source-{find_source(root).digest[:16]}"
    assert sha == git(root, "rev-parse", "HEAD").strip()


def test_the_same_sources_are_built_once_also_at_another_commit(
    cloud: Cloud, root: Path, built: Callable[..., dict[str, Any]]
) -> None:
    first = built()
    (root / "pipelines/training.py").write_text("changed")
    commit(root)
    second = built()
    assert second["digest"] == first["digest"] and second["build"] is None
    assert len(cloud.builds.builds) == 1


def test_other_sources_are_another_image(cloud: Cloud, root: Path, built: Callable[..., dict[str, Any]]) -> None:
    first = built()
    (root / "training/__init__.py").write_text("changed")
    commit(root)
    assert built()["digest"] != first["digest"]
    assert len(cloud.builds.builds) == 2


@pytest.mark.parametrize("name", ["training/__init__.py", "training/new.py"])
def test_sources_that_are_not_committed_are_built_only_if_asked(
    cloud: Cloud, root: Path, built: Callable[..., dict[str, Any]], name: str
) -> None:
    (root / name).write_text("not committed")
    with pytest.raises(RequestError, match=f"{name} is not committed.*--allow-dirty"):
        built()
    assert not cloud.builds.builds
    (tag,) = built(allow_dirty=True)["tags"]
    assert tag.startswith("source-")


def test_a_change_outside_of_the_image_is_no_reason_to_refuse(root: Path, built: Callable[..., Any]) -> None:
    (root / "pipelines/training.py").write_text("not committed")
    assert built()["build"]


@pytest.mark.parametrize("fault", [status(503), reset(), lose_response()], ids=str)
def test_a_fault_when_the_build_is_asked_for_never_makes_two(
    cloud: Cloud, built: Callable[..., dict[str, Any]], fault: Any
) -> None:
    cloud.fail(CREATE, fault)
    try:
        built()
    except WorkFailed:
        built()
    assert len(cloud.builds.builds) == 1


def test_a_lost_answer_is_found_again_at_once(cloud: Cloud, built: Callable[..., dict[str, Any]]) -> None:
    cloud.fail(CREATE, lose_response())
    assert built()["build"] == next(iter(cloud.builds.builds))


@pytest.mark.parametrize("method", ["storage.objects.insert", "cloudbuild.*.get", "*.tags.get", "storage.objects.get"])
def test_a_fault_on_the_way_is_waited_for(cloud: Cloud, built: Callable[..., dict[str, Any]], method: str) -> None:
    cloud.fail(method, status(503))
    assert built()["build"]


def test_a_build_that_runs_already_is_followed(cloud: Cloud, root: Path, built: Callable[..., dict[str, Any]]) -> None:
    """As after kill -9: the second command finds what the first one began."""
    wanted = plan(load(), Options(), console=Console(quiet=True), root=root)["configuration"]
    source = {"storageSource": {"bucket": "test-bucket", "object": "x.tgz"}}
    clients.storage(load()).bucket("test-bucket").blob("x.tgz").upload_from_string(archive(find_source(root)))
    begun = cloud_build.start(load(), {**wanted, "source": source})
    assert built()["build"] == begun["id"]
    assert len(cloud.builds.builds) == 1


@pytest.mark.parametrize("end", ["FAILURE", "TIMEOUT", "CANCELLED", "INTERNAL_ERROR"])
def test_a_build_that_fails_reports_the_reason_and_its_log(
    cloud: Cloud, root: Path, built: Callable[..., dict[str, Any]], end: str
) -> None:
    cloud.builds.ends = end
    with pytest.raises(WorkFailed) as failed:
        built()
    words = end.lower().replace("_", " ")
    assert str(failed.value).startswith(
        f"The build ended: {words}.\n  the build step 0 failed: exit 1\n  Log: https://"
    )
    assert failed.value.exit_code == 1
    assert (root / "pipelines.toml").read_text() == TOML


def test_the_source_is_sent_once(cloud: Cloud, root: Path, built: Callable[..., dict[str, Any]]) -> None:
    """Named by its content: the second build takes what the first one sent."""

    def generation() -> int:
        (blob,) = client.list_blobs("test-bucket", prefix="builds/source/")
        return int(blob.generation)

    cloud.builds.ends = "FAILURE"
    client = clients.storage(load())
    with pytest.raises(WorkFailed):
        built()
    sent = generation()
    cloud.builds.ends = "SUCCESS"
    built()
    assert generation() == sent
    client.close()


def test_a_registry_that_has_something_else_is_not_believed(
    cloud: Cloud, root: Path, built: Callable[..., dict[str, Any]]
) -> None:
    package = "projects/test-project/locations/us-central1/repositories/images/packages/training"
    tag = f"source-{find_source(root).digest[:16]}"
    cloud.on("cloudbuild.*.get", lambda call: cloud.artifacts.set_tag(package, tag, f"sha256:{'0' * 64}"))
    with pytest.raises(WorkFailed, match=f"{tag} is sha256:0+, and the build pushed sha256:"):
        built()
    assert (root / "pipelines.toml").read_text() == TOML


def test_a_log_without_an_end_or_with_control_characters_is_shown_whole(
    cloud: Cloud, built: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.builds.log = ["\x1b[31mred\x1b[0m [bold]", "a\x07b", "ü" * 3]
    built()
    assert capsys.readouterr().out.splitlines()[1:4] == ["red [bold]", "a\\x07b", "ü" * 3]


def test_a_log_that_may_not_be_read_does_not_stop_the_build(
    cloud: Cloud, built: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.fail("storage.objects.get", status(403), forever=True)
    assert built()["build"]
    assert len(re.findall("the log cannot be read from here; open it at https://", capsys.readouterr().out)) == 1


def test_another_base_is_another_image_without_the_commits_tag(root: Path, built: Callable[..., Any]) -> None:
    base = f"pytorch/pytorch@sha256:{'0' * 64}"
    result = built(base=base)
    assert result["tags"] == [tag for tag in result["tags"] if tag.startswith("source-")]
    assert result["tags"][0] != f"source-{result['source'][:16]}"


def test_where_a_step_asks_for_dataflow_its_image_has_beam(
    root: Path, built: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = built()
    monkeypatch.setenv("PIPELINES_STEPS__PREPARE__DATAFLOW", "{}")
    assert built()["tags"] == plain["tags"], "a Dockerfile without extras gets none"
    dockerfile = root / "training/Dockerfile"
    dockerfile.write_text(dockerfile.read_text() + "ARG EXTRAS=training\n")
    result = built(allow_dirty=True)
    assert result["tags"] == [tag for tag in result["tags"] if tag.startswith("source-")]
    assert result["tags"][0] != f"source-{result['source'][:16]}"
    (target,) = read_order(load(), Options(allow_dirty=True), root).targets
    assert target.arguments == {"EXTRAS": "training beam"}


INDEX = "https://torch.example/whl/cpu"


def add_light(root: Path) -> None:
    """Gives the Dockerfile the target `light`, as ours has it, and the settings its package index."""
    text = "ARG TARGET=gpu\nFROM cuda AS gpu\nFROM python AS light\nFROM ${TARGET}\nCOPY training ./\n"
    (root / "training/Dockerfile").write_text(text)
    (root / "pipelines.toml").write_text(f'torch_index = "{INDEX}"\n{TOML}')
    commit(root)


def test_a_dockerfile_with_the_target_light_gives_two_images_in_one_build_and_both_digests_are_written(
    cloud: Cloud, root: Path, built: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    add_light(root)
    result = built()
    (made,) = cloud.builds.builds.values()
    gpu, light = (step["args"] for step in made.message["steps"])
    assert "TARGET=light" in light and f"TORCH_INDEX={INDEX}" in light and "--build-arg" not in gpu
    assert result["image"] != result["light_image"]
    settings = load()
    assert (settings.image, settings.light_image) == (result["image"], result["light_image"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "written to pipelines.toml: environments.prod.image, environments.prod.light_image"
    assert f"{result['light_image']} for steps without a GPU" in lines
    again = built()
    assert again["build"] is None and again["light_image"] == result["light_image"]


def test_another_base_builds_only_the_image_for_gpus(
    cloud: Cloud, root: Path, built: Callable[..., dict[str, Any]]
) -> None:
    add_light(root)
    first, second = built(), built(base=f"pytorch/pytorch@sha256:{'0' * 64}")
    assert second["image"] != first["image"] and second["light_image"] == first["light_image"]
    assert [[step["id"] for step in build.message["steps"]] for build in cloud.builds.builds.values()] == [
        ["gpu", "light"],
        ["gpu"],
    ]


def test_without_the_target_light_every_step_has_one_image_and_a_note_names_the_gain(
    root: Path, built: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    old = (root / "training/Dockerfile").read_text()
    add_light(root)
    built()
    (root / "training/Dockerfile").write_text(old)
    commit(root)
    capsys.readouterr()
    assert built()["light_image"] is None
    assert load().light_image is None, "the light image of the earlier Dockerfile has other code"
    assert "training/Dockerfile has no target light; a light image" in capsys.readouterr().out
    add_light(root)
    (root / "pipelines.toml").write_text(TOML)
    assert built()["light_image"] is None
    assert "because torch_index is not set; a light image" in capsys.readouterr().out


def test_a_light_image_that_would_hide_the_new_one_is_refused(
    cloud: Cloud, root: Path, built: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, path = f"us-central1-docker.pkg.dev/test-project/images/training@sha256:{'1' * 64}", root / "pipelines.toml"
    choice, _, _, image = TOML.splitlines()
    path.write_text(f'{choice}\n{image}\n[environments.prod]\nlight_image = "{name}"\n')
    assert load().light_image == name
    with pytest.raises(RequestError, match=r"pipelines.toml:4 sets light_image without the image beside it"):
        built()
    path.write_text(TOML)
    monkeypatch.setenv("PIPELINES_LIGHT_IMAGE", name)
    with pytest.raises(RequestError, match="PIPELINES_LIGHT_IMAGE sets the image and overrides the file"):
        built()
    assert not cloud.builds.builds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base": "pytorch/pytorch:latest"}, "Write the base as IMAGE@sha256:"),
        ({"base": f"--build-arg x@sha256:{'0' * 64}"}, "Write the base as IMAGE@sha256:"),
        ({"service_account": "me@example.com"}, "is not a service account"),
    ],
)
def test_wrong_options_are_refused_before_any_call(
    cloud: Cloud, built: Callable[..., Any], options: dict[str, str], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        built(**options)
    assert not cloud.requests


def test_a_variable_that_would_hide_the_digest_is_refused(
    cloud: Cloud, built: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPELINES_IMAGE", "us-central1-docker.pkg.dev/test-project/images/training:v1")
    with pytest.raises(RequestError, match="PIPELINES_IMAGE sets the image and overrides the file"):
        built()
    assert not cloud.builds.builds
    assert built(write=False)["written"] is None


def test_an_image_elsewhere_is_refused(built: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINES_IMAGE", "docker.io/library/python:3.11")
    with pytest.raises(RequestError, match="not in Artifact Registry"):
        built(write=False)


def test_the_archive_is_the_same_bytes_for_the_same_files(root: Path) -> None:
    first = find_source(root)
    packed = archive(first)
    os.utime(root / "pyproject.toml", (0, 0))
    assert find_source(root) == first
    assert archive(first) == packed
    (root / "pyproject.toml").chmod(0o755)
    assert find_source(root).digest != first.digest


def test_a_link_out_of_the_repository_is_not_followed(root: Path) -> None:
    (root / "training/link_out").symlink_to("/etc/passwd")
    with pytest.raises(RequestError, match="training/link_out is a symbolic link"):
        find_source(root)


@pytest.mark.parametrize("name", [".env", "key.pem", "credentials.json", "my-key.json", ".aws/credentials"])
def test_no_credential_that_lies_among_the_sources_goes_into_the_image(root: Path, name: str) -> None:
    (root / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    path = root / "training" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("secret")
    assert f"training/{name}" not in find_source(root).files


def test_the_source_of_this_repository_is_what_the_dockerfile_copies() -> None:
    source = find_source(ROOT)
    dockerfile = (source.root / source.dockerfile).read_text()
    copied = [word for line in re.findall(r"(?m)^COPY (.+) \S+$", dockerfile) for word in line.split()]
    tops = {Path(name).parts[0] for name in source.files}
    assert tops == {"pyproject.toml", "constraints.txt", "training", "vgp"}
    assert all(any(fnmatch(top, pattern) for pattern in copied) for top in tops)
    assert not [name for name in source.files if "__pycache__" in name]


def repository(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q")
    commit(folder)
    return folder


def test_the_image_of_another_repository_is_built_from_what_its_own_dockerfile_copies(tmp_path: Path) -> None:
    """No .dockerignore, a Dockerfile at its top, packages of its own, one with our name."""
    text = "FROM scratch\nCOPY requirements*.txt ./\nCOPY churn components ./app/\nCOPY --from=base /x /y\n"
    others = {"Dockerfile": text, "notebooks/a.ipynb": "", "churn/model.py": "", "churn/deep/x.sql": "", "data.csv": ""}
    mine = repository(tmp_path, others | {"components/step.py": "", "requirements.txt": "", "requirements-dev.txt": ""})
    assert find_source(mine).files == find_source(mine, "Dockerfile").files == (
        "Dockerfile", "churn/deep/x.sql", "churn/model.py", "components/step.py", "requirements-dev.txt",
        "requirements.txt",
    )  # fmt: skip
    (mine / ".dockerignore").write_text("**/*.sql\nrequirements-*\n")
    assert "churn/deep/x.sql" not in find_source(mine, "Dockerfile").files
    assert "requirements-dev.txt" not in find_source(mine, "Dockerfile").files


def test_only_changes_of_what_is_copied_count_also_below_a_larger_repository(tmp_path: Path) -> None:
    repository(tmp_path, {"ml/Dockerfile": "FROM x\nCOPY churn .\n", "ml/churn/a.py": "", "ml/b.py": "", "c.py": ""})
    for name in ("ml/b.py", "c.py"):
        (tmp_path / name).write_text("changed")
    assert find_source(tmp_path / "ml", "Dockerfile").changed == ()
    (tmp_path / "ml/churn/a.py").write_text("changed")
    (tmp_path / "ml/churn/new.py").write_text("new")
    source = find_source(tmp_path / "ml", "Dockerfile")
    assert source.changed == ("churn/a.py", "churn/new.py")
    assert source.files == ("Dockerfile", "churn/a.py", "churn/new.py")


def test_what_the_builder_would_not_find_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    mine = repository(tmp_path, {"Dockerfile": "FROM x\nCOPY churn weights.bin ./\n", "churn/a.py": ""})
    with pytest.raises(RequestError, match="Dockerfile copies weights.bin, and there is no such file"):
        find_source(mine, "Dockerfile")
    (mine / "weights.bin").write_text("")
    (mine / ".gitignore").write_text("*.bin\n")
    with pytest.raises(RequestError, match="weights.bin.*\\.gitignore"):
        find_source(mine, "Dockerfile")
    with pytest.raises(RequestError, match="has no docker/File, from which"):
        find_source(mine, "docker/File")
    (mine / "Dockerfile").unlink()
    with pytest.raises(RequestError, match="has no training/Dockerfile and no Dockerfile.*dockerfile = "):
        find_source(mine)


def test_no_repository_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training/Dockerfile").write_text("FROM scratch\nCOPY training .\n")
    with pytest.raises(RequestError, match="built from a git repository"):
        find_source(tmp_path)


def test_a_dry_run_asks_nothing_and_prints_the_command(
    cloud: Cloud, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    result = plan(load(), Options(service_account=BUILDER), console=Console(width=20), root=root)
    assert not cloud.requests
    assert json.loads((root / "build/image.json").read_text()) == result["configuration"]
    assert capsys.readouterr().out.splitlines()[1] == (
        f"gcloud builds submit {root} --project test-project --region us-central1 --config build/image.json "
        "--gcs-source-staging-dir gs://test-bucket/builds/source"
    )


def test_every_step_of_the_compiled_pipeline_runs_in_the_image_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from vgp.workflow.compiling.compile import compile_pipeline

    def images(digest: str) -> list[str]:
        monkeypatch.setenv("PIPELINES_IMAGE", f"us-central1-docker.pkg.dev/p/images/training@sha256:{digest}")
        return re.findall(r"us-central1-docker\.pkg\.dev/[^\"\\]+", compile_pipeline("training", load()).spec.text)

    one, two = images("1" * 64), images("2" * 64)
    assert len(one) == 14, "of each of seven steps the image, and the variable that names it"
    assert {*one} == {f"us-central1-docker.pkg.dev/p/images/training@sha256:{'1' * 64}"}
    assert {*two} == {f"us-central1-docker.pkg.dev/p/images/training@sha256:{'2' * 64}"}


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "x", "--no-gpg-sign")


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True).stdout


REPOSITORY = Path(__file__).parents[4]

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")


def test_gcloud_takes_the_configuration_and_builds_the_same_source(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.credentials = False  # gcloud asks without
    # The API's description calls the parameter required; gcloud leaves it out, for the path holds it.
    cloud.on("cloudbuild.*", lambda call: call.repeated.setdefault("projectId", [cloud.project]), before=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPELINES_IMAGE", "us-central1-docker.pkg.dev/test-project/images/training:not-built")
    wanted = plan(load(), Options(allow_dirty=True), root=REPOSITORY, console=Console(quiet=True))
    gcloud([*wanted["command"], "--async"], cloud, tmp_path)
    (made,) = cloud.builds.builds.values()
    assert sorted(made.files) == sorted(find_source(REPOSITORY).files)
    assert made.message["images"] == wanted["configuration"]["images"]
    assert made.message["logsBucket"] == "gs://test-bucket/builds/logs"
    assert made.message["steps"][0]["args"] == wanted["configuration"]["steps"][0]["args"]


def gcloud(command: list[str], cloud: Cloud, folder: Path) -> None:
    overrides = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBUILD": f"{cloud.endpoint('cloudbuild')}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{cloud.endpoint('storage')}/storage/v1/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
    }
    done = subprocess.run(command, env=os.environ | overrides, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
