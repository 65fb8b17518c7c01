import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from training.tasks import language_model
from training.tasks.language_model import LanguageModel
from vgp.base.exits import UserError
from vgp.data import bundle, tasks, text
from vgp.data.prepare import prepare
from vgp.data.rows import open_rows
from vgp.data.tokens import BytePairs, Bytes, learn
from vgp.decision.decide import decide
from vgp.evaluation import measure, predictions, predictions_writer
from vgp.evaluation.evaluate import evaluate
from vgp.networks.transformer import Shape, Transformer, continue_text, make_rotations, rotate
from vgp.steps import calls as steps
from vgp.train.fit import train
from vgp.train.train_config import parse_config

LENGTH = 16
OPTIONS = {"depth": 1, "sequence_length": LENGTH, "sample_tokens": 20}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """120 small files in three folders; 'zebra' only where it is not trained on."""
    root = tmp_path_factory.mktemp("corpus")
    for number in range(120):
        name = f"{'abc'[number % 3]}/{number}.txt"
        animal = "cat" if text.split_of(name, 0.05, 0.1) == "train" else "zebra"
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"the {animal} sat on mat {number + i} é\n" for i in range(number % 5 + 1)))
    return root


@pytest.fixture(scope="module")
def prepared(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared") / "data"
    return folder, prepare("language_model", str(corpus), folder, options=OPTIONS, workers=1)


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(1)
    return Transformer(Shape(2, 257, LENGTH)).eval()


def drawn(rows: int = 3) -> torch.Tensor:
    return torch.randint(0, 257, (rows, LENGTH), generator=torch.Generator().manual_seed(0))


# ---- the network


@torch.no_grad()
def test_a_later_token_never_changes_an_earlier_logit(model):
    tokens = drawn()
    before = model(tokens)
    for place in (0, 7, LENGTH - 1):
        changed = tokens.clone()
        changed[:, place] = (changed[:, place] + 1) % 257
        after = model(changed)
        torch.testing.assert_close(after[:, :place], before[:, :place])
        assert not torch.allclose(after[:, place:], before[:, place:])


def test_attention_scores_depend_on_the_distance_of_positions_alone():
    cosine, sine = make_rotations(64, 64)
    query, key = torch.randn(2, 64, generator=torch.Generator().manual_seed(0)).double()
    turned = [rotate(each.expand(64, 64), cosine, sine) for each in (query, key)]
    scores = turned[0] @ turned[1].T
    for shift in (0, 1, 5):
        along = scores.diagonal(-shift)
        torch.testing.assert_close(along, along[:1].expand_as(along), rtol=1e-5, atol=1e-5)
    assert scores[5, 0] != pytest.approx(float(scores[0, 0]))
    torch.testing.assert_close(turned[0].norm(dim=1), query.norm().expand(64), rtol=1e-6, atol=1e-6)


@torch.no_grad()
def test_logits_stay_when_all_positions_move_by_the_same_distance(model):
    before = model(drawn())
    moved = make_rotations(LENGTH + 9, 64)
    model.cosine_TK, model.sine_TK = moved[0][9:], moved[1][9:]
    torch.testing.assert_close(model(drawn()), before, rtol=1e-3, atol=1e-4)
    model.cosine_TK, model.sine_TK = make_rotations(2 * LENGTH, 64)[0][::2], make_rotations(2 * LENGTH, 64)[1][::2]
    assert not torch.allclose(model(drawn()), before, rtol=1e-3, atol=1e-3)


def test_sizes_follow_from_the_depth_and_are_counted_exactly():
    for depth, vocab in ((1, 257), (2, 300), (3, 257)):
        shape = Shape(depth, vocab, LENGTH)
        assert sum(p.numel() for p in Transformer(shape).parameters()) == shape.parameters
    assert round(Shape(12, 50_304, 1024).parameters / 1e6) == 124
    # 6 N + 12 L D T a token, by hand
    assert Shape(2, 257, 16).flops_per_row == 16 * (6 * 459_520 + 12 * 2 * 128 * 16)


@torch.no_grad()
def test_a_new_model_is_about_as_surprised_as_a_uniform_guess():
    torch.manual_seed(0)
    tokens = torch.randint(0, 257, (8, 65))
    loss = Transformer(Shape(4, 257, 64))(tokens[:, :-1], tokens[:, 1:]).mean()
    assert float(loss) == pytest.approx(math.log(257), abs=0.3)


@torch.no_grad()
@pytest.mark.parametrize("split", ["train", "test"])
def test_the_loss_is_the_sum_over_real_tokens_and_scores_are_the_sums_of_rows(prepared, split):
    folder, made = prepared
    task = LanguageModel(OPTIONS)
    torch.manual_seed(0)
    network = task.model(made)
    columns = open_rows(folder, split).take(np.arange(40))
    batch = {name: torch.from_numpy(values) for name, values in columns.items()}
    assert (columns["count"] < LENGTH).any()
    logits = network(batch["tokens"][:, :-1].long()).double()
    sums = [
        -sum(
            float(F.log_softmax(logits[row, t], 0)[token]) for t, token in enumerate(tokens[1:].tolist()) if token < 256
        )
        for row, tokens in enumerate(columns["tokens"])
    ]
    total, weight = task.loss(network, batch)
    assert float(total) == pytest.approx(sum(sums), rel=1e-5) and int(weight) == columns["count"].sum()
    np.testing.assert_allclose(task.score(network, batch).numpy(), sums, rtol=1e-5)


def test_sampling_continues_what_was_given_and_repeats_itself(model):
    first, second = (continue_text(model, [256, 65, 66], 30, 256) for _ in range(2))
    assert first == second and first[:2] == [65, 66] and len(first) == 32 and 256 not in first
    assert continue_text(model, [256, 65, 66], 30, 256, seed=1) != first


@torch.no_grad()
def test_each_sampled_token_is_drawn_from_what_follows_those_before_it(model):
    model.embedding.weight.mul_(30)  # so sure of itself that the draw is the likeliest
    tokens = [256, *continue_text(model, [256, 65, 66], 2 * LENGTH, 256)]
    for place in range(3, len(tokens)):
        logits = model(torch.tensor([tokens[max(0, place - LENGTH) : place]]))[0, -1, :256]
        assert tokens[place] == int(logits.argmax()) and logits.topk(2).values.diff().abs() > 10


# ---- the data


def test_windows_hold_every_byte_of_every_file_once_and_whole_files_go_to_one_split(prepared, corpus):
    """A window to train on may hold several files, one after the other; its `file` is the first that it predicts."""
    folder, made = prepared
    names, found, homes = made.column("file").values, {}, {}
    held_out = {name: path for name, path in _files(corpus).items() if text.split_of(name, 0.05, 0.1) != "train"}
    for split in made.splits:
        rows = open_rows(folder, split).columns
        assert rows["bytes"].tolist() == rows["count"].tolist()
        assert rows["count"].tolist() == (rows["tokens"][:, 1:] < 256).sum(axis=1).tolist()
        if split == "train":
            trained = [path.stat().st_size for name, path in _files(corpus).items() if name not in held_out]
            assert (
                rows["count"].sum() == sum(trained) and len(rows["count"]) < (sum(trained) + len(trained)) / LENGTH + 9
            )
            continue
        for tokens, count, file in zip(rows["tokens"], rows["count"], rows["file"], strict=True):
            found[names[file]] = found.get(names[file], b"") + bytes(tokens[1 : count + 1].astype(np.uint8))
            homes.setdefault(names[file], set()).add(split)
    assert found == {name: path.read_bytes() for name, path in held_out.items()}
    assert {name: {text.split_of(name, 0.05, 0.1)} for name in found} == homes
    assert set(made.splits) == {"train", "validation", "test"}


def test_windows_to_train_on_are_full_and_hold_every_text_once_in_order():
    task = LanguageModel({"sequence_length": 4})
    texts = [(name, np.frombuffer(written, np.uint8).astype(np.uint16), np.ones(len(written), np.int64))
             for name, written in (("a/1", b"abcdefg"), ("2", b"h"), ("b/3", b"ijk"))]  # fmt: skip
    made = task._windows(texts, 256)
    tokens = np.array(made["tokens"].to_pylist())
    stream = [256, *b"abcdefg", 256, *b"h", 256, *b"ijk"]
    assert [*tokens[0], *tokens[1:, 1:].ravel()] == [*stream, *[256] * 3] and (tokens[1:, 0] == tokens[:-1, -1]).all()
    assert made["count"].to_pylist() == [4, 3, 3, 1] == made["bytes"].to_pylist()
    assert made["file"].to_pylist() == ["a/1", "a/1", "2", "b/3"]
    assert made["folder"].to_pylist() == ["a", "a", "(top)", "b"]
    model = Transformer(Shape(1, 257, 4))
    batch = {"tokens": torch.from_numpy(tokens), "count": torch.tensor(made["count"].to_pylist())}
    _, targets = language_model._shifted(model, batch)
    assert [t for t in targets.flatten().tolist() if t >= 0] == [*b"abcdefghijk"]
    assert task.loss(model, batch).weight == 11


def test_the_split_of_a_file_does_not_depend_on_where_its_folder_lies(corpus, tmp_path):
    shutil.copytree(corpus, tmp_path / "elsewhere")
    here, there = text.find(str(corpus)), text.find(f"{tmp_path}/elsewhere/**/*.txt")
    assert [each.name for each in here] == [each.name for each in there] and len(here) == 120
    share = np.mean([text.split_of(f"{i}.txt", 0.05, 0.1) == "test" for i in range(5000)])
    assert 0.08 < share < 0.12


def test_text_in_cloud_storage_is_found_by_folder_glob_and_name_and_read(bucket, corpus, tmp_path):
    from google.cloud import storage as client

    remote = client.Client(project="p").bucket("runs")
    for name in ("a/0.txt", "a/3.txt", "b/1.txt"):
        remote.blob(f"texts/{name}").upload_from_filename(str(corpus / name))
    by_folder, by_glob = text.find(f"{bucket}/texts"), text.find(f"{bucket}/texts/**/*.txt")
    assert [each.name for each in by_folder] == ["a/0.txt", "a/3.txt", "b/1.txt"] == [each.name for each in by_glob]
    assert [each.name for each in text.find(f"{bucket}/texts/a/3.txt")] == ["3.txt"]
    shards, sources = text.cut_texts(by_folder, tmp_path)
    assert [p.read() for shard in shards for p in shard] == [(corpus / each.name).read_bytes() for each in by_folder]
    assert sources[0].path == f"{bucket}/texts/a/0.txt"
    elsewhere, same = text.cut_texts(by_folder, tmp_path, elsewhere=True)
    assert same == sources and [p.read() for shard in elsewhere for p in shard] == [
        (corpus / each.name).read_bytes() for each in by_folder
    ]
    assert all(p.path.startswith(f"{bucket}/texts/") and "#" in p.path for shard in elsewhere for p in shard)
    remote.blob("texts/a/0.txt").upload_from_string("another text")
    with pytest.raises(UserError, match="a/0.txt was replaced or deleted"):
        elsewhere[0][0].read()


def test_passages_of_a_large_file_are_its_whole_lines_in_order(tmp_path, monkeypatch):
    path = tmp_path / "large.txt"
    path.write_bytes(b"".join(b"x" * (i * 7 % 40) + b"\n" for i in range(200)) + b"no newline at the end")
    monkeypatch.setattr(text, "SHARD_BYTES", 100)
    shards, (source,) = text.cut_texts(text.find(str(path)), tmp_path)
    pieces = [passage.read() for shard in shards for passage in shard]
    assert len(pieces) > 20 and b"".join(pieces) == path.read_bytes() and source.bytes == path.stat().st_size
    assert all(piece.endswith(b"\n") for piece in pieces[:-1] if piece)


def test_the_standard_library_is_the_default_without_tests_and_installed_packages():
    names = [each.name for each in text.find("")]
    assert "json/decoder.py" in names and names == sorted(names) and len(names) > 300
    assert not any({"site-packages", "test", "tests"} & set(name.split("/")) for name in names)


def test_a_vocabulary_is_learned_from_training_files_only_and_the_same_every_time(corpus, tmp_path):
    options = {**OPTIONS, "vocab": 300}
    first = prepare("language_model", str(corpus), tmp_path / "1", options=options, workers=1)
    second = prepare("language_model", str(corpus), tmp_path / "2", options=options, workers=1)
    coder = BytePairs(first.statistics["vocabulary"])
    assert first.statistics == second.statistics and coder.size <= 300
    learned = coder.model.get_vocab()
    assert "Ġcat" in learned and not any("zeb" in token or "bra" in token for token in learned)
    read = open_rows(tmp_path / "1", "test").columns
    whole = sum(p.stat().st_size for p in corpus.rglob("*.txt")
                if text.split_of(p.relative_to(corpus).as_posix(), 0.05, 0.1) == "test")  # fmt: skip
    assert read["bytes"].sum() == whole > read["count"].sum()


def test_tokens_of_any_text_lead_back_to_it():
    pairs = BytePairs(learn([b"the cat sat on the mat\n" * 50], 280))
    for given in ("", "the zebra\r\n\té 漢字 🙂  ", "\x00"):
        for coder in (Bytes(), pairs):
            ids, widths = coder.encode(given.encode())
            assert coder.decode(ids.tolist()) == given and widths.sum() == len(given.encode())
            assert ids.max(initial=0) < coder.size - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deep": 3}, "no option 'deep'.*depth"),
        ({"depth": 0}, "depth=0: give a whole number from 1 to 128"),
        ({"vocab": 70_000}, "vocab=70000"),
        ({"separate_texts": "yes"}, "separate_texts='yes': give true or false"),
        ({"head_width": 96}, "head_width=96: give 64 or 128, a divisor of the model's width 256; or 0"),
        ({"head_width": 128, "depth": 5}, "head_width=128: .* width 320"),
        ({"test_share": 0}, "test_share=0"),
    ],
)
def test_a_wrong_option_is_refused_before_any_file_is_read(options, message):
    with pytest.raises(UserError, match=message):
        tasks.load("language_model", options)


