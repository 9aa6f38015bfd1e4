"""A request of the gateway contract: what the organisation's own functions send, turned into a chat request.

The contract's own fields (`role`, `context_hint`, `metadata`) are read and taken out of the bytes; a `response_format`
given as a word becomes OpenAI's object; a `prompt` becomes the one message of a chat. All else goes on as it was
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final

import orjson

from hermes import largejson, rawjson
from hermes.chatrequest import ChatRequest, read_object
from hermes.errors import InvalidRequest
from hermes.jsonmap import Member
from hermes.metadata import MAX_NAME_CHARS, classes_of, name_of

OWN_FIELDS = ("role", "context_hint", "metadata")
RESPONSE_FORMATS = ("text", "json_object")
DEFAULT_ROLE = "chat"
INSTRUCTION_ROLES: Final = frozenset({"system", "developer"})
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
        body, members = read_object(raw)
        metadata = body.get("metadata")
        if metadata is not None and not isinstance(metadata, Mapping):
            raise InvalidRequest("metadata must be an object.", param="metadata")
        known = metadata or {}
        is_legacy = "prompt" in body and "messages" not in body
        function_name = name_of(known, "function_name", "functionName")
        if function_name is None and not is_legacy:
            raise InvalidRequest("metadata.function_name is required: it says which function calls.", param="metadata")
        return cls(
            chat=_as_chat(raw, body, members, is_legacy=is_legacy, stream=stream),
            role=_text(body, "role", MAX_NAME_CHARS) or DEFAULT_ROLE,
            function_name=function_name,
            use_case=name_of(known, "use_case", "useCase"),
            user_id=name_of(known, "user_id", "userId") or name_of(body, "user"),
            data_classes=classes_of(known),
            context_hint=_text(body, "context_hint", MAX_HINT_CHARS),
            is_legacy=is_legacy,
        )


def with_house_voice(request: ChatRequest, voice: str) -> ChatRequest:
    """The request with the operator's system text as the first of its messages; the caller's own come after it."""
    return _with_system(request, voice, 0) if voice else request


def with_reference(request: ChatRequest, text: str) -> ChatRequest:
    """The request with a further system message, behind those it begins with and in front of the conversation.

    There it parts no tool call from its result, models that take instructions only at the beginning take it, and what
    a provider keeps of the instructions for the next request stays the same.
    """
    if not text:
        return request
    roles = (message.get("role") for message in request.messages)
    return _with_system(request, text, sum(1 for _ in takewhile(INSTRUCTION_ROLES.__contains__, roles)))


def _with_system(request: ChatRequest, text: str, after: int) -> ChatRequest:
    """A system message behind so many of the others; in front of all where these are too long to be looked over."""
    members = rawjson.members(request.raw) if request.members is None else request.members
    before = request.changes.get("messages") or _written(request.raw, members)
    place = rawjson.behind_items(before, after)
    if place is None:
        after, place = 0, before.index(b"[") + 1
    message = {"role": "system", "content": text}
    messages = [*request.messages[:after], message, *request.messages[after:]]
    new = orjson.dumps(message)
    piece = (b",", new) if after else (new, b",")
    view = memoryview(before)
    written = b"".join((view[:place], *piece, view[place:]))
    return replace(
        request,
        body={**request.body, "messages": messages},
        messages=messages,
        members=members,
        changes={**request.changes, "messages": written},
        own_messages=request.own_messages + 1,
    )


def _written(raw: bytes, members: Sequence[Member]) -> bytes:
    """The messages as the caller wrote them: those that count, which are the last."""
    member = next(m for m in reversed(members) if m.key == "messages")
    return raw[member.value_start : member.value_end]


def _as_chat(
    raw: bytes, body: dict[str, Any], members: Sequence[Member] | None, *, is_legacy: bool, stream: bool
) -> ChatRequest:
    """The chat request that the provider is to see, but for its model; read once, whatever is changed in it."""
    own_fields = (*OWN_FIELDS, "prompt") if is_legacy else OWN_FIELDS
    without = tuple(name for name in own_fields if name in body)
    changed: dict[str, Any] = {}
    response_format = body.get("response_format")
    if isinstance(response_format, str):
        if response_format not in RESPONSE_FORMATS:
            known = " or ".join(RESPONSE_FORMATS)
            raise InvalidRequest(f"response_format must be {known}, or an object.", param="response_format")
        changed["response_format"] = {"type": response_format}
    if stream:
        changed["stream"] = True
    if is_legacy:
        changed["messages"] = [{"role": "user", "content": _prompt(body)}]
    seen = {**{name: value for name, value in body.items() if name not in without}, **changed}
    return ChatRequest.of(
        raw, seen, members, {name: largejson.written(value) for name, value in changed.items()}, without
    )


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
