"""HTTP in, JSON or events out: the demo provider as a WSGI application.

A word in the last user message, or the header `X-Demo`, makes the primary models (those without `-b`) fail; with
`:all` behind it, every model that answers.

    demo:429        429                             demo:break    the answer is cut after its beginning
    demo:429-retry  429 with Retry-After            demo:slow     the first token after two seconds, the rest slowly
    demo:500        500                             demo:hang     no answer
    demo:503        503                             demo:garbage  200 with something that is no answer
"""

from __future__ import annotations

import errno
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import gevent
import orjson

from hermes.demo.answers import Answer, answer, fragments
from hermes.demo.request import MODELS, DemoRequest, Refused, parse

MOST_BYTES: Final = 64 * 1024 * 1024
TOKEN_PAUSE_S: Final = 0.01
SLOW_TOKEN_PAUSE_S: Final = 0.1
SLOW_START_S: Final = 2.0
HANG_S: Final = 120.0
RETRY_AFTER_S: Final = 2
EVENTS_BEFORE_BREAK: Final = 6

REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

StartResponse = Callable[[str, list[tuple[str, str]]], object]


class DemoProvider:
    """The WSGI application."""

    def __init__(
        self,
        sleep: Callable[[float], object] = gevent.sleep,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = lambda: secrets.token_hex(12),
    ) -> None:
        self._sleep = sleep
        self._clock = clock
        self._new_id = new_id

    def __call__(self, environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        try:
            return self._routed(environ, start_response)
        except Refused as refused:
            kind = "invalid_request_error" if refused.status < 500 else "server_error"
            error = {"message": refused.message, "type": kind, "param": refused.param, "code": refused.code}
            return _json(start_response, refused.status, {"error": error})

    def _routed(self, environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "").rstrip("/")
        wanted = {"/v1/chat/completions": "POST", "/v1/models": "GET"}.get(path)
        if wanted is None:
            raise Refused("There is nothing at this path.", status=404)
        if method != wanted:
            raise Refused(f"This path takes {wanted} only.", status=405)
        if method == "GET":
            return _json(start_response, 200, _models())
        request = parse(_body(environ), environ.get("HTTP_X_DEMO", "").strip())
        return self._failed(request, start_response) or self._answered(request, start_response)

    # -- failures on command ------------------------------------------------------------------------------

    def _failed(self, request: DemoRequest, start_response: StartResponse) -> Iterable[bytes] | None:
        """The failure that was asked for; None where there is an answer, be it slow or cut."""
        failure = request.failure
        if failure in ("429", "429-retry"):
            error = _error(f"Rate limit reached for {request.model}, as you asked.", "requests", "rate_limit_exceeded")
            more = [("Retry-After", str(RETRY_AFTER_S))] if failure == "429-retry" else []
            return _json(start_response, 429, error, more)
        if failure in ("500", "503"):
            word = "had an error" if failure == "500" else "is overloaded"
            return _json(start_response, int(failure), _error(f"{request.model} {word}, as you asked.", "server_error"))
        if failure == "garbage":
            start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "9")])
            return [b"not JSON\n"]
        if failure == "hang":
            self._sleep(HANG_S)
            raise _cut()
        return None

    # -- answers ------------------------------------------------------------------------------------------

    def _answered(self, request: DemoRequest, start_response: StartResponse) -> Iterable[bytes]:
        answers = [answer(request, choice) for choice in range(request.n)]
        head = {
            "id": f"chatcmpl-demo-{self._new_id()}",
            "created": int(self._clock()),
            "model": request.model,
            "system_fingerprint": "demo",
        }
        if request.stream:
            start_response("200 OK", [("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache")])
            return self._events(request, answers, {**head, "object": "chat.completion.chunk"})
        if request.failure == "slow":
            self._sleep(SLOW_START_S)
        choices = [_choice(index, one) for index, one in enumerate(answers)]
        whole = {**head, "object": "chat.completion", "choices": choices, "usage": _usage(request, answers)}
        body = _json(start_response, 200, whole)
        return _torn(body[0]) if request.failure == "break" else body

    def _events(self, request: DemoRequest, answers: list[Answer], head: dict[str, Any]) -> Iterator[bytes]:
        if request.include_usage:
            head = {**head, "usage": None}
        pause_s = TOKEN_PAUSE_S
        if request.failure == "slow":
            pause_s = SLOW_TOKEN_PAUSE_S
            self._sleep(SLOW_START_S)
        for index, one in enumerate(answers):
            for number, delta in enumerate(_deltas(one)):
                event = _event({**head, "choices": [_delta(index, delta)]})
                if request.failure == "break" and number == EVENTS_BEFORE_BREAK:
                    yield event[: len(event) // 2]
                    raise _cut()
                yield event
                self._sleep(pause_s)
            if request.failure == "break":
                raise _cut()
            yield _event({**head, "choices": [_delta(index, {}, one.finish_reason)]})
        if request.include_usage:
            yield _event({**head, "choices": [], "usage": _usage(request, answers)})
        yield b"data: [DONE]\n\n"


demo_app = DemoProvider()
"""The provider as it is served."""


def _deltas(one: Answer) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": None if one.calls else ""}
    for piece in one.pieces:
        yield {"content": piece}
    for index, (name, arguments) in enumerate(one.calls):
        function = {"name": name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": _call_id(index), "type": "function", "function": function}]}
        for fragment in fragments(arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}


def _delta(index: int, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _choice(index: int, one: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": one.text, "refusal": None}
    if one.calls:
        message["tool_calls"] = [
            {"id": _call_id(number), "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(one.calls)
        ]
    return {"index": index, "message": message, "logprobs": None, "finish_reason": one.finish_reason}


def _call_id(index: int) -> str:
    return f"call_demo_{index}"


def _usage(request: DemoRequest, answers: list[Answer]) -> dict[str, Any]:
    prompt, completion = request.prompt_tokens, sum(one.tokens for one in answers)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _models() -> dict[str, Any]:
    return {"object": "list", "data": [{"id": m, "object": "model", "created": 0, "owned_by": "demo"} for m in MODELS]}


def _body(environ: Mapping[str, Any]) -> bytes:
    length = environ.get("CONTENT_LENGTH") or ""
    wanted = min(int(length), MOST_BYTES + 1) if length.isdigit() else MOST_BYTES + 1
    body: bytes = environ["wsgi.input"].read(wanted)
    if len(body) > MOST_BYTES:
        raise Refused("The body of your request is too large.", status=413)
    return body


def _error(message: str, kind: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"


def _json(
    start_response: StartResponse, status: int, content: dict[str, Any], more: Iterable[tuple[str, str]] = ()
) -> list[bytes]:
    body = orjson.dumps(content)
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *more]
    start_response(f"{status} {REASONS[status]}", headers)
    return [body]


def _torn(body: bytes) -> Iterator[bytes]:
    yield body[: len(body) // 2]
    raise _cut()


def _cut() -> ConnectionResetError:
    """Makes the server close the connection without another word: to it this is a client that has hung up."""
    return ConnectionResetError(errno.ECONNRESET, "cut, as you asked")
