"""An HTTP client that hides nothing: raw bytes, when they came, what is wrong with the framing; and that can vanish.

Every request has a connection of its own and asks for its end, so an answer is all that comes until the end of the
connection. `Exchange` reads at the caller's pace; `send` reads everything.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

READ_BYTES = 65536
LINE_END = re.compile(r"\r\n|\r|\n")


class Framing(Exception):
    """The answer is not HTTP, or not all of it came."""


@dataclass(slots=True)
class Event:
    """One server-sent event: its fields in order, comments under the name `""`."""

    fields: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str | None:
        """The data lines together; None for an event without any."""
        lines = [value for name, value in self.fields if name == "data"]
        return "\n".join(lines) if lines else None


@dataclass(slots=True)
class Answer:
    """All that came back."""

    raw: bytes
    arrivals: list[tuple[float, bytes]]
    started_at: float
    ended_at: float
    status: int = 0
    """0: nothing that looks like HTTP."""

    pairs: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    """Without its chunk framing."""

    problem: str | None = None
    """What is wrong with the framing; a cut answer for instance."""

    @property
    def took_s(self) -> float:
        """From the request to the end of the answer."""
        return self.ended_at - self.started_at

    @property
    def headers(self) -> dict[str, str]:
        """By their names in lower case."""
        return {name.lower(): value for name, value in self.pairs}

    @property
    def request_id(self) -> str:
        """The id that Hermes gave the request."""
        return self.headers["x-request-id"]

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """The error object of the body."""
        return self.json["error"]

    @property
    def is_stream(self) -> bool:
        """Whether it is an event stream."""
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def events(self) -> list[Event]:
        """The events of a stream, as the WHATWG's grammar reads them."""
        return read_events(self.body)

    @property
    def chunks(self) -> list[Any]:
        """The JSON of every event but `[DONE]`."""
        return [json.loads(e.text) for e in self.events if e.text is not None and e.text != "[DONE]"]

    @property
    def text(self) -> str:
        """What the model said."""
        if not self.is_stream:
            return str(self.json["choices"][0]["message"]["content"])
        return "".join(c["delta"].get("content") or "" for chunk in self.chunks for c in chunk.get("choices", []))

    @property
    def done_count(self) -> int:
        """How often `[DONE]` was said."""
        return sum(event.text == "[DONE]" for event in self.events)

    def arrived_at(self, token: bytes) -> float:
        """When the last byte of the first occurrence of `token` came."""
        end, seen = self.raw.index(token) + len(token), 0
        for moment, piece in self.arrivals:
            seen += len(piece)
            if seen >= end:
                return moment
        raise AssertionError("arrivals and raw bytes differ")


class Exchange:
    """One request on its own connection."""

    def __init__(
        self,
        port: int,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float = 15.0,
    ) -> None:
        self.raw = b""
        self._arrivals: list[tuple[float, bytes]] = []
        self._until = time.monotonic() + timeout_s
        self.started_at = time.monotonic()
        self._sock = socket.create_connection(("127.0.0.1", port), timeout_s)
        lines = {"Host": f"127.0.0.1:{port}", "Connection": "close", **(headers or {})}
        if body is not None:
            lines.setdefault("Content-Length", str(len(body)))
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        with contextlib.suppress(ConnectionError):  # a refusal may come before the body has been taken
            self._sock.sendall(head.encode() + b"\r\n" + (body or b""))

    def __enter__(self) -> Exchange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sock.close()

    def read_until(self, token: bytes) -> None:
        """Reads until these bytes have come."""
        while token not in self.raw:
            if not self._read():
                raise AssertionError(f"{token!r} never came, only {self.raw[-500:]!r}")

    def read_all(self) -> Answer:
        """Reads to the end of the connection."""
        with self, contextlib.suppress(ConnectionError):
            while self._read():
                pass
        answer = Answer(self.raw, self._arrivals, self.started_at, time.monotonic())
        try:
            _parse(answer)
        except Framing as problem:
            answer.problem = str(problem)
        return answer

    def drain(self) -> None:
        """Reads and forgets until the connection ends, by either side."""
        with contextlib.suppress(OSError):
            while self._sock.recv(READ_BYTES):
                pass

    def send_more(self, data: bytes) -> None:
        """Sends further bytes of the request."""
        self._sock.sendall(data)

    def vanish(self, how: Literal["fin", "rst"] = "fin") -> float:
        """Leaves without a word; when."""
        if how == "rst":
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            self._sock.setblocking(False)  # what lies unread would turn the FIN into a reset
            with contextlib.suppress(OSError):
                while self._sock.recv(READ_BYTES):
                    pass
        self._sock.close()
        return time.monotonic()

    def _read(self) -> bool:
        self._sock.settimeout(max(0.01, self._until - time.monotonic()))
        piece = self._sock.recv(READ_BYTES)
        if piece:
            self._arrivals.append((time.monotonic(), piece))
            self.raw += piece
        return bool(piece)


def send(
    port: int,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout_s: float = 15.0,
) -> Answer:
    """Any request, read to its end. Raises TimeoutError where that does not come in time."""
    with Exchange(port, method, path, headers, body, timeout_s) as exchange:
        return exchange.read_all()


def read_events(body: bytes) -> list[Event]:
    """The events of a stream; one that no blank line ends is none."""
    events, current = [], Event()
    lines = LINE_END.split(body.decode("utf-8"))
    for line in lines[:-1]:  # what follows the last line end is no line
        if line:
            name, _, value = line.partition(":")
            current.fields.append((name, value.removeprefix(" ")))
        elif current.fields:
            events.append(current)
            current = Event()
    return events


def _parse(answer: Answer) -> None:
    head, found, rest = answer.raw.partition(b"\r\n\r\n")
    if not found:
        raise Framing("no head" if head else "nothing came")
    first, *lines = head.decode("latin-1").split("\r\n")
    answer.status = int(first.split(" ")[1])
    answer.pairs = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    if answer.headers.get("transfer-encoding") == "chunked":
        _dechunk(answer, rest)
        return
    answer.body = rest
    length = answer.headers.get("content-length")
    if length is not None and int(length) != len(rest):
        raise Framing(f"{len(rest)} bytes of {length}")


def _dechunk(answer: Answer, rest: bytes) -> None:
    while True:
        size, found, after = rest.partition(b"\r\n")
        if not found or not re.fullmatch(rb"[0-9a-fA-F]+", size):
            raise Framing(f"no chunk at {rest[:40]!r}")
        number = int(size, 16)
        if number == 0:
            if after != b"\r\n":
                raise Framing(f"after the last chunk: {after[:40]!r}")
            return
        answer.body += after[:number]
        if after[number : number + 2] != b"\r\n":
            raise Framing("a cut chunk")
        rest = after[number + 2 :]
