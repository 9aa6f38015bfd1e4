"""A call off the callers' path tells what it may have cost, whatever came of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.chatrequest import ChatRequest
from hermes.policy import Policy
from hermes.trials import Heard
from hermes.types import ANYONE, Endpoint
from hermes.upstream.alone import MOST_BYTES, Alone, NoPermit
from hermes.upstream.answer import Answer, CallFailed
from hermes.upstream.outcome import Kind

from .test_eventstream import USAGE, chunk, stream

TARGET = Endpoint("target@p", "target", "http://p/v1", "http://p/v1")
REQUEST = ChatRequest.parse(b'{"messages":[{"role":"user","content":"x"}]}')
POLICY = Policy(cascades={})


class Caller:
    """Comes to one end."""

    def __init__(self, end: Answer | Exception) -> None:
        self.end = end

    def answer(self, *args: Any, **more: Any) -> Answer:
        if isinstance(self.end, Exception):
            raise self.end
        return self.end

    def usable(self, endpoint: Endpoint) -> tuple[None]:
        return (None,)


def ask(end: Answer | Exception) -> Heard:
    one = Caller(end)
    return Alone(one, one).ask(TARGET, REQUEST, POLICY, ANYONE)  # type: ignore[arg-type]


def streamed(*pieces: bytes, breaks: str = "") -> Answer:
    opened = stream(pieces, wants_usage=True, breaks=breaks)
    held = opened.open()
    return Answer(TARGET, 0, NoPermit(), stream=opened, held=held)


def test_a_whole_answer_that_is_too_large_tells_its_usage() -> None:
    heard = ask(Answer(TARGET, 0, NoPermit(), body=b"x" * (MOST_BYTES + 1), usage=USAGE))

    assert (heard.is_too_large, heard.is_billed, heard.usage) == (True, True, USAGE)
    assert heard.error == "the answer is larger than 1,048,576 bytes"
    assert heard.raw == b""


def test_a_stream_that_is_too_large_tells_how_much_has_come() -> None:
    heard = ask(streamed(*(chunk("y" * 60_000) for _ in range(30))))

    assert (heard.is_too_large, heard.is_billed, heard.usage) == (True, True, None)
    assert MOST_BYTES * 0.9 < heard.text_bytes < MOST_BYTES * 1.2


def test_a_stream_that_broke_off_tells_how_much_has_come() -> None:
    heard = ask(streamed(chunk("y" * 600), chunk("y" * 400), breaks="gone"))

    assert heard.error == "gone"
    assert (heard.is_billed, heard.text_bytes) == (True, 1000)


@pytest.mark.parametrize(
    ("end", "is_billed"),
    [
        pytest.param(CallFailed(Kind.NOT_SENT, None, "no connection"), False, id="never sent"),
        pytest.param(CallFailed(Kind.LIMITED, 429, "limited"), False, id="limited"),
        pytest.param(CallFailed(Kind.CALLERS, 400, "refused"), False, id="refused"),
        pytest.param(CallFailed(Kind.UNWELL, 500, "unwell"), False, id="failed"),
        pytest.param(CallFailed(Kind.UNWELL, None, "no answer in time"), True, id="no answer in time"),
        pytest.param(CallFailed(Kind.UNWELL, 200, "cut off"), True, id="cut off"),
        pytest.param(CallFailed(Kind.UNWELL, 204, "no completion"), True, id="no content"),
        pytest.param(
            CallFailed(Kind.UNWELL, 200, "an error", body=b'{"error":{"code":1}}'), False, id="an error in a 200"
        ),
    ],
)
def test_a_call_without_an_answer_is_free_only_where_it_was_refused_or_never_sent(
    end: Exception, is_billed: bool
) -> None:
    heard = ask(end)

    assert heard.error == str(end)
    assert heard.is_billed is is_billed


def test_what_is_no_completion_tells_its_usage_all_the_same() -> None:
    body = json.dumps({"choices": [], "usage": USAGE}).encode()

    assert ask(CallFailed(Kind.UNWELL, 200, "no completion", body=body)).usage == USAGE
