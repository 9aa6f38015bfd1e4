"""One question to a model off the hot path: whatever the model does, it ends in time, with a text or with `NoReply`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from hermes.types import ANYONE, Endpoint, ProviderKey, Secret
from hermes.upstream.ask import Asker, NoReply
from hermes.upstream.transport import Transport

from .provider import Provider
from .replies import Reply, answer, chat, drip, error, over_and_over, raw, silence


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture
def asker() -> Iterator[Asker]:
    with closing(Transport(connect_timeout_s=0.5)) as transport:
        yield Asker(transport)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def endpoint(provider: Provider) -> Endpoint:
    key = ProviderKey("TEACHER_KEY", Secret("teacher-secret"))
    return Endpoint("t", "teacher", provider.base_url, provider.base_url, keys=(key,), timeout_s=0.5)


def test_the_reply_is_the_content(asker: Asker, provider: Provider) -> None:
    provider.script(chat("simple"))

    assert asker.ask(endpoint(provider), "which?", ANYONE) == "simple"

    assert provider.calls[0].json["temperature"] == 0
    assert provider.calls[0].json["messages"] == [{"role": "user", "content": "which?"}]
    assert provider.calls[0].key == "teacher-secret"


def test_the_reasoning_is_read_where_the_content_is_empty(asker: Asker, provider: Provider) -> None:
    message = {"role": "assistant", "content": "", "reasoning_content": "complex"}
    provider.script(answer(200, {"choices": [{"message": message}]}))

    assert asker.ask(endpoint(provider), "which?", ANYONE) == "complex"


def test_half_a_surrogate_pair_can_be_asked_about(asker: Asker, provider: Provider) -> None:
    assert asker.ask(endpoint(provider), "\ud800 hi", ANYONE) == "ok"

    assert provider.calls[0].json["messages"][0]["content"] == "? hi"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(silence(), id="silence"),
        pytest.param(error(500), id="500"),
        pytest.param(answer(307, b"", headers={"Location": "http://127.0.0.1:1/steal"}), id="a redirect"),
        pytest.param(answer(200, b"OK"), id="no JSON"),
        pytest.param(answer(200, {"choices": []}), id="no choice"),
        pytest.param(answer(200, b"x" * 2_000_000), id="too much"),
        pytest.param(raw(b"garbage"), id="garbage"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"), id="cut off"),
        pytest.param(over_and_over(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500), id="100 Continue without end"),
        pytest.param(over_and_over(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n" * 500), id="headers without end"),
        pytest.param(over_and_over(CHUNKED + b"5;", b"x" * 65536), id="a chunk's extension without end"),
        pytest.param(over_and_over(CHUNKED, b"1\r\n \r\n" * 10_000), id="chunks of a byte without end"),
        pytest.param(drip(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), id="one byte at a time"),
    ],
)
def test_what_is_no_reply_is_said_in_time(asker: Asker, provider: Provider, reply: Reply) -> None:
    provider.script(reply)
    began = time.monotonic()

    with pytest.raises(NoReply) as failed:
        asker.ask(endpoint(provider), "which?", ANYONE)

    assert time.monotonic() - began < 1.0
    assert "teacher-secret" not in str(failed.value)
