"""Answers that last: they end with the access of who has asked, and files that are written for operators hold up nobody
else. Who has signed out stays signed out, whatever becomes of workers and of Redis.
"""

from __future__ import annotations

import re
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from hermes.web.connections import UNREAD_S
from hermes.web.lasting import MOST_EXPORTS
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer

from .client import Answer
from .dashboard import SIGN_IN, signed_in
from .gateway import ADMIN_KEY, Gateway, eventually
from .manyrows import multiply_in_postgres, multiply_in_sqlite
from .world import EVERYWHERE_S, World

STREAM = "/dashboard/ui/traces/stream"
EXPORTS = ("/admin/usage.csv", "/dashboard/usage.csv")
PAGE = "/dashboard/circuits"
ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}"}
ROWS = 30_000
"""More than the system takes for somebody who does not read."""

AT_ONCE = 40
LEAST_BUFFER = 4096
READ_BYTES = 1 << 20
ENDS_WITHIN_S = 3.0
"""About a second is the promise; the rest is a busy machine's."""


@pytest.fixture(scope="module")
def busy_world() -> Iterator[World]:
    """A gateway with a long usage log."""
    world = World()
    world.gateway.row(world.gateway.chat())
    multiply_in_sqlite(world.gateway.folder / "hermes.db", ROWS)
    yield world
    logs = world.gateway.logs()
    world.close()
    assert "Traceback" not in logs, logs[logs.index("Traceback") - 500 :][:5000]


@pytest.fixture
def gateway(busy_world: World) -> Gateway:
    """The gateway, with no export under way."""
    free = eventually(lambda: open_status(busy_world.gateway), lambda status: status == 200, UNREAD_S + 15)
    assert free == 200
    return busy_world.gateway


def open_status(gateway: Gateway) -> int:
    return gateway.request("HEAD", EXPORTS[0], ADMIN).status


def sign_out(gateway: Gateway, session: dict[str, str]) -> Answer:
    page = gateway.request("GET", PAGE, session)
    token = re.findall(r'name="csrf" value="(\w+)"', page.body.decode())[0]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = gateway.request("POST", "/dashboard/sign-out", {**session, **form}, f"csrf={token}".encode())
    assert (answer.status, answer.headers["location"]) == (303, SIGN_IN)
    return answer


def new_key(gateway: Gateway) -> tuple[str, Callable[[], Answer]]:
    """An API key of an operator, and what revokes it."""
    made = gateway.admin("POST", "/admin/keys", {"name": "ops", "scopes": ["admin"]}).json
    time.sleep(EVERYWHERE_S)
    return made["key"], lambda: gateway.admin("DELETE", f"/admin/keys/{made['id']}")


# -- they end with the access of who has asked ------------------------------------------------------------


@pytest.mark.parametrize("how", ["signed out", "key revoked"])
def test_a_stream_of_traces_ends_with_its_session(gateway: Gateway, how: str) -> None:
    if how == "signed out":
        session = signed_in(gateway)
        ends: Callable[[], Answer] = lambda: sign_out(gateway, session)  # noqa: E731
    else:
        key, ends = new_key(gateway)
        session = signed_in(gateway, key)
    with gateway.open("GET", STREAM, session) as stream:
        stream.read_until(b": still here")

        ends()
        ended_at = time.monotonic()
        stream.drain()

        assert time.monotonic() - ended_at < ENDS_WITHIN_S


def test_what_happens_after_the_session_is_told_to_no_stream(gateway: Gateway) -> None:
    session = signed_in(gateway)
    stream = gateway.open("GET", STREAM, session)
    stream.read_until(b": still here")
    sign_out(gateway, session)
    secret = gateway.chat()

    told = stream.read_all()

    assert secret.request_id not in told.raw.decode()


@pytest.mark.parametrize("path", EXPORTS)
@pytest.mark.timeout(180)
def test_an_export_is_broken_off_when_its_key_is_revoked(gateway: Gateway, path: str) -> None:
    key, revoke = new_key(gateway)
    headers = {"Authorization": f"Bearer {key}"} if path.startswith("/admin") else signed_in(gateway, key)
    export = unread(gateway, path, headers)
    revoke()

    rest = read_rest(export)

    assert not rest.endswith(b"0\r\n\r\n")
    assert rest.count(b"\r\n") < ROWS
    said = f"The answer to {path} was broken off: Who asked for it has no access any more."
    assert said in eventually(gateway.logs, lambda logs: said in logs)


# -- who has signed out stays signed out ------------------------------------------------------------------


def test_a_copy_of_a_cookie_is_worth_nothing_after_the_worker_has_died() -> None:
    gateway = Gateway.start()
    try:
        signed_out, still_in = signed_in(gateway), signed_in(gateway)
        sign_out(gateway, signed_out)
        gateway.kill_workers()
        eventually(gateway.is_healthy, bool, 20)

        assert gateway.request("GET", PAGE, still_in).status == 200
        assert gateway.request("GET", PAGE, signed_out).status == 303
    finally:
        gateway.stop()


def test_a_sign_out_that_redis_was_not_told_of_is_known_to_every_worker() -> None:
    with RedisServer() as redis:
        gateway = Gateway.start(env={"HERMES_STATE_URL": redis.url, "WEB_CONCURRENCY": "2"})
        try:
            session = signed_in(gateway)
            redis.hang()
            sign_out(gateway, session)
            time.sleep(EVERYWHERE_S)

            while_away = statuses(gateway, session)
            redis.kill()
            redis.start()

            assert while_away == {303}
            assert eventually(lambda: statuses(gateway, session), lambda found: found != {303}) == {303}
        finally:
            gateway.stop()


