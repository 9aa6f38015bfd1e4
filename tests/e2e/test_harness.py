"""The fake provider and the client must be right themselves, or the tests that use them prove nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from . import replies
from .client import Exchange, read_events, send
from .gateway import eventually
from .provider import Provider
from .replies import USAGE, Reply

BODY = b'{"model": "m", "messages": []}'
KEY_A = {"Authorization": "Bearer key-a"}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


def ask(provider: Provider, headers: dict[str, str] | None = None, body: bytes = BODY) -> Exchange:
    return Exchange(provider.port, "POST", "/v1/chat/completions", headers, body)


def test_answers_come_in_order_and_the_last_one_for_ever(provider: Provider) -> None:
    provider.script(replies.chat("one"), replies.error(503), replies.chat("three"))

    answers = [send(provider.port, "POST", "/v1/chat/completions", body=BODY) for _ in range(4)]

    assert [answer.status for answer in answers] == [200, 503, 200, 200]
    assert answers[0].text == "one"
    assert answers[0].json["usage"] == USAGE
    assert [call.json["model"] for call in provider.calls] == ["m"] * 4


def test_an_answer_may_be_meant_for_one_key_only(provider: Provider) -> None:
    provider.script(replies.error(429).only(key="key-a"), replies.chat())

    statuses = [ask(provider, headers).read_all().status for headers in (KEY_A, {}, KEY_A)]

    assert statuses == [429, 200, 429]
    assert [call.key for call in provider.calls] == ["key-a", "", "key-a"]


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_every_framing_gives_the_same_stream(provider: Provider, framing: replies.Framing) -> None:
    provider.script(replies.stream("Hel", "lo", every_s=0.05, framing=framing))

    answer = ask(provider).read_all()

    assert answer.problem is None
    assert (answer.text, answer.done_count, len(answer.chunks)) == ("Hello", 1, 5)
    gap_s = answer.arrived_at(b'"lo"') - answer.arrived_at(b'"Hel"')
    assert 0.04 < gap_s < 0.2


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        pytest.param(replies.broken_stream("a"), "no chunk", id="a reset in mid-stream"),
        pytest.param(replies.broken_stream("a", end="fin"), "no chunk", id="an end in mid-stream"),
        pytest.param(replies.raw(b"", end="rst"), "nothing came", id="a reset at once"),
        pytest.param(replies.raw(b"HTTP/1.1 200 OK\r\nContent-Le"), "no head", id="half a head"),
        pytest.param(replies.chat(headers={"Content-Length": "5000"}, end="fin"), "of 5000", id="a short body"),
    ],
)
def test_the_client_tells_what_is_wrong_with_an_answer(provider: Provider, reply: Reply, problem: str) -> None:
    provider.script(reply)

    assert problem in str(ask(provider).read_all().problem)


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(replies.silence(), id="silent"),
        pytest.param(replies.then_silence(replies.broken_stream("a", end="keep")), id="silent in mid-stream"),
        pytest.param(replies.over_and_over(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01), id="never done"),
        pytest.param(replies.drip(replies.wire(replies.chat())), id="dripping"),
    ],
)
def test_a_provider_sees_at_once_that_its_caller_has_gone(provider: Provider, reply: Reply, how: str) -> None:
    provider.script(reply)
    exchange = ask(provider)
    eventually(lambda: provider.calls_under_way, bool)

    left_at = exchange.vanish(how)  # type: ignore[arg-type]

    call = provider.calls[0]
    eventually(lambda: call.ended_at, bool)
    assert call.ended_by == "caller"
    assert call.ended_at is not None
    assert call.ended_at - left_at < 0.3
    assert eventually(lambda: provider.open_connections, lambda number: number == 0) == 0


def test_a_port_can_be_closed_and_opened_again(provider: Provider) -> None:
    provider.refuse()
    with pytest.raises(ConnectionRefusedError):
        ask(provider)

    provider.accept()

    assert ask(provider).read_all().status == 200


def test_nothing_is_left_behind() -> None:
    before = threading.active_count()
    provider = Provider(replies.silence())
    exchange = ask(provider)
    eventually(lambda: provider.calls_under_way, bool)
    started = time.monotonic()

    provider.close()

    assert exchange.read_all().status == 0
    assert time.monotonic() - started < 1
    assert threading.active_count() == before


def test_events_are_read_as_the_grammar_says() -> None:
    body = b": hi\r\n\r\nid: 7\rdata: a\rdata:b\r\rdata: x\xe2\x80\xa8y\n\ndata: torso"

    events = read_events(body)

    assert [event.text for event in events] == [None, "a\nb", "x\u2028y"]
    assert events[1].fields[0] == ("id", "7")
