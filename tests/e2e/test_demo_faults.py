"""A word in the prompt makes the demo's first endpoint fail, so that a visitor sees fallback and clean ends at work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .gateway import Gateway


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    gateway = Gateway.start()
    yield gateway
    gateway.stop()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_an_overloaded_provider_is_survived(gateway: Gateway, stream: bool) -> None:
    gateway.close_circuits()

    got = gateway.chat("please demo:503 now", tier="complex", stream=stream)

    assert (got.status, got.problem) == (200, None)
    assert got.text
    assert got.headers["x-hermes-fallback-level"] == "1"
    row = gateway.row(got)
    assert (row["status"], row["attempts"] > 1) == ("ok", True)


def test_a_limited_provider_is_survived_and_left_alone_for_a_while(gateway: Gateway) -> None:
    answers = [gateway.chat(text, stream=stream) for text in ("demo:429", "hello") for stream in (False, True)]

    assert [(got.status, got.problem, bool(got.text)) for got in answers] == [(200, None, True)] * 4
    assert [got.headers["x-hermes-fallback-level"] for got in answers] == ["1"] * 4
    assert [gateway.row(got)["attempts"] for got in answers] == [2, 1, 1, 1]


def test_a_stream_that_breaks_ends_cleanly(gateway: Gateway) -> None:
    gateway.close_circuits()

    got = gateway.chat("please demo:break now", tier="complex", stream=True)

    assert (got.status, got.problem) == (200, None)
    assert got.text
    assert got.body.endswith(b": hermes stream interrupted\ndata: [DONE]\n\n")
    assert gateway.row(got)["status"] == "interrupted"
