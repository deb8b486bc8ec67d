"""Whole words and their numbers."""

from __future__ import annotations

import pytest

from sfumato.errors import SfumatoError
from sfumato.recognizers.vlm.words import Vocabulary, split_words, words_of


def test_sentences_become_words() -> None:
    assert split_words("A person's left-arm, RAISED twice!") == ["a", "person's", "left", "arm", "raised", "twice"]
    assert split_words("brush_hair") == ["brush", "hair"]
    assert words_of(["b a", "a, C"]) == ("a", "b", "c")


def test_numbers_ends_and_padding() -> None:
    vocabulary = Vocabulary(("a", "person", "waves"))
    assert len(vocabulary) == 6
    tokens, ends = vocabulary.numbers(["A person waves.", "waves"], 4)
    assert tokens.tolist() == [[3, 4, 5, 1], [5, 1, 0, 0]]
    assert ends.tolist() == [3, 1]


def test_unknown_words_are_one_word() -> None:
    vocabulary = Vocabulary(("a", "waves"))
    tokens, _ = vocabulary.numbers(["a dog waves", "a cat"], 8)
    assert tokens.tolist() == [[3, 2, 4, 1], [3, 2, 1, 0]]
    assert vocabulary.rows(["a dog waves", "a cat"]) == [(3, 2, 4, 1), (3, 2, 1)]
    assert vocabulary.unknown(["a dog waves"]) == ("dog",)


def test_a_sentence_that_is_too_long_is_refused_not_cut() -> None:
    vocabulary = Vocabulary(("a",))
    assert vocabulary.numbers(["a a a"], 4)[0].shape == (1, 4)
    with pytest.raises(SfumatoError, match="'a a a a…' has 4 words, and the model reads 3: shorten it"):
        vocabulary.numbers(["a", "a a a a"], 4)


@pytest.mark.parametrize("words", [("two words",), ("Upper",), ("",), ("a", "b", "a")])
def test_lists_that_are_no_vocabulary(words: tuple[str, ...]) -> None:
    with pytest.raises(SfumatoError, match=r"not one lower-case word|twice"):
        Vocabulary(words)
