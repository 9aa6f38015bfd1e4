"""Calls an LLM through Hermes, and the provider itself when Hermes cannot be had.

    from hermes_client import HermesClient

    client = HermesClient(call_provider_direct=ask_the_provider)      # yours: takes a Request, gives an Answer
    answer = client.call_ai(
        messages=[{"role": "user", "content": "Summarise this ticket: …"}],
        meta={"function_name": "summarise-ticket", "user_id": "alice"},
    )
    answer.content, answer.model

One file for Python 3.9 or newer, without any dependency; one client may serve many threads. The environment says where
Hermes is:

    HERMES_URL            https://hermes.example.com, or the same with /api
    HERMES_SERVICE_KEY    a key of the scope `gateway`
    AI_GATEWAY_ENABLED    "false" bypasses Hermes at once (default: "true")

What it promises:

* One deadline of 45 s for Hermes's answer, or for the first token of its stream. (Only the look-up of a host's name
  cannot be interrupted.)
* Any failure before that (network, status, body, a stream without a token) ends in `call_provider_direct` with the
  model that is pinned in Hermes for the role. Only a refusal for the data's residency is never sent to a provider
  behind Hermes's back: see `final_codes`.
* After the first token nothing begins anew: a stream that breaks is told as `StreamBroken`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any
from urllib.parse import SplitResult, urlsplit

log = logging.getLogger("hermes_client")

DEADLINE_S = 45.0
PINS_DEADLINE_S = 2.0
PINS_FRESH_S = 30.0
PINS_RETRY_S = 5.0
FINAL_CODES = frozenset({"residency_blocked"})
INTERRUPTED = ": hermes stream interrupted"


class HermesError(Exception):
    """A call that has failed; `status` and `code` are those of Hermes's answer, if there was one."""

    def __init__(self, message: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class StreamBroken(HermesError):
    """A stream that broke after its first token; `received` is the text that had come."""

    def __init__(self, received: str, cause: HermesError) -> None:
        super().__init__(f"The stream broke off: {cause}", code=cause.code)
        self.received = received


@dataclass(frozen=True)
class Request:
    """What is asked. `model` is set for a direct call: the model that is pinned for the role."""

    messages: Sequence[Mapping[str, Any]]
    meta: Mapping[str, str]
    """`function_name`, and where known `use_case` and `user_id`."""

    role: str = "chat"
    response_format: str | Mapping[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    tool_choice: Any = None
    context_hint: str | None = None
    model: str = ""

    def body(self) -> dict[str, Any]:
        """The request as the gateway's contract has it."""
        names = ("role", "response_format", "temperature", "max_tokens", "tools", "tool_choice", "context_hint")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return {"messages": self.messages, "metadata": dict(self.meta), **given}


@dataclass(frozen=True)
class Answer:
    """An answer, or a piece of one."""

    content: str
    model: str
    tool_calls: Sequence[Mapping[str, Any]] = ()
    """OpenAI's tool calls, where the model made some; in a stream the pieces of them."""


@dataclass(frozen=True)
class Fallback:
    """A call that does not go through Hermes; `error` is None where Hermes is switched off."""

    request: Request
    error: HermesError | None


Direct = Callable[[Request], Answer]
DirectStream = Callable[[Request], Iterator[Answer]]


def _warn(fallback: Fallback) -> None:
    name, model = fallback.request.meta.get("function_name", ""), fallback.request.model
    log.warning(
        "%s: %s; the provider is asked directly for %s", name, fallback.error or "Hermes is switched off", model
    )


@dataclass(frozen=True)
class HermesClient:
    """Makes calls; every field may stay as it is, but without `call_provider_direct` a failure is raised."""

    call_provider_direct: Direct | None = None
    """Asks the provider itself."""

    stream_provider_direct: DirectStream | None = None
    """The same for `stream_ai`; without it the whole answer of `call_provider_direct` is one piece."""

    get_model: Callable[[str], str] | None = None
    """The model that is pinned for a role; without it that of Hermes's `/v1/pins`, whose last answer is kept."""

    is_enabled: Callable[[], bool] | None = None
    """Whether Hermes may be used; without it `ai.gateway.enabled` of `/v1/pins`."""

    models: Mapping[str, str] = field(default_factory=dict)
    """Models by role for a process that has never reached `/v1/pins`."""

    final_codes: Collection[str] = FINAL_CODES
    """Refusals of Hermes that are raised instead of going round it."""

    on_fallback: Callable[[Fallback], None] = _warn
    url: str | None = None
    """Stands in for HERMES_URL, as the next two do for their variables."""

    service_key: str | None = field(default=None, repr=False)
    enabled: bool | None = None
    deadline_s: float = DEADLINE_S
    _pins: _Pins = field(default_factory=lambda: _Pins(), repr=False)

    def call_ai(self, messages: Sequence[Mapping[str, Any]], meta: Mapping[str, str], **options: Any) -> Answer:
        """One answer; `options` are the other fields of `Request`.

        Raises:
            HermesError: neither Hermes nor the provider can be asked, or Hermes refuses for good.
            Exception: whatever `call_provider_direct` raises.
        """
        request, failed = Request(messages, meta, **options), None
        if not self._is_off():
            try:
                return self._through_hermes(request)
            except HermesError as error:
                failed = self._unless_final(error)
        return self._direct(request, failed)

    def stream_ai(
        self, messages: Sequence[Mapping[str, Any]], meta: Mapping[str, str], **options: Any
    ) -> Iterator[Answer]:
        """The same answer piece by piece.

        Raises:
            StreamBroken: the stream breaks after its first token.
            HermesError: as `call_ai` does, before the first token.
        """
        request, failed, received, has_begun = Request(messages, meta, **options), None, "", False
        if not self._is_off():
            try:
                for piece in self._pieces(request):
                    has_begun, received = True, received + piece.content
                    yield piece
                return
            except HermesError as error:
                if has_begun:
                    raise StreamBroken(received, error) from error
                failed = self._unless_final(error)
        if self.stream_provider_direct is None:
            yield self._direct(request, failed)
        else:
            yield from self.stream_provider_direct(self._direct_request(request, failed))

    # Whether, and how without

    def _is_off(self) -> bool:
        if self._is_off_here():
            return True
        if self.is_enabled is not None:
            return not self.is_enabled()
        return not self._pins.renewed(self._server()).is_enabled

    def _is_off_here(self) -> bool:
        if self.enabled is not None:
            return not self.enabled
        return os.environ.get("AI_GATEWAY_ENABLED", "").strip().lower() in ("false", "0", "off", "no")

    def _unless_final(self, error: HermesError) -> HermesError:
        if error.code in self.final_codes:
            raise error
        return error

    def _direct(self, request: Request, failed: HermesError | None) -> Answer:
        if self.call_provider_direct is None:
            raise failed or HermesError("Hermes is switched off, and there is no call_provider_direct")
        return self.call_provider_direct(self._direct_request(request, failed))

    def _direct_request(self, request: Request, failed: HermesError | None) -> Request:
        known = replace(request, model=self._model(request.role))
        self.on_fallback(Fallback(known, failed))
        return known

    def _model(self, role: str) -> str:
        """The pinned model: what is in force now, else what was, else what is written in the program."""
        if self.get_model is not None:
            return self.get_model(role)
        written = self.models.get(role, "")
        # Switched off here, Hermes is not even asked for its pins.
        pins = self._pins.latest if self._is_off_here() and written else self._pins.renewed(self._server())
        model = pins.models.get(role, written)
        if not model:
            raise HermesError(f"No model is known for the role {role}: give get_model or models")
        return model

    # Through Hermes

    def _server(self) -> _Server:
        url = (self.url or os.environ.get("HERMES_URL", "")).strip().rstrip("/")
        key = (self.service_key or os.environ.get("HERMES_SERVICE_KEY", "")).strip()
        return _Server(url[: -len("/v1")] if url.endswith("/v1") else url, key)

    def _through_hermes(self, request: Request) -> Answer:
        with _Exchange(self._server(), self.deadline_s) as exchange:
            response = exchange.post("/v1/completions", request.body())
            body = _parsed(exchange.read(response))
        message = _at(body, "choices", 0, "message")
        content, tool_calls = _at(message, "content"), _at(message, "tool_calls") or ()
        if not isinstance(content, str) and not tool_calls:
            raise HermesError("Hermes's answer has no content")
        served = response.headers.get("x-hermes-model", "")
        return Answer(content if isinstance(content, str) else "", _at(body, "model") or served, tool_calls)

    def _pieces(self, request: Request) -> Iterator[Answer]:
        """The pieces of Hermes's stream. Between two of them there may be as much time as before the first."""
        with _Exchange(self._server(), self.deadline_s) as exchange:
            response = exchange.post("/v1/completions/stream", request.body())
            served, is_whole = response.headers.get("x-hermes-model", ""), False
            for line in exchange.lines(response):
                if line.startswith(INTERRUPTED):
                    raise HermesError("the provider broke off", code="upstream_error")
                data = line[len("data:") :].strip() if line.startswith("data:") else ""
                if data == "[DONE]":
                    return
                if not data:
                    continue
                event = _Event(_parsed(data.encode()), served)
                is_whole = is_whole or event.is_last
                if event.is_alive:
                    exchange.restart()
                if event.piece is not None:
                    yield event.piece
            if not is_whole:
                raise HermesError("Hermes's stream ended too early")


class _Event:
    """What one event of a stream says."""

    def __init__(self, body: Any, served: str) -> None:
        error = _at(body, "error")
        if error:
            raise HermesError(str(_at(error, "message") or "an error event"), code=_at(error, "code"))
        choice = _at(body, "choices", 0)
        delta = _at(choice, "delta")
        content, tool_calls = _at(delta, "content"), _at(delta, "tool_calls") or ()
        said = content if isinstance(content, str) else ""
        self.piece = Answer(said, _at(body, "model") or served, tool_calls) if said or tool_calls else None
        self.is_alive = bool(self.piece or _at(delta, "reasoning_content") or _at(delta, "reasoning"))
        self.is_last = bool(_at(choice, "finish_reason"))


# -- pins -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Known:
    models: Mapping[str, str] = field(default_factory=dict)
    is_enabled: bool = True


class _Pins:
    """What `/v1/pins` said last. One thread asks at a time, and a failure leaves what was."""

    def __init__(self) -> None:
        self.latest = _Known()
        self._next_at = -1.0
        self._lock = threading.Lock()

    def renewed(self, server: _Server) -> _Known:
        """Asks where they are old."""
        with self._lock:
            if server.url and server.key and time.monotonic() >= self._next_at:
                try:
                    self.latest = self._asked(server)
                    self._next_at = time.monotonic() + PINS_FRESH_S
                except HermesError:
                    self._next_at = time.monotonic() + PINS_RETRY_S
            return self.latest

    @staticmethod
    def _asked(server: _Server) -> _Known:
        with _Exchange(server, PINS_DEADLINE_S) as exchange:
            pins = _parsed(exchange.read(exchange.get("/v1/pins")))
        if not isinstance(pins, dict):
            raise HermesError("Hermes's pins are none")
        models = {name[len("model.") :]: model for name, model in pins.items() if name.startswith("model.")}
        return _Known(models, pins.get("ai.gateway.enabled") is not False)


# -- HTTP -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Server:
    url: str
    key: str = field(repr=False)


class _Exchange:
    """One request on a connection of its own; a thread beside it cuts the connection when its time is up.

    A socket's own timeout would not do: it counts from each byte anew, so that an answer that drips would never end.
    """

    def __init__(self, server: _Server, limit_s: float) -> None:
        if not server.url or not server.key:
            raise HermesError("HERMES_URL and HERMES_SERVICE_KEY are not both set")
        self._server = server
        self._limit_s = limit_s
        self._until = time.monotonic() + limit_s
        self._is_cut = False
        self._ended = threading.Event()
        self._socket: socket.socket | None = None
        where = urlsplit(server.url)
        self._path = where.path
        self._connection = _connection(where, limit_s)

    def __enter__(self) -> _Exchange:
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._shut()
        self._connection.close()
        if isinstance(error, (OSError, http.client.HTTPException, ValueError)) or (error and self._is_cut):
            late = f"nothing came for {self._limit_s:g} s"
            raise HermesError(late if self._is_cut else f"Hermes cannot be reached: {error!r}") from error

    def restart(self) -> None:
        """Counts the time anew."""
        self._until = time.monotonic() + self._limit_s

    def post(self, path: str, body: Mapping[str, Any]) -> http.client.HTTPResponse:
        """The answer's head, if it is a success."""
        return self._send("POST", path, json.dumps(body).encode())

    def get(self, path: str) -> http.client.HTTPResponse:
        """The answer's head, if it is a success."""
        return self._send("GET", path, None)

    def _send(self, method: str, path: str, body: bytes | None) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {self._server.key}", "Content-Type": "application/json"}
        self._connection.request(method, self._path + path, body, {**headers, "Connection": "close"})
        # The response takes the socket with it: the watcher must still find it.
        self._socket = self._connection.sock
        response = self._connection.getresponse()
        if not 200 <= response.status < 300:
            raise _refusal(response.status, self.read(response))
        return response

    def read(self, response: http.client.HTTPResponse) -> bytes:
        """The whole body; one that was cut is none."""
        body = response.read()
        if self._is_cut:
            raise HermesError(f"nothing came for {self._limit_s:g} s")
        return body

    def lines(self, response: http.client.HTTPResponse) -> Iterator[str]:
        """The body's lines, each as soon as it is there."""
        while line := response.readline():
            yield line.decode("utf-8", "replace").rstrip("\r\n")
        if self._is_cut:
            raise HermesError(f"nothing came for {self._limit_s:g} s")

    def _watch(self) -> None:
        while not self._ended.wait(max(0.0, self._until - time.monotonic())):
            if time.monotonic() >= self._until:
                self._is_cut = True
                self._shut()
                return

    def _shut(self) -> None:
        sock = self._socket or self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                # Not the method of an SSLSocket: that would let the reading thread read what is encrypted.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _connection(where: SplitResult, limit_s: float) -> http.client.HTTPConnection:
    try:
        if where.scheme == "https":
            return http.client.HTTPSConnection(where.netloc, timeout=limit_s)
        if where.scheme == "http":
            return http.client.HTTPConnection(where.netloc, timeout=limit_s)
    except http.client.InvalidURL as error:
        raise HermesError(f"HERMES_URL is no address: {error}") from None
    raise HermesError("HERMES_URL is no address: it begins with neither https:// nor http://")


def _refusal(status: int, body: bytes) -> HermesError:
    try:
        error = _at(json.loads(body), "error")
    except ValueError:
        error = None  # a page of some proxy
    message = _at(error, "message") or "no reason given"
    return HermesError(f"Hermes answered {status}: {message}", status, _at(error, "code") or _at(error, "type"))


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise HermesError("Hermes's answer is no JSON") from None


def _at(value: Any, *path: str | int) -> Any:
    """The value at a path, None where the path leads nowhere."""
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and len(value) > step else None
    return value
