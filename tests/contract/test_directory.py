"""The directory of keys, pins and budgets, on SQLite and on Postgres alike."""

from __future__ import annotations

import json
import threading
from typing import Any

import gevent
import psycopg
import pytest
from gevent.event import Event

from hermes.directory import ApiKey, Budget, Directory, DirectoryBox, NewKey
from hermes.errors import InvalidRequest, NotFound
from hermes.storage.audit import CHANGES_LOCK
from hermes.storage.db import Database, migrate
from hermes.storage.directory import ENDS_KEPT_S, DirectoryRepository
from hermes.storage.live import LiveDirectory
from hermes.types import RateLimits
from hermes.web.dashboard.access import LONGEST_S
from tests.contract.conftest import MIGRATIONS

NOW = 1_800_000_000.123
NOW_TEXT = "2027-01-15T08:00:00.123Z"
LATER = NOW + 3600
PLAIN = NewKey("svc", frozenset({"gateway", "router"}))
ALICE = Budget("user", "alice", "month", "usd", 5_000_000_000, "downgrade", 0.5)


class Clock:
    """A clock that stands."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def repository(database: Database, clock: Clock) -> DirectoryRepository:
    return DirectoryRepository(database, clock)


def a_key(repository: DirectoryRepository, new: NewKey = PLAIN, digest: str = "d1") -> str:
    return str(repository.create_key(new, digest, "hk_abcd", "admin")["id"])


# -- sessions of the dashboard ----------------------------------------------------------------------------


def test_the_end_of_a_session_is_kept_once_with_its_audit_row(repository: DirectoryRepository, clock: Clock) -> None:
    before = repository.version()

    repository.end_session("0123456789abcdef", "admin")
    repository.end_session("0123456789abcdef", "admin")

    (row,) = repository.audit(10)
    assert (row["action"], row["actor"], row["target"]) == ("dashboard.sign_out", "admin", "01234567")
    assert repository.load().ended == {"0123456789abcdef"}
    assert repository.version() > before


def test_the_end_of_a_session_is_forgotten_when_its_cookie_has_long_been_too_old(
    repository: DirectoryRepository, clock: Clock
) -> None:
    repository.end_session("old", "admin")
    clock.now += ENDS_KEPT_S - 1
    repository.end_session("young", "admin")
    assert repository.load().ended == {"old", "young"}

    clock.now += 2
    repository.end_session("new", "admin")

    assert repository.load().ended == {"young", "new"}
    assert ENDS_KEPT_S > 2 * LONGEST_S


# -- keys -------------------------------------------------------------------------------------------------


def test_a_key_is_stored_with_all_that_was_said_of_it(repository: DirectoryRepository) -> None:
    limits = RateLimits(requests_per_minute=60, concurrent=2)
    new = NewKey("svc", frozenset({"gateway"}), frozenset({"chat"}), LATER, limits)

    line = repository.create_key(new, "d1", "hk_abcd", "admin")

    assert repository.load().keys == {
        "d1": ApiKey(line["id"], "svc", frozenset({"gateway"}), frozenset({"chat"}), LATER, limits)
    }
    assert repository.list_keys() == [line]
    assert line == {
        "id": line["id"],
        "name": "svc",
        "prefix": "hk_abcd",
        "scopes": ["gateway"],
        "roles": ["chat"],
        "limits": {"requests_per_minute": 60, "tokens_per_minute": 0, "concurrent": 2},
        "created_at": NOW_TEXT,
        "created_by": "admin",
        "expires_at": "2027-01-15T09:00:00.123Z",
        "revoked_at": None,
        "last_used_at": None,
    }


def test_what_is_not_said_of_a_key_stays_open(repository: DirectoryRepository) -> None:
    key_id = a_key(repository)

    assert repository.load().keys["d1"] == ApiKey(key_id, "svc", PLAIN.scopes, None, None, None)


def test_a_revoked_key_is_out_of_the_picture_and_stays_in_the_list(repository: DirectoryRepository) -> None:
    first, second = a_key(repository), a_key(repository, digest="d2")

    line = repository.revoke_key(first, "bob")

    assert line["revoked_at"] == NOW_TEXT
    assert {key.id for key in repository.load().keys.values()} == {second}
    assert {key["id"] for key in repository.list_keys()} == {first, second}


def test_revoking_again_changes_nothing(repository: DirectoryRepository, clock: Clock) -> None:
    key_id = a_key(repository)
    repository.revoke_key(key_id, "bob")
    version = repository.version()
    clock.now = LATER

    assert repository.revoke_key(key_id, "carol")["revoked_at"] == NOW_TEXT
    assert repository.version() == version


@pytest.mark.parametrize("key_id", ["k_none", "", "\0", "k_\udcff", "'; --"])
def test_a_key_that_is_not_there_cannot_be_revoked(repository: DirectoryRepository, key_id: str) -> None:
    with pytest.raises(NotFound, match="no API key"):
        repository.revoke_key(key_id, "admin")


def test_the_last_use_of_keys_is_noted_and_never_goes_back(repository: DirectoryRepository) -> None:
    """Two workers note what they have seen, in any order."""
    first, second = a_key(repository), a_key(repository, digest="d2")
    version = repository.version()

    repository.touch_keys({first: LATER, "k_gone": LATER})
    repository.touch_keys({first: NOW, second: NOW})
    repository.touch_keys({})

    used = {key["id"]: key["last_used_at"] for key in repository.list_keys()}
    assert used == {first: "2027-01-15T09:00:00.123Z", second: NOW_TEXT}
    assert repository.version() == version, "a use is no change"


# -- pins -------------------------------------------------------------------------------------------------


def test_a_pin_is_set_replaced_and_taken_away(repository: DirectoryRepository, clock: Clock) -> None:
    repository.set_pin("model.chat", "a", "admin")
    clock.now = LATER
    pin = repository.set_pin("model.chat", "b", "bob")

    assert repository.get_pin("model.chat") == pin
    assert pin == {
        "key": "model.chat",
        "value": "b",
        "updated_at": "2027-01-15T09:00:00.123Z",
        "updated_by": "bob",
    }
    assert repository.load().pins == {"model.chat": "b"}

    repository.delete_pin("model.chat", "admin")

    assert repository.get_pin("model.chat") is None
    assert repository.get_pins() == []
    with pytest.raises(NotFound, match=r"model\.chat is not set"):
        repository.delete_pin("model.chat", "admin")


def test_the_kill_switch_is_a_pin(repository: DirectoryRepository) -> None:
    assert repository.load().is_enabled

    repository.set_pin("ai.gateway.enabled", "false", "admin")

    assert not repository.load().is_enabled


# -- budgets ----------------------------------------------------------------------------------------------


def test_there_is_one_budget_for_each_scope_id_and_period(repository: DirectoryRepository) -> None:
    daily = Budget("user", "alice", "day", "requests", 10)
    of_all = Budget("global", "", "month", "tokens", 2**52, "warn")
    replaced = Budget("user", "alice", "month", "tokens", 7)

    for budget in (ALICE, daily, of_all):
        repository.put_budget(budget, "admin")
    assert repository.list_budgets() == (ALICE, daily, of_all)
    repository.put_budget(replaced, "admin")

    assert repository.list_budgets() == (replaced, daily, of_all)
    assert repository.load().budgets == (replaced, daily, of_all)


def test_a_budget_is_taken_away(repository: DirectoryRepository) -> None:
    repository.put_budget(ALICE, "admin")

    repository.delete_budget("user", "alice", "month", "admin")

    assert repository.list_budgets() == ()
    with pytest.raises(NotFound, match="no such budget"):
        repository.delete_budget("user", "alice", "month", "admin")


def test_a_key_that_has_a_budget_exists(repository: DirectoryRepository) -> None:
    key_id = a_key(repository)

    for scope_id in (key_id, "*"):
        repository.put_budget(Budget("key", scope_id, "day", "requests", 1), "admin")
    with pytest.raises(InvalidRequest) as refused:
        repository.put_budget(Budget("key", "k_none", "day", "requests", 1), "admin")

    assert refused.value.param == "id"
    assert len(repository.list_budgets()) == 2


# -- the record of changes --------------------------------------------------------------------------------


def test_every_change_leaves_one_row_with_what_was_and_what_is(repository: DirectoryRepository) -> None:
    key_id = a_key(repository)
    repository.set_pin("model.chat", "a", "bob")
    repository.set_pin("model.chat", "b", "bob")
    repository.delete_pin("model.chat", "bob")
    repository.put_budget(ALICE, "bob")
    repository.put_budget(Budget("user", "alice", "month", "requests", 9), "bob")
    repository.delete_budget("user", "alice", "month", "bob")
    repository.revoke_key(key_id, "bob")

    rows = list(reversed(repository.audit(100)))

    old = {"unit": "usd", "limit": 5_000_000_000, "action": "downgrade", "warn_share": 0.5}
    new = {"unit": "requests", "limit": 9, "action": "block", "warn_share": 0.8}
    made = {"name": "svc", "scopes": ["gateway", "router"], "roles": None, "limits": None, "expires_at": None}
    assert [(row["action"], row["target"], row["before"], row["after"]) for row in rows] == [
        ("key.create", key_id, None, made),
        ("pin.set", "model.chat", None, {"value": "a"}),
        ("pin.set", "model.chat", {"value": "a"}, {"value": "b"}),
        ("pin.delete", "model.chat", {"value": "b"}, None),
        ("budget.set", "user:alice:month", None, old),
        ("budget.set", "user:alice:month", old, new),
        ("budget.delete", "user:alice:month", new, None),
        ("key.revoke", key_id, {"name": "svc"}, None),
    ]
    assert {row["actor"] for row in rows} == {"admin", "bob"}
    assert {row["at"] for row in rows} == {NOW_TEXT}
    assert [row["id"] for row in repository.audit(2)] == [repository.version(), repository.version() - 1]


def test_neither_lists_nor_audit_rows_hold_a_digest(repository: DirectoryRepository) -> None:
    key_id = a_key(repository, digest="digest-canary")
    repository.revoke_key(key_id, "admin")

    assert "digest-canary" not in json.dumps([repository.list_keys(), repository.audit(100)])


def test_a_change_that_fails_leaves_no_row(repository: DirectoryRepository, database: Database) -> None:
    a_key(repository)
    version = repository.version()

    with pytest.raises(Exception, match=r"(?i)unique"):
        a_key(repository)

    assert repository.version() == version
    assert len(repository.list_keys()) == 1


def test_the_version_is_that_of_the_picture(repository: DirectoryRepository) -> None:
    assert repository.load() == Directory()

    versions = [repository.version()]
    for number in range(3):
        repository.set_pin("model.chat", f"m{number}", "admin")
        versions.append(repository.version())

    assert versions == sorted(set(versions))
    assert repository.load().version == versions[-1]


def test_changes_become_visible_in_the_order_of_their_numbers(postgres_url: str) -> None:
    """Otherwise a change that was committed late would have a number that everybody has passed already."""
    migrate(postgres_url, MIGRATIONS)
    database = Database.open(postgres_url)
    repository = DirectoryRepository(database)
    waits = threading.Thread(target=repository.set_pin, args=("model.chat", "late", "admin"))
    with psycopg.connect(postgres_url) as slow:
        slow.execute("SELECT pg_advisory_xact_lock(%s)", (CHANGES_LOCK,))
        slow.execute(
            "INSERT INTO audit_log (at, actor, action, target) VALUES ('2027-01-01T00:00:00.000Z', 'a', 'b', 'c')"
        )
        waits.start()
        waits.join(0.05)
        assert waits.is_alive(), "it goes on only when the earlier one is committed"
        assert repository.version() == 0
    waits.join(10)

    assert [row["after"] for row in repository.audit(2)] == [{"value": "late"}, None]
    database.close()


# -- in force ---------------------------------------------------------------------------------------------


def test_a_change_of_another_process_is_seen_at_the_next_look(
    repository: DirectoryRepository, database: Database
) -> None:
    others = DirectoryRepository(database)
    loads: list[Any] = []

    def load() -> Directory:
        loads.append(None)
        return repository.load()

    box = DirectoryBox(repository.load())
    live = LiveDirectory(box, repository.version, load)
    live.refresh_if_changed()
    assert not loads, "nothing has changed"

    others.set_pin("model.chat", "m", "admin")
    assert box.current().pins == {}
    live.refresh_if_changed()
    live.refresh_if_changed()

    assert box.current().pins == {"model.chat": "m"}
    assert len(loads) == 1


def test_a_database_that_does_not_answer_leaves_the_last_picture_in_force(repository: DirectoryRepository) -> None:
    def down() -> int:
        raise OSError("down")

    repository.set_pin("model.chat", "m", "admin")
    box = DirectoryBox(repository.load())

    with pytest.raises(OSError, match="down"):
        LiveDirectory(box, down, repository.load).refresh_if_changed()

    assert box.current().pins == {"model.chat": "m"}


def test_a_picture_that_was_read_earlier_never_replaces_a_later_one() -> None:
    """A slow look of the loop and a change of one's own meet; the change must stay."""
    box, database = DirectoryBox(), [Directory(1)]
    slow = Event()

    def load() -> Directory:
        read = database[0]
        if read.version == 1:
            slow.wait()
        return read

    live = LiveDirectory(box, lambda: database[0].version, load)
    looking = gevent.spawn(live.refresh_if_changed)
    gevent.sleep(0)
    database[0] = Directory(2)
    changing = gevent.spawn(live.refresh)
    gevent.sleep(0)
    slow.set()
    gevent.joinall([looking, changing], raise_error=True)

    assert box.current().version == 2
