"""Drives clients/hermes_client.py as driver.mjs drives the other one; its first argument is the client's folder."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, sys.argv[1])

from hermes_client import Answer, Fallback, HermesClient, HermesError, Request

CLIENTS: dict[str, HermesClient] = {}


def snake(value: Any) -> Any:
    """`{"maxTokens": 5}` as `{"max_tokens": 5}`."""
    return {re.sub("([A-Z])", r"_\1", name).lower(): item for name, item in value.items()}


class Caller:
    """An application with a provider of its own; remembers what it asked and was told."""

    def __init__(self, kind: str) -> None:
        self.asked: list[dict[str, Any]] = []
        self.fallbacks: list[dict[str, Any]] = []
        self.direct = {
            "none": {},
            "whole": {"call_provider_direct": self.whole},
            "stream": {"call_provider_direct": self.whole, "stream_provider_direct": self.stream},
        }[kind]

    def whole(self, request: Request) -> Answer:
        self.asked.append({"model": request.model, "role": request.role, "messages": request.messages})
        return Answer("directly", request.model)

    def stream(self, request: Request) -> Iterator[Answer]:
        answer = self.whole(request)
        yield from (Answer(text, answer.model) for text in ("di", "rect"))

    def note(self, fallback: Fallback) -> None:
        reason = "failed" if fallback.error else "off"
        message = str(fallback.error) if fallback.error else None
        self.fallbacks.append({"reason": reason, "message": message, "model": fallback.request.model})


def client(options: dict[str, Any], caller: Caller) -> HermesClient:
    """One with these options; the pins are kept from one to the next, as one client of an application would."""
    given = snake(options)
    if "deadline_ms" in given:
        given["deadline_s"] = given.pop("deadline_ms") / 1000
    name = f"{given.get('url')} {given.get('service_key')}" if given.get("url") else repr(os.environ)
    kept = {"_pins": CLIENTS[name]._pins} if name in CLIENTS else {}
    CLIENTS[name] = HermesClient(**given, **caller.direct, on_fallback=caller.note, **kept)
    return CLIENTS[name]


def shown(answer: Answer) -> dict[str, Any]:
    calls = {"toolCalls": answer.tool_calls} if answer.tool_calls else {}
    return {"content": answer.content, "model": answer.model, **calls}


def act(asked: dict[str, Any], made: HermesClient, got: dict[str, Any]) -> None:
    request = snake(asked["request"])
    request["meta"] = snake(request["meta"])
    if asked["what"] == "call":
        got["answer"] = shown(made.call_ai(**request))
        return
    got["pieces"] = []
    pieces = made.stream_ai(**request)
    for piece in pieces:
        got["pieces"].append(shown(piece))
        if len(got["pieces"]) == asked.get("most"):
            break
    pieces.close()  # type: ignore[attr-defined]


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    caller = Caller(asked["direct"])
    got: dict[str, Any] = {}
    os.environ.update(asked.get("env", {}))
    began = time.monotonic()
    try:
        act(asked, client(asked["options"], caller), got)
    except HermesError as error:
        name = {"HermesError": "AIError", "StreamBroken": "AIStreamBroken"}[type(error).__name__]
        received = getattr(error, "received", None)
        got["raised"] = {
            "name": name, "message": str(error), "status": error.status, "code": error.code, "received": received
        }  # fmt: skip
    for variable in asked.get("env", {}):
        del os.environ[variable]
    return {**got, "direct": caller.asked, "fallbacks": caller.fallbacks, "tookS": time.monotonic() - began}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
