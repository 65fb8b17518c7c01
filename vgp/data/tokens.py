"""Text to tokens and back: raw bytes, or byte-level BPE (Sennrich et al. 2016, Radford et al. 2019)."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vgp.base.documents.json_text import Json, JsonObject
from vgp.base.exits import UserError

#: Tokens are stored as uint16.
MOST_TOKENS = 1 << 16

Ids = NDArray[np.uint16]


class Tokens(Protocol):
    """A tokenizer. `size` counts all tokens; the last token starts every text and pads rows."""

    size: int

    def encode(self, text: bytes) -> tuple[Ids, NDArray[np.int64]]:
        """Returns the tokens of a text, uint16 (n,), and the number of bytes of each."""

    def decode(self, ids: Iterable[int]) -> str: ...


class Bytes:
    """A tokenizer with one token for each byte."""

    size = 257

    def encode(self, text: bytes) -> tuple[Ids, NDArray[np.int64]]:
        return np.frombuffer(text, np.uint8).astype(np.uint16), np.ones(len(text), np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        return bytes(i for i in ids if i < 256).decode(errors="replace")


@dataclass
class BytePairs:
    """A byte-pair tokenizer of the package `tokenizers`; `vocabulary` is the package's JSON."""

    vocabulary: Mapping[str, Json]

    def __post_init__(self) -> None:
        from tokenizers import Tokenizer

        self.model = Tokenizer.from_str(json.dumps(self.vocabulary))
        learned = self.model.get_vocab()
        self.size = len(learned) + 1
        self.widths = np.zeros(len(learned), np.int64)
        for token, number in learned.items():  # in byte-level BPE, each character of a token is a byte
            self.widths[number] = len(token)

    def encode(self, text: bytes) -> tuple[Ids, NDArray[np.int64]]:
        ids = np.array(self.model.encode(text.decode(errors="replace")).ids, np.uint16)
        return ids, self.widths[ids]

    def decode(self, ids: Iterable[int]) -> str:
        return str(self.model.decode([i for i in ids if i < self.size - 1]))


def learn(texts: Iterable[bytes], size: int) -> JsonObject:
    """Learns a byte-level BPE vocabulary of at most `size` - 1 tokens, as JSON; equal texts give equal vocabularies."""
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    except ModuleNotFoundError:
        raise UserError("learning a BPE vocabulary needs the package tokenizers: pip install tokenizers.") from None
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=size - 1, initial_alphabet=alphabet, show_progress=False)
    model.train_from_iterator((text.decode(errors="replace") for text in texts), trainer)
    return dict(json.loads(model.to_str()))


def tokens(vocabulary: Mapping[str, Json]) -> Tokens:
    """Returns the tokenizer for a vocabulary of `learn`; an empty vocabulary gives `Bytes`."""
    return BytePairs(vocabulary) if vocabulary else Bytes()
