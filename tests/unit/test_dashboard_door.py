"""Sessions of operators and tries to sign in, by a clock that is moved by hand."""

from __future__ import annotations

import pytest

from hermes.admission.auth import Authenticator
from hermes.admission.keys import KeyDigest
from hermes.directory import ApiKey, Directory
from hermes.errors import Unauthorized
from hermes.policy import AuthPolicy
from hermes.state.store import MemoryStore
from hermes.types import Secret
from hermes.web.dashboard.access import IDLE_S, LONGEST_S, RENEW_S, Access
from hermes.web.dashboard.throttle import FREE_TRIES, LONGEST_PAUSE_S, Throttle

POLICY = AuthPolicy(admin_key=Secret("the-admin-key"))
NOBODY = Directory()


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class NothingEnded:
    """Keeps no end: what is known of them comes from elsewhere."""

    def end(self, name: str, actor: str) -> None:
        pass

    def has(self, name: str) -> bool:
        return False


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(clock: Clock) -> Access:
    digest = KeyDigest(b"a secret of the server")
    return Access(digest, Authenticator(digest, clock), MemoryStore(clock), NothingEnded(), clock)


def test_a_session_ends_when_nobody_does_anything(access: Access, clock: Clock) -> None:
    cookie = access.cookie(access.begin("the-admin-key", POLICY, NOBODY), POLICY)

    clock.now += IDLE_S - 1
    assert access.recognised(cookie, POLICY, NOBODY) is not None
    clock.now += 2

    assert access.recognised(cookie, POLICY, NOBODY) is None


@pytest.mark.parametrize("step_s", [3600.0, 13 * 3600.0, -3600.0])
def test_nobody_is_signed_out_by_the_wall_clock(step_s: float, clock: Clock) -> None:
    digest, even = KeyDigest(b"a secret of the server"), Clock()
    access = Access(digest, Authenticator(digest, clock), MemoryStore(even), NothingEnded(), clock)
    operator = access.begin("the-admin-key", POLICY, NOBODY)

    clock.now += step_s
    assert access.recognised(access.cookie(operator, POLICY), POLICY, NOBODY) == operator
    even.now += IDLE_S - 1
    clock.now += IDLE_S - 1
    operator = access.renewed(operator) or operator
    even.now += IDLE_S - 1
    clock.now += IDLE_S - 1
    assert access.recognised(access.cookie(operator, POLICY), POLICY, NOBODY) == operator
    even.now += 2
    clock.now += 2

    assert access.recognised(access.cookie(operator, POLICY), POLICY, NOBODY) is None


def test_a_session_ends_after_its_longest_time_however_busy_it_is(access: Access, clock: Clock) -> None:
    operator = access.begin("the-admin-key", POLICY, NOBODY)
    ends_at = clock.now + LONGEST_S

    while clock.now < ends_at - IDLE_S:
        clock.now += IDLE_S / 2
        operator = access.renewed(operator) or operator
        assert access.recognised(access.cookie(operator, POLICY), POLICY, NOBODY) is not None
    clock.now = ends_at + 1

    renewed = access.renewed(operator)
    assert renewed is not None
    assert access.recognised(access.cookie(renewed, POLICY), POLICY, NOBODY) is None


def test_the_cookie_is_not_written_with_each_click(access: Access, clock: Clock) -> None:
    operator = access.begin("the-admin-key", POLICY, NOBODY)

    clock.now += RENEW_S - 1

    assert access.renewed(operator) is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda cookie: cookie[:-9] + ("a" if cookie[-9] != "a" else "b") + cookie[-8:], id="another signature"
        ),
        pytest.param(lambda cookie: "x" + cookie, id="another content"),
        pytest.param(lambda cookie: "", id="none"),
        pytest.param(lambda cookie: "é", id="no ASCII"),
    ],
)
def test_a_cookie_that_we_have_not_signed_is_nobodys(access: Access, change: object) -> None:
    cookie = access.cookie(access.begin("the-admin-key", POLICY, NOBODY), POLICY)
    assert callable(change)

    assert access.recognised(change(cookie), POLICY, NOBODY) is None


