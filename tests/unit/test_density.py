"""What is no prose makes more tokens; how many is known of the vocabularies that are published.

Each text has the number of tokens that the dearest of o200k, cl100k, Llama 3's and Claude's published vocabulary makes
of it; of plain numbers it is Qwen's and Gemini's, to which every digit is one. What is random is drawn from a fixed
stream of bytes, so that it is the same text everywhere.
"""

from __future__ import annotations

import base64
import json
import string
from hashlib import sha256

import pytest

from hermes.accounting.density import dense_tokens
from hermes.accounting.tokens import AT_MOST, tokens_of_text

STREAM = b"".join(sha256(bytes([number])).digest() for number in range(64))
PAIRS = [first << 8 | second for first, second in zip(STREAM[::2], STREAM[1::2], strict=True)]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_current_weather",
        "description": "Get the current weather in a given location",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["location"],
        },
    },
}
CODE = '''
def mean(values: list[float]) -> float:
    """The arithmetic mean; zero of nothing."""
    if not values:
        return 0.0
    return sum(values) / len(values)
'''


def drawn(characters: str) -> str:
    """A thousand of the characters by lot."""
    return "".join(characters[number % len(characters)] for number in PAIRS[:1000])


def script(first: int, last: int) -> str:
    return "".join(map(chr, range(first, last + 1)))


DENSE = {
    "digits": drawn(string.digits),
    "numbers": " ".join(str(number) for number in PAIRS[:200]),
    "numbers with commas": ",".join(f"{number / 100:.2f}" for number in PAIRS[:200]),
    "one digit each": " ".join(drawn(string.digits)),
    "punctuation": drawn(string.punctuation),
    "base64": base64.b64encode(STREAM[:900]).decode(),
    "hex": STREAM[:500].hex(),
    "letters": drawn(string.ascii_lowercase),
    "capitals": drawn(string.ascii_uppercase),
    "letters of both cases": drawn(string.ascii_letters),
    "letters and digits": drawn(string.ascii_letters + string.digits),
    "words of random letters": " ".join(drawn(string.ascii_lowercase)[at : at + 5] for at in range(0, 1000, 5)),
    "a letter a line": "\n".join(drawn(string.ascii_lowercase)),
    "blanks": drawn(" \t\n\r"),
    "control characters": drawn(script(1, 8)),
    "compact JSON": json.dumps([{"id": n, "ok": True, "v": [1, 2.5]} for n in range(40)], separators=(",", ":")),
    "emoji": drawn(script(0x1F300, 0x1F5FF)),
    "flags": drawn(script(0x1F1E6, 0x1F1FF)),
    "signs": drawn(script(0x2190, 0x2BFF)),
    "accents": "".join(a + b for a, b in zip(drawn("abcdefg"), drawn(script(0x300, 0x36F)), strict=True)),
    "Chinese": drawn(script(0x4E00, 0x9FA5)),
    "rare Chinese": drawn(script(0x20000, 0x2A6DF)),
    "Korean": drawn(script(0xAC00, 0xD7A3)),
    "Arabic": drawn(script(0x621, 0x64A)),
    "Thai": drawn(script(0xE01, 0xE2E)),
    "Ethiopic": drawn(script(0x1200, 0x135A)),
    "cuneiform": drawn(script(0x12000, 0x12399)),
    "private use": drawn(script(0xE000, 0xF8FF)),
}
PROSE = {
    "English": "The committee met on Thursday to discuss the proposal that had been circulating for several weeks. "
    "Please summarise the following email in three sentences and tell me whether I should answer it today.",
    "German": "Bitte fasse die folgende Nachricht in drei Sätzen zusammen und sage mir, ob ich sie heute noch "
    "beantworten sollte. Die meisten Mitglieder waren sich einig, dass sich etwas ändern müsse.",
    "Russian": "Пожалуйста, изложи следующее сообщение в трёх предложениях и скажи, стоит ли мне отвечать сегодня.",
    "Arabic": "يرجى تلخيص الرسالة التالية في ثلاث جمل وإخباري ما إذا كان يجب أن أرد عليها اليوم.",
    "Chinese": "请用三句话总结以下邮件，并告诉我是否应该今天回复，还是等我的经理度假回来再说。",
    "a tool": json.dumps(TOOL),
    "code": CODE,
}

MEASURED = {
    "digits": 1_000,
    "numbers": 1_168,
    "numbers with commas": 1_369,
    "one digit each": 1_999,
    "punctuation": 662,
    "base64": 867,
    "hex": 583,
    "letters": 540,
    "capitals": 593,
    "letters of both cases": 670,
    "letters and digits": 722,
    "words of random letters": 585,
    "a letter a line": 1_999,
    "blanks": 502,
    "control characters": 1_000,
    "compact JSON": 682,
    "emoji": 2_911,
    "flags": 3_000,
    "signs": 2_641,
    "accents": 2_987,
    "Chinese": 2_372,
    "rare Chinese": 3_972,
    "Korean": 2_604,
    "Arabic": 1_400,
    "Thai": 1_974,
    "Ethiopic": 2_991,
    "cuneiform": 3_992,
    "private use": 2_991,
}
MEASURED_OF_PROSE = {
    "English": 36,
    "German": 53,
    "Russian": 51,
    "Arabic": 73,
    "Chinese": 38,
    "a tool": 99,
    "code": 45,
}


@pytest.mark.parametrize("kind", DENSE)
def test_what_is_no_prose_is_near_what_the_dearest_vocabulary_makes_of_it(kind: str) -> None:
    tokens = tokens_of_text(DENSE[kind], AT_MOST)

    assert 0.65 * MEASURED[kind] <= tokens <= 1.6 * MEASURED[kind]


@pytest.mark.parametrize("kind", PROSE)
def test_prose_is_not_set_aside_several_times(kind: str) -> None:
    tokens = tokens_of_text(PROSE[kind], AT_MOST)

    assert 0.85 * MEASURED_OF_PROSE[kind] <= tokens <= 1.8 * MEASURED_OF_PROSE[kind]


@pytest.mark.parametrize("kind", DENSE)
def test_a_long_text_is_sampled_and_comes_out_the_same(kind: str) -> None:
    once = tokens_of_text(DENSE[kind][:1000], AT_MOST)

    assert tokens_of_text(DENSE[kind][:1000] * 500, AT_MOST) == pytest.approx(500 * once, rel=0.05)


def test_what_is_no_prose_counts_among_prose() -> None:
    """Ten parts of prose hide no part of numbers."""
    prose, numbers = "The committee met on Thursday to discuss. " * 250, DENSE["numbers with commas"]

    mixed = [tokens_of_text((prose + numbers * 8) * 20, AT_MOST) for _ in range(10)]

    assert sum(mixed) / 10 > 20 * (tokens_of_text(prose) + 4 * MEASURED["numbers with commas"])


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"\xc3", "\ud800".encode("utf-8", "surrogatepass")], ids=repr)
def test_any_bytes_may_be_given(text: bytes) -> None:
    assert 0 <= dense_tokens(text) <= 4
