"""A pretrained model of Hugging Face, tuned to your texts, in one file: CSV files with the columns `text` and `label`.

    pip install transformers     # here: scripts/setup.sh vertex training huggingface
    vgp run training --nproc 2 --set 'data=reviews/*.csv' --set task=docs.examples.finetune:Finetune \
      --set 'task_options={"pretrained": "/models/bert"}' --set epochs=3 --set global_batch_size=32 \
      --set learning_rate=1e-3

`pretrained` is a folder that `save_pretrained` of a model and of its tokenizer wrote: nothing is fetched from a hub, no
code of the folder runs, and weights are safetensors. Its files are pinned with the data, and their checksums are part
of the dataset: to the next run a changed folder is other data, to one that has begun it is an error.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import file_digest, md5
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import AdamW, Optimizer

from vgp.base.exits import UserError
from vgp.base.storage import download, storage
from vgp.base.storage.storage import File
from vgp.data.task import Batch, Task
from vgp.protocol.manifest import Manifest, SourceFile

SPLITS = ("train", "validation", "test")


class Finetune(Task):
    """Is the review good? Options: the folder of the `pretrained` model, the `tokens` of a text that are read, the
    layers `frozen` from the bottom up, and `body_rate`, the body's learning rate as a share of the head's."""

    classes = ("bad", "good")
    settings = {
        "pretrained": "", "tokens": 64, "frozen": 0, "body_rate": 0.05, "test_share": 0.2, "validation_share": 0.1,
    }  # fmt: skip

    def __init__(self, options: Mapping[str, Any] | None = None):
        super().__init__(options)
        self.chosen = {**self.settings, **self.options}

    def folder(self) -> str:
        folder = str(self.chosen["pretrained"])
        if not Path(folder, "config.json").is_file():
            raise UserError(
                f"pretrained = {folder!r} holds no config.json: give the folder that save_pretrained wrote, here, in "
                "the image, or /gcs/BUCKET/FOLDER."
            )
        return folder

    # ---- the data: a file is a shard, so let no file be larger than memory

    def files(self, data: str) -> Sequence[File]:
        return [*self._texts(data), *storage.below(self.folder(), links=True)]

    def shards(self, data: str) -> Sequence[str]:
        return [file.path for file in self._texts(data)]

    def _texts(self, data: str) -> list[File]:
        """Pins stand for all files of a run, those of the pretrained model too."""
        other = {file.path for file in storage.below(self.folder(), links=True)}
        found = [file for part in storage.parts(data) for file in storage.find(part, (".csv",))]
        if not found:
            raise UserError("data names no texts: give CSV files with the columns text and label.")
        return [file for file in found if file.path not in other]

    def combine(self, scans: Iterable[Any]) -> dict[str, Any]:
        return {"sources": self._pretrained()}

    def _pretrained(self) -> tuple[SourceFile, ...]:
        """Every file of the pretrained model, with the checksum of its content."""
        sources = []
        for found in storage.below(self.folder(), links=True):
            with open(found.path, "rb") as file:
                sources.append(
                    SourceFile(path=found.path, bytes=found.bytes, sha256=file_digest(file, "sha256").hexdigest())
                )
        return tuple(sources)

    def rows(self, shard: str, statistics: Mapping[str, Any]) -> dict[str, pa.Table]:
        from transformers import AutoTokenizer

        with download.local_copy(shard) as path:
            table = csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True))
        for column in ("text", "label"):
            if column not in table.column_names:
                raise UserError(f"{shard} has no column {column!r}; it has {', '.join(table.column_names)}.")
        texts, labels = ([str(value or "") for value in table[name].to_pylist()] for name in ("text", "label"))
        for row, label in enumerate(labels, 1):
            if label not in self.classes:
                raise UserError(f"{shard}, row {row}: the label {label!r} is none of {', '.join(self.classes)}.")
        tokenizer = AutoTokenizer.from_pretrained(self.folder(), local_files_only=True)
        width = self.chosen["tokens"]
        coded = tokenizer(texts, padding="max_length", truncation=True, max_length=width, return_tensors="np")
        rows = pa.table(
            {
                "tokens": pa.FixedSizeListArray.from_arrays(coded["input_ids"].astype(np.int32).ravel(), width),
                "length": coded["attention_mask"].sum(axis=1).astype(np.int64),
                "label": pa.array([self.classes.index(label) for label in labels], pa.int64()),
            }
        )
        splits = list(map(self._split, texts))
        return {name: rows.filter(pa.array([split == name for split in splits])) for name in SPLITS}

    def _split(self, text: str) -> str:
        """Texts that are alike go to the same split."""
        place = int.from_bytes(md5(text.encode()).digest()[:4]) / 2**32
        test, validation = self.chosen["test_share"], self.chosen["validation_share"]
        return "test" if place < test else "validation" if place < test + validation else "train"

    # ---- the model: the pretrained body, and a new head

    def model(self, data: Manifest) -> nn.Module:
        from transformers import AutoModelForSequenceClassification
        from transformers.utils import logging

        if data.sources and (changed := set(data.sources) ^ set(self._pretrained())):
            names = ", ".join(sorted({Path(source.path).name for source in changed}))
            raise UserError(f"{self.folder()}: {names} changed since the data was prepared.")
        logging.disable_progress_bar()
        logging.set_verbosity_error()  # it warns that the head is new, which is the point
        model: nn.Module = AutoModelForSequenceClassification.from_pretrained(
            self.folder(), num_labels=len(self.classes), local_files_only=True, use_safetensors=True
        )
        body = model.base_model  # type: ignore[attr-defined]
        if self.chosen["frozen"]:
            layers = self.blocks(model)[: self.chosen["frozen"]]
            for module in (body.get_input_embeddings(), *layers):  # type: ignore[operator]
                module.requires_grad_(False)
        return model

    def optimizer(self, model: nn.Module, learning_rate: float, weight_decay: float) -> Optimizer:
        """The body learns more slowly than the head, which knows nothing yet."""
        body = {id(parameter) for parameter in model.base_model.parameters()}  # type: ignore[union-attr, operator]
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        rates = {True: learning_rate * self.chosen["body_rate"], False: learning_rate}
        groups = [
            {"params": [p for p in trained if (id(p) in body) == inside and (p.ndim > 1) == decays],
             "lr": rates[inside], "weight_decay": weight_decay if decays else 0.0}
            for inside in (True, False) for decays in (True, False)
        ]  # fmt: skip
        return AdamW([group for group in groups if group["params"]])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(self._logits(model, batch), batch["label"])

    def predict(self, model: nn.Module, batch: Batch) -> Tensor:
        return self._logits(model, batch).float().softmax(dim=-1)

    def _logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """(B, tokens) -> (B, C)."""
        tokens = batch["tokens"].long()
        mask = tokens.new_ones(tokens.shape).cumsum(dim=1) <= batch["length"][:, None]
        logits: Tensor = model(input_ids=tokens, attention_mask=mask).logits
        return logits