def test_a_new_admin_key_or_none_ends_every_session(access: Access) -> None:
    cookie = access.cookie(access.begin("the-admin-key", POLICY, NOBODY), POLICY)

    assert access.recognised(cookie, AuthPolicy(admin_key=Secret("another")), NOBODY) is None
    assert access.recognised(cookie, AuthPolicy(), NOBODY) is None
    with pytest.raises(Unauthorized):
        access.begin("the-admin-key", AuthPolicy(), NOBODY)


def test_a_session_of_an_api_key_ends_with_the_key(access: Access, clock: Clock) -> None:
    key = "hk_" + "a" * 43
    digest = KeyDigest(b"a secret of the server")(key)

    def directory(**fields: object) -> Directory:
        return Directory(keys={digest: ApiKey("k_1", "ops", **{"scopes": frozenset({"admin"}), **fields})})  # type: ignore[arg-type]

    cookie = access.cookie(access.begin(key, POLICY, directory()), POLICY)

    assert access.recognised(cookie, POLICY, directory()) is not None
    assert access.recognised(cookie, POLICY, directory(scopes=frozenset({"router"}))) is None
    assert access.recognised(cookie, POLICY, directory(expires_at=clock.now - 1)) is None
    assert access.recognised(cookie, POLICY, NOBODY) is None


def test_a_form_belongs_to_one_session(access: Access) -> None:
    token = access.token("one", POLICY)

    assert access.is_token(token, "one", POLICY)
    assert not access.is_token(token, "two", POLICY)
    assert not access.is_token("", "one", POLICY)
    assert not access.is_token("é", "one", POLICY)


def test_a_few_tries_are_free_and_pauses_double(clock: Clock) -> None:
    throttle = Throttle(MemoryStore(clock), clock)

    assert [throttle.wait_s("192.0.2.1") for _ in range(FREE_TRIES + 1)] == [0.0] * (FREE_TRIES + 1)
    pauses = []
    for _ in range(8):
        pauses.append(throttle.wait_s("192.0.2.1"))
        clock.now += pauses[-1]
        assert throttle.wait_s("192.0.2.1") == 0.0

    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert throttle.wait_s("192.0.2.2") == 0.0, "another address is not concerned"


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_nobody_waits_longer_because_of_the_wall_clock(step_s: float, clock: Clock) -> None:
    even = Clock()
    throttle = Throttle(MemoryStore(even), clock)
    for _ in range(FREE_TRIES + 1):
        throttle.wait_s("192.0.2.1")

    clock.now += step_s

    assert 0 < throttle.wait_s("192.0.2.1") <= LONGEST_PAUSE_S
    even.now += 1
    assert throttle.wait_s("192.0.2.1") == 0.0


def test_who_has_a_good_key_starts_anew(clock: Clock) -> None:
    throttle = Throttle(MemoryStore(clock), clock)
    for _ in range(FREE_TRIES + 3):
        throttle.wait_s("192.0.2.1")

    throttle.succeeded("192.0.2.1")

    assert throttle.wait_s("192.0.2.1") == 0.0


def test_addresses_of_one_network_are_one_visitor(clock: Clock) -> None:
    throttle = Throttle(MemoryStore(clock), clock)
    for number in range(FREE_TRIES + 1):
        throttle.wait_s(f"2001:db8::{number:x}")

    assert throttle.wait_s("2001:db8::ffff") > 0


def test_a_session_that_the_directory_says_has_ended_is_over_whatever_the_state_store_knows(access: Access) -> None:
    ended, other = (access.begin("the-admin-key", POLICY, NOBODY) for _ in range(2))
    directory = Directory(ended=frozenset({ended.session}))

    assert access.recognised(access.cookie(ended, POLICY), POLICY, directory) is None
    assert access.recognised(access.cookie(other, POLICY), POLICY, directory) == other
