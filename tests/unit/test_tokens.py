"""Estimates of tokens, and what is believed of a provider's figures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.accounting.tokens import (
    AT_MOST,
    LARGE_IMAGE_TOKENS,
    ORIGINAL_IMAGE_TOKENS,
    TOKENS_PER_AUDIO,
    TOKENS_PER_FILE,
    TOKENS_PER_IMAGE,
    TOKENS_PER_MESSAGE,
    UNKNOWN_TOKENS_MAX,
    PromptSize,
    estimate_tokens,
    tokens_of_fields,
    tokens_of_messages,
    tokens_of_text,
    usage_from,
)
from hermes.chatrequest import ChatRequest
from hermes.embeddingrequest import EmbeddingRequest
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


@pytest.mark.parametrize("turn", [0, 1])
def test_no_caller_chooses_which_of_many_messages_are_counted(turn: int) -> None:
    """Every second one is long, and whether the first one is tells nothing."""
    texts = ["a" if number % 2 == turn else "word " * 300 for number in range(600)]
    exact = 600 * TOKENS_PER_MESSAGE + 300 + 300 * 375

    assert tokens_of_messages([{"role": "user", "content": text} for text in texts]) == pytest.approx(exact, rel=0.2)


@pytest.mark.parametrize("place", [0, 1, 500, 4999])
def test_one_long_message_among_thousands_is_seen(place: int) -> None:
    messages = [{"role": "user", "content": "abcd"}] * 5000
    messages[place] = {"role": "user", "content": "word " * 2_000_000}

    assert tokens_of_messages(messages) == pytest.approx(2_500_000 + 5000 * 5, rel=0.01)


def test_no_caller_knows_where_in_a_long_text_is_looked() -> None:
    """Short words wherever an even sample would not see them."""
    slices, looked, length = 16, 512, 160_000
    step = length // slices
    text = "".join(
        ("a " * step)[: (step - looked) // 2] + "x" * looked + ("a " * step)[: (step - looked) // 2]
        for _ in range(slices)
    )

    mean = sum(tokens_of_text(text) for _ in range(20)) / 20

    assert mean == pytest.approx(len(text.split()), rel=0.1)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            {"tools": [{"type": "function", "function": {"name": "f", "description": "word " * 400}}]}, id="tools"
        ),
        pytest.param({"functions": [{"name": "f", "description": "word " * 400}]}, id="functions"),
        pytest.param({"response_format": {"type": "json_schema", "json_schema": {"d": "word " * 400}}}, id="a schema"),
        pytest.param({"guided_json": "word " * 400}, id="a field that nobody has heard of"),
        pytest.param({"input": "word " * 400}, id="another route's text"),
    ],
)
@pytest.mark.parametrize("times", [1, 300])
def test_what_is_billed_beside_the_messages_is_counted(fields: dict[str, Any], times: int) -> None:
    """In small requests, and in those that are too large to be parsed at once."""
    longer = json.loads(json.dumps(fields).replace("word " * 400, "word " * 400 * times))
    raw = json.dumps({"model": "m", "max_tokens": 7, "messages": [{"role": "user", "content": "x"}], **longer}).encode()
    chat = ChatRequest.parse(raw)

    counted = tokens_of_fields(chat.raw, chat.body, chat.members, chat.counted)

    assert (chat.members is None) == (times == 1)
    assert counted == pytest.approx(500 * times, abs=25, rel=0.01)


def test_what_no_model_reads_is_not_counted() -> None:
    body = {"model": "x" * 400, "metadata": {"a": "x" * 400}, "logit_bias": {str(n): 1 for n in range(300)}, "n": 1}

    assert tokens_of_fields(b"", {**body, "messages": [{"content": "x" * 400}], "stream": True}, None) == 0


def test_an_embeddings_tokens_are_counted_one_by_one_and_its_input_once() -> None:
    request = EmbeddingRequest.parse(json.dumps({"model": "m", "input": [[15339] * 3000, [1, 2]]}).encode())

    assert tokens_of_messages(request.messages) == TOKENS_PER_MESSAGE + 3002
    assert PromptSize(request.messages).most_tokens() == pytest.approx(TOKENS_PER_MESSAGE + 3002, abs=10)
    assert tokens_of_fields(request.raw, request.body, request.members, request.counted) == 0


def test_an_embeddings_input_that_is_neither_text_nor_token_is_as_long_as_its_json() -> None:
    request = EmbeddingRequest.parse(json.dumps({"model": "m", "input": [{"text": "abcd" * 1000}]}).encode())

    assert tokens_of_messages(request.messages) == pytest.approx(1000, abs=10)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"content": [{"type": "hologram", "data": "A" * 40_000}]}, id="a part not yet invented"),
        pytest.param({"content": [{"type": "thinking", "thinking": "A" * 40_000}]}, id="a thought"),
        pytest.param({"content": [{"type": "tool_result", "content": [{"text": "A" * 40_000}]}]}, id="a result"),
        pytest.param({"content": [{"text": ["A" * 40_000]}]}, id="a text that is none"),
        pytest.param({"content": [["A" * 40_000]]}, id="a list in a list"),
        pytest.param({"content": {"text": "A" * 40_000}}, id="an object as content"),
        pytest.param(
            {"content": [{"type": "image_url", "image_url": "", "text": "A" * 40_000}]}, id="behind a picture"
        ),
        pytest.param({"reasoning_details": [{"text": "A" * 40_000}]}, id="a field not yet invented"),
        pytest.param({"role": "A" * 40_000}, id="a role that is a text"),
        pytest.param({"tool_calls": [{"function": {"arguments": {"a": "A" * 40_000}}}]}, id="arguments as an object"),
        pytest.param({"tool_calls": [{"function": {"say": "A" * 40_000}}]}, id="a call's other field"),
        pytest.param({"tool_calls": [{"function": {"arguments": "A" * 8}}] * 2000}, id="very many calls"),
    ],
)
def test_what_is_not_known_is_set_aside_by_its_length(message: dict[str, Any]) -> None:
    size = PromptSize([message])

    assert size.unknown_tokens() >= 9_900


def test_a_recording_and_a_file_may_be_longer_than_usual() -> None:
    hour = {"type": "input_audio", "input_audio": {"data": "A" * 40_000_000, "format": "mp3"}}
    book = {"type": "file", "file": {"filename": "b.txt", "file_data": "A" * 6_000_000}}

    assert PromptSize([{"content": [hour]}]).unknown_tokens() == pytest.approx(40_000, abs=TOKENS_PER_AUDIO)
    assert PromptSize([{"content": [book]}]).unknown_tokens() == pytest.approx(1_000_000, abs=TOKENS_PER_FILE)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"role": "user", "content": "hello"}, id="a text"),
        pytest.param({"role": "tool", "tool_call_id": "call_abcdefghijklmnopqrst", "content": "5"}, id="a result"),
        pytest.param(
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "index": 0, "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            id="a call",
        ),
        pytest.param(
            {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}}]},
            id="a picture",
        ),
    ],
)
def test_nothing_is_unknown_of_usual_messages(message: dict[str, Any]) -> None:
    assert PromptSize([message]).unknown_tokens() == 0


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        pytest.param(
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}}, LARGE_IMAGE_TOKENS, id="no detail"
        ),
        pytest.param(
            {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
            LARGE_IMAGE_TOKENS,
            id="low detail, which not every provider heeds",
        ),
        pytest.param(
            {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "original"}},
            ORIGINAL_IMAGE_TOKENS,
            id="as it is",
        ),
        pytest.param(
            {"type": "input_image", "image_url": "https://x/y.png", "detail": "original"},
            ORIGINAL_IMAGE_TOKENS,
            id="as it is, in the form of responses",
        ),
        pytest.param(
            {"type": "image", "source": {"type": "base64", "data": "A" * 400_000}},
            LARGE_IMAGE_TOKENS,
            id="Anthropic's form",
        ),
        pytest.param({"type": "image_url", "image_url": ["detail", {}]}, LARGE_IMAGE_TOKENS, id="no picture at all"),
    ],
)
def test_a_picture_is_set_aside_as_a_large_one(part: dict[str, Any], tokens: int) -> None:
    size = PromptSize([{"role": "user", "content": [part, part]}])

    assert size.most_tokens() == TOKENS_PER_MESSAGE + 2 * tokens
    assert size.tokens() == TOKENS_PER_MESSAGE + 2 * TOKENS_PER_IMAGE


@pytest.mark.parametrize("times", [1, 300])
@pytest.mark.parametrize("field", ["tools", "input"])
def test_fields_that_are_no_prose_are_set_aside_as_that(field: str, times: int) -> None:
    """In small requests, and in those that are too large to be parsed at once."""
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], field: "7" * 1000 * times}).encode()
    chat = ChatRequest.parse(raw)

    counted = tokens_of_fields(chat.raw, chat.body, chat.members, chat.counted, AT_MOST)

    assert counted == pytest.approx(1000 * times, rel=0.01)


@pytest.mark.parametrize("texts", [1, 100, 5000])
def test_texts_that_are_no_prose_are_set_aside_as_that_however_many_there_are(texts: int) -> None:
    size = PromptSize([{"role": "user", "content": "3, 1; " * (60_000 // texts)}] * texts)

    assert size.most_tokens() - TOKENS_PER_MESSAGE * texts == pytest.approx(texts * (60_000 // texts) * 5.5, rel=0.05)
    assert size.tokens() < size.most_tokens() / 2


def test_a_film_locks_nobody_out() -> None:
    film = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64," + "A" * 20_000_000}}

    assert PromptSize([{"content": [film]}]).unknown_tokens() == UNKNOWN_TOKENS_MAX


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
