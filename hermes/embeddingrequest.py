"""An embedding request: its bytes go on as they are, but for the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from hermes import largejson, rawjson
from hermes.chatrequest import read_object
from hermes.errors import InvalidRequest
from hermes.jsonmap import Member


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """What the caller sent, in the shape that the cascade asks with."""

    raw: bytes
    body: Mapping[str, Any]
    messages: list[Any]
    """The texts as if they were messages, for estimates and previews."""

    model: str
    stream: bool = False
    wants_usage: bool = False
    route: str = "/embeddings"
    counted: str = "input"
    """The field that `messages` have been made of."""

    members: Sequence[Member] | None = None
    changes: Mapping[str, bytes] = field(default_factory=dict)
    """Members that are not sent as the caller wrote them, as JSON; the body has them already."""

    without: tuple[str, ...] = ()

    @classmethod
    def parse(cls, raw: bytes) -> EmbeddingRequest:
        """Reads the request's bytes.

        Raises:
            InvalidRequest: it is no JSON object with an input.
        """
        body, members = read_object(raw)
        texts = _listed(body)
        if not isinstance(texts, list) or not texts or texts == [""]:
            raise InvalidRequest("input must be a text, or a list of texts or tokens.", param="input")
        model = body.get("model", "")
        if not isinstance(model, str | None):
            raise InvalidRequest("model must be a string.", param="model")
        return cls(raw, body, [{"role": "user", "content": _text(texts)}], model or "", members=members)

    def outgoing(self, model: str, *, ask_usage: bool) -> list[bytes]:
        """The body for a provider."""
        return rawjson.replaced(self.raw, {**self.changes, "model": orjson.dumps(model)}, known=self.members)

    def of_body(self) -> EmbeddingRequest:
        """The request with its texts as the body has them now."""
        return replace(self, messages=[{"role": "user", "content": _text(_listed(self.body))}])

    def needs(self) -> frozenset[str]:
        """Capabilities are a matter of chat models."""
        return frozenset()

    def choices(self) -> int:
        """Embeddings have none to choose from."""
        return 1

    def is_answer(self, whole: Any) -> bool:
        """Whether a parsed 2xx body holds embeddings."""
        data = whole.get("data") if isinstance(whole, dict) else None
        return isinstance(data, list) and bool(data) and not whole.get("error")


def _listed(body: Mapping[str, Any]) -> Any:
    """The input as a list, where it can be one."""
    given = body.get("input")
    return [given] if isinstance(given, str) else given


def _text(texts: list[Any]) -> str:
    """The input as one text; a list of token numbers counts as so many words, and what else there is as its JSON."""
    return " ".join(map(_text_of, texts))


def _text_of(item: Any) -> str:
    if isinstance(item, str):
        return item
    items = item if isinstance(item, list) else [item]
    return " ".join(["#" if isinstance(one, int) else largejson.written(one).decode() for one in items])
