"""OpenAI's legacy completion form, for callers who sent a `prompt`: `choices[].text` instead of messages and deltas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hermes import largejson
from hermes.jsonmap import LARGE_BYTES
from hermes.upstream.relay import Relay
from hermes.upstream.sse import data_of, split

CARRIED = ("id", "created", "model", "system_fingerprint", "usage")


def legacy_answer(body: bytes) -> bytes:
    """A whole chat completion as a legacy one."""
    return largejson.written(_legacy(_read(body), "message"))


class LegacyRelay:
    """A relay whose events are turned into legacy ones; comments, errors and the end go through as they are."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return b"".join(_legacy_event(event) for event in split(next(self._relay)))

    def close(self) -> None:
        """Ends the exchange; safe to call twice."""
        self._relay.close()


def _legacy_event(event: bytes) -> bytes:
    data = data_of(event)
    if not data or data.strip() == b"[DONE]":
        return event
    try:
        whole = _read(data)
    except ValueError:
        return event
    if not isinstance(whole, dict) or not isinstance(whole.get("choices"), list):
        return event
    return b"data: " + largejson.written(_legacy(whole, "delta")) + b"\n\n"


def _read(data: bytes) -> Any:
    return largejson.parsed(data) if len(data) <= LARGE_BYTES else largejson.read(data)[0]


def _legacy(whole: Mapping[str, Any], part: str) -> dict[str, Any]:
    choices = [choice for choice in whole.get("choices") or () if isinstance(choice, Mapping)]
    return {
        "object": "text_completion",
        **{name: whole[name] for name in CARRIED if name in whole},
        "choices": [_legacy_choice(choice, position, part) for position, choice in enumerate(choices)],
    }


def _legacy_choice(choice: Mapping[str, Any], position: int, part: str) -> dict[str, Any]:
    message = choice.get(part)
    text = message.get("content") if isinstance(message, Mapping) else None
    return {
        "text": text if isinstance(text, str) else "",
        "index": choice.get("index", position),
        "logprobs": None,
        "finish_reason": choice.get("finish_reason"),
    }
