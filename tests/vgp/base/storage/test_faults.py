"""Every way to and from a bucket, with one fault at each of its requests in turn: all is done, nothing half-written."""

import itertools
import random
import re
from pathlib import Path

import pytest
from helpers.faulty_proxy import Fault

from tests.vgp.registry.records import key_of, version
from vgp.base.storage import download, objects, storage
from vgp.base.storage.objects import Folder
from vgp.base.storage.slot import Slot
from vgp.data import bundle
from vgp.data.beam.dataflow import Dataset
from vgp.protocol import pins as pins
from vgp.protocol.capacity.control import Control, Document
from vgp.protocol.capacity.watcher import claim
from vgp.protocol.manifest import Manifest
from vgp.protocol.pins import ChampionPins
from vgp.registry import changes, registry, sweep, versions
from vgp.serve.prediction.prediction_folder import PredictionFolder, PredictionRequest, shard_name
from vgp.train.checkpoint.checkpoint_store import BucketStore
from vgp.train.checkpoint.lease import hold_lease
from vgp.train.checkpoint.lease_holder import Owner

# The client leaves broken connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ONE, LARGE = b"one" * 1000, bytes(range(256)) * 4 * 1024 * 9  # above 8 MiB the client uploads in several requests
#: Handled, and the connection reset; or, in turn, refused before it is handled, and handled but the answer cut short.
FAULTS = {"lost": ("lost",), "others": (503, "short", 429)}

#: What is another in each run of the same requests.
VARYING = re.compile(r"upload_id=[^&]*|eneration(Match)?=\d+|[0-9a-f]{16}")
TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """The pauses between tries, which are random, are short."""
    uniform = random.uniform
    monkeypatch.setattr(random, "uniform", lambda low, high: uniform(low, min(high, 0.01)))


def checkpoint(place, tmp_path):
    store = BucketStore(place)
    store.write("part", [memoryview(ONE), memoryview(ONE)])
    done = [store.commit("manifest", b"{}"), store.read("part", 4, 40), store.read("part"), store.size("part")]
    done += [store.checksum("part"), store.names()]
    store.delete("one")
    return done


def lease(place, tmp_path):
    with hold_lease(place, Owner("run", "train"), length_s=60, patience_s=60) as mine:
        return mine.loss


def folder(place, tmp_path):
    given = Folder(place)
    given.require_writable()
    done = [given.create("new", [memoryview(ONE)]), given.create("one", [memoryview(b"other")]), given.holds("one")]
    given.replace("one", b"two")
    given.copy("one", Folder(f"{place}/deep"))
    done += [given.facts("one"), given.folders(), given.names(), given.read("one"), given.read_range("one", 1, 9)]
    given.delete("new")
    return done


def large(place, tmp_path):
    Folder(place).replace("large", LARGE)
    (tmp_path / "file").write_bytes(ONE)
    objects.put(tmp_path / "file", f"{place}/file")
    return objects.read(f"{place}/large") == LARGE


def downloads(place, tmp_path):
    with download.local_copy(f"{place}/one") as path, download.open_object(f"{place}/one", chunk_bytes=1024) as file:
        return Path(path).read_bytes() == file.read() == ONE


def looks(place, tmp_path):
    storage.overwrite(f"{place}/two", b"2")
    files = [*storage.find(f"{place}/*"), *storage.below(place)]
    read = storage.read(f"{place}/two", most=9)
    generation = (
        storage.with_version(storage.File(f"{place}/one", 0)).generation == storage.get_blob(f"{place}/one").generation
    )
    return [file.path for file in files], read, storage.location(place), generation


def slot(place, tmp_path):
    """Where the answer to a write was lost, `put` and `delete` report another's; what they do is done."""
    mine = Slot(f"{place}/one", deadline_s=60)
    before = mine.read()
    mine.put(b"two", before.generation)
    there = mine.read()
    mine.put(b"other", before.generation)
    mine.facts()
    if there.data == b"two":
        mine.delete(there.generation)
    return before.data, there.data, mine.read()


def model(tmp_path):
    (tmp_path / "model").mkdir(exist_ok=True)
    for name, data in {"model.safetensors": ONE, "empty": b""}.items():
        (tmp_path / "model" / name).write_bytes(data)
    return str(tmp_path / "model")


