"""The examples on digits and texts. Of images: training/data/test_images.py."""

import csv
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import accuracy_score

from docs.examples.finetune import Finetune
from docs.examples.topics import Topics
from vgp.base.exits import UserError
from vgp.data.prepare import prepare
from vgp.data.rows import open_rows
from vgp.data.task import Task
from vgp.protocol import pins as store
from vgp.protocol.manifest import Manifest
from vgp.protocol.pins import Request
from vgp.steps.__main__ import main
from vgp.steps.pins import data
from vgp.train.loop.batches import tensors
from vgp.train.processes.launch import THREADS

WORDS = {"sport": ["goal", "team"], "weather": ["rain", "sun"], "good": ["fine", "great"], "bad": ["awful", "dull"]}


def write_texts(folder: Path, classes: tuple[str, ...]) -> str:
    """Writes 200 texts with commas, quotes and line breaks into two files; returns their folder."""
    folder.mkdir()
    for part in range(2):
        with (folder / f"{part}.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["text", "label"])
            for number in range(part * 100, part * 100 + 100):
                label = classes[number % 2]
                rows.writerow([f'No. {number},\n"the" {WORDS[label][number // 2 % 2]} today', label])
    return str(folder)


def train_and_score(task: Task, manifest: Manifest, folder: Path, steps: int, learning_rate: float) -> float:
    """Trains on all train rows for some steps; returns the accuracy on the test rows."""
    torch.manual_seed(0)
    model = task.model(manifest).train()
    optimizer = task.optimizer(model, learning_rate, 0.0)
    train, test = (tensors(open_rows(folder, split).columns, torch.device("cpu")) for split in ("train", "test"))
    for _ in range(steps):
        task.loss(model, train).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        probabilities = task.predict(model, test)
    assert torch.allclose(probabilities.sum(dim=1), torch.ones(len(probabilities)))
    return float((probabilities.argmax(dim=1) == test["label"]).float().mean())


def test_texts_of_two_topics_are_distinguished(tmp_path: Path) -> None:
    texts, options = write_texts(tmp_path / "topics", Topics.classes), {"words": 8}
    manifest = prepare("docs.examples.topics:Topics", texts, tmp_path / "data", options=options, workers=1)
    assert sum(manifest.rows(split) for split in manifest.splits) == 200 and manifest.column("words").width == 8
    assert train_and_score(Topics(options), manifest, tmp_path / "data", 30, 0.05) == 1.0


def test_a_table_of_other_columns_or_classes_is_refused_with_its_file(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "reviews", Finetune.classes)
    with pytest.raises(UserError, match=r"0.csv, row 1: the label 'bad' is none of sport, weather"):
        prepare("docs.examples.topics:Topics", texts, tmp_path / "data", workers=1)
    (tmp_path / "reviews" / "0.csv").write_text("words,label\na,good\n")
    with pytest.raises(UserError, match=r"0.csv has no column 'text'; it has words, label"):
        prepare("docs.examples.topics:Topics", texts, tmp_path / "data", workers=1)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of random weights and 16 words, as save_pretrained writes it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
    from transformers.utils import logging

    logging.disable_progress_bar()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "No", ".", ",", '"', "the", "today", "fine", "great", "awful", "dull"]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    marks = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    folder = str(tmp_path_factory.mktemp("bert"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=32, **sizes)).save_pretrained(folder)
    return folder


def test_a_pretrained_model_is_tuned_slowly_below_and_fast_in_its_head(tmp_path: Path, pretrained: str) -> None:
    options = {"pretrained": pretrained, "tokens": 16, "frozen": 1, "body_rate": 0.5}
    texts = write_texts(tmp_path / "reviews", Finetune.classes)
    manifest = prepare("docs.examples.finetune:Finetune", texts, tmp_path / "data", options=options, workers=1)
    task = Finetune(options)
    model = task.model(manifest)
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert all(name.startswith(("bert.embeddings.word", "bert.encoder.layer.0.")) for name in frozen)
    assert len(frozen) == 17 and len(task.blocks(model)) == 2
    groups = task.optimizer(model, 0.02, 0.1).param_groups
    assert [(group["lr"], group["weight_decay"]) for group in groups] == [
        (0.01, 0.1), (0.01, 0.0), (0.02, 0.1), (0.02, 0.0)
    ]  # fmt: skip
    trained = {id(p) for group in groups for p in group["params"]}
    assert trained == {id(p) for p in model.parameters() if p.requires_grad}
    assert train_and_score(task, manifest, tmp_path / "data", 25, 0.02) == 1.0


def test_a_pretrained_model_is_pinned_with_the_texts_and_may_not_change_under_a_run(
    tmp_path: Path, pretrained: str
) -> None:
    folder = shutil.copytree(pretrained, tmp_path / "bert")
    texts, options = write_texts(tmp_path / "reviews", Finetune.classes), {"pretrained": str(folder), "tokens": 16}
    request = Request(task="docs.examples.finetune:Finetune", data=texts, task_options=options, champion="")
    runs = str(tmp_path / "pins")
    pinned = data.pin(request, pipeline="training", run="r", moment=None, epoch=0, folder=runs, dry_run=False).document
    files = {Path(file.path).name for file in pinned.files}
    assert files >= {"0.csv", "1.csv", "config.json", "model.safetensors"}
    uri = store.save(runs, pinned, dry_run=False)
    manifest = prepare(request.task, uri, tmp_path / "data", options=options, workers=1)
    assert sum(manifest.rows(split) for split in manifest.splits) == 200
    with (folder / "config.json").open("a") as file:
        file.write("\n")
    with pytest.raises(UserError, match=r"bert: config.json changed since the data was prepared"):
        Finetune(options).model(manifest)
    card = manifest.model_copy(update={"sources": ()})  # a finished model is rebuilt from its card
    assert Finetune(options).model(card)
    with pytest.raises(UserError, match="config.json"):
        prepare(request.task, uri, tmp_path / "late", options=options, workers=1)
    again = prepare(request.task, texts, tmp_path / "again", options=options, workers=1)
    assert again.fingerprint != manifest.fingerprint


def test_a_folder_without_a_pretrained_model_is_refused_before_any_row(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "reviews", Finetune.classes)
    with pytest.raises(UserError, match=r"pretrained = '' holds no config.json: give the folder"):
        prepare("docs.examples.finetune:Finetune", texts, tmp_path / "data", workers=1)


def test_digits_go_from_data_to_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in THREADS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    monkeypatch.chdir(tmp_path)
    task = ["--task", "docs.examples.digits:Digits"]
    settings = ["--set", "epochs=40", "--set", "global_batch_size=64", "--set", "learning_rate=5e-3"]
    main(["prepare", "data", *task, "--set", "channels=8"])
    main(["train", "data", *task, "--model", "model", "--checkpoints", "checkpoints", "--nproc", "2", *settings])
    main(["evaluate", "data", *task, "--model", "model", "evaluation"])
    main(["decide", "data", "--model", "model", "evaluation", "--report", "report.html"])
    table = pq.read_table(tmp_path / "evaluation" / "predictions.parquet").to_pydict()
    guesses = [max(range(10), key=row.__getitem__) for row in table["challenger"]]
    assert accuracy_score(table["label"], guesses) > 0.95
    assert json.loads((tmp_path / "model" / "model.json").read_text())["options"] == {"channels": 8}
    assert json.loads((tmp_path / "evaluation" / "decision.json").read_text())["promote"] is True
    assert "confusion" in (tmp_path / "report.html").read_text().lower()
