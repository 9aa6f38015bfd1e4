"""Estimates of tokens, and what is believed of a provider's figures."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.accounting.tokens import (
    TOKENS_PER_AUDIO,
    TOKENS_PER_FILE,
    TOKENS_PER_IMAGE,
    TOKENS_PER_MESSAGE,
    estimate_tokens,
    tokens_of_messages,
    tokens_of_text,
    usage_from,
)
from hermes.types import Usage


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("a", 1, id="rounded up"),
        pytest.param("abcdefgh", 2, id="four bytes a token"),
        pytest.param("a b c d e f", 6, id="a word is at least one"),
        pytest.param("a\nb\tc", 3, id="any white space parts words"),
        pytest.param("你好世界", 3, id="bytes, not characters"),
        pytest.param("\ud800", 1, id="half a surrogate pair"),
        pytest.param("word " * 400, 500, id="the longer of both"),
    ],
)
def test_a_text_is_estimated_by_its_bytes_and_its_words(text: str, tokens: int) -> None:
    assert tokens_of_text(text) == tokens


def test_the_estimate_of_counted_bytes_and_words_is_the_same() -> None:
    assert estimate_tokens(text_bytes=2000, words=400) == tokens_of_text("word " * 400)


@pytest.mark.parametrize(
    ("piece", "count"),
    [
        pytest.param("hello world ", 100_000, id="English"),
        pytest.param("مرحبا بكم ", 100_000, id="Arabic"),
        pytest.param("a ", 500_000, id="short words"),
        pytest.param("你", 500_000, id="Chinese"),
    ],
)
def test_a_long_text_is_sampled_and_comes_out_within_a_hundredth(piece: str, count: int) -> None:
    text = piece * count
    exact = max(len(text.encode()) / 4, len(text.split()))

    assert tokens_of_text(text) == pytest.approx(exact, rel=0.01)


def test_messages_count_texts_names_and_tool_calls() -> None:
    messages = [
        {"role": "user", "name": "anna", "content": "abcdefgh"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"q":"ab"}'}},
                {"id": "2", "type": "custom", "custom": {"name": "calc", "input": "1+1="}},
            ],
        },
        {"role": "tool", "content": [{"type": "text", "text": "abcd"}, "abcd"]},
    ]

    assert tokens_of_messages(messages) == 3 * TOKENS_PER_MESSAGE + (1 + 2) + (1 + 3) + (1 + 1) + (1 + 1)


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        pytest.param(
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}},
            TOKENS_PER_IMAGE,
            id="image",
        ),
        pytest.param(
            {"type": "input_audio", "input_audio": {"data": "A" * 400_000, "format": "wav"}},
            TOKENS_PER_AUDIO,
            id="audio",
        ),
        pytest.param({"type": "file", "file": {"file_data": "A" * 400_000}}, TOKENS_PER_FILE, id="file"),
        pytest.param({"type": "hologram", "data": "A" * 400_000}, 0, id="a part not yet invented"),
    ],
)
def test_base64_is_never_counted(part: dict[str, Any], tokens: int) -> None:
    assert tokens_of_messages([{"role": "user", "content": [part]}]) == TOKENS_PER_MESSAGE + tokens


@pytest.mark.parametrize(
    "junk",
    [
        None,
        7,
        "text",
        {"role": "user"},
        [None, 1, "x"],
        [[]],
        [{"content": 5, "tool_calls": {"a": 1}, "name": []}],
        [{"content": [[[]], None, {"text": 3}], "tool_calls": [None, {"function": "x"}]}],
    ],
    ids=repr,
)
def test_junk_instead_of_messages_counts_next_to_nothing(junk: object) -> None:
    assert tokens_of_messages(junk) <= TOKENS_PER_MESSAGE


def test_a_very_long_conversation_is_sampled() -> None:
    messages = [{"role": "user", "content": "abcdefgh"}] * 100_001

    assert tokens_of_messages(messages) == pytest.approx(100_001 * (TOKENS_PER_MESSAGE + 2), rel=0.001)


@pytest.mark.parametrize(
    ("messages", "parts", "text"),
    [
        pytest.param(500, 40, "a b " * 800, id="many long texts"),
        pytest.param(2000, 0, "hello world " * 400, id="many long messages"),
        pytest.param(20, 1000, "abcdefgh", id="many short parts"),
        pytest.param(3, 3, "مرحبا بكم " * 5000, id="few very long texts"),
    ],
)
def test_the_estimate_of_many_texts_stays_within_a_hundredth(messages: int, parts: int, text: str) -> None:
    content: Any = [{"type": "text", "text": text}] * parts if parts else text
    each = max(len(text.encode()) / 4, len(text.split())) * (parts or 1)

    estimate = tokens_of_messages([{"role": "user", "content": content}] * messages)

    assert estimate == pytest.approx(messages * (TOKENS_PER_MESSAGE + each), rel=0.01)


@pytest.mark.parametrize(
    ("payload", "usage"),
    [
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            Usage(10, 5, 15),
            id="OpenAI",
        ),
        pytest.param(
            {
                "prompt_tokens": 2006,
                "completion_tokens": 300,
                "total_tokens": 2306,
                "prompt_tokens_details": {"cached_tokens": 1920},
                "completion_tokens_details": {"reasoning_tokens": 64},
            },
            Usage(2006, 300, 2306, 1920, 64),
            id="with details",
        ),
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6},
            Usage(10, 5, 15, 4),
            id="DeepSeek's cache hits; the total is summed",
        ),
        pytest.param(
            {
                "input_tokens": 10,
                "output_tokens": 5,
                "total_tokens": 15,
                "input_tokens_details": {"cached_tokens": 3},
                "output_tokens_details": {"reasoning_tokens": 2},
            },
            Usage(10, 5, 15, 3, 2),
            id="the names of the responses API",
        ),
        pytest.param({"prompt_tokens": 8, "total_tokens": 8}, Usage(8, 0, 8), id="an embedding has no output"),
        pytest.param(
            {"prompt_tokens": 10.0, "completion_tokens": 5.0, "total_tokens": 15.0}, Usage(10, 5, 15), id="whole floats"
        ),
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 3}, Usage(10, 5, 15), id="a total too small"
        ),
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}, Usage(10, 5, 40), id="a larger total"
        ),
        pytest.param(
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 115,
                "completion_tokens_details": {"reasoning_tokens": 100},
            },
            Usage(10, 105, 115, 0, 100),
            id="reasoning beside the completion is billed as output",
        ),
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 99}},
            Usage(10, 5, 15, 10),
            id="no more cached than there are",
        ),
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": None, "total_tokens": None},
            Usage(10, 5, 15),
            id="nulls",
        ),
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": -1}},
            Usage(10, 5, 15),
            id="a spoilt detail is left out",
        ),
    ],
)
def test_a_providers_figures_are_read(payload: dict[str, Any], usage: Usage) -> None:
    assert usage_from(payload) == usage


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        "usage",
        {},
        {"prompt_tokens": -1, "completion_tokens": 5, "total_tokens": 4},
        {"prompt_tokens": float("nan"), "completion_tokens": 5},
        {"prompt_tokens": float("inf"), "completion_tokens": 5},
        {"prompt_tokens": 1e300, "completion_tokens": 5},
        {"prompt_tokens": 10**9 + 1, "completion_tokens": 5},
        {"prompt_tokens": 10**400, "completion_tokens": 5},
        {"prompt_tokens": "10", "completion_tokens": "5"},
        {"prompt_tokens": True, "completion_tokens": 5},
        {"prompt_tokens": 1.5, "completion_tokens": 5},
        {"prompt_tokens": 10, "completion_tokens": -5, "total_tokens": 5},
        {"prompt_tokens": 10},
        {"completion_tokens": 5, "total_tokens": 5},
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    ],
    ids=lambda payload: repr(payload)[:60],
)
def test_figures_that_cannot_be_true_are_not_believed(payload: object) -> None:
    assert usage_from(payload) is None
