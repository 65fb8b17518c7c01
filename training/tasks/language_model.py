"""A language model on any text files: a decoder-only transformer over bytes or byte pairs, sized by the option `depth`.

    vgp run training --set task=language_model --set 'task_options={"depth": 2}' --nproc 2

By default it trains on the source files of Python's standard library, which every machine has. Whole files are
assigned to the train, validation and test splits.
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

#: Approximate limit of the text from which a vocabulary is learned, taken evenly from the training files.
LEARNING_BYTES = 256 << 20
#: Tokens of a scored batch.
SCORED_TOKENS = 8_192


class LanguageModel(Task):
    """The task of predicting the next tokens of text. Its options are in `settings`."""

    classes = ()
    weight = "bytes"
    slices = ("folder",)
    group = "file"
    encoding = ("vocabulary",)
    model_options = ("vocabulary_of",)
    #: Options and their defaults. vocab: size of a BPE vocabulary; 0: bytes. vocabulary_of: folder of a model whose
    #: vocabulary is reused, so that both models can be compared. head_width: width of a head; 0: chosen by depth.
    #: separate_texts: a token sees only the tokens of its own text, not those of earlier texts in its window.
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
                    f"none of {len(texts)} text file(s) is in the {split} split, because a hash of its name assigns "
                    f"each file to a split. Use more files (`split --number=l/100` cuts one), or another test_share "
                    f"(now {self.chosen['test_share']})."
                )
        shards, self.sources = text.cut_texts(texts, self.scratch, elsewhere=self.elsewhere)
        return shards

    def _split(self, name: str) -> str:
        return split_of(name, self.chosen["validation_share"], self.chosen["test_share"])

    def scan(self, shard: tuple[Passage, ...]) -> tuple[Passage, ...]:
        """Returns the passages of the train split, from which a vocabulary may be learned."""
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
        """Returns windows of sequence_length + 1 tokens: inputs are all but the last, targets all but the first.

        In the train split, the texts of a shard follow each other in full windows. In the other splits, a window has
        tokens of one text only, so that the rows are equal for every model.
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
                result[split] = pa.concat_tables([self._windows([part], coder.size - 1) for part in texts[split]])
        return result

    def _windows(self, texts: Sequence[tuple[str, np.ndarray, np.ndarray]], start: int) -> pa.Table:
        """Cuts texts (name, tokens, bytes of each token) into windows.

        The token `start` precedes each text and pads the last window. Windows overlap by one token, so that each token
        except `start` is predicted once. A window with several texts has the name of the first text whose token it
        predicts.
        """
        length = int(self.chosen["sequence_length"])
        stream = np.concatenate([np.append(np.uint16(start), ids) for _, ids, _ in texts])
        predicted = np.concatenate([np.append(0, widths) for *_, widths in texts])[1:]
        owner = np.repeat(np.arange(len(texts)), [1 + len(ids) for _, ids, _ in texts])[1:]
        count = -(-len(predicted) // length)
        padded = np.full(count * length + 1, start, np.uint16)
        padded[: len(stream)] = stream
        first = np.arange(count) * length
        skips = stream[1:][first] == start  # the first predicted token is then the next one
        names = [texts[number][0] for number in owner[first + (skips & (first + 1 < len(owner)))]]
        return pa.table(
            {
                "tokens": pa.FixedSizeListArray.from_arrays(
                    padded[first[:, None] + np.arange(length + 1)].ravel(), length + 1
                ),
                "count": np.add.reduceat((stream[1:] != start).astype(np.int64), first),
                "bytes": np.add.reduceat(predicted, first),
                "file": pa.array(names),
                "folder": pa.array([name.rpartition("/")[0].partition("/")[0] or "(top)" for name in names]),
            }
        )

    # ---- the model

    def shape(self, data: "Manifest") -> Shape:
        """Returns the shape of the model for prepared data.

        No weight's size shows the width of heads, so the data records a width other than HEAD_WIDTHS[0].
        """
        size = tokens(data.statistics["vocabulary"]).size
        width = data.statistics.get("head_width", HEAD_WIDTHS[0])
        return Shape(int(self.chosen["depth"]), size, data.column("tokens").width - 1, width)

    def architecture(self, data: "Manifest") -> Mapping[str, Any]:
        return {"head_width": self.shape(data).head_width}

    def model(self, data: "Manifest") -> "nn.Module":
        from vgp.networks.transformer import Transformer

        return Transformer(self.shape(data), separates=self.chosen["separate_texts"])

    def loss(self, model: "nn.Module", batch: Batch) -> WeightedLoss:
        """Returns the loss of the predicted tokens, in nats, and their number."""
        inputs_BT, targets_BT = _shifted(model, batch)
        return WeightedLoss(model(inputs_BT, targets_BT, summed=True), (targets_BT >= 0).sum())

    def score(self, model: "nn.Module", batch: Batch) -> "Tensor":
        losses_BT: Tensor = model(*_shifted(model, batch))
        return losses_BT.double().sum(dim=1)

    def baseline(self, train: "Rows", data: "Manifest") -> tuple[Callable[[Mapping[str, np.ndarray]], np.ndarray], str]:
        from vgp.evaluation import ngrams

        fitted = ngrams.fit(train.columns["tokens"], train.columns["count"], self.shape(data).vocab)

        def score(batch: Mapping[str, np.ndarray]) -> np.ndarray:
            losses_BT = fitted.losses(batch["tokens"])
            return np.asarray((losses_BT * (np.arange(losses_BT.shape[1]) < batch["count"][:, None])).sum(axis=1))

        sample = f", on {fitted.rows:,} of {len(train):,} windows" if fitted.rows < len(train) else ""
        return score, f"The baseline counts trigrams of tokens of the train split{sample} (Witten-Bell smoothing)."

    def optimizer(self, model: "nn.Module", learning_rate: float, weight_decay: float) -> "Optimizer":
        """Builds AdamW with GPT-3's betas (Brown et al. 2020, appendix B), without decay of vectors and embeddings."""
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
        """Returns the modules to compile: the blocks, and the gradient of the head."""
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
        return coder.decode(row["tokens"][1:].tolist())  # decode omits the start tokens

    def sample(self, model: "nn.Module", data: "Manifest") -> str:
        """Returns a text that continues the option `prompt`, sampled at temperature 0.8 with seed 0."""
        from vgp.networks.transformer import continue_text

        coder = tokens(data.statistics["vocabulary"])
        prompt = [coder.size - 1, *coder.encode(str(self.chosen["prompt"]).encode())[0].tolist()]
        return coder.decode(continue_text(model, prompt, int(self.chosen["sample_tokens"]), coder.size - 1))


def _shifted(model: "nn.Module", batch: Batch) -> "tuple[Tensor, Tensor]":
    """Returns inputs and targets, int64 (B, T). A target is -1 at a start token and after the end of the last text.

    The start token of a text is no target, because the end of one text does not predict the next text.
    """
    tokens_BT, start = batch["tokens"].long(), cast("Shape", model.shape).vocab - 1
    targets_BT = tokens_BT[:, 1:]
    is_text_BT = targets_BT != start
    is_text_BT &= is_text_BT.cumsum(dim=1) <= batch["count"][:, None]
    return tokens_BT[:, :-1], targets_BT.masked_fill(~is_text_BT, -1)


def _check(values: Mapping[str, Any]) -> None:
    limits = {"depth": (1, 128), "sequence_length": (2, 1 << 20), "sample_tokens": (0, 100_000)}
    for name, (low, high) in limits.items():
        if not (isinstance(values[name], int) and low <= values[name] <= high):
            raise UserError(f"{name}={values[name]!r}: give a whole number from {low} to {high:,}.")
    if not isinstance(values["separate_texts"], bool):
        raise UserError(f"separate_texts={values['separate_texts']!r}: give true or false.")
    width = values["head_width"]
    if width and (width not in HEAD_WIDTHS or values["depth"] * WIDTH_PER_LAYER % width):
        raise UserError(
            f"head_width={width!r}: give {' or '.join(map(str, HEAD_WIDTHS))}, a divisor of the model's width "
            f"{values['depth'] * WIDTH_PER_LAYER}; or 0, which chooses by depth."
        )
    vocab = values["vocab"]
    if not isinstance(vocab, int) or (vocab and not 258 <= vocab <= MOST_TOKENS):
        raise UserError(
            f"vocab={vocab!r}: give 0 for bytes, or the size of a BPE vocabulary from 258 to {MOST_TOKENS:,}."
        )
    shares = [values["validation_share"], values["test_share"]]
    if not all(isinstance(s, (int, float)) and 0 <= s < 1 for s in shares) or not 0 < shares[1] < 1 - shares[0]:
        raise UserError(
            f"validation_share={shares[0]}, test_share={shares[1]}: give shares of the files with a sum below 1."
        )