def test_a_single_file_is_refused_since_nothing_is_left_to_test_on(tmp_path):
    (tmp_path / "one.txt").write_text("hello\n")
    with pytest.raises(UserError, match="none of 1 text file"):
        prepare("language_model", str(tmp_path), tmp_path / "data", workers=1)
    assert not (tmp_path / "data" / "manifest.json").exists()


# ---- the whole way


def test_bits_per_byte_of_a_uniform_guess_over_256_values_are_eight(tmp_path):
    size = np.array([16, 16, 3])
    header = predictions.Header(task="m:T", split="test", classes=(), weight="bytes", models=("challenger",))
    predictions_writer.write(
        tmp_path, header, [{"row_id": np.arange(3), "weight": size, "challenger": size * math.log(256)}]
    )
    found = measure.measure(tmp_path)
    assert found.scalars["bits_per_byte"] == pytest.approx(8) and found.models["challenger"].scores.compression == 1
    assert found.confusion_matrix == [] and found.roc_curve is None


def test_from_text_to_report_in_one_process(prepared, corpus, tmp_path, capfd):
    folder, made = prepared
    model, evaluation = tmp_path / "model", tmp_path / "evaluation"
    figures = steps.train(
        folder, model, tmp_path / "checkpoints", nproc=1, epochs=6.0, global_batch_size=32, learning_rate=3e-3
    )
    shown = capfd.readouterr().err
    assert "depth 1: width 64, 1 heads, SwiGLU 192, 257 tokens" in shown and "tokens/s  MFU n/a" in shown
    counts = open_rows(folder, "train").columns["count"]
    assert counts.mean() < 0.99 * LENGTH  # the others open a text, or fill the last window
    assert figures["tokens_per_s"] == pytest.approx(counts.mean() * figures["samples_per_s"], rel=0.003)
    assert figures["loss"] < 2.5 and "mfu" not in figures
    assert "chosen: precision=fp32 (on a CPU), compile=false (on a CPU), deterministic=true (on a CPU)" in shown
    assert figures["chosen"] in shown and (figures["compile"], figures["deterministic"]) == (False, True)
    assert {"precision": "fp32", "compile": False, "deterministic": True}.items() <= bundle.load_card(
        model
    ).config.items()
    sample = bundle.load_card(model).sample
    assert len(sample.encode()) >= 20 and sample in shown
    result = steps.evaluate(folder, model, evaluation)
    scores = {name: each.scores.bits for name, each in result.models.items()}
    data = predictions.read(evaluation)
    assert scores["challenger"] == pytest.approx(data.losses("challenger").sum() / math.log(2) / _bytes(corpus))
    assert 0 < scores["baseline"] < 5 and result.groups == len(np.unique(open_rows(folder, "test").columns["file"]))
    decision = steps.decide(folder, model, evaluation, tmp_path / "report.html", tmp_path / "summary.md")
    assert decision.metric == "bits" and decision.calibration is None
    assert decision.promote == (decision.better and not decision.worse_slices)
    page = (tmp_path / "report.html").read_text()
    assert "deterministic" in page and "fp32" in page
    assert not re.search(r"<t[hd][^>]*>(precision|compile|deterministic)</t[hd]>\s*<td[^>]*>auto", page)
    assert "Bits per byte" in page and "Model output" in page and "Learning curve" in page
    assert not any(word in page for word in ("Confusion", "ROC", "<h3>Calibration", "undefined", "AUC"))
    assert "Bits per byte" in (tmp_path / "summary.md").read_text()


