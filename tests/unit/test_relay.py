"""A stream's end: settled once, before its last bytes, and cut cleanly when the provider breaks off."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from hermes.errors import ClientGone
from hermes.policy import BreakerPolicy
from hermes.state.store import MemoryStore
from hermes.types import Endpoint
from hermes.upstream.answer import Answer
from hermes.upstream.breaker import Breakers
from hermes.upstream.eventstream import EventStream
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.relay import Ended, Relay
from hermes.upstream.response import Lost

ENDPOINT = Endpoint("m@host/v1", "m", "https://host/v1", "https://host/v1")
POLICY = BreakerPolicy()


def event(content: str | None = None, finish: str | None = None) -> bytes:
    delta = {} if content is None else {"content": content}
    return (
        b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode() + b"\n\n"
    )


A, B, FINISH, DONE = event("A"), event("B"), event(finish="stop"), b"data: [DONE]\n\n"


class Wire:
    """A response that gives pieces and raises what stands among them."""

    def __init__(self, pieces: list[bytes | BaseException]) -> None:
        self.pieces = pieces
        self.is_released = False

    def read(self, idle_timeout_s: float | None = None) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, BaseException):
            raise piece
        return piece

    def release(self) -> None:
        self.is_released = True


class Bench:
    """A relay with everything around it visible."""

    def __init__(self, *pieces: bytes | BaseException, on_break: str = "done") -> None:
        self.log: list[str] = []
        self.ends: list[Ended] = []
        self.wire = Wire(list(pieces))
        self.breakers = Breakers(MemoryStore(), lambda *_: None)
        permit = self.breakers.permit(ENDPOINT, POLICY, 10.0)
        assert permit is not None
        stream = EventStream(self.wire, idle_timeout_s=1.0, wants_usage=False)  # type: ignore[arg-type]
        answer = Answer(ENDPOINT, 0, permit, stream=stream, held=stream.open())
        held = ExitStack()
        held.callback(lambda: self.log.append("unwound"))
        held.enter_context(answer)
        self.relay = Relay(
            answer,
            stream,
            on_break=on_break,
            settle=self._settle,
            held=held,
            lifeline=Lifeline(),
            clean=lambda block: block,
            request_id="req_1",
        )

    def _settle(self, ended: Ended) -> None:
        self.log.append("settled")
        self.ends.append(ended)

    def read(self) -> bytes:
        out = b""
        for block in self.relay:
            out += block
            self.log.append("sent")
        self.relay.close()
        return out

    @property
    def failures(self) -> int:
        return self.breakers.circuit(ENDPOINT, POLICY).failures


def test_a_whole_stream_is_settled_before_its_last_bytes_leave() -> None:
    bench = Bench(A, B, FINISH + DONE)

    assert bench.read() == A + B + FINISH + DONE

    assert bench.log == ["sent", "sent", "settled", "unwound", "sent"]
    assert [end.status for end in bench.ends] == ["ok"]
    assert bench.wire.is_released


@pytest.mark.parametrize(
    "breaks",
    [pytest.param(Lost("reset"), id="the connection breaks"), pytest.param(b"", id="it ends without a finish reason")],
)
def test_a_break_ends_at_once_with_a_comment_and_done(breaks: bytes | BaseException) -> None:
    bench = Bench(A, b'data: {"choi', breaks)

    assert bench.read() == A + b": hermes stream interrupted\n" + DONE

    assert [end.status for end in bench.ends] == ["interrupted"]
    assert bench.failures == 1


def test_who_wants_an_error_gets_an_error_event_and_no_done() -> None:
    bench = Bench(A, Lost("reset"), on_break="error")

    out = bench.read()

    comment, line = out[len(A) :].split(b"\n", 1)
    assert comment == b": hermes stream interrupted"
    error = json.loads(line.removeprefix(b"data: "))["error"]
    assert error["code"] == "stream_interrupted"
    assert "req_1" in error["message"]
    assert DONE not in out


def test_an_error_of_the_provider_is_handed_on_and_nothing_follows() -> None:
    error = b'data: {"error":{"message":"high demand","code":503}}\n\n'
    bench = Bench(A, error, B)

    assert bench.read() == A + error

    assert [end.status for end in bench.ends] == ["interrupted"]


def test_a_caller_who_leaves_ends_it_without_blame() -> None:
    bench = Bench(A, ClientGone())

    assert bench.read() == A

    assert [end.status for end in bench.ends] == ["client_disconnected"]
    assert bench.failures == 0
    assert bench.wire.is_released


def test_a_body_that_was_never_read_is_still_settled_and_unwound() -> None:
    bench = Bench(A, B)

    bench.relay.close()
    bench.relay.close()

    assert bench.log == ["settled", "unwound"]
    assert [end.status for end in bench.ends] == ["client_disconnected"]
    assert bench.wire.is_released