def register(place, tmp_path):
    flights = registry.open(place, "flights")
    files = versions.add(flights, model(tmp_path), key_of("a"))
    record = flights.change(lambda record: changes.register(record, version("a", files=files), who="run"))
    versions.verify(flights, record.find_key(key_of("a")))
    return sorted(files.items())


def remove_copies(place, tmp_path):
    flights = registry.open(place, "flights")
    versions.add(flights, model(tmp_path), key_of("a"))
    files = versions.add(flights, model(tmp_path), key_of("a"))  # what is there already is copied in the bucket
    removed = [sweep.remove(flights, copy) for copy in sweep.find_copies(flights)]
    versions.remove(flights, version("a", files=files))
    return sorted(files.items()), removed


def predictions(place, tmp_path):
    given = PredictionFolder.checked(f"{place}/predictions")
    asked = PredictionRequest(weights={"model.json": "0"}, task="flights", rows=2, shards=(2,))
    given.begin(asked)
    given.begin(asked)
    done = [given.commit(shard_name(0), ONE), given.describe(shard_name(0)), given.read_manifest(), given.names()]
    given.tidy()
    return done, given.holds(0, 2, "key")


def documents(place, tmp_path):
    control = Control(place, "1")
    document = Document(control.heartbeat)
    document.write({"attempt": "1"})
    claim(control, "job")
    return document.read(), bool(document.version())


def model_and_pins(place, tmp_path):
    card = bundle.ModelCard(task="digits:Digits", columns=(), config={}, steps=1, parameters=1)
    objects.replace(f"{place}/{bundle.CARD}", card.model_dump_json().encode())
    document = ChampionPins(folder="/model", epoch=1)
    return bundle.load_card(place) == card, pins.load(pins.save(f"{place}/pins", document), ChampionPins) == document


def dataset(place, tmp_path):
    shards = {"train": [{"path": "train-00000.parquet", "rows": 1, "bytes": len(ONE), "sha256": ""}]}
    manifest = Manifest(task="t:T", splits=shards, columns=())
    objects.replace(f"{place}/prepared/train-00000.parquet", ONE)
    objects.replace(f"{place}/train-00007.parquet", ONE)
    Folder(place).delete("one")
    made = Dataset.checked(place)
    made.commit(manifest, f"{place}/prepared")
    return made.is_complete(), made.holds(manifest)


PATHS = [
    checkpoint,
    lease,
    folder,
    large,
    downloads,
    looks,
    slot,
    register,
    predictions,
    documents,
    model_and_pins,
    dataset,
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("act", PATHS)
def test_a_fault_at_every_third_request_changes_nothing(bucket, proxy, tmp_path, act, fault):
    """Begins one request later each time, until each request of an undisturbed run has met a fault."""

    def run(number, kinds):
        """Returns the result, what it leaves in the bucket, its requests, and those that met a fault."""
        place = f"{bucket}/{act.__name__}-{fault}-{number}"
        storage.overwrite(f"{place}/one", ONE)
        proxy.seen.clear()
        proxy.faults.extend(Fault(kind, 1, "", "", skip=number + 2 * order) for order, kind in enumerate(kinds))
        result = repr(act(place, tmp_path)).replace(place, "gs://PLACE")
        proxy.faults.clear()
        requests = [
            (f"{method} {VARYING.sub('', path)}".replace(f"-{number}", ""), kind) for method, path, kind in proxy.seen
        ]
        left = {file.path.removeprefix(place): TIME.sub(b"", objects.read(file.path)) for file in storage.below(place)}
        return (result, left), {request for request, _ in requests}, {request for request, kind in requests if kind}

    run(-2, ())  # some requests are made once per process
    expected, missing, _ = run(-1, ())
    for number in itertools.count():
        if number >= 3 and not missing:
            break
        kinds = itertools.islice(itertools.cycle(FAULTS[fault]), number % 3, number % 3 + 50)
        found, _, met = run(number, kinds)
        assert found == expected, f"{fault} from request {number}"
        assert met, f"no fault: {missing}"
        missing -= met
