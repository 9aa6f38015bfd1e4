"""What holds for Redis alone: bounded waits, no reply for the wrong caller, no belief in what others have written."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hermes.errors import StartRefused
from hermes.state.redis_store import REPLY_S, RedisStore
from hermes.state.shared import StoreAway
from hermes.state.store import Claim
from tests.redis_server import RedisServer

BOUND_S = 2 * REPLY_S + 0.1
"""The longest that a verb may take, with some patience for a busy machine."""

CLAIM = Claim("rate:a", 1, 10, 100)
VERBS: dict[str, Callable[[RedisStore], Any]] = {
    "get": lambda store: store.get("session:a"),
    "put": lambda store: store.put("session:a", "x", 100),
    "put_new": lambda store: store.put_new("session:a", "x", 100),
    "delete": lambda store: store.delete("session:a"),
    "add": lambda store: store.add("rate:a", 1, 100),
    "claim": lambda store: store.claim("probe:a", 100),
    "reserve": lambda store: store.reserve([CLAIM, Claim("rate:b", 1, 10, 100)]),
    "items": lambda store: store.items("session"),
    "count": lambda store: store.count("session"),
    "look": lambda store: store.look("session:a"),
    "offer": lambda store: store.offer([("session:a", "x", 100.0), ("session:b", "y", 100.0)]),
    "generation": lambda store: store.generation("mine"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def store(server: RedisServer) -> Iterator[RedisStore]:
    server.ask("FLUSHALL")
    server.ask("SCRIPT", "FLUSH")
    store = RedisStore(server.url)
    yield store
    store.close()


class Counting(RedisStore):
    """Counts its round trips."""

    trips = 0

    def _exchange(self, connection: Any, commands: Any) -> Any:
        self.trips += 1
        return super()._exchange(connection, commands)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_one_round_trip(server: RedisServer, verb: str) -> None:
    store = Counting(server.url)
    VERBS[verb](store)  # Redis knows the script from now on
    store.trips = 0

    VERBS[verb](store)

    assert store.trips == 1
    store.close()


def test_no_key_is_without_a_lifetime(server: RedisServer, store: RedisStore) -> None:
    for verb in VERBS.values():
        verb(store)
    store.add("rate:a", 1, 100)

    keys = server.ask("KEYS", "*")

    assert all(key.startswith(b"hermes:") for key in keys)
    assert {key: server.ask("PTTL", key) for key in keys if server.ask("PTTL", key) <= 0} == {}
    assert len(keys) > 5


def test_an_index_does_not_grow_with_the_dead(server: RedisServer, store: RedisStore) -> None:
    for number in range(100):
        store.put(f"session:{number}", "x", 0.001)
    time.sleep(0.01)

    for number in range(20):
        store.put(f"session:new-{number}", "x", 100)

    assert server.ask("ZCARD", "hermes:@session") == 20
    assert store.count("session") == 20


def test_what_redis_has_evicted_is_not_listed(server: RedisServer, store: RedisStore) -> None:
    store.put("session:a", "x", 100)
    store.put("session:b", "y", 100)
    server.ask("DEL", "hermes:session:a")

    assert store.items("session") == [("session:b", "y")]


@pytest.mark.parametrize("command", ["SCRIPT FLUSH", "FLUSHALL"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_redis_that_forgets_its_scripts_goes_unnoticed(
    server: RedisServer, store: RedisStore, verb: str, command: str
) -> None:
    VERBS[verb](store)
    server.ask(*command.split())

    VERBS[verb](store)


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(("SET", "hermes:{}", "\x80\x04K\x01."), id="a pickle"),
        pytest.param(("SET", "hermes:{}", b"\xff\xfe"), id="no text"),
        pytest.param(("SET", "hermes:{}", "9" * 40), id="a number beyond all bounds"),
        pytest.param(("RPUSH", "hermes:{}", "x"), id="a list"),
        pytest.param(("ZADD", "hermes:{}", "1", "x"), id="a sorted set"),
    ],
)
def test_what_others_wrote_is_taken_for_nothing(
    server: RedisServer, store: RedisStore, garbage: tuple[str, str, str]
) -> None:
    """And it is no reason to do without Redis."""
    command, key, *values = garbage
    for name in ("session:a", "rate:a", "rate:b", "probe:a", "@session", "@rate", "@probe", "@generation"):
        if not (command == "ZADD" and name.startswith("@")):
            server.ask(command, key.format(name), *values)

    assert store.add("rate:a", 2, 100) == 2
    assert store.reserve([Claim("rate:b", 10, 10, 100)]) is None
    assert store.get("session:a") in (None, *values)
    assert store.generation("mine")[0] in ("mine", *values)
    for verb in VERBS.values():
        verb(store)
    store.put("session:a", "x", 100)
    assert store.get("session:a") == "x"
    assert ("session:a", "x") in store.items("session")


# -- a Redis that is not as it should be ------------------------------------------------------------------


class Stub:
    """Something that listens where Redis should be, and answers whatever it is sent in one way."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        self._ending = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._ending = True
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        connections = []
        while not self._ending:
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                connections.append(connection)
                connection.settimeout(0.2)
                connection.recv(65536)
                self._answer(connection)
        for connection in connections:
            connection.close()


