"""A worker that has as many requests as it can do refuses the others, over and over; nothing else suffers from it."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .client import Exchange
from .gateway import CHAT, eventually
from .replies import chat, endless_stream
from .world import World

ONE_AT_ONCE = """
from hermes.admission.crowd import Crowd

Crowd.__init__.__kwdefaults__["most"] = 1
"""
"""Loaded by Python itself at the start of the server: a second request is a crowd."""

TURNED_AWAY = "hermes_turned_away_total"
PAGE = "https://page.example"
HEALTH = b"GET /health HTTP/1.1\r\nHost: hermes\r\n\r\n"
HI = b'{"messages":[{"role":"user","content":"hi"}],"model":"simple"}'
LIMIT_S = 15.0


class Line:
    """A connection on which bytes are sent as they are, and answers are read one by one."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        self._reader = self.sock.makefile("rb")

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self.sock.close()

    def read(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer; the status is 0 where the connection has ended."""
        first = self._reader.readline()
        if not first:
            return 0, {}, b""
        headers: dict[str, str] = {}
        while (line := self._reader.readline()) != b"\r\n":
            name, _, value = line.decode("latin-1").partition(":")
            assert name.lower() not in headers, f"{name} twice"
            headers[name.lower()] = value.strip()
        length = int(headers.get("content-length", "0")) if has_body else 0
        return int(first.split()[1]), headers, self._reader.read(length)

    def ask(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        """The answer to one request."""
        self.sock.sendall(data)
        return self.read()


def post(body: bytes = HI, path: str = CHAT, *further: str, length: bool = True, version: str = "HTTP/1.1") -> bytes:
    """A request as most clients send it."""
    lines = [f"POST {path} {version}", "Host: hermes", "Content-Type: application/json", *further]
    lines += [f"Content-Length: {len(body)}"] if length else []
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A gateway that serves one request at once, and is serving it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(ONE_AT_ONCE, encoding="ascii")
    root = Path(__file__).resolve().parent.parent.parent
    world = World(env={"PYTHONPATH": f"{folder}:{root}", "CORS_ORIGINS": PAGE})
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=60)])
    yield world
    logs = world.gateway.logs()
    world.close()
    assert "Traceback" not in logs, logs[logs.index("Traceback") - 500 :][:5000]


@pytest.fixture
def held(crowded: World) -> Iterator[Exchange]:
    """The stream that is all it can do."""
    eventually(lambda: metric(crowded, "hermes_requests_in_flight"), lambda number: number == 0)
    crowded.primary.script(endless_stream("word"))
    with crowded.gateway.open_chat(stream=True) as stream:
        stream.read_until(b"word")
        yield stream


def metric(world: World, name: str) -> float:
    """What the metrics say."""
    text = world.gateway.admin("GET", "/metrics").body.decode()
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert found, name
    return float(found.group(1))


def told(answer: tuple[int, dict[str, str], bytes]) -> tuple[Any, ...]:
    """An answer without what differs from one to the next."""
    status, headers, body = answer
    differing = ("date", "retry-after", "x-request-id")
    same = {name: value for name, value in headers.items() if name not in differing}
    return status, same, body.replace(headers["x-request-id"].encode(), b"ID")


def test_the_same_connection_is_refused_until_there_is_room(crowded: World, held: Exchange) -> None:
    before = metric(crowded, TURNED_AWAY)
    with Line(crowded.gateway.port) as line:
        refused = [line.ask(post()) for _ in range(30)]

        assert {status for status, _, _ in refused} == {503}
        assert {int(headers["retry-after"]) for _, headers, _ in refused} <= {1, 2, 3, 4}
        assert len({headers["x-request-id"] for _, headers, _ in refused}) == 30
        assert all(headers["x-request-id"].encode() in body for _, headers, body in refused)
        assert all(b'"code":"overloaded"' in body for _, _, body in refused)
        assert eventually(lambda: metric(crowded, TURNED_AWAY) - before, lambda more: more >= 30) == 30

        held.vanish()
        eventually(lambda: metric(crowded, "hermes_requests_in_flight"), lambda number: number == 0)
        crowded.primary.script(chat("there is room"))

        status, _, body = line.ask(post())
        assert status == 200
        assert b"there is room" in body
    assert "were told to come again" in crowded.gateway.logs()


@pytest.mark.parametrize("origin", [None, PAGE, "https://other.example"])
@pytest.mark.parametrize("path", [CHAT, f"/api{CHAT}", "/v1/completions", "/v1/completions/stream", "/v1/embeddings"])
def test_what_is_refused_from_its_bytes_is_told_what_all_others_are_told(
    crowded: World, held: Exchange, path: str, origin: str | None
) -> None:
    """A header that is there twice is for gunicorn and the hot routes."""
    page = [f"Origin: {origin}"] if origin else []
    with Line(crowded.gateway.port) as line:
        plain = line.ask(post(HI, path, *page))
        other = line.ask(post(HI, path, *page, "Via: a", "Via: b"))

    assert told(plain) == told(other)
    assert plain[0] == 503
    assert plain[1].get("access-control-allow-origin") == (origin if origin == PAGE else None)


CHUNKED = b"5\r\nGET /\r\n0\r\n\r\n"
SENT = [
    pytest.param([post()], [503], id="plain"),
    pytest.param([post(b"")], [503], id="an empty body"),
    pytest.param([post(HEALTH)], [503], id="a body that looks like a request"),
    pytest.param([post(b"x" * 9000)], [503], id="a body longer than what is read at once"),
    pytest.param([post(b"x" * 300_000)], [503], id="a long body"),
    pytest.param([post(), post()], [503, 503], id="two"),
    pytest.param([post() + post()], [503, 503], id="two at once"),
    pytest.param([post()[:30], post()[30:]], [503], id="a head in two pieces"),
    pytest.param([post()[:-10], post()[-10:]], [503], id="a body in two pieces"),
    pytest.param([post(HI, CHAT, "Connection: keep-alive")], [503], id="kept alive by name"),
    pytest.param([post(CHUNKED, CHAT, "Transfer-Encoding: chunked", length=False)], [503], id="chunked"),
    pytest.param([b"\r\n" + post()], [503], id="an empty line before it"),
    pytest.param([f"HEAD {CHAT} HTTP/1.1\r\nHost: hermes\r\n\r\n".encode()], [405], id="HEAD"),
    pytest.param([f"GET {CHAT} HTTP/1.1\r\nHost: hermes\r\n\r\n".encode()], [405], id="GET"),
    pytest.param([post(HI, CHAT, "Content_Length: 3")], [503], id="a header with an underscore"),
]


@pytest.mark.parametrize(("pieces", "statuses"), SENT)
def test_the_next_request_is_found_where_it_begins(
    crowded: World, held: Exchange, pieces: list[bytes], statuses: list[int]
) -> None:
    with Line(crowded.gateway.port) as line:
        line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            line.sock.sendall(piece)
            crowded.gateway.request("GET", "/health")  # the piece before is read by now
        line.sock.sendall(HEALTH)

        seen = [line.read(has_body=not pieces[0].startswith(b"HEAD"))[0] for _ in statuses]
        assert seen == statuses
        assert line.read()[0] == 200


ENDS = [
    pytest.param(post(HI, CHAT, "Connection: close"), 503, id="as it says"),
    pytest.param(post(version="HTTP/1.0"), 503, id="HTTP/1.0"),
    pytest.param(post(HI, CHAT, "Transfer-Encoding: chunked"), 400, id="two lengths"),
    pytest.param(post(HI, CHAT, "Content-Length: 5"), 400, id="another length"),
    pytest.param(post().replace(b"Host: hermes", b"Host : hermes"), 400, id="no HTTP"),
]


@pytest.mark.parametrize(("sent", "status"), ENDS)
def test_the_connection_ends_where_it_must(crowded: World, held: Exchange, sent: bytes, status: int) -> None:
    with Line(crowded.gateway.port) as line:
        assert line.ask(sent)[0] == status
        assert line.read()[0] == 0


def test_who_waits_to_be_asked_for_the_body_is_asked(crowded: World, held: Exchange) -> None:
    with Line(crowded.gateway.port) as line:
        expecting = post(b"", CHAT, "Expect: 100-continue", f"Content-Length: {len(HI)}", length=False)
        assert line.ask(expecting)[0] == 100

        line.sock.sendall(HI + HEALTH)
        assert [line.read()[0] for _ in range(2)] == [503, 200]


def test_without_a_host_it_is_no_request_also_in_a_crowd(crowded: World, held: Exchange) -> None:
    with Line(crowded.gateway.port) as line:
        assert line.ask(post().replace(b"Host: hermes\r\n", b""))[0] == 400


def test_operators_are_never_refused_and_exports_are_put_off(crowded: World, held: Exchange) -> None:
    with Line(crowded.gateway.port) as line:
        assert line.ask(post())[0] == 503
        assert line.ask(HEALTH)[0] == 200
    gateway = crowded.gateway

    assert gateway.request("GET", "/dashboard/sign-in").status == 200
    assert gateway.admin("GET", "/metrics").status == 200
    assert gateway.admin("GET", "/admin/usage").status == 200
    assert gateway.admin("GET", "/admin/usage.csv").error["code"] == "overloaded"
