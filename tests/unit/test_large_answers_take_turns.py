"""What a target, a judge or a provider's error says may be long and of any shape: the event loop goes on meanwhile.

Measured in the processor's time between two turns of the loop, which other work on the machine does not lengthen.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import gevent
import orjson
import pytest

from hermes.evaluation.compare import as_text, is_same
from hermes.evaluation.judge import NoVerdict, read_reply
from hermes.observe.redact import Redactor
from hermes.reply import refusal_body
from hermes.trials import Spoken
from hermes.turns import Turn
from hermes.upstream.outcome import SAID_CHARS, Kind, ProviderError, kind_of
from hermes.upstream.spoken import spoken

from .test_reply import answer

MOST_S = 0.1
SECRET = "ab/cd+efgh/ijklmnop=="
ESCAPED = "".join(f"\\u{ord(char):04x}" for char in SECRET)
SIZE = 1024 * 1024 - 1000


def listed(item: bytes, size: int = SIZE) -> bytes:
    return b"[" + b",".join([item] * (size // (len(item) + 1))) + b"]"


def answering(message: bytes) -> bytes:
    return b'{"choices":[{"index":0,"message":%b,"finish_reason":"stop"}]}' % message


def saying(content: bytes) -> bytes:
    return answering(b'{"role":"assistant","content":%b}' % content)


def streaming(event: bytes) -> bytes:
    return event * (SIZE // len(event))


@contextmanager
def taking_turns() -> Iterator[None]:
    """The loop must have had its turns within. The garbage collector is not to walk through all that pytest holds, as
    that takes longer than what is measured; a worker of Hermes's does not hold a tenth of it.
    """
    gaps: list[float] = []

    def watch() -> None:
        last = time.thread_time()
        while True:
            gevent.sleep(0.0005)
            now = time.thread_time()
            gaps.append(now - last)
            last = now

    watching = gevent.spawn(watch)
    gc.collect()
    gc.freeze()
    gevent.sleep(0.002)
    gaps.clear()
    try:
        yield
        gevent.sleep(0.002)
    finally:
        watching.kill()
        gc.unfreeze()
    assert max(gaps) < MOST_S


@pytest.mark.parametrize(
    ("raw", "stream"),
    [
        pytest.param(saying(b'"%b"' % (b"word " * (SIZE // 5))), False, id="words"),
        pytest.param(saying(listed(b"[]")), False, id="lists"),
        pytest.param(saying(b"[NaN,%b]" % listed(b'{"a":1}')), False, id="objects that are read leniently"),
        pytest.param(saying(listed(b'{"text":"a"}')), False, id="parts"),
        pytest.param(saying(b"[" * SIZE), False, id="brackets"),
        pytest.param(
            answering(b'{"tool_calls":%b}' % listed(b'{"function":{"name":"f","arguments":"{}"}}')), False, id="calls"
        ),
        pytest.param(answering(b'{"function_call":{"name":"f","arguments":"%b"}}' % listed(b"[]")), False, id="a call"),
        pytest.param(streaming(b"data: {}\n\n"), True, id="short events"),
        pytest.param(b'data: {"choices":[{"delta":{"content":%b}}]}\n\n' % listed(b"[]"), True, id="a long event"),
    ],
)
def test_a_megabyte_of_an_answer_is_read_and_written_in_turns(raw: bytes, stream: bool) -> None:
    with taking_turns():
        said = spoken(raw, stream=stream)
    with taking_turns():
        as_text(said)
    with taking_turns():
        is_same(said, Spoken(said.text + " ", said.tools))


def test_a_long_event_says_what_it_says_between_two_short_ones() -> None:
    long = b"a" * 300_000
    events = b"".join(b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % text for text in (b"<", long, b">"))

    assert spoken(events + b"data: [DONE]\n\n", stream=True).text == f"<{long.decode()}>"


def test_of_many_calls_the_first_ones_are_compared_by_their_meaning() -> None:
    few = tuple(("f", f'{{"n": {number}.0}}') for number in range(3))
    assert is_same(Spoken(tools=few), Spoken(tools=tuple((name, text.replace(".0", "")) for name, text in few)))
    many = (("f", "[1.0]"), ("g", "[" + "1," * 30_000 + "1]"))
    assert is_same(Spoken(tools=many), Spoken(tools=tuple(reversed(many)))) is False
    assert is_same(Spoken(tools=many), Spoken(tools=many))


def test_a_judge_who_does_not_end_has_no_verdict() -> None:
    with taking_turns(), pytest.raises(NoVerdict, match="too long"):
        read_reply(listed(b"[]").decode(), "7f")


LONG_ERRORS = [
    pytest.param(b"[" * SIZE, "", id="brackets"),
    pytest.param(listed(b"1"), "", id="numbers"),
    pytest.param(listed(b"[]"), "", id="lists"),
    pytest.param(b'{"error":{"message":%b}}' % listed(b'{"a":1}'), "", id="a message of objects"),
    pytest.param(b'{"error":{"message":"%b"}}' % (b"token exceeds " * 70_000), "token exceeds ", id="a message"),
    pytest.param(b'{"error":"%b"}' % (b"exceed " * 140_000), "exceed ", id="a text"),
    pytest.param(b'{"message":"%b"}' % (rb"\ud83d\ude00" * 80_000), "😀", id="escaped faces"),
    pytest.param(b"{%b}" % b",".join(b'"%d":1' % number for number in range(90_000)), "", id="members"),
]


@pytest.mark.parametrize(("body", "begins"), LONG_ERRORS)
def test_a_megabyte_of_an_error_is_read_in_turns(body: bytes, begins: str) -> None:
    with taking_turns():
        with Turn() as turn:
            error = ProviderError.read(body, turn.pause)
        kind = kind_of(400, error, streamed=True)

    assert kind is Kind.CALLERS
    assert error.message.startswith(begins)
    assert len(error.message) <= SAID_CHARS
    assert bool(error.message) == bool(begins)


@pytest.mark.parametrize(("body", "begins"), LONG_ERRORS)
def test_a_megabyte_of_an_error_is_handed_on_in_turns(body: bytes, begins: str) -> None:
    with taking_turns():
        shown = refusal_body(answer(body), "req_1", Redactor({SECRET}))

    if body.startswith((b'{"error"', b'{"message"')):
        assert shown == body
    else:
        assert b"The provider refused the request with status 400 (request req_1)." in shown


@pytest.mark.parametrize(
    "spelled", [SECRET, "".join(f"\\u{ord(char):04x}" for char in SECRET), SECRET.replace("/", "\\/")]
)
@pytest.mark.parametrize("before", [16_000, 16_384 - 7, 100_000])
def test_of_a_long_error_with_a_secret_the_caller_is_told_its_words(spelled: str, before: int) -> None:
    body = b'{"error":{"message":"no such key","input":"%b %b %b"}}' % (b"x" * before, spelled.encode(), b"y" * 100_000)

    shown = refusal_body(answer(body), "req_1", Redactor({SECRET}))

    told = "The provider refused the request with status 400 (request req_1). It says: no such key"
    assert orjson.loads(shown)["error"]["message"] == told


@pytest.mark.parametrize(
    "shape",
    [
        lambda said, quoted: {"error": {**said, "input": quoted}},
        lambda said, quoted: {"input": quoted, **said},
        lambda said, quoted: {"error": {"input": quoted, "message": said["message"] + quoted}},
    ],
)
def test_an_error_that_quotes_a_long_prompt_is_still_understood(shape: Callable[..., object]) -> None:
    body = orjson.dumps(shape({"message": "The prompt is too long: 9 tokens."}, "word " * 50_000))

    assert kind_of(400, ProviderError.read(body), streamed=False) is Kind.TOO_LONG
