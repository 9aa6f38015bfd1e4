"""Reads a chat completion request as strictly as a provider does: what cannot be served is an OpenAI error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import orjson

MODELS: Final = ("demo-small", "demo-small-b", "demo-large", "demo-large-b", "demo-teacher")
TEACHER: Final = "demo-teacher"
ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
MOST_CHOICES: Final = 8
CHARS_PER_TOKEN: Final = 4
TOKENS_PER_MESSAGE: Final = 3
COMMAND: Final = re.compile(r"(?<![\w:/-])demo:(429-retry|429|500|503|break|slow|hang|garbage)(:all)?(?![\w-])")

Failure = Literal["", "429", "429-retry", "500", "503", "break", "slow", "hang", "garbage"]


class Refused(Exception):
    """The request gets an OpenAI error."""

    def __init__(self, message: str, param: str | None = None, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """A request that can be served."""

    model: str
    messages: tuple[Mapping[str, Any], ...]
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    max_tokens: int | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    """The `function` part of each."""

    tool_choice: Any = None
    parallel_tool_calls: bool = True
    response_format: Mapping[str, Any] | None = None
    failure: Failure = ""

    @property
    def question(self) -> str:
        """The text of the last user message, without the words that command a failure."""
        return COMMAND.sub("", _last_user_text(self.messages)).strip()

    @property
    def is_large(self) -> bool:
        """Whether one of the large models is asked."""
        return self.model.startswith("demo-large")

    @property
    def images(self) -> int:
        """How many images the last user message holds."""
        parts = _last_user(self.messages).get("content")
        return sum(1 for part in parts if part["type"] == "image_url") if isinstance(parts, list) else 0

    @property
    def prompt_tokens(self) -> int:
        """An estimate, as good as made-up prices need it."""
        chars = sum(len(text_of(message)) for message in self.messages)
        return chars // CHARS_PER_TOKEN + TOKENS_PER_MESSAGE * len(self.messages)


def parse(body: bytes, command: str = "") -> DemoRequest:
    """Reads a request's body; `command` is the header `X-Demo`, with or without `demo:` before it.

    Raises:
        Refused: it cannot be served.
    """
    fields = _object(body)
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise Refused("you must provide a model parameter", "model")
    if model not in MODELS:
        raise Refused(f"The model `{model[:80]}` does not exist", "model", 404, "model_not_found")
    messages = _messages(fields.get("messages"))
    options = _of_type(fields, "stream_options", dict) or {}
    max_tokens = _count(fields, "max_completion_tokens") or _count(fields, "max_tokens")
    return DemoRequest(
        model,
        messages,
        stream=_of_type(fields, "stream", bool) or False,
        include_usage=options.get("include_usage") is True,
        n=_count(fields, "n", most=MOST_CHOICES) or 1,
        max_tokens=max_tokens,
        tools=_tools(fields),
        tool_choice=fields.get("tool_choice"),
        parallel_tool_calls=fields.get("parallel_tool_calls") is not False,
        response_format=_of_type(fields, "response_format", dict),
        failure=_failure(model, _last_user_text(messages), command),
    )


def text_of(message: Mapping[str, Any]) -> str:
    """All text of a message, be its content a text or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if part["type"] == "text")
    return content or ""


def _failure(model: str, text: str, command: str) -> Failure:
    """The failure that strikes this model: primaries only, unless it is for all; the teacher never, it just reads."""
    found = COMMAND.search(f"demo:{command.removeprefix('demo:')}") if command else COMMAND.search(text)
    if found is None or model == TEACHER or (model.endswith("-b") and not found[2]):
        return ""
    return cast(Failure, found[1])


def _object(body: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Refused("We could not parse the JSON body of your request.") from None
    if not isinstance(fields, dict):
        raise Refused("The body of your request must be a JSON object.")
    return fields


def _messages(given: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(given, list) or not given:
        raise Refused("'messages' must be an array with at least one message.", "messages")
    for index, message in enumerate(given):
        at = f"messages[{index}]"
        if not isinstance(message, dict):
            raise Refused("A message must be an object.", at)
        if str(message.get("role")) not in ROLES:
            raise Refused(f"A role must be one of {', '.join(sorted(ROLES))}.", f"{at}.role")
        content = message.get("content")
        if not isinstance(content, str | list | None):
            raise Refused("A content must be a string, an array of parts or null.", f"{at}.content")
        if isinstance(content, list) and not all(
            isinstance(p, dict) and isinstance(p.get("type"), str) for p in content
        ):
            raise Refused("Each part of a content must be an object with a type.", f"{at}.content")
    return tuple(given)


def _tools(fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    functions = []
    for index, tool in enumerate(_of_type(fields, "tools", list) or ()):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise Refused("A tool must hold a function with a name.", f"tools[{index}]")
        functions.append(function)
    return tuple(functions)


def _of_type(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if value is not None and not isinstance(value, kind):
        raise Refused(f"'{name}' is of the wrong type.", name)
    return value


def _count(fields: Mapping[str, Any], name: str, most: int = 1_000_000) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise Refused(f"'{name}' must be a whole number from 1 to {most}.", name)
    return value


def _last_user(messages: tuple[Mapping[str, Any], ...]) -> Mapping[str, Any]:
    return next((message for message in reversed(messages) if message["role"] == "user"), {})


def _last_user_text(messages: tuple[Mapping[str, Any], ...]) -> str:
    return text_of(_last_user(messages))
