"""A tokenizer that knows whole words, from a list, and says which words it does not know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from sfumato.errors import SfumatoError, counted

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
PAD, END, UNKNOWN = 0, 1, 2
SPECIAL = ("<pad>", "<end>", "<unk>")


def split_words(text: str) -> list[str]:
    """The words of a sentence, lower case, without punctuation.

    >>> split_words("A person raises the left arm, twice.")
    ['a', 'person', 'raises', 'the', 'left', 'arm', 'twice']
    """
    return WORD.findall(text.casefold())


def words_of(sentences: Iterable[str]) -> tuple[str, ...]:
    """Every word of these sentences once, in the order of the alphabet: a vocabulary.

    >>> words_of(["a person waves", "a person jumps"])
    ('a', 'jumps', 'person', 'waves')
    """
    return tuple(sorted({word for sentence in sentences for word in split_words(sentence)}))


class Vocabulary:
    """Words and their numbers, after <pad>, <end> and <unk>.

    >>> Vocabulary(["a", "person", "waves"]).numbers(["a person", "a cat waves"], 8)[0].tolist()
    [[3, 4, 1, 0], [3, 2, 5, 1]]
    """

    def __init__(self, words: Sequence[str]) -> None:
        for word in words:
            if split_words(word) != [word]:
                raise SfumatoError(f"'{word}' is not one lower-case word", "give the words by themselves")
        if len(set(words)) != len(words):
            raise SfumatoError("a word is twice in the list", "give every word once")
        self.places = {word: place for place, word in enumerate(words, len(SPECIAL))}

    def __len__(self) -> int:
        return len(SPECIAL) + len(self.places)

    def unknown(self, sentences: Iterable[str]) -> tuple[str, ...]:
        """The words of these sentences that are not in the list."""
        return tuple(word for word in words_of(sentences) if word not in self.places)

    def rows(self, sentences: Iterable[str]) -> list[tuple[int, ...]]:
        """The numbers of each sentence's words, unknown ones as <unk>, and of <end>."""
        return [(*(self.places.get(word, UNKNOWN) for word in split_words(sentence)), END) for sentence in sentences]

    def numbers(self, sentences: Sequence[str], longest: int) -> tuple[Tensor, Tensor]:
        """P sentences to tokens (P, L), each ended by <end> and filled up with <pad>, and to the place of <end> (P,).

        A sentence of over `longest` tokens is refused.
        """
        rows = self.rows(sentences)
        for sentence, row in zip(sentences, rows, strict=True):
            if len(row) > longest:
                raise SfumatoError(
                    f"the prompt '{sentence[:40]}…' has {counted(len(row) - 1, 'word')}, and the model reads {longest - 1}",
                    "shorten it",
                )
        width = max(map(len, rows))
        tokens = torch.tensor([row + (PAD,) * (width - len(row)) for row in rows])
        return tokens, torch.tensor([len(row) - 1 for row in rows])
