"""pipelines.toml: read once; the order of places; wrong values refused with file, line and fix."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from vgp import settings
from vgp.base.errors import RequestError

Write = Callable[[str], Path]

TWO = """\
region = "us-central1"
bucket = "gs://base"
labels = {team = "ml", cost = "1"}

[steps.train]
machine = "g2-standard-24"
timeout = "6h"

[schedules.nightly]
pipeline = "training"
cron = "30 2 * * *"
parameters = {epochs = 3.0, seed = 1}

[environments.dev]
project = "my-project-dev"
labels = {env = "dev"}

[environments.prod]
project = "my-project-prod"
region = "europe-west4"
labels = {env = "prod", cost = "2"}

[environments.prod.steps.train]
accelerator = "H100"
count = 8

[environments.prod.schedules.nightly]
time_zone = "Europe/Berlin"
parameters = {epochs = 30.0}
"""


def refusal(path: Path, **arguments: Any) -> str:
    with pytest.raises(RequestError) as refused:
        settings.load(path, **arguments)
    return str(refused.value)


def test_settings_are_read(write: Write) -> None:
    loaded = settings.load(write('region = "europe-west4"\n[steps.train]\nmachine = "g2-standard-24"\nnodes = 2\n'))
    assert loaded.region == "europe-west4"
    assert loaded.request("train").nodes == 2
    assert loaded.request("prepare").machine is None
    assert loaded.environment is None and loaded.environments == ()


def test_an_environment_lies_over_the_top_of_the_file(write: Write) -> None:
    loaded = settings.load(write(TWO), environment="prod")
    assert (loaded.environment, loaded.project, loaded.region) == ("prod", "my-project-prod", "europe-west4")
    assert loaded.bucket == "gs://base"
    assert loaded.labels == {"team": "ml", "cost": "2", "env": "prod"}
    train = loaded.request("train")
    assert (train.machine, train.accelerator, train.count, train.timeout) == (None, "H100", 8, "6h")
    nightly = loaded.schedules["nightly"]
    assert (nightly.cron, nightly.time_zone) == ("30 2 * * *", "Europe/Berlin")
    assert nightly.parameters == {"epochs": 30.0, "seed": 1}
    assert loaded.environments == ("dev", "prod")


def test_the_environment_is_chosen_by_flag_then_variable_then_file(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write('environment = "dev"\n' + TWO)
    assert str(settings.load(path).source("environment")) == f"{path}:1"
    assert settings.load(path).environment == "dev"
    monkeypatch.setenv("PIPELINES_ENV", "prod")
    assert settings.load(path).environment == "prod"
    assert str(settings.load(path).source("environment")) == "PIPELINES_ENV"
    loaded = settings.load(path, environment="dev")
    assert (loaded.environment, str(loaded.source("environment"))) == ("dev", "--env")


def test_a_single_environment_needs_no_choice_and_two_do(write: Write) -> None:
    assert settings.load(write("[environments.dev]\n")).environment == "dev"
    assert settings.load(write(TWO)).environment is None


@pytest.mark.parametrize(
    ("text", "flag", "message"),
    [
        (TWO, "prdo", "--env: there is no environment 'prdo'. Did you mean prod?"),
        (TWO, "staging", "--env: there is no environment 'staging'. Choices: dev, prod."),
        ("", "prod", "The file declares no environment: write [environments.NAME]."),
        ('\nenvironment = "x"\n' + TWO, None, ":2: environment: there is no"),
        ("\n[environment.prod]\n", None, ":2: environment: takes a name"),
        ("environments = 3\n", None, ":1: environments: takes tables"),
        ("[environments]\ndev = 3\n", None, ":2: environments.dev: takes a table:"),
        ("[environments.Dev]\n", None, ":1: environments: an environment has an invalid name"),
        ('[environments.dev]\nenvironment = "dev"\n', None, ":2: environments.dev.environment: belongs to the"),
        ("[environments.dev.environments]\n", None, "environments.dev.environments: there is no such setting."),
    ],
)
def test_a_wrong_choice_of_environment_names_the_choices(
    write: Write, text: str, flag: str | None, message: str
) -> None:
    assert message in refusal(write(text), environment=flag)


def test_a_mistake_in_an_environment_that_is_not_chosen_is_found_too(write: Write) -> None:
    path = write(TWO.replace('"europe-west4"', '"europe-west44"'))
    expected = f"{path}:20: environments.prod.region: Vertex AI training has no region 'europe-west44'. Did you mean "
    assert refusal(path, environment="dev").startswith(expected)


def test_a_mistake_that_all_environments_share_is_reported_once(write: Write) -> None:
    message = refusal(write('bucket = "base"\n[environments.dev]\n[environments.prod]\n'))
    assert message.count("\n") == 0 and "Write gs://base." in message


PLACES = ("default", "top", "environment", "variable", "flag")


@hypothesis_settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.sets(st.sampled_from(PLACES[1:])), st.sets(st.sampled_from(PLACES[1:])))
def test_the_strongest_place_that_gives_a_value_wins_for_each_key_by_itself(
    tmp_path: Path, of_experiment: set[str], of_label: set[str]
) -> None:
    def table(place: str) -> str:
        lines = [f'experiment = "{place}"'] * (place in of_experiment) + [f'labels.team = "{place}"'] * (
            place in of_label
        )
        return "\n".join(lines)

    path = tmp_path / "pipelines.toml"
    path.write_text(f"{table('top')}\n[environments.dev]\n{table('environment')}\n")
    variables = {"PIPELINES_EXPERIMENT": of_experiment, "PIPELINES_LABELS__TEAM": of_label}
    with pytest.MonkeyPatch.context() as patch:
        for name, places in variables.items():
            patch.setenv(name, "variable" if "variable" in places else "")
        flags = {"experiment": of_experiment, "labels.team": of_label}
        loaded = settings.load(
            path, overrides={key: "flag" if "flag" in places else None for key, places in flags.items()}
        )
    strongest = {key: max(places, key=PLACES.index, default="default") for key, places in flags.items()}
    assert (loaded.experiment or "default") == strongest["experiment"]
    assert loaded.labels.get("team", "default") == strongest["labels.team"]
    names = {"flag": "--", "variable": "PIPELINES_", "default": "default", "top": f"{path}:", "environment": f"{path}:"}
    for key, place in strongest.items():
        source = loaded.source(key)
        assert str(source).startswith(names[place])
        assert (place == "environment") == source.name.startswith("environments.dev.")


def test_the_source_of_a_value_is_its_line_variable_flag_or_default(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(TWO)
    monkeypatch.setenv("PIPELINES_STEPS__TRAIN__TIMEOUT", "8h")
    loaded = settings.load(path, environment="prod", overrides={"service_account": "a@p.iam.gserviceaccount.com"})
    sources = {
        "region": f"{path}:20",
        "bucket": f"{path}:2",
        "labels.team": f"{path}:3",
        "labels.cost": f"{path}:21",
        "steps.train.count": f"{path}:25",
        "steps.train.machine": "default",
        "steps.train.timeout": "PIPELINES_STEPS__TRAIN__TIMEOUT",
        "schedules.nightly.parameters.seed": f"{path}:12",
        "schedules.nightly.parameters.epochs": f"{path}:29",
        "service_account": "--service-account",
        "failure_policy": "default",
    }
    assert {key: str(loaded.source(key)) for key in sources} == sources
    assert loaded.source("region").keys == ("environments", "prod", "region")


def test_an_empty_text_takes_away_what_a_weaker_place_set(write: Write) -> None:
    text = 'network = "projects/1/global/networks/n"\n[environments.dev]\nnetwork = ""\n'
    assert settings.load(write(text)).network is None
    assert settings.load(write('experiment = "a"\n'), overrides={"experiment": ""}).experiment is None


KEY = "projects/my-project/locations/us-central1/keyRings/r/cryptoKeys/k"
NIGHTLY = '[schedules.nightly]\npipeline = "training"\ncron = "0 2 * * *"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("regon = 'x'\n", ":1: regon: there is no such setting. Did you mean region?"),
        ("[environment_s]\n", ":1: environment_s: there is no such setting. Did you mean environments?"),
        ("\n[steps.train]\nmachne = 'x'\n", ":3: steps.train.machne: there is no such setting. Did you mean machine?"),
        ("[steps.train]\nnodes = 'many'\n", ":2: steps.train.nodes: given 'many'"),
        ("[steps.train]\nnodes = '2'\n", ":2: steps.train.nodes: given '2'; write 2, without quotes"),
        ("[steps.train]\nnodes = true\n", ":2: steps.train.nodes: given true; write 1."),
        ("[[steps.train.capacity]]\ncount = '2'\naccelerator = 'L4'\n", ":2: steps.train.capacity.1.count: given '2'"),
        ("allow_code = 'yes'\n", ":1: allow_code: given 'yes'; write true, without quotes"),
        ("caching = 0\n", ":1: caching: given 0; write false."),
        (NIGHTLY + "paused = 'no'\n", ":4: schedules.nightly.paused: given 'no'; write false"),
        ("[steps.train]\nnodes = 0\n", ":2: steps.train.nodes: given 0"),
        ("[steps.train]\nmin_vcpu = 0\n", ":2: steps.train.min_vcpu: given 0"),
        ("[steps.train]\nmin_memory_gb = 0\n", ":2: steps.train.min_memory_gb: given 0"),
        ("[steps.train]\ntimeout = 'soon'\n", ":2: steps.train.timeout: 'soon'"),
        ("[steps.train]\ntimeout = [1]\n", ":2: steps.train.timeout: given a list"),
        ("[steps.train]\nstrategy = 'spotty'\n", ":2: steps.train.strategy: given 'spotty'. Did you mean spot?"),
        ("[steps.train]\nmax_wait = '1h'\n", ":1: steps.train: max_wait is for"),
        ("[steps.train.reduction_server]\ncuont = 1\n", ":2: steps.train.reduction_server.cuont: there is no"),
        ("[steps.train.reduction_server]\n", ":1: steps.train.reduction_server.count: is missing"),
        ("steps = 3\n", ":1: steps: given 3"),
        ("[steps]\ntrain = 'g2-standard-24'\n", ":2: steps.train: given 'g2-standard-24'"),
        ("[[schedules]]\nname = 'x'\n", ":1: schedules: given a list"),
        ("region = 5\n", ":1: region: given 5"),
        ("region = \n", "not valid TOML"),
        ("project = 'My_Project'\n", ":1: project: 'My_Project'"),
        ("\nregion = 'us-centrl1'\n", ":2: region: Vertex AI training has no region 'us-centrl1'. Did you mean us"),
        ("region = 'us-central1-a'\n", ":1: region: 'us-central1-a'"),
        ("bucket = 'runs'\n", ":1: bucket: 'runs'"),
        ("image = 'a/b:latest'\n", ":1: image: 'a/b:latest' is :latest"),
        ("service_account = 'me@example.com'\n", ":1: service_account: 'me@example.com'"),
        ("network = 'default'\n", ":1: network: 'default'"),
        (f"region = 'europe-west4'\nencryption_key = '{KEY}'\n", ":2: encryption_key: the key is in us-central1"),
        ("template_repository = 'us-central1-docker.pkg.dev/p/r'\n", ":1: template_repository: 'us-central1-docker"),
        ("experiment = 'My runs'\n", ":1: experiment: 'My runs'"),
        ("[labels]\nTeam = 'ml'\n", ":2: labels.Team: 'Team'"),
        ("[labels]\nteam = 'M L'\n", ":2: labels.team: 'M L'"),
        ("[labels]\nteam = 7\n", ":2: labels.team: given 7"),
        ("failure_policy = 'quick'\n", ":1: failure_policy: given 'quick'"),
        ("caching = 'perhaps'\n", ":1: caching: given 'perhaps'"),
        ("[endpoints]\naiplatfrm = ''\n", ":2: endpoints.aiplatfrm: this API does not exist. Did you mean aiplatform?"),
        ("[endpoints]\niam = 'http://x.test'\n", ":2: endpoints.iam: 'http://x.test'"),
        ("[notify]\nemial = []\n", ":2: notify.emial: there is no such setting. Did you mean email?"),
        ("[notify]\nemail = 5\n", ":2: notify.email: given 5"),
        ("[notify]\nemail = ['a@b.co', 'you']\n", ":2: notify.email: 'you'"),
        (f"[notify]\nemail = {[f'{n}@b.co' for n in 'abcd']}\n", ":2: notify.email: 4 addresses"),
        ("[notify]\nwebhook = 'http://x.test/y'\n", ":2: notify.webhook: the address begins"),
        ("[notify]\nwebhook = 'https://10.0.0.1/'\n", ":2: notify.webhook: the address leads"),
        ("[notify]\nwebhook = 'projects/p/secret/s'\n", ":2: notify.webhook: 'projects/p/secret/s'"),
        ("[mlflow]\ntracking_url = 'https://x'\n", ":2: mlflow.tracking_url: there is no such setting. Did you me"),
        ("[mlflow]\ntracking_uri = 'file:/mlruns'\n", ":2: mlflow.tracking_uri: this is not the address of"),
        ("[mlflow]\ntracking_uri = 'https://a:b@x'\n", ":2: mlflow.tracking_uri: looks like a credential"),
        (f"[mlflow]\nexperiment = '{'x' * 251}'\n", ":2: mlflow.experiment: an experiment"),
        ("[mlflow]\ntoken = 'abc'\n", ":2: mlflow.token: this is not the name of a secret"),
        ("[mlflow]\nexperiment = 'x'\n", "mlflow: tracking_uri is missing"),
        ("[mlflow]\ntracking_uri = 'http://x'\ntoken = 'projects/p/secrets/s'\n", "mlflow: http:// would send the to"),
        ("notify = 'me'\n", ":1: notify: given 'me'"),
        ("[schedules.Nightly]\n", ":1: schedules.Nightly: 'Nightly'"),
        ("[schedules.nightly]\npipeline = 'training'\n", ":1: schedules.nightly.cron: is missing"),
        (NIGHTLY.replace("ning", "nin"), ":2: schedules.nightly.pipeline: there is no"),
        (NIGHTLY.replace("0 2", "0 25"), ":3: schedules.nightly.cron: '0 25 * * *'"),
        (NIGHTLY + "time_zone = 'Europe/Berln'\n", ":4: schedules.nightly.time_zone: there is no"),
        (NIGHTLY + "start = 07:30:00\n", ":4: schedules.nightly.start: 07:30:00 is no"),
        (NIGHTLY + "start = 2027-01-02\nend = 2027-01-01\n", ":5: schedules.nightly.end: the end"),
        (NIGHTLY + "max_concurrent_runs = 0\n", ":4: schedules.nightly.max_concurrent_runs: given 0"),
        (NIGHTLY + "template = 'a b:1'\n", ":4: schedules.nightly.template: 'a b'"),
        (NIGHTLY + "parameters = 3\n", ":4: schedules.nightly.parameters: given 3"),
        (NIGHTLY + "catchup = true\n", ":4: schedules.nightly.catchup: there is no such setting. Did you mean catch_"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_with_their_line(write: Write, text: str, message: str) -> None:
    path = write(text)
    complaint = refusal(path)
    assert str(path) in complaint
    assert message in complaint


def test_every_wrong_value_of_a_file_is_reported_at_once(write: Write) -> None:
    message = refusal(write("project = 'X'\nregion = 'nowhere'\n[steps.train]\nnodes = 0\n"))
    assert [line.split(":")[1] for line in message.splitlines()] == ["1", "2", "4"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PIPELINES_REGION", "mars", "PIPELINES_REGION: Vertex AI training has no region 'mars'."),
        ("PIPELINES_REGON", "x", "PIPELINES_REGON: there is no such setting. Did you mean PIPELINES_REGION?"),
        ("PIPELINES_STEPS__TRAIN__NODES", "many", "PIPELINES_STEPS__TRAIN__NODES: steps.train.nodes: given 'many'; it"),
        ("PIPELINES_STEPS__TRAIN__MACHNE", "x", "PIPELINES_STEPS__TRAIN__MACHNE: steps.train.machne: there is no such"),
        ("PIPELINES_REGION__X", "x", "PIPELINES_REGION__X: given a table; it takes text in quotes."),
    ],
)
def test_a_wrong_variable_is_named(
    write: Write, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    assert refusal(write(TWO)).startswith(message)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("service_account", "me", "--service-account: 'me' is not a service account."),
        ("steps.train.nodes", "0", "--steps.train.nodes: steps.train.nodes: given '0'; at least 1."),
        ("labels", {"Team": "x"}, "--labels: labels.Team: 'Team' is not a valid label name"),
        ("regoin", "x", "--regoin: there is no such setting. Did you mean region?"),
    ],
)
def test_a_wrong_flag_is_named(write: Write, key: str, value: Any, message: str) -> None:
    assert refusal(write(TWO), overrides={key: value}).startswith(message)


#: Made up; each in a form that a credential has.
SECRETS = [
    "ya29.a0AfB_canary", "AIza" + "C4nary" * 6, "-----BEGIN PRIVATE KEY-----\\nc4nary", "ghp_" + "c4nary" * 6,
    "hf_" + "c4nary" * 6, "eyJhbGciOiJSUzI1NiJ9.eyJjYW5hcnkiOjF9.c4nary", "GOCSPX-c4nary", "AKIAC4NARY00C4NARY",
]  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "text",
    [
        'project = "{}"\n',
        'labels = {{team = "{}"}}\n',
        'labels = {{"{}" = "ml"}}\n',
        '[steps.train.env]\nTOKEN = "{}"\n',
        NIGHTLY + 'parameters = {{deep = [{{er = "{}"}}]}}\n',
        '[environments.prod.labels]\nteam = "{}"\n[environments.dev]\n',
    ],
)
def test_a_credential_is_refused_and_not_printed(write: Write, text: str, secret: str) -> None:
    message = refusal(write(text.format(secret)))
    assert "looks like a credential" in message
    assert "c4nary" not in message.lower() and "canary" not in message.lower() and secret not in message


@pytest.mark.parametrize("name", ["PIPELINES_LABELS__TEAM", "PIPELINES_PROJECT", "PIPELINES_ENV", "PIPELINES_LABELS"])
def test_a_credential_in_a_variable_is_refused_and_not_printed(
    write: Write, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    value = SECRETS[0] if name != "PIPELINES_LABELS" else '{"team": "' + SECRETS[0] + '"}'
    monkeypatch.setenv(name, value)
    message = refusal(write(TWO))
    assert message.startswith(f"{name}: ") and "looks like a credential" in message and "canary" not in message


def test_without_a_file_there_are_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPELINES_PROJECT", "my-project")
    loaded = settings.load()
    assert (loaded.region, loaded.project, loaded.file) == ("us-central1", "my-project", None)
    with pytest.raises(RequestError, match="there is no pipelines.toml in this folder or above it"):
        settings.find_repository()
    with pytest.raises(RequestError, match="there is no pipelines.toml in this folder or above it"):
        _ = loaded.repository


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pipelines.toml").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match="is a folder"):
        settings.load()


def test_a_missing_file_that_was_asked_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="No such file"):
        settings.load(tmp_path / "none.toml")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pipelines.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(RequestError, match="UTF-16 text"):
        settings.load(tmp_path / "pipelines.toml")


LADDER = """\
[steps.train]
deadline = "12h"
capacity = [
  {accelerator = "H100", count = 8, strategy = "spot"},
  # a remark
  %s,
]
"""


@pytest.mark.parametrize(
    ("rung", "message"),
    [
        ('{strateg = "spot"}', "capacity.2.strateg: there is no such setting. Did you mean strategy?"),
        ('{region = "us-east4"}', "capacity.2.region: there is no such setting. Did you mean regions?"),
        ('{regions = ["us-eats4"]}',
         "capacity.2.regions: Vertex AI training has no region 'us-eats4'. Did you mean us-east4?"),
        ('{regions = ["us-east4", "us-east4"]}', "capacity.2.regions: a region is listed twice"),
        ("{regions = []}", "capacity.2.regions: the list is empty"),
        ('{count = "many"}', "capacity.2.count: given 'many'; it takes a whole number."),
        ('{timeout = "1x"}', "capacity.2.timeout: '1x' is not a duration. Write 24h, 90m or 3600s."),
        ('{command = ["a"]}', "capacity.2.command: is not a key of a rung, because it applies to all rungs"),
        ('{strategy = "spot", max_wait = "2h"}', "capacity.2: max_wait is for strategy = 'flex_start'."),
        ('{image = "x:latest"}', "capacity.2.image: "),
    ],
)  # fmt: skip
def test_a_wrong_rung_is_refused_with_its_own_line(write: Callable[[str], Path], rung: str, message: str) -> None:
    with pytest.raises(RequestError) as error:
        settings.load(write(LADDER % rung))
    assert f"pipelines.toml:6: steps.train.{message}" in str(error.value)


@pytest.mark.parametrize(("value", "given"), [('{accelerator = "H100"}', "a table"), ("3", "3")])
def test_the_error_for_a_ladder_that_is_no_list_names_the_right_form(
    write: Callable[[str], Path], value: str, given: str
) -> None:
    with pytest.raises(RequestError, match=f"steps.train.capacity: given {given}; it takes a list of tables"):
        settings.load(write(f"[steps.train]\ncapacity = {value}\n"))


def test_a_ladder_is_written_as_tables_too_and_as_a_variable(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write('[[steps.train.capacity]]\naccelerator = "L4"\n\n[[steps.train.capacity]]\naccelerator = "T4"\n')
    assert [rung.accelerator for rung in settings.load(path).request("train").capacity] == ["L4", "T4"]
    monkeypatch.setenv("PIPELINES_STEPS__TRAIN__CAPACITY", '[{"accelerator": "H100"}]')
    assert [rung.accelerator for rung in settings.load(path).request("train").capacity] == ["H100"]
    path.write_text(path.read_text() + 'acelerator = "T4"\n')
    monkeypatch.delenv("PIPELINES_STEPS__TRAIN__CAPACITY")
    with pytest.raises(RequestError, match=r"pipelines.toml:6: steps.train.capacity.2.acelerator"):
        settings.load(path)


def test_the_values_of_a_step_and_its_rung_have_to_fit(write: Callable[[str], Path]) -> None:
    with pytest.raises(RequestError, match=r"capacity: rung 1: max_wait is for strategy"):
        settings.load(write('[steps.train]\nmachine = "g2-standard-4"\ncapacity = [{max_wait = "2h"}]\n'))


EVIL = [
    "https://evil.test", "https://googleapis.com.evil.test", "https://evilgoogleapis.com", "https://pkg.dev.evil.test",
    "https://evil.test:443", "https://evil.test\\\\.googleapis.com", "https://evil.test。googleapis.com",
    "https://evil.test\\t.googleapis.com", "https://evil.test#.googleapis.com", "https://evil.test?.googleapis.com",
    "https://127.0.0.1.evil.test", "http://us-central1-aiplatform.googleapis.com", "https://10.0.0.1",
    "https://evil.test%2f.googleapis.com", "https://.googleapis.com", "https://googleapis.com@evil.test",
]  # fmt: skip


@pytest.mark.parametrize("address", EVIL)
@pytest.mark.parametrize("table", ["", "environments.prod."])
def test_a_file_sends_no_token_to_a_host_that_is_not_googles(write: Write, address: str, table: str) -> None:
    """A repository of another author brings its settings file."""
    path = write(f'[{table}endpoints]\naiplatform = "{address}"\n')
    with pytest.raises(RequestError, match="endpoints") as refused:
        settings.load(path)
    assert f":2: {table}endpoints" in str(refused.value)


@pytest.mark.parametrize("place", ["[steps.train.env]\n", "[[steps.train.capacity]]\nmachine = 'g2-standard-8'\nenv."])
@pytest.mark.parametrize(
    "name",
    ["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", "STORAGE_EMULATOR_HOST", "BIGQUERY_STORAGE_EMULATOR_HOST"],
)
def test_a_file_sends_no_token_of_a_steps_account_elsewhere_either(write: Write, place: str, name: str) -> None:
    for address in ("https://evil.test", "evil.test:443", "http://evil.test/storage/v1/"):
        with pytest.raises(RequestError, match=f"{name}: .*evil"):
            settings.load(write(f"{place}{name} = '{address}'\n"))
    for address in ("https://storage.googleapis.com/storage/v1/", "http://127.0.0.1:9", "localhost:9"):
        settings.load(write(f"{place}{name} = '{address}'\n"))


def test_a_file_may_name_googles_private_addresses_and_a_variable_any(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in (
        "https://us-central1-aiplatform-mine.p.googleapis.com", "https://aiplatform.us-central1.rep.googleapis.com",
        "https://GoogleAPIs.com:443", "https://us-central1-kfp.pkg.dev", "http://127.0.0.1:1", "http://[::1]:1",
        "https://localhost:1",
    ):  # fmt: skip
        assert settings.load(write(f"[endpoints]\naiplatform = '{address}'\n")).endpoints["aiplatform"] == address
    monkeypatch.setenv("PIPELINES_ENDPOINTS__AIPLATFORM", "https://vertex.corp.test")
    assert settings.load(write("region = 'us-central1'\n")).endpoints["aiplatform"] == "https://vertex.corp.test"


@pytest.mark.parametrize(
    ("text", "variables", "sharers"),
    [
        ("bucket = 'gs://one'\n[environments.dev]\n[environments.prod]\n", {}, ("prod",)),
        ("[environments.dev]\nbucket = 'gs://one'\n[environments.prod]\nbucket = 'gs://one/'\n", {}, ("prod",)),
        ("[environments.dev]\n[environments.prod]\n", {"BUCKET": "gs://one"}, ("prod",)),
        ("[environments.dev]\n[environments.prod]\nbucket = 'gs://prod'\n", {"BUCKET": "gs://prod"}, ("prod",)),
        ("registry = 'gs://reg/all'\n[environments.dev]\n[environments.prod]\nbucket = 'gs://prod'\n", {}, ("prod",)),
        ("bucket = 'gs://one'\n[environments.dev]\n[environments.test]\n[environments.prod]\n", {}, ("test", "prod")),
        ("bucket = 'gs://one'\n[environments.dev]\nregistry = 'gs://one/registry-dev'\n[environments.prod]\n", {}, ()),
        ("[environments.dev]\nbucket = 'gs://one'\n[environments.prod]\nbucket = 'gs://one/prod'\n", {}, ()),
        ("[environments.dev]\n[environments.prod]\n", {}, ()),
        ("bucket = 'gs://one'\n[environments.dev]\n", {}, ()),
    ],
)
def test_environments_that_share_a_registry_are_known(
    write: Write, monkeypatch: pytest.MonkeyPatch, text: str, variables: dict[str, str], sharers: tuple[str, ...]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"PIPELINES_{name}", value)
    loaded = settings.load(write(text), environment="dev")
    assert loaded.registry_sharers == sharers
    assert [line.startswith("warning: registry: dev and ") for line in loaded.registry_warnings()] == [True] * bool(
        sharers
    )


def test_the_advice_parts_the_registries_and_the_one_that_is_there_stays_prods(write: Write) -> None:
    text = "bucket = 'gs://one'\n[environments.dev]\n%s\n[environments.prod]\n"
    for environment in ("dev", "prod"):
        fix = settings.load(write(text % ""), environment=environment).registry_fix
        assert "into [environments.dev]: " in fix
        parted = settings.load(write(text % fix.rpartition(": ")[2].rstrip(".")), environment=environment)
        assert parted.registry_sharers == ()
    assert parted.registry_root == "gs://one/registry"  # of today's file, without the key


@pytest.mark.parametrize("root", ["gs://one/runs/registry", "gs://one/runs", "gs://one"])
def test_a_registry_does_not_lie_where_runs_are_deleted(write: Write, root: str) -> None:
    with pytest.raises(RequestError, match=":2: registry: "):
        settings.load(write(f"bucket = 'gs://one'\nregistry = '{root}'\n"))