def statuses(gateway: Gateway, session: dict[str, str]) -> set[int]:
    """What many at once are answered, so that every worker is asked."""
    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(gateway.request, "GET", PAGE, session) for _ in range(64)]
        return {one.result().status for one in asked}


def test_a_sign_out_while_the_database_is_locked_holds_and_is_stored_later() -> None:
    gateway = Gateway.start()
    try:
        session = signed_in(gateway)
        with closing(sqlite3.connect(gateway.folder / "hermes.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            sign_out(gateway, session)
            assert gateway.request("GET", PAGE, session).status == 303
            other.execute("ROLLBACK")
            stored = eventually(
                lambda: other.execute("SELECT count(*) FROM ended_sessions").fetchone()[0], lambda n: n == 1, 15
            )
        assert stored == 1
        assert gateway.request("GET", PAGE, session).status == 303
    finally:
        gateway.stop()


# -- exports hold up nobody else --------------------------------------------------------------------------


@pytest.mark.timeout(180)
def test_many_exports_at_once_are_whole_or_told_to_come_again_and_nobody_else_waits() -> None:
    with PostgresServer() as postgres:
        world = World(env={"HERMES_DATABASE_URL": postgres.url})
        gateway = world.gateway
        try:
            gateway.row(gateway.chat())
            multiply_in_postgres(postgres.url, 3000)

            with ThreadPoolExecutor(AT_ONCE) as pool:
                asked = [pool.submit(gateway.request, "GET", EXPORTS[0], ADMIN, None, 60.0) for _ in range(AT_ONCE)]
                keys = [gateway.admin("GET", "/admin/keys").status for _ in range(5)]
                chats = [gateway.chat().status for _ in range(5)]
                exports = [one.result() for one in asked]
            logs = gateway.logs()
        finally:
            world.close()

    found = Counter((answer.status, answer.problem) for answer in exports)
    assert found.keys() == {(200, None), (503, None)}
    assert found[200, None] >= MOST_EXPORTS
    assert {answer.headers.get("retry-after") for answer in exports if answer.status == 503} == {"10"}
    assert all(answer.body.count(b"\r\n") > 3000 for answer in exports if answer.status == 200)
    assert (keys, chats) == ([200] * 5, [200] * 5)
    assert "Max connections" not in logs
    assert "Traceback" not in logs


@pytest.mark.timeout(180)
def test_who_does_not_read_an_export_is_let_go(gateway: Gateway) -> None:
    session = signed_in(gateway)
    exports = [unread(gateway, EXPORTS[number % 2], session) for number in range(MOST_EXPORTS)]
    began = time.monotonic()
    refused = [gateway.request("GET", EXPORTS[0], ADMIN), gateway.request("GET", EXPORTS[1], session)]
    assert [answer.status for answer in refused] == [503, 503]
    assert all("exports are being written already" in answer.body.decode() for answer in refused)
    assert all(int(answer.headers["retry-after"]) >= 10 for answer in refused)

    said = f"nothing of it was taken for {UNREAD_S:.0f} s"
    let_go = eventually(lambda: gateway.logs().count(said), lambda number: number == MOST_EXPORTS, UNREAD_S + 30)

    assert let_go == MOST_EXPORTS
    assert time.monotonic() - began > UNREAD_S / 2
    assert open_status(gateway) == 200
    rest = [read_rest(export) for export in exports]
    assert all(b"0\r\n\r\n" not in raw[-5:] and raw.count(b"\r\n") < ROWS for raw in rest)


def test_asking_for_the_head_of_an_export_takes_no_place(gateway: Gateway) -> None:
    assert [open_status(gateway) for _ in range(MOST_EXPORTS + 1)] == [200] * (MOST_EXPORTS + 1)


def test_half_a_file_is_seen_to_be_half_where_only_the_connections_end_is_seen() -> None:
    """HTTP/1.0, as some proxies speak it, has no other end of an answer than that of the connection."""
    world = World()
    try:
        world.gateway.row(world.gateway.chat())
        file = world.gateway.folder / "hermes.db"
        multiply_in_sqlite(file, ROWS)
        export = unread(world.gateway, EXPORTS[0], ADMIN, "HTTP/1.0")
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("ALTER TABLE ai_usage_logs RENAME TO gone")

        with pytest.raises(ConnectionResetError):
            read_on(export)
        logs = world.gateway.logs()
    finally:
        world.close()

    assert "The answer to /admin/usage.csv was broken off: " in logs
    assert "Error handling request" not in logs


def unread(gateway: Gateway, path: str, headers: dict[str, str], version: str = "HTTP/1.1") -> socket.socket:
    """The connection of somebody who has asked and reads no further than the first line."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LEAST_BUFFER)
    sock.settimeout(20)
    sock.connect(("127.0.0.1", gateway.port))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    sock.sendall(f"GET {path} {version}\r\nHost: here\r\nConnection: close\r\n{lines}\r\n".encode())
    got = b""
    while b"request_id" not in got:
        piece = sock.recv(1024)
        assert piece, got
        got += piece
    assert b" 200 " in got[:15], got
    return sock


def read_rest(sock: socket.socket) -> bytes:
    """All that comes until the connection's end, however that comes."""
    rest = bytearray()
    with suppress(ConnectionError):
        read_on(sock, rest)
    return bytes(rest)


def read_on(sock: socket.socket, rest: bytearray | None = None) -> None:
    """Reads until the connection has ended in good order; raises `ConnectionError`: it has not."""
    with sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_BYTES)
        while piece := sock.recv(READ_BYTES):
            if rest is not None:
                rest += piece
