"""A language model on any text files: a decoder-only transformer over bytes or byte pairs, sized by one dial.

    vgp run training --set task=language_model --set 'task_options={"depth": 2}' --nproc 2

Without data it learns from the sources of Python's standard library, which every machine has. Files, not pieces of
files, go to the train, validation and test splits.
"""

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.storage.storage import File
from vgp.data import text
from vgp.data.task import Batch, Task, WeightedLoss, fusable
from vgp.data.text import Passage, split_of
from vgp.data.tokens import MOST_TOKENS, learn, tokens
from vgp.networks.shape import HEAD_WIDTHS, WIDTH_PER_LAYER, Shape, Workload, head_width

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from vgp.data.rows import Rows
    from vgp.protocol.manifest import Manifest

#: A vocabulary is learned from at most about this much text, taken evenly over the training files.
LEARNING_BYTES = 256 << 20
#: Tokens that are scored at once.
SCORED_TOKENS = 8_192


class LanguageModel(Task):
    """Next tokens of text. The options are `settings`."""

    classes = ()
    weight = "bytes"
    slices = ("folder",)
    group = "file"
    encoding = ("vocabulary",)
    model_options = ("vocabulary_of",)
    #: Options and their defaults; 0 for vocab = bytes, else the size of a BPE vocabulary. `vocabulary_of` names a
    #: model's folder whose vocabulary is taken over, so that the two can be compared. 0 for head_width = by the depth.
    #: With `separate_texts` a token sees only those of its own text, not the texts before it in its window.
    settings: ClassVar[Mapping[str, Any]] = {
        "depth": 4, "sequence_length": 256, "vocab": 0, "vocabulary_of": "", "head_width": 0,
        "validation_share": 0.05, "test_share": 0.1, "prompt": "", "sample_tokens": 400,
        "separate_texts": False,
    }  # fmt: skip

    def __init__(self, options: Mapping[str, Any] | None = None):
        super().__init__(options)
        self.chosen = {**self.settings, **self.options}
        _check(self.chosen)
        self.batch_rows = max(1, SCORED_TOKENS // int(self.chosen["sequence_length"]))

    # ---- the data: files into windows of tokens

    def files(self, data: str) -> Sequence[File]:
        return [replace(passage.file, title=passage.name) for passage in text.find(data)]

    def package(self) -> tuple[str, str]:
        return "python", platform.python_version()

    def shards(self, data: str) -> Sequence[tuple[Passage, ...]]:
        texts = text.find(data)
        for split in ("train", "test"):
            if not any(self._split(file.name) == split for file in texts):
                raise UserError(
                    f"none of {len(texts)} text file(s) falls into the {split} split: whole files are split by a hash "
                    f"of their names. Give more files (`split --number=l/100` cuts one), or another test_share "
                    f"(now {self.chosen['test_share']})."
                )
        shards, self.sources = text.cut(texts, self.scratch, elsewhere=self.elsewhere)
        return shards

    def _split(self, name: str) -> str:
        return split_of(name, self.chosen["validation_share"], self.chosen["test_share"])

    def scan(self, shard: tuple[Passage, ...]) -> tuple[Passage, ...]:
        """The passages that a vocabulary may be learned from."""
        return tuple(passage for passage in shard if self._split(passage.name) == "train")

    def combine(self, scans: Iterable[tuple[Passage, ...]]) -> dict[str, Any]:
        vocabulary: Mapping[str, Any] = {}
        if self.chosen["vocabulary_of"]:
            from vgp.data.bundle import load_card

            vocabulary = load_card(self.chosen["vocabulary_of"]).statistics.get("vocabulary", {})
        elif self.chosen["vocab"]:
            passages = [passage for scan in scans for passage in scan]
            stride = -(-sum(p.end - p.start for p in passages) // LEARNING_BYTES)
            vocabulary = learn((p.read() for p in passages[:: max(1, stride)]), self.chosen["vocab"])
        shares = {name: f"{self.chosen[name]:g}" for name in ("test_share", "validation_share")}
        width = self.chosen["head_width"] or head_width(self.chosen["depth"])
        heads = {"head_width": width} if width != HEAD_WIDTHS[0] else {}
        return {"vocabulary": vocabulary, **heads, "split": {"by": "file", **shares}}

    def rows(self, shard: tuple[Passage, ...], statistics: Mapping[str, Any]) -> dict[str, pa.Table]:
        """Windows of sequence_length + 1 tokens: all but the last are inputs, all but the first are predicted.

        Those to train on are full: the texts of a shard follow each other. A held-out window is of one text alone, so
        that every model is judged on the same rows.
        """
        coder = tokens(statistics["vocabulary"])
        texts: dict[str, list[tuple[str, np.ndarray, np.ndarray]]] = {"train": [], "validation": [], "test": []}
        for passage in shard:
            ids, widths = coder.encode(passage.read())
            if len(ids):
                texts[self._split(passage.name)].append((passage.name, ids, widths))
        result = {"train": self._windows(texts["train"], coder.size - 1)} if texts["train"] else {}
        for split in ("validation", "test"):
            if texts[split]:
                result[split] = pa.concat_tables([self._windows([each], coder.size - 1) for each in texts[split]])
        return result

    def _windows(self, texts: Sequence[tuple[str, np.ndarray, np.ndarray]], start: int) -> pa.Table:
        """Windows of texts one after the other, by name, tokens and their bytes; `start` opens each and fills the end.

        They overlap by one token, so that each is predicted once, but no `start` is. A window that holds parts of
        several texts has the name of the first that it predicts a token of.
        """
        length = int(self.chosen["sequence_length"])
        stream = np.concatenate([np.append(np.uint16(start), ids) for _, ids, _ in texts])
        predicted = np.concatenate([np.append(0, widths) for *_, widths in texts])[1:]
        owner = np.repeat(np.arange(len(texts)), [1 + len(ids) for _, ids, _ in texts])[1:]
        count = -(-len(predicted) // length)
        whole = np.full(count * length + 1, start, np.uint16)
        whole[: len(stream)] = stream
        first = np.arange(count) * length
        opens = stream[1:][first] == start  # then the first token that is predicted is the next one
        names = [texts[number][0] for number in owner[first + (opens & (first + 1 < len(owner)))]]
        return pa.table(
            {
                "tokens": pa.FixedSizeListArray.from_arrays(
                    whole[first[:, None] + np.arange(length + 1)].ravel(), length + 1
                ),
                "count": np.add.reduceat((stream[1:] != start).astype(np.int64), first),
                "bytes": np.add.reduceat(predicted, first),
                "file": pa.array(names),
                "folder": pa.array([name.rpartition("/")[0].partition("/")[0] or "(top)" for name in names]),
            }
        )

    # ---- the model

    def shape(self, data: "Manifest") -> Shape:
        """The width of heads is no size of any weight, so it stands in the data where it is not the first; data of
        earlier versions, their models and their checkpoints have the first."""
        size = tokens(data.statistics["vocabulary"]).size
        width = data.statistics.get("head_width", HEAD_WIDTHS[0])
        return Shape(int(self.chosen["depth"]), size, data.column("tokens").width - 1, width)

    def architecture(self, data: "Manifest") -> Mapping[str, Any]:
        return {"head_width": self.shape(data).head_width}

    def model(self, data: "Manifest") -> "nn.Module":
        from vgp.networks.transformer import Transformer

        return Transformer(self.shape(data), separates=self.chosen["separate_texts"])

    def loss(self, model: "nn.Module", batch: Batch) -> WeightedLoss:
        """Of the tokens that are predicted, in nats."""
        inputs_BT, targets_BT = _shifted(model, batch)
        return WeightedLoss(model(inputs_BT, targets_BT, summed=True), (targets_BT >= 0).sum())

    def score(self, model: "nn.Module", batch: Batch) -> "Tensor":
        losses_BT: Tensor = model(*_shifted(model, batch))
        return losses_BT.double().sum(dim=1)

    def baseline(self, train: "Rows", data: "Manifest") -> tuple[Callable[[Mapping[str, np.ndarray]], np.ndarray], str]:
        from vgp.evaluation import ngrams

        fitted = ngrams.fit(train.columns["tokens"], train.columns["count"], self.shape(data).vocab)

        def scored(batch: Mapping[str, np.ndarray]) -> np.ndarray:
            losses_BT = fitted.losses(batch["tokens"])
            return np.asarray((losses_BT * (np.arange(losses_BT.shape[1]) < batch["count"][:, None])).sum(axis=1))

        sampled = f", on {fitted.rows:,} of {len(train):,} windows" if fitted.rows < len(train) else ""
        return scored, f"The baseline counts trigrams of tokens of the train split{sampled} (Witten-Bell smoothing)."

    def optimizer(self, model: "nn.Module", learning_rate: float, weight_decay: float) -> "Optimizer":
        """AdamW with the betas of GPT-3 (Brown et al. 2020, appendix B); vectors and embeddings do not decay."""
        from torch import nn
        from torch.optim import AdamW

        tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
        trained = [p for p in model.parameters() if p.requires_grad]
        decayed = [p for p in trained if p.ndim >= 2 and id(p) not in tables]
        kept = [p for p in trained if p.ndim < 2 or id(p) in tables]
        groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]
        return AdamW(
            [group for group in groups if group["params"]], lr=learning_rate, betas=(0.9, 0.95), fused=fusable(model)
        )

    def compiled(self, model: "nn.Module") -> "Sequence[nn.Module]":
        """The blocks, and what is computed of the logits."""
        return [*self.blocks(model), model.get_submodule("head.gradient")]

    # ---- what training shows

    def describe(self, data: "Manifest") -> str:
        shape = self.shape(data)
        return (
            f"depth {shape.depth}: width {shape.width}, {shape.heads} heads, SwiGLU {shape.hidden}, "
            f"{shape.vocab:,} tokens, {shape.parameters:,} parameters; windows of {shape.sequence_length} tokens, "
            f"heads of {shape.head_width}"
        )

    def workload(self, data: "Manifest") -> Workload:
        shape = self.shape(data)
        return Workload("tokens", shape.sequence_length, shape.flops_per_row, weighed=True)

    def text(self, row: Mapping[str, Any], data: "Manifest") -> str:
        coder = tokens(data.statistics["vocabulary"])
        return coder.decode(row["tokens"][1:].tolist())  # which leaves out what opens texts and fills windows

    def sample(self, model: "nn.Module", data: "Manifest") -> str:
        """Text that the model writes after the option `prompt`, drawn at temperature 0.8 from seed 0."""
        from vgp.networks.transformer import continue_text

        coder = tokens(data.statistics["vocabulary"])
        prompt = [coder.size - 1, *coder.encode(str(self.chosen["prompt"]).encode())[0].tolist()]
        return coder.decode(continue_text(model, prompt, int(self.chosen["sample_tokens"]), coder.size - 1))


def _shifted(model: "nn.Module", batch: Batch) -> "tuple[Tensor, Tensor]":
    """Inputs and targets, int64 (B, T); a target is -1 where a text begins, and where the last one has ended.

    A text is predicted from its opening token on, but never where another follows: that says nothing of either.
    """
    tokens_BT, start = batch["tokens"].long(), cast("Shape", model.shape).vocab - 1
    targets_BT = tokens_BT[:, 1:]
    is_text_BT = targets_BT != start
    is_text_BT &= is_text_BT.cumsum(dim=1) <= batch["count"][:, None]
    return tokens_BT[:, :-1], targets_BT.masked_fill(~is_text_BT, -1)


def _check(chosen: Mapping[str, Any]) -> None:
    limits = {"depth": (1, 128), "sequence_length": (2, 1 << 20), "sample_tokens": (0, 100_000)}
    for name, (low, high) in limits.items():
        if not (isinstance(chosen[name], int) and low <= chosen[name] <= high):
            raise UserError(f"{name}={chosen[name]!r}: a whole number from {low} to {high:,}.")
    if not isinstance(chosen["separate_texts"], bool):
        raise UserError(f"separate_texts={chosen['separate_texts']!r}: true or false.")
    width = chosen["head_width"]
    if width and (width not in HEAD_WIDTHS or chosen["depth"] * WIDTH_PER_LAYER % width):
        raise UserError(
            f"head_width={width!r}: {' or '.join(map(str, HEAD_WIDTHS))}, and a divisor of the model's width "
            f"{chosen['depth'] * WIDTH_PER_LAYER}; 0 = by the depth."
        )
    vocab = chosen["vocab"]
    if not isinstance(vocab, int) or (vocab and not 258 <= vocab <= MOST_TOKENS):
        raise UserError(f"vocab={vocab!r}: 0 for bytes, or the size of a BPE vocabulary from 258 to {MOST_TOKENS:,}.")
    shares = [chosen["validation_share"], chosen["test_share"]]
    if not all(isinstance(s, (int, float)) and 0 <= s < 1 for s in shares) or not 0 < shares[1] < 1 - shares[0]:
        raise UserError(f"validation_share={shares[0]}, test_share={shares[1]}: shares of the files, below 1 in sum.")
