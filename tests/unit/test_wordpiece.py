"""Texts are cut as BERT's own tokenizer cuts them. The expected numbers were made with the tokenizers library."""

from __future__ import annotations

import pytest

from hermes.embedding.wordpiece import HEAD_PIECES, TAIL_PIECES, WordPieces

EXPECTED = {
    "What is the capital of France?": [101, 2054, 2003, 1996, 3007, 1997, 2605, 1029, 102],
    "Ünïcødé naïve İstanbul": [101, 4895, 2594, 16415, 3207, 15743, 9960, 102],
    "a_b-c €5 № ½ ﬁ": [101, 1037, 1035, 1038, 1011, 1039, 1574, 2629, 1578, 1092, 1984, 102],
    "x�y \u200b zero": [101, 1060, 2100, 5717, 102],
    "def f(x):\n\treturn x**2": [101, 13366, 1042, 1006, 1060, 1007, 1024, 2709, 1060, 1008, 1008, 1016, 102],
    "中文字符 mixed 文": [101, 1746, 1861, 100, 100, 3816, 1861, 102],
    "नमस्ते दुनिया": [101, 1327, 29867, 29874, 29859, 1325, 29863, 29877, 29868, 29876, 102],
    "مرحبا بالعالم": [101, 1295, 17149, 29820, 29816, 25573, 1271, 25573, 23673, 29830, 25573, 23673, 22192, 102],
    "antidisestablishmentarianism": [101, 3424, 10521, 4355, 7875, 13602, 3672, 12199, 2964, 102],
}

PIECES = WordPieces()


@pytest.mark.parametrize(("text", "numbers"), EXPECTED.items())
def test_a_text_is_cut_as_the_library_cuts_it(text: str, numbers: list[int]) -> None:
    assert PIECES.numbers(text) == numbers


def test_of_a_long_text_beginning_and_end_are_read() -> None:
    text = " ".join(f"word{number}" for number in range(2000))

    numbers = PIECES.numbers(text)

    assert len(numbers) == HEAD_PIECES + TAIL_PIECES + 2
    assert numbers[:4] == PIECES.numbers("word0 word1")[:4]
    assert numbers[-2] == PIECES.numbers("word1999")[-2]


@pytest.mark.parametrize("text", ["", " ", "\0", "\ud83d", "a" * 5000, "中" * 5000, "\u200b", "😀" * 300])
def test_any_text_can_be_cut(text: str) -> None:
    numbers = PIECES.numbers(text)

    assert 2 <= len(numbers) <= HEAD_PIECES + TAIL_PIECES + 2
