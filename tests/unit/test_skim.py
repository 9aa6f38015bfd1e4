"""Of a large answer only what the gateway needs is read, without building the rest, and the same is read as ever."""

from __future__ import annotations

import json
import random
import tracemalloc
from typing import Any

import pytest

from hermes import skim
from hermes.jsonmap import LARGE_BYTES
from hermes.skim import MAX_DEPTH, MAX_STEPS, REACH_BYTES, Skimmer, Unreadable
from hermes.upstream.reading import MOST_CHOICES, Weighed, glanced, read

CHOICE = {"index": 0, "message": {"role": "assistant", "content": "abc"}, "finish_reason": "stop"}
USAGE = {"prompt_tokens": 1, "completion_tokens": 2}
MB = 1024 * 1024
TEXTS = ["", "a", 'q"', "\\", '\\"', "\\\\", "[{", "}]", ",:", "é", "\n", "x" * 70, '"' * 9, "\\" * 9]


def answer(rest: bytes) -> bytes:
    return b'{"choices":[%b],"usage":%b,"rest":%b}' % (json.dumps(CHOICE).encode(), json.dumps(USAGE).encode(), rest)


def made(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(6 if depth else 3)
    if kind == 0:
        return chance.choice(TEXTS)
    if kind < 3:
        return chance.choice([0, -1.5e9, True, None])
    items = [made(chance, depth - 1) for _ in range(chance.randrange(5))]
    return items if kind < 5 else {chance.choice(TEXTS) + str(n): item for n, item in enumerate(items)}


@pytest.mark.parametrize("reach", [16, 24, 64, REACH_BYTES])
@pytest.mark.parametrize("seed", range(40))
def test_parts_are_found_where_a_parser_finds_them(monkeypatch: pytest.MonkeyPatch, seed: int, reach: int) -> None:
    monkeypatch.setattr(skim, "REACH_BYTES", reach)
    monkeypatch.setattr(skim, "NEAR_BYTES", min(reach, 5))
    chance = random.Random(seed)
    whole = {f"k{n}": made(chance, 9) for n in range(6)}
    raw = json.dumps(whole, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1])).encode()
    skimmer = Skimmer(raw, lambda: None)

    found = {name.decode(): json.loads(raw[start:end]) for name, (start, end) in skimmer.parts(0)}

    assert found == whole
    assert skimmer.end == len(raw)


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"[" + b"[]," * MB + b"[]]", id="empty lists"),
        pytest.param(b"[" + b'{"a":{}},' * (MB // 3) + b"{}]", id="objects in objects"),
        pytest.param(b'"' + b"\\\\" * MB + b'"', id="backslashes"),
        pytest.param(b'"' + b'\\"' * MB + b'"', id="quotes"),
        pytest.param(b"[" + b'"",' * MB + b'""]', id="empty texts"),
        pytest.param(b"[" + b"-0.012345678," * (MB // 4) + b"0]", id="numbers"),
        pytest.param(b"[" * 1000 + b'"x",' * MB + b"0" + b"]" * 1000, id="deep"),
    ],
)
def test_what_nobody_asks_for_is_not_built_and_others_have_their_turn(rest: bytes) -> None:
    raw, pauses = answer(rest), [0]

    def pause() -> None:
        pauses[0] += 1

    tracemalloc.start()
    try:
        for _ in Skimmer(raw, pause).parts(0):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 4 * MB
    assert pauses[0] >= len(rest) // REACH_BYTES // 2
    message = {"index": 0, "message": Weighed(3), "finish_reason": "stop"}
    assert glanced(raw) == {"choices": [message], "usage": USAGE}


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"<html>" + b"x" * LARGE_BYTES, id="a page"),
        pytest.param(answer(b"[1" + b" " * LARGE_BYTES)[:-1], id="cut off"),
        pytest.param(answer(b'"' + b"x" * LARGE_BYTES)[:-1], id="cut off in a text"),
        pytest.param(answer(b"[" * (MAX_DEPTH + 1) + b" " * LARGE_BYTES + b"]" * (MAX_DEPTH + 1)), id="too deep"),
        pytest.param(b"{" + b'"a":1,' * (MAX_STEPS + 1) + b'"a":1}', id="too many members"),
        pytest.param(answer(b"1" + b" " * LARGE_BYTES) + b"x", id="something behind it"),
        pytest.param(answer(b"1" * LARGE_BYTES), id="an endless number"),
        pytest.param(b'{"a" "b"' + b" " * LARGE_BYTES + b"}", id="no colon"),
    ],
)
def test_what_is_no_answer_is_none(raw: bytes) -> None:
    assert read(raw) is None


def test_a_large_answer_says_what_a_small_one_says() -> None:
    padding = b'"%b"' % (b" " * LARGE_BYTES)
    large = read(b'{"choices":7,"choices":[{"text":"abc"},3],"data":[1,2],"error":{"message":"no"},"x":%b}' % padding)

    assert large["choices"] == [{"text": Weighed(3)}, None]
    assert large["data"] == [None]
    assert large["error"] == {"message": "no"}
    assert read(b'{"choices":[],"data":[],"x":%b}' % padding) == {"choices": [], "data": []}


def test_what_is_too_long_to_be_read_is_told_apart_from_nothing() -> None:
    long = b'"%b"' % (b"x" * LARGE_BYTES)

    assert read(b'{"error":%b}' % long)["error"]
    assert read(b'{"usage":%b}' % long)["usage"] is None
    assert read(b'{"choices":[{"delta":{"content":%b}}]}' % long)["choices"][0]["delta"].content_bytes > LARGE_BYTES


def test_no_more_choices_are_read_than_anybody_asks_for() -> None:
    assert len(read(b'{"choices":[' + b"{}," * LARGE_BYTES + b"{}]}")["choices"]) == MOST_CHOICES


def test_the_text_of_a_large_message_is_estimated_however_it_is_written() -> None:
    for text in ("word " * 100_000, "日本語" * 30_000):
        for is_escaped in (False, True):
            raw = json.dumps({"choices": [{"message": {"content": text}}]}, ensure_ascii=is_escaped).encode()

            assert read(raw)["choices"][0]["message"].content_bytes == pytest.approx(len(text.encode()), rel=0.05)


def test_what_ends_too_early_is_unreadable() -> None:
    for raw in (b"", b"[", b"[1", b'["a', b'{"a"', b'{"a":', b"[1,", b"[1 2]", b'["\\'):
        with pytest.raises(Unreadable):
            list(Skimmer(raw, lambda: None).parts(0))
