"""OpenAI's legacy completion form, for callers who sent a `prompt`: `choices[].text` instead of messages and deltas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from hermes import largejson
from hermes.jsonmap import LARGE_BYTES, blanks_end
from hermes.skim import Skimmer, Span, Unreadable
from hermes.turns import Turn
from hermes.upstream.reading import MOST_CHOICES
from hermes.upstream.relay import Relay
from hermes.upstream.sse import data_of, split
from hermes.upstream.tolerant import tolerantly

CARRIED: Final = ("id", "created", "model", "system_fingerprint", "usage")
OBJECT: Final = ord("{")


def legacy_answer(body: bytes) -> bytes:
    """A whole chat completion as a legacy one.

    Raises:
        Unreadable: it is none, or too much.
    """
    return _legacy_of(body, "message")


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
        return b"data: " + _legacy_of(data, "delta") + b"\n\n"
    except Unreadable:
        return event


def _legacy_of(data: bytes, part: str) -> bytes:
    if len(data) > LARGE_BYTES:
        return _cut_out(data, part)
    whole = tolerantly(data)
    if not isinstance(whole, dict) or not isinstance(whole.get("choices"), list):
        raise Unreadable
    return largejson.written(_legacy(whole, part))


def _cut_out(raw: bytes, part: str) -> bytes:
    """The same of a large answer, of which nothing is built: values are copied as they are written. So it may hold as
    much as it likes of what no legacy answer has.
    """
    with Turn() as turn:
        skimmer = Skimmer(raw, turn.pause)

        def members(span: Span | None) -> dict[bytes, Span]:
            """Of the object that stands here; none where it is none. Of equal names the last counts."""
            is_object = span is not None and raw[span.start] == OBJECT
            return dict(skimmer.parts(span.start)) if span is not None and is_object else {}

        def written(span: Span | None, otherwise: bytes) -> bytes:
            return otherwise if span is None else raw[span.start : span.end]

        def choice(span: Span, position: int) -> bytes:
            held = members(span)
            text = written(members(held.get(part.encode())).get(b"content"), b"")
            return b'{"text":%b,"index":%b,"logprobs":null,"finish_reason":%b}' % (
                text if text.startswith(b'"') else b'""',
                written(held.get(b"index"), b"%d" % position),
                written(held.get(b"finish_reason"), b"null"),
            )

        start = blanks_end(raw, 0)
        whole = members(Span(start, len(raw))) if start < len(raw) else {}
        listed = whole.get(b"choices")
        if listed is None or raw[listed.start : listed.start + 1] != b"[":
            raise Unreadable
        objects = [span for _, span in islice(skimmer.parts(listed.start), MOST_CHOICES) if raw[span.start] == OBJECT]
        names = [name.encode() for name in CARRIED if name.encode() in whole]
        carried = [b'"%b":%b' % (name, written(whole[name], b"")) for name in names]
        choices = b",".join([choice(span, position) for position, span in enumerate(objects)])
        return b'{"object":"text_completion",%b}' % b",".join([*carried, b'"choices":[%b]' % choices])


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
