"""Keys rest for as long as the provider says, never shorter than they were told before."""

from __future__ import annotations

import pytest

from hermes.state.store import MemoryStore
from hermes.types import Endpoint, ProviderKey, Secret
from hermes.upstream.keyring import Keyring, retry_after_s

A, B = ProviderKey("KEY_A", Secret("aaaaaa")), ProviderKey("KEY_B", Secret("bbbbbb"))
ENDPOINT = Endpoint("m@host/v1", "m", "https://host/v1", "https://host/v1", keys=(A, B))
OPEN = Endpoint("m@host/v1", "m", "http://host/v1", "http://host/v1", needs_key=False)
NOW = 1_700_000_000.0


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keyring(clock: Clock) -> Keyring:
    return Keyring(MemoryStore(clock), clock)


def test_a_limited_key_rests_and_comes_back(keyring: Keyring, clock: Clock) -> None:
    keyring.rest(ENDPOINT, A, 60)
    assert keyring.usable(ENDPOINT) == [B]

    clock.now += 60

    assert keyring.usable(ENDPOINT) == [A, B]


def test_a_rest_is_only_ever_lengthened(keyring: Keyring, clock: Clock) -> None:
    keyring.rest(ENDPOINT, A, 3600)
    keyring.rest(ENDPOINT, A, 5)

    clock.now += 3599

    assert keyring.usable(ENDPOINT) == [B]


@pytest.mark.parametrize("step_s", [3600, -3600])
def test_a_rest_has_its_length_whatever_the_wall_clock_does(step_s: int, clock: Clock) -> None:
    even = Clock()
    keyring = Keyring(MemoryStore(even), clock)
    keyring.rest(ENDPOINT, A, 20)
    keyring.rest(ENDPOINT, B, 60)

    clock.now += step_s

    assert keyring.usable(ENDPOINT) == []
    assert 0 < (keyring.shortest_rest_s(ENDPOINT) or 0) <= 20
    even.now += 20
    assert keyring.usable(ENDPOINT) == [A]


def test_it_is_known_when_the_first_key_is_back(keyring: Keyring) -> None:
    keyring.rest(ENDPOINT, A, 60)
    keyring.rest(ENDPOINT, B, 20)

    assert keyring.usable(ENDPOINT) == []
    assert keyring.shortest_rest_s(ENDPOINT) == 20


def test_an_endpoint_without_keys_rests_as_a_whole(keyring: Keyring) -> None:
    assert keyring.usable(OPEN) == [None]

    keyring.rest(OPEN, None, 10)

    assert keyring.usable(OPEN) == []


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({"retry-after": "7"}, 7.0, id="seconds"),
        pytest.param({"retry-after": "0"}, 0.0, id="at once"),
        pytest.param({"retry-after": "1.5"}, 1.5, id="a fraction"),
        pytest.param({"retry-after": "Tue, 14 Nov 2023 22:14:20 GMT"}, 60.0, id="a date"),
        pytest.param({"retry-after": "Tue, 14 Nov 2023 22:12:20 GMT"}, None, id="a date that is over"),
        pytest.param({"retry-after": "1000000000"}, 3600.0, id="at most an hour"),
        pytest.param({"retry-after": "-5"}, None, id="negative"),
        pytest.param({"retry-after": "soon"}, None, id="a word"),
        pytest.param({"retry-after": "nan"}, None, id="not a number"),
        pytest.param({"retry-after": ""}, None, id="empty"),
        pytest.param({}, None, id="none"),
        pytest.param({"retry-after-ms": "250", "retry-after": "1"}, 0.25, id="milliseconds are finer"),
    ],
)
def test_what_retry_after_says(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == seconds
