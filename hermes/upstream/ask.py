"""One question to a model off the hot path (the teacher, the embedder): plain `requests`, with a bound on everything.

Redirects are not followed. `gevent.Timeout` bounds the whole call, since the library's own timeouts begin anew with
every byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gevent
import orjson
import requests
from urllib3.exceptions import HTTPError

from hermes.types import Allowance, Endpoint
from hermes.upstream import gate
from hermes.upstream.cold import address, new_session

MAX_REPLY_BYTES = 1024 * 1024
MAX_REPLY_TOKENS = 512
MAX_VECTORS_BYTES = 16 * 1024 * 1024
"""32 vectors of 4096 numbers, each written with 20 digits, take 3 MB."""


class NoReply(OSError):
    """The model gave no usable reply."""


class Asker:
    """Asks models single questions, over kept connections."""

    def __init__(self, connect_timeout_s: float = 5.0) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._session = new_session()

    def ask(self, endpoint: Endpoint, prompt: str, allowance: Allowance) -> str:
        """The reply's text: its content, or its reasoning where the content is empty.

        Args:
            allowance: who may see what the prompt holds.

        Raises:
            NoReply: no connection, no answer within the endpoint's timeout, or none that is a completion.
        """
        gate.check(endpoint, allowance)
        body = {
            "model": endpoint.model,
            "messages": [{"role": "user", "content": _sendable(prompt)}],
            "temperature": 0,
            "max_tokens": MAX_REPLY_TOKENS,
        }
        return _text_of(self._reply(endpoint, "chat/completions", body, MAX_REPLY_BYTES))

    def embed(self, endpoint: Endpoint, texts: Sequence[str], allowance: Allowance) -> list[list[float]]:
        """The vectors of texts, as the model gives them; raises as `ask`."""
        gate.check(endpoint, allowance)
        body = {"model": endpoint.model, "input": [_sendable(text) for text in texts], "encoding_format": "float"}
        return _vectors_of(self._reply(endpoint, "embeddings", body, MAX_VECTORS_BYTES))

    def close(self) -> None:
        """Closes the kept connections."""
        self._session.close()

    def _reply(self, endpoint: Endpoint, route: str, body: dict[str, Any], max_bytes: int) -> bytes:
        try:
            with gevent.Timeout(endpoint.timeout_s, NoReply("no reply in time")):
                return self._post(endpoint, route, body, max_bytes)
        except (requests.RequestException, HTTPError) as error:  # the body is read of urllib3, which has its own errors
            raise NoReply(f"no reply: {type(error).__name__}") from None

    def _post(self, endpoint: Endpoint, route: str, body: dict[str, Any], max_bytes: int) -> bytes:
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if endpoint.keys:
            headers["Authorization"] = f"Bearer {endpoint.keys[0].value.reveal()}"
        headers |= {name: value.reveal() for name, value in endpoint.headers}
        has_own = any(name.lower() == "authorization" for name in headers)
        response = self._session.post(
            address(endpoint.base_url, route, keep_user=not has_own),
            data=orjson.dumps(body),
            headers=headers,
            timeout=(min(self._connect_timeout_s, endpoint.timeout_s), endpoint.timeout_s),
            allow_redirects=False,
            stream=True,
        )
        try:
            if response.status_code != 200:
                raise NoReply(f"the model answered {response.status_code}")
            raw: bytes = response.raw.read(max_bytes + 1, decode_content=True)
        finally:
            response.close() if response.status_code != 200 else response.raw.release_conn()
        if len(raw) > max_bytes:
            raise NoReply("the reply is too long")
        return raw


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
