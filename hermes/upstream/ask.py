"""One question to a model off the hot path (the teacher, the embedder), by the hot path's client: so a deadline ends
any wait and any reading, whatever the model sends, and neither heads nor bodies are read without a bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from hermes.errors import Overloaded
from hermes.types import Allowance, Endpoint
from hermes.upstream.call import headers_for
from hermes.upstream.lifeline import Lifeline
from hermes.upstream.response import Lost, NotSent, TimedOut
from hermes.upstream.transport import Transport

MAX_REPLY_BYTES = 1024 * 1024
MAX_REPLY_TOKENS = 512
MAX_VECTORS_BYTES = 16 * 1024 * 1024
"""32 vectors of 4096 numbers, each written with 20 digits, take 3 MB."""


class NoReply(OSError):
    """The model gave no usable reply."""


class Asker:
    """Asks models single questions."""

    def __init__(self, transport: Transport, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            clock: the transport's.
        """
        self._transport = transport
        self._clock = clock

    def ask(self, endpoint: Endpoint, prompt: str, allowance: Allowance) -> str:
        """The reply's text: its content, or its reasoning where the content is empty.

        Args:
            allowance: who may see what the prompt holds.

        Raises:
            NoReply: no connection, no answer within the endpoint's timeout, or none that is a completion.
        """
        body = {
            "model": endpoint.model,
            "messages": [{"role": "user", "content": _sendable(prompt)}],
            "temperature": 0,
            "max_tokens": MAX_REPLY_TOKENS,
        }
        return _text_of(self._reply(endpoint, "/chat/completions", body, allowance, MAX_REPLY_BYTES))

    def embed(self, endpoint: Endpoint, texts: Sequence[str], allowance: Allowance) -> list[list[float]]:
        """The vectors of texts, as the model gives them; raises as `ask`."""
        body = {"model": endpoint.model, "input": [_sendable(text) for text in texts], "encoding_format": "float"}
        return _vectors_of(self._reply(endpoint, "/embeddings", body, allowance, MAX_VECTORS_BYTES))

    def _reply(
        self, endpoint: Endpoint, route: str, body: dict[str, Any], allowance: Allowance, max_bytes: int
    ) -> bytes:
        try:
            response = self._transport.post(
                endpoint,
                headers_for(endpoint, next(iter(endpoint.keys), None)),
                [orjson.dumps(body)],
                allowance=allowance,
                route=route,
                deadline=self._clock() + endpoint.timeout_s,
                lifeline=Lifeline(),
            )
            try:
                if response.status != 200:
                    raise NoReply(f"the model answered {response.status}")
                return response.read_all(max_bytes)
            finally:
                response.release()
        except (NotSent, Lost, TimedOut, Overloaded) as error:
            raise NoReply(f"no reply: {error}") from None


def _sendable(text: str) -> str:
    """Halves of surrogate pairs are no UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _vectors_of(raw: bytes) -> list[list[float]]:
    """The vectors in the order of their texts, whatever order they came in."""
    try:
        data = sorted(orjson.loads(raw)["data"], key=lambda item: item["index"])
        vectors = [item["embedding"] for item in data]
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        raise NoReply("the reply holds no embeddings") from None
    if not all(isinstance(vector, list) and vector for vector in vectors):
        raise NoReply("the reply holds no embeddings")
    return vectors


def _text_of(raw: bytes) -> str:
    try:
        message = orjson.loads(raw)["choices"][0]["message"]
        content, reasoning = message.get("content"), message.get("reasoning_content")
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        raise NoReply("the reply is no completion") from None
    for text in (content, reasoning):
        if isinstance(text, str) and text.strip():
            return text
    return ""
