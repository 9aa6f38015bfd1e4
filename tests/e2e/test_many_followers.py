"""Operators who leave the traces open in every window they have take nothing from those who ask for completions."""

from __future__ import annotations

import selectors
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hermes.web.dashboard.pages.traces import MOST_FOLLOWERS

from .client import READ_BYTES, Exchange
from .dashboard import signed_in
from .gateway import Gateway, eventually
from .load import Load
from .world import World

TOO_MANY = 20
STREAM = "/dashboard/ui/traces/stream"
PARTS = ("/dashboard/ui/circuits", "/dashboard/ui/traces")


def test_many_windows_are_told_or_turned_away_and_leave_nothing_behind(world: World) -> None:
    gateway = world.gateway
    session = signed_in(gateway)
    for part in PARTS:
        gateway.request("GET", part, session)
    gateway.chat()
    files = open_files(gateway)

    windows = [gateway.open("GET", STREAM, session) for _ in range(MOST_FOLLOWERS + TOO_MANY)]
    try:
        with read_by_somebody(windows):
            began = eventually(lambda: heads(windows), lambda found: sum(found.values()) == len(windows), 20)
            assert began == {b"200": MOST_FOLLOWERS, b"503": TOO_MANY}
            refused = [window.raw for window in windows if window.raw.startswith(b"HTTP/1.1 503")]
            assert all(b"\r\nRetry-After: " in raw and b"follow the traces already" in raw for raw in refused)

            with Load(lambda user: gateway.chat(user=user), 4) as load:
                for _ in range(10):
                    assert {gateway.request("GET", part, session).status for part in PARTS} <= {200}
                load.goes_on(100)
            last = gateway.chat()
            told = last.request_id.encode()
            knowing = eventually(
                lambda: sum(told in w.raw for w in windows), lambda number: number == MOST_FOLLOWERS, 10
            )
            assert knowing == MOST_FOLLOWERS
        assert (load.faults, {answer.status for answer in load.answers}) == ([], {200})
    finally:
        for window in windows:
            window.vanish()

    assert eventually(lambda: open_files(gateway), lambda number: number <= files + 2, 10) <= files + 2
    with gateway.open("GET", STREAM, session) as again:
        again.read_until(b"200 OK")


def open_files(gateway: Gateway) -> int:
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in gateway.workers())


def heads(windows: list[Exchange]) -> Counter[bytes]:
    """The statuses that have come."""
    return Counter(window.raw[9:12] for window in windows if b"\r\n\r\n" in window.raw)


@contextmanager
def read_by_somebody(windows: list[Exchange]) -> Iterator[None]:
    """All that comes is read as it comes, into `raw`."""
    ended = threading.Event()
    selector = selectors.DefaultSelector()
    for window in windows:
        selector.register(window._sock, selectors.EVENT_READ, window)

    def read() -> None:
        while not ended.is_set():
            for key, _ in selector.select(0.1):
                with suppress(OSError):
                    data = key.data._sock.recv(READ_BYTES)
                    key.data.raw += data
                    if not data:
                        selector.unregister(key.fileobj)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        selector.close()