def test_a_champion_that_is_the_same_model_is_neither_better_nor_worse(prepared, tmp_path):
    folder, made = prepared
    task = LanguageModel(OPTIONS)
    card = bundle.ModelCard(
        task=made.task, options=OPTIONS, columns=made.columns, statistics=made.statistics, config={}, steps=1,
        parameters=1,
    )  # fmt: skip
    bundle.save(tmp_path / "model", task.model(made), card)
    evaluate(folder, tmp_path / "model", tmp_path / "e", champion=str(tmp_path / "model"), baseline=False)
    found = decide(tmp_path / "e")
    assert (found.reference, found.difference, found.promote) == ("champion", 0, False)
    assert "bits per byte" in found.reason


def _files(corpus: Path) -> dict[str, Path]:
    return {path.relative_to(corpus).as_posix(): path for path in corpus.rglob("*.txt")}


def _bytes(corpus: Path) -> int:
    names = [p.relative_to(corpus).as_posix() for p in corpus.rglob("*.txt")]
    return sum((corpus / n).stat().st_size for n in names if text.split_of(n, 0.05, 0.1) == "test")


def test_a_champion_with_another_vocabulary_is_not_compared(prepared, corpus, tmp_path):
    folder, made = prepared
    task = LanguageModel(OPTIONS)
    card = bundle.ModelCard(
        task=made.task, options=OPTIONS, columns=made.columns, statistics=made.statistics, config={}, steps=1,
        parameters=1,
    )  # fmt: skip
    bundle.save(tmp_path / "new", task.model(made), card)
    other = {"vocabulary": learn([b"the cat"], 260)}
    old = card.model_copy(update={"statistics": other})
    bundle.save(tmp_path / "old", task.model(old.manifest()), old)
    evaluate(folder, tmp_path / "new", tmp_path / "evaluation", champion=str(tmp_path / "old"), baseline=False)
    found = decide(tmp_path / "evaluation")
    assert found.outcome == "keep" and "trained with another vocabulary" in found.reason
    reused = {**OPTIONS, "vocabulary_of": str(tmp_path / "old")}
    again = prepare("language_model", str(corpus), tmp_path / "again", options=reused, workers=1)
    assert again.statistics == other


