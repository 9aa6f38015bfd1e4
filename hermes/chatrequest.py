"""A chat completion request: its bytes, which go on as they are, and what Hermes reads in them.

Hermes demands no more than it needs: a JSON object with a list of messages. Everything else is the provider's business,
fields that do not exist yet included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from hermes import largejson, rawjson
from hermes.errors import InvalidRequest
from hermes.jsonmap import LARGE_BYTES, Member, Unreadable
from hermes.types import Endpoint

MAX_MESSAGES = 20_000
MAX_PARTS = 20_000
"""Of all messages together. Both are more than any conversation has, and few enough to be looked at one by one."""

USUAL_ANSWER_TOKENS = 1024
"""Left for an answer whose length the caller does not say."""

READ_FIELDS: Final = frozenset({
    "model", "stream", "stream_options", "messages", "input", "prompt", "tools", "functions", "response_format",
    "max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens", "n_predict", "min_tokens", "n",
    "best_of", "prediction", "thinking", "thinking_budget", "reasoning", "reasoning_effort",
})  # fmt: skip
"""By these is decided who answers, who may see it, and how it is accounted."""

SMALLEST_PART = len("0,")

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

    counted: str = "messages"
    """The field that `messages` have been read from."""

    members: Sequence[Member] | None = None
    """Where the fields stand in the bytes, where that was found on the way."""

    changes: Mapping[str, bytes] = field(default_factory=dict)
    """Members that are not sent as the caller wrote them, as JSON; the body has them already."""

    without: tuple[str, ...] = ()
    """Members that are not sent at all; the body does not have them."""

    own_messages: int = 0
    """How many of the first messages are the operator's own."""

    @classmethod
    def parse(cls, raw: bytes) -> ChatRequest:
        """Reads the request's bytes.

        Raises:
            InvalidRequest: it is no JSON object with a list of messages, or has more of something than any request.
        """
        body, members = read_object(raw)
        return cls.of(raw, body, members)

    @classmethod
    def of(
        cls,
        raw: bytes,
        body: Mapping[str, Any],
        members: Sequence[Member] | None,
        changes: Mapping[str, bytes] | None = None,
        without: tuple[str, ...] = (),
    ) -> ChatRequest:
        """The request of a body that has been read; raises as `parse`.

        Args:
            body: with the changes, without what is left out.
        """
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise InvalidRequest(_no_messages(body), param="messages")
        for index, message in enumerate(messages):
            if not isinstance(message, dict):
                raise InvalidRequest(f"messages[{index}] must be an object.", param=f"messages[{index}]")
        if len(raw) > MAX_PARTS * SMALLEST_PART:
            _check_numbers(messages)
        stream = body.get("stream")
        if stream is not None and not isinstance(stream, bool):
            raise InvalidRequest("stream must be true or false.", param="stream")
        model = body.get("model", "")
        if not isinstance(model, str | None):
            raise InvalidRequest("model must be a string.", param="model")
        options = body.get("stream_options")
        wants_usage = isinstance(options, dict) and options.get("include_usage") is True
        return cls(
            raw, body, messages, model or "", stream is True, wants_usage,
            members=members, changes=changes or {}, without=without,
        )  # fmt: skip

    def outgoing(self, model: str, *, ask_usage: bool) -> list[bytes]:
        """The body for a provider: the caller's bytes with the model set and, for a stream, usage asked for.

        Args:
            ask_usage: False for an endpoint that refuses `stream_options`: then it is left out altogether.
        """
        changes = {**self.changes, "model": orjson.dumps(model)}
        if "stream_options" in self.body and not ask_usage:
            without = (*self.without, "stream_options")
            return rawjson.replaced(self.raw, changes, without=without, known=self.members)
        added: dict[str, bytes] = {}
        if self.stream and ask_usage and not self.wants_usage:
            options = self.body.get("stream_options")
            asked = {**options, "include_usage": True} if isinstance(options, dict) else {"include_usage": True}
            (changes if "stream_options" in self.body else added)["stream_options"] = largejson.written(asked)
        return rawjson.replaced(self.raw, changes, added=added, without=self.without, known=self.members)

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
        kinds = [part.get("type") for message in self.messages for part in _parts(message)]
        needed = {CAPABILITY_OF_PART[kind] for kind in kinds if isinstance(kind, str) and kind in CAPABILITY_OF_PART}
        if self.body.get("tools") or self.body.get("functions"):
            needed.add("tools")
        response_format = self.body.get("response_format")
        if isinstance(response_format, dict) and response_format.get("type") == "json_schema":
            needed.add("json_schema")
        return frozenset(needed)


def room_tokens(request: ChatRequest, endpoint: Endpoint, prompt_tokens: int) -> int | None:
    """How many tokens an endpoint's window has left beside the prompt and the answer; None: nobody knows.

    Args:
        prompt_tokens: the estimate for the request as it is.
    """
    window = endpoint.context_window
    if window is None:
        return None
    asked = [request.body.get(name) for name in ("max_completion_tokens", "max_tokens")]
    answer = max((value for value in asked if isinstance(value, int)), default=USUAL_ANSWER_TOKENS)
    return max(0, window - prompt_tokens - max(0, answer))


def parse_object(raw: bytes) -> dict[str, Any]:
    """The bytes as a JSON object; see `read_object`."""
    return read_object(raw)[0]


def read_object(raw: bytes) -> tuple[dict[str, Any], Sequence[Member] | None]:
    """The bytes as a JSON object, and where its members stand if that is known. Of two equal keys the last counts, as
    providers read it.

    Raises:
        InvalidRequest: they are none, or one of a size or depth that no request has; or a name is written in another
            case, and would be read by some providers only.
    """
    if len(raw) > LARGE_BYTES:
        try:
            body, members = largejson.read(raw)
        except Unreadable as error:
            raise InvalidRequest(str(error), param=None) from None
        _check_names(body)
        return body, members
    try:
        body = largejson.parsed(raw)
    except ValueError as error:
        reason = f"is not valid JSON: {error}" if raw.strip() else "is empty; send a JSON object"
        raise InvalidRequest(f"The body {reason}.", param=None) from None
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object.", param=None)
    _check_names(body)
    return body, None


def _check_names(body: Mapping[str, Any]) -> None:
    """Providers written in Go take `Model` for `model`, and the last of both: it would get past whatever is decided."""
    for name in body:
        if name not in READ_FIELDS and (meant := name.casefold()) in READ_FIELDS:
            raise InvalidRequest(f'The field "{name}" must be written "{meant}".', param=name)


def _no_messages(body: Mapping[str, Any]) -> str:
    example = '[{"role": "user", "content": "…"}]'
    if "messages" not in body:
        return f"messages is missing; send a list of at least one message: {example}."
    if body["messages"] == []:
        return f"messages is empty; send at least one message: {example}."
    return f"messages must be a list of messages: {example}."


def _check_numbers(messages: list[Any]) -> None:
    """Refuses what would be looked at for too long, item by item."""
    if len(messages) > MAX_MESSAGES:
        raise InvalidRequest(f"There are more than {MAX_MESSAGES:,} messages.", param="messages")
    contents = [message.get("content") for message in messages]
    if sum(len(content) for content in contents if isinstance(content, list)) > MAX_PARTS:
        raise InvalidRequest(f"The messages have more than {MAX_PARTS:,} parts.", param="messages")


def _parts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
