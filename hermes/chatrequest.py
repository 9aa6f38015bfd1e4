"""A chat completion request: its bytes, which go on as they are, and what Hermes reads in them.

Hermes demands no more than it needs: a JSON object with a list of messages. Everything else is the provider's business,
fields that do not exist yet included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from hermes import rawjson
from hermes.errors import InvalidRequest

MAX_BRACKETS = 1_000_000
"""More arrays and objects than any prompt has; 48 MB of `[]` would hold the event loop for eight seconds."""

SLOW_PARSER_BYTES = 4 * 1024 * 1024
"""Up to here a body that the strict parser refuses gets a second try with the tolerant one."""

CAPABILITY_OF_PART = {
    "image_url": "vision",
    "image": "vision",
    "input_image": "vision",
    "input_audio": "audio",
    "file": "files",
    "input_file": "files",
}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What the caller sent, read as far as Hermes must."""

    raw: bytes
    body: Mapping[str, Any]
    messages: list[Any]
    model: str
    stream: bool
    wants_usage: bool
    """The caller asked for the usage chunk of a stream itself."""

    route: str = "/chat/completions"
    """What is added to a provider's base URL."""

    @classmethod
    def parse(cls, raw: bytes) -> ChatRequest:
        """Reads the request's bytes.

        Raises:
            InvalidRequest: it is no JSON object with a list of messages.
        """
        body = parse_object(raw)
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise InvalidRequest("messages must be a list of at least one message.", param="messages")
        for index, message in enumerate(messages):
            if not isinstance(message, dict):
                raise InvalidRequest(f"messages[{index}] must be an object.", param=f"messages[{index}]")
        stream = body.get("stream")
        if stream is not None and not isinstance(stream, bool):
            raise InvalidRequest("stream must be true or false.", param="stream")
        model = body.get("model", "")
        if not isinstance(model, str | None):
            raise InvalidRequest("model must be a string.", param="model")
        options = body.get("stream_options")
        wants_usage = isinstance(options, dict) and options.get("include_usage") is True
        return cls(raw, body, messages, model or "", stream is True, wants_usage)

    def outgoing(self, model: str, *, ask_usage: bool) -> list[bytes]:
        """The body for a provider: the caller's bytes with the model set and, for a stream, usage asked for.

        Args:
            ask_usage: False for an endpoint that refuses `stream_options`: then it is left out altogether.
        """
        changes = {"model": orjson.dumps(model)}
        raw = self.raw
        if self.stream and ask_usage and not self.wants_usage:
            options = self.body.get("stream_options")
            asked = {**options, "include_usage": True} if isinstance(options, dict) else {"include_usage": True}
            changes["stream_options"] = orjson.dumps(asked)
        elif not ask_usage and "stream_options" in self.body:
            raw = rawjson.without(raw, "stream_options")
        return rawjson.replaced(raw, changes)

    def choices(self) -> int:
        """How many choices are asked for."""
        n = self.body.get("n")
        return n if isinstance(n, int) and n > 1 else 1

    def is_answer(self, whole: Any) -> bool:
        """Whether a parsed 2xx body is a completion: it has choices, and no error in their place."""
        choices = whole.get("choices") if isinstance(whole, dict) else None
        return isinstance(choices, list) and bool(choices) and not whole.get("error")

    def needs(self) -> frozenset[str]:
        """The capabilities that an endpoint must have to serve this."""
        needed = {
            capability
            for message in self.messages
            for part in _parts(message)
            if (capability := CAPABILITY_OF_PART.get(str(part.get("type")))) is not None
        }
        if self.body.get("tools") or self.body.get("functions"):
            needed.add("tools")
        response_format = self.body.get("response_format")
        if isinstance(response_format, dict) and response_format.get("type") == "json_schema":
            needed.add("json_schema")
        return frozenset(needed)


def parse_object(raw: bytes) -> dict[str, Any]:
    """The bytes as a JSON object. Of two equal keys the last counts, as providers read it.

    Raises:
        InvalidRequest: they are none, or one of a size or depth that no request has.
    """
    if raw.count(b"[") + raw.count(b"{") > MAX_BRACKETS:
        raise InvalidRequest(f"The body has more than {MAX_BRACKETS:,} arrays and objects.", param=None)
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        body = _tolerant(raw, str(error))
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object.", param=None)
    return body


def _tolerant(raw: bytes, reason: str) -> Any:
    """The standard library's reading: providers accept lone surrogates and NaN, the strict parser does not."""
    if not raw.strip():
        raise InvalidRequest("The body is empty; send a JSON object.", param=None)
    try:
        if len(raw) <= SLOW_PARSER_BYTES:
            return json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        pass  # the strict parser's reason says more
    raise InvalidRequest(f"The body is not valid JSON: {reason}.", param=None)


def _parts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