def says(reply: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(reply * 2)


def drips(connection: socket.socket) -> None:
    for octet in b"$100\r\n" + b"x" * 30:
        connection.sendall(bytes([octet]))
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(lambda connection: None, "imeout", id="hangs"),
        pytest.param(lambda connection: connection.close(), "closed", id="hangs up"),
        pytest.param(lambda connection: time.sleep(0.2), "imeout", id="is slow"),
        pytest.param(drips, "imeout", id="drips"),
        pytest.param(says(b"-LOADING Redis is loading the dataset in memory\r\n"), "loading", id="loads"),
        pytest.param(says(b"-READONLY You can't write against a read only replica.\r\n"), "read only", id="a replica"),
        pytest.param(says(b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"), "maxmemory", id="full"),
        pytest.param(says(b"-MOVED 3999 10.0.0.1:6381\r\n"), "3999", id="a cluster"),
        pytest.param(says(b"-NOAUTH Authentication required.\r\n"), "Authentication", id="wants a password"),
        pytest.param(says(b"-NOPERM this user has no permissions\r\n"), "permissions", id="has another user"),
        pytest.param(says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "Protocol", id="is no Redis"),
        pytest.param(says(b":one\r\n"), "invalid literal", id="speaks nonsense"),
    ],
)
@pytest.mark.parametrize("verb", ["get", "add"])
def test_a_redis_that_does_not_work_is_away_soon(answer: Any, reason: str, verb: str) -> None:
    stub = Stub(answer)
    store = RedisStore(stub.url)
    began = time.monotonic()

    with pytest.raises(StoreAway, match=reason):
        VERBS[verb](store)

    took_s = time.monotonic() - began
    stub.close()
    assert took_s < (1.0 if answer is drips else BOUND_S)
    assert store._connections._crowd.free == []


def until_it_answers(call: Callable[[], object]) -> None:
    """Calls until a server that was begun just now answers in time, which it may not on a busy machine."""
    limit = time.monotonic() + 20
    while True:
        try:
            call()
            return
        except StoreAway:
            if time.monotonic() > limit:
                raise


@pytest.mark.parametrize("verb", VERBS)
def test_a_redis_that_hangs_or_is_gone_is_away_soon(verb: str) -> None:
    with RedisServer() as server:
        store = RedisStore(server.url)
        until_it_answers(lambda: VERBS[verb](store))
        for spoil in (server.hang, server.kill):
            spoil()
            began = time.monotonic()

            with pytest.raises(StoreAway):
                VERBS[verb](store)

            assert time.monotonic() - began < BOUND_S
    store.close()


def test_a_redis_without_room_forgets_or_is_away() -> None:
    """Whether it forgets old keys or refuses new ones is its operator's choice."""
    with RedisServer("--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru") as server:
        store = RedisStore(server.url)
        fill(store, "session:first")

        assert all(value == "x" * 1000 for _, value in store.items("session"))
        server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        with pytest.raises(StoreAway, match="maxmemory"):
            fill(store, "session:more")
    store.close()


def fill(store: RedisStore, name: str) -> None:
    for number in range(3000):
        store.put(f"{name}-{number}", "x" * 1000, 100)
        store.add(f"count:{number % 7}", 1, 100)


def test_a_restarted_redis_is_used_without_further_ado() -> None:
    with RedisServer() as server:
        store = RedisStore(server.url)
        store.put("session:a", "x", 100)
        server.kill()
        with pytest.raises(StoreAway):
            store.get("session:a")

        server.start()

        assert store.get("session:a") is None
    store.close()


def test_a_password_is_used_and_not_told() -> None:
    with RedisServer("--requirepass", "canary-password") as server:
        address = server.url.removeprefix("redis://")
        good, bad = RedisStore(f"redis://:canary-password@{address}"), RedisStore(f"redis://:canary-wrong@{address}")

        good.put("session:a", "x", 100)
        with pytest.raises(StoreAway) as refused:
            bad.get("session:a")

        assert good.get("session:a") == "x"
        assert "canary" not in str(refused.value)
        good.close()


def test_connections_that_were_idle_for_long_are_not_trusted(server: RedisServer) -> None:
    now = [0.0]
    store = RedisStore(server.url, clock=lambda: now[0])
    store.put("session:a", "x", 100)
    server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    now[0] += 3600

    assert store.get("session:a") == "x"
    store.close()


@pytest.mark.parametrize(
    "url",
    ["redis://localhost:port", "redis://localhost/0?socket_timeout=soon", "redis://localhost/0?colour=red"],
)
def test_a_url_without_sense_is_refused(url: str) -> None:
    with pytest.raises(StartRefused, match="HERMES_STATE_URL"):
        RedisStore(url)


# -- many greenlets ---------------------------------------------------------------------------------------

GREENLETS = """
from gevent import monkey; monkey.patch_all()
import random, sys, time
import gevent
from hermes.state.connections import LIMIT
from hermes.state.redis_store import RedisStore
from hermes.state.store import Claim

store = RedisStore(sys.argv[1])
store.get("session:a")
rng = random.Random(7)

def all_of(work, number):
    jobs = [gevent.spawn(work, n) for n in range(number)]
    gevent.joinall(jobs, raise_error=True)
    return [job.value for job in jobs]

# Many at once, on an event loop that is busy for longer than any reply may take: no outage, and exactly one winner.
def claims(n):
    if n % 50 == 0:
        until = time.perf_counter() + 0.02
        while time.perf_counter() < until:
            pass
    return store.claim("probe:a", 100), store.reserve([Claim("rate:a", 1, 100, 100)]) is None
won = all_of(claims, 1000)
assert sum(claimed for claimed, _ in won) == 1
assert sum(reserved for _, reserved in won) == 100

# The more ask at once, the more connections there are, up to a limit.
crowd = store._connections._crowd
until = time.monotonic() + 10
while crowd.size < LIMIT and time.monotonic() < until:
    all_of(lambda n: store.get("probe:a"), 50)
    gevent.sleep(0.01)
assert len(crowd.free) == crowd.size == crowd.slots.counter == LIMIT, (crowd.size, crowd.slots.counter)

# Interrupted at any moment, nobody ever reads another's reply.
class Cut(BaseException):
    pass

cuts = [0]
def put(n):
    store.put(f"session:{n}", str(n), 100)
def own_value(n):
    for _ in range(30):
        try:
            with gevent.Timeout(rng.uniform(0, 0.002), Cut):
                assert store.get(f"session:{n}") == str(n), n
                assert store.add(f"count:{n}", 0, 100) == 0, n
        except Cut:
            cuts[0] += 1
all_of(put, 100)
all_of(own_value, 100)
assert cuts[0] > 100, cuts
crowd = store._connections._crowd
assert crowd.slots.counter == crowd.size <= LIMIT, (crowd.size, crowd.slots.counter)
print("fine")
"""


def test_greenlets_neither_meet_nor_starve(server: RedisServer) -> None:
    server.ask("FLUSHALL")

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", GREENLETS, server.url], capture_output=True, text=True, timeout=50
    )

    assert done.stdout == "fine\n", done.stderr[-3000:]


def test_each_life_of_redis_has_a_name_of_its_own() -> None:
    """Though it comes back with all that it held, its generation too."""
    with RedisServer() as server:
        store = RedisStore(server.url)
        first, again = store.generation("mine"), store.generation("other")
        server.kill()
        server.start()
        store.close()
        second = store.generation("mine")
        server.ask("ACL", "SETUSER", "default", "-info")
        untold = store.generation("mine")
        store.close()

    assert first == again
    assert first[0] == second[0] == "mine"
    assert first[1] != second[1] != ""
    assert untold == ("mine", "")
