"""A request of the gateway contract: what the organisation's own functions send, turned into a chat request.

The contract's own fields (`role`, `context_hint`, `metadata`) are read and taken out of the bytes; a `response_format`
given as a word becomes OpenAI's object; a `prompt` becomes the one message of a chat. All else goes on as it was
written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from hermes import rawjson
from hermes.chatrequest import ChatRequest, parse_object
from hermes.errors import InvalidRequest
from hermes.metadata import MAX_NAME_CHARS, classes_of, name_of

OWN_FIELDS = ("role", "context_hint", "metadata")
RESPONSE_FORMATS = ("text", "json_object")
DEFAULT_ROLE = "chat"
MAX_HINT_CHARS = 10_000
"""Of a context_hint, which is a name or a question, not a document."""


@dataclass(frozen=True, slots=True)
class ContractRequest:
    """What a function asks for."""

    chat: ChatRequest
    role: str
    function_name: str | None
    use_case: str | None
    user_id: str | None
    data_classes: tuple[str, ...] = ()
    context_hint: str | None = None
    is_legacy: bool = False
    """Asked with a `prompt`: the answer has OpenAI's legacy form, `choices[].text`."""

    @classmethod
    def parse(cls, raw: bytes, *, stream: bool = False) -> ContractRequest:
        """Reads the request's bytes.

        Args:
            stream: whether the route asks for a stream, whatever the body says.

        Raises:
            InvalidRequest: naming the field.
        """
        body = parse_object(raw)
        metadata = body.get("metadata")
        if metadata is not None and not isinstance(metadata, Mapping):
            raise InvalidRequest("metadata must be an object.", param="metadata")
        known = metadata or {}
        is_legacy = "prompt" in body and "messages" not in body
        function_name = name_of(known, "function_name", "functionName")
        if function_name is None and not is_legacy:
            raise InvalidRequest("metadata.function_name is required: it says which function calls.", param="metadata")
        return cls(
            chat=ChatRequest.parse(_as_chat(raw, body, is_legacy=is_legacy, stream=stream)),
            role=_text(body, "role", MAX_NAME_CHARS) or DEFAULT_ROLE,
            function_name=function_name,
            use_case=name_of(known, "use_case", "useCase"),
            user_id=name_of(known, "user_id", "userId") or name_of(body, "user"),
            data_classes=classes_of(known),
            context_hint=_text(body, "context_hint", MAX_HINT_CHARS),
            is_legacy=is_legacy,
        )


def with_house_voice(request: ChatRequest, voice: str) -> ChatRequest:
    """The request with the operator's system text in front of its messages."""
    if not voice:
        return request
    members = rawjson.members(request.raw) if request.members is None else request.members
    member = next(m for m in reversed(members) if m.key == "messages")
    start = request.raw.index(b"[", member.value_start) + 1
    message = orjson.dumps({"role": "system", "content": voice}) + b","
    return ChatRequest.parse(request.raw[:start] + message + request.raw[start:])


def _as_chat(raw: bytes, body: Mapping[str, Any], *, is_legacy: bool, stream: bool) -> bytes:
    """The bytes of the chat request that the provider is to see, but for its model."""
    changes: dict[str, bytes] = {}
    response_format = body.get("response_format")
    if isinstance(response_format, str):
        if response_format not in RESPONSE_FORMATS:
            known = " or ".join(RESPONSE_FORMATS)
            raise InvalidRequest(f"response_format must be {known}, or an object.", param="response_format")
        changes["response_format"] = orjson.dumps({"type": response_format})
    if stream:
        changes["stream"] = b"true"
    own_fields = (*OWN_FIELDS, "prompt") if is_legacy else OWN_FIELDS
    without = [field for field in own_fields if field in body]
    if is_legacy:
        changes["messages"] = orjson.dumps([{"role": "user", "content": _prompt(body)}])
    return b"".join(rawjson.replaced(raw, changes, without=without)) if changes or without else raw


def _prompt(body: Mapping[str, Any]) -> str:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str) or not prompt:
        raise InvalidRequest("prompt must be a text; send several prompts one by one.", param="prompt")
    return prompt


def _text(body: Mapping[str, Any], field: str, max_chars: int) -> str | None:
    value = body.get(field)
    if value is not None and not isinstance(value, str):
        raise InvalidRequest(f"{field} must be a text.", param=field)
    if value and len(value) > max_chars:
        raise InvalidRequest(f"{field} must have {max_chars:,} characters at most.", param=field)
    return value or None