def test_a_model_of_before_wide_heads_is_the_network_that_it_was_and_a_new_one_has_them(prepared, corpus, tmp_path):
    """Both have weights of the same sizes, so a warm start from one in the other is refused before it begins."""
    folder, made = prepared
    options = {**OPTIONS, "depth": 12}
    new = prepare("language_model", str(corpus), tmp_path / "data", options=options, workers=1)
    card = bundle.ModelCard(task=made.task, options=options, columns=made.columns, statistics=made.statistics,
                            config={}, steps=1, parameters=1)  # fmt: skip
    task = LanguageModel(options)
    torch.manual_seed(0)
    old = Transformer(Shape(12, 257, LENGTH)).eval()
    bundle.save(tmp_path / "old", old, card)
    _, loaded, _ = bundle.load(tmp_path / "old")
    with torch.no_grad():
        assert loaded.shape.head_width == 64 and torch.equal(loaded(drawn()), old(drawn()))
    assert new.statistics["head_width"] == task.shape(new).head_width == 128
    config = parse_config({"task": "language_model", "warm_start": str(tmp_path / "old")})
    with pytest.raises(UserError, match="that model has head_width=64, this task has head_width=128"):
        train(config, data=tmp_path / "data", model=tmp_path / "m", checkpoints=tmp_path / "c", nproc=1)
    narrow = LanguageModel({**options, "head_width": 64})
    assert narrow.combine([])["split"] and "head_width" not in narrow.combine([])


def test_a_text_that_is_written_to_while_it_is_read_is_an_error_with_its_name(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    shards, _ = text.cut_texts(text.find(str(tmp_path)), tmp_path)
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    with pytest.raises(UserError, match=r"a.txt changed while it was read"):
        shards[0][0].read()
