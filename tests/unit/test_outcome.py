"""What each answer of a provider means: the retry table as a table."""

from __future__ import annotations

import orjson
import pytest

from hermes.upstream.outcome import COUNTS_AS_FAILURE, Kind, ProviderError, kind_of

SILENT = ProviderError()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        pytest.param(429, Kind.LIMITED, id="429 turns the key"),
        pytest.param(503, Kind.BUSY, id="503 is asked again"),
        *[pytest.param(status, Kind.UNWELL, id=f"{status} goes on") for status in (500, 502, 504, 529, 501, 408, 301)],
        *[pytest.param(s, Kind.MISCONFIGURED, id=f"{s} is the operator's") for s in (401, 402, 403, 404)],
        *[pytest.param(status, Kind.CALLERS, id=f"{status} is the caller's") for status in (400, 413, 422)],
    ],
)
def test_what_a_status_means(status: int, kind: Kind) -> None:
    assert kind_of(status, SILENT, streamed=False) is kind


def test_a_callers_mistake_and_a_wrong_key_do_not_count_against_the_endpoint() -> None:
    assert COUNTS_AS_FAILURE.isdisjoint({Kind.CALLERS, Kind.TOO_LONG, Kind.MISCONFIGURED, Kind.TIME_UP})


OPENAI = {"error": {"message": "maximum context length is 8192 tokens", "code": "context_length_exceeded"}}
SGLANG = {
    "object": "error",
    "message": "The input (40000 tokens) is longer than the model's context length",
    "code": 400,
}
COPILOT = {"error": {"message": "count exceeds the limit of 64000", "code": "model_max_prompt_tokens_exceeded"}}
ANTHROPIC = {"error": "prompt is too long: 210000 tokens > 200000 maximum"}


@pytest.mark.parametrize("body", [OPENAI, SGLANG, COPILOT, ANTHROPIC], ids=["openai", "sglang", "copilot", "anthropic"])
def test_a_prompt_that_is_too_long_is_recognised_by_code_or_words(body: object) -> None:
    assert kind_of(400, ProviderError.read(orjson.dumps(body)), streamed=False) is Kind.TOO_LONG


@pytest.mark.parametrize(
    "message",
    [
        "image size exceeds the limit of 20 MB",
        "'tools' exceeds the maximum of 128 items",
        "The context window parameter is invalid: must be int",
    ],
)
def test_other_limits_are_not_the_length_of_the_prompt(message: str) -> None:
    assert kind_of(400, ProviderError(message=message), streamed=False) is Kind.CALLERS


def test_a_refusal_of_stream_options_is_only_one_where_a_stream_was_asked_for() -> None:
    refusal = ProviderError(message="Unknown parameter: stream_options")

    assert kind_of(400, refusal, streamed=True) is Kind.OPTIONS_REFUSED
    assert kind_of(400, refusal, streamed=False) is Kind.CALLERS


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'{"error":7}', b'{"error":{"message":null}}'])
def test_any_body_can_be_read(body: bytes) -> None:
    assert ProviderError.read(body) == SILENT
