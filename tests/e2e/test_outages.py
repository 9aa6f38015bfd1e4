"""Postgres or Redis hangs or dies under load, and every caller whose key is known is answered as if nothing were."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .client import Answer
from .gateway import START_LIMIT_S, eventually, new_user
from .load import Load
from .outage import WORKERS, Signal, Site, Store

AWAY_S = 3.0
RECOVERY_S = 5.0
SOON_S = 1.0
NOTICED_S = 2.0
"""When every worker has noticed by itself that the database hangs, on a machine with something else to do."""


@pytest.fixture(scope="module")
def running_site() -> Iterator[Site]:
    with Site() as site:
        yield site
        logs = site.gateway.logs()
    assert "Traceback" not in logs, logs[logs.index("Traceback") - 500 :][:5000]


@pytest.fixture
def site(running_site: Site) -> Iterator[Site]:
    """The site with both stores there, and known to be there by every worker."""
    yield running_site
    running_site.recover()
    settled = eventually(lambda: _is_settled(running_site), bool, 10)
    assert settled


def _is_settled(site: Site) -> bool:
    return all(answer.json["database"] == answer.json["state"] == "ok" for answer in _of_each(site, _readiness))


def _readiness(site: Site) -> Answer:
    return site.gateway.request("GET", "/health/ready")


def _of_each(site: Site, ask: Callable[[Site], Answer]) -> list[Answer]:
    """Some answers; as each worker may take any connection, each has given one of them very probably."""
    return [ask(site) for _ in range(4 * WORKERS)]


def _hang_postgres(site: Site) -> None:
    site.postgres.hang()
    time.sleep(0.05)
    found = eventually(lambda: [a.json["database"] for a in _of_each(site, _readiness)], lambda s: "ok" not in s, 5)
    assert "ok" not in found


# -- under load -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signal", ["SIGSTOP", "SIGKILL"])
@pytest.mark.parametrize("store", ["Postgres", "Redis"])
def test_a_store_that_is_away_costs_no_answer_and_no_row(site: Site, store: Store, signal: Signal) -> None:
    outcome = site.outage(store, signal, AWAY_S)

    print(outcome)
    assert outcome.asked > 50
    assert (outcome.failed, outcome.rows_lost, outcome.rows_doubled) == ((), 0, 0)
    assert outcome.p99_s < 1.0
    assert outcome.slowest_s < 2.0
    assert outcome.recovered_after_s < RECOVERY_S


def test_a_worker_that_dies_meanwhile_is_replaced_when_the_database_is_back(site: Site) -> None:
    """The server goes on with those that are left, instead of ending with a sentence about the database."""
    victim, _ = site.gateway.workers()
    site.postgres.kill()
    said = site.said("Hermes cannot start")
    os.kill(victim, 9)
    assert eventually(lambda: site.said("Hermes cannot start"), lambda now: now > said, START_LIMIT_S) > said
    known = set(site.served())

    with Load(site.ask) as load:
        site.postgres.start()
        back_at = time.monotonic()
        served = eventually(site.served, lambda found: len(found.keys() - known) > 0, START_LIMIT_S)
        took_s = time.monotonic() - back_at

    print(f"a new worker answers {took_s:.1f} s after the database is back")
    assert (load.faults, {answer.status for answer in load.answers}) == ([], {200})
    assert len(served.keys() - known) == 1


def test_both_may_hang_at_once(site: Site) -> None:
    with Load(site.ask) as load:
        gone_at = time.monotonic()
        site.redis.hang()
        site.postgres.hang()
        time.sleep(AWAY_S)
        site.recover()
        load.goes_on()

    assert (load.faults, {answer.status for answer in load.answers}) == ([], {200})
    assert max(answer.took_s for answer in load.since(gone_at)) < 2.0


def test_an_orderly_end_meanwhile_is_quick_and_loses_no_row(site: Site) -> None:
    _hang_postgres(site)
    answered = {site.ask(new_user()).request_id for _ in range(20)}

    site.gateway.sigterm()
    asked_at = time.monotonic()
    status = site.gateway.wait_exit(12)
    took_s = time.monotonic() - asked_at
    site.postgres.go_on()
    site.gateway.spawn()

    assert status == 0
    print(f"ended in {took_s:.1f} s")
    assert took_s < 9
    assert eventually(lambda: answered - set(site.rows()), lambda missing: not missing, RECOVERY_S) == set()


# -- while the database hangs -----------------------------------------------------------------------------


def test_a_key_that_is_not_known_is_told_to_come_again_and_a_known_one_is_served(site: Site) -> None:
    _hang_postgres(site)

    unknown = [site.ask("u", "hk_" + "x" * 43) for _ in range(20)]
    no_key = site.ask("u", "sk-dummy")
    known = [site.ask(new_user()) for _ in range(20)]

    assert {(a.status, a.error["code"], a.headers["retry-after"]) for a in unknown} == {
        (503, "database_unavailable", "2")
    }
    assert (no_key.status, no_key.error["code"]) == (401, "invalid_api_key")
    assert {answer.status for answer in known} == {200}
    # At times one of them is the question by which it is found out whether the database is back.
    assert sorted(answer.took_s for answer in unknown)[10] < 0.3
    assert max(answer.took_s for answer in [*unknown, *known]) < NOTICED_S


OPERATORS_ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/admin/keys", None),
    ("POST", "/admin/keys", {"name": "x", "scopes": ["gateway"]}),
    ("DELETE", "/admin/keys/k_none", None),
    ("GET", "/admin/pins", None),
    ("PUT", "/admin/pins/model.chat", {"value": "primary-model"}),
    ("DELETE", "/admin/pins/model.chat", None),
    ("GET", "/admin/budgets", None),
    ("PUT", "/admin/budgets", {"scope": "user", "id": "x", "period": "day", "limit_requests": 5}),
    ("DELETE", "/admin/budgets?scope=user&id=x&period=day", None),
    ("GET", "/admin/audit", None),
    ("GET", "/admin/usage", None),
    ("GET", "/admin/usage/req_none", None),
]


def test_operators_are_told_clearly_and_at_once(site: Site) -> None:
    _hang_postgres(site)

    answers = [site.gateway.admin(*route) for route in OPERATORS_ROUTES]

    assert [(a.status, a.error["code"]) for a in answers] == [(503, "database_unavailable")] * len(answers)
    assert {answer.headers["retry-after"] for answer in answers} == {"2"}
    assert max(answer.took_s for answer in answers) < NOTICED_S
    assert "127.0.0.1" not in str([answer.body for answer in answers]), "an address is for the log"


def test_nothing_that_was_refused_is_done_afterwards(site: Site) -> None:
    """A change that an operator was told has failed must not come into force when nobody expects it any more."""
    site.postgres.hang()
    refused = [site.gateway.admin("PUT", "/admin/pins/model.reasoning.target", {"value": "x"}) for _ in range(3)]
    site.postgres.go_on()

    assert eventually(lambda: _is_settled(site), bool, 10)
    assert {answer.status for answer in refused} == {503}
    assert site.gateway.admin("GET", "/admin/pins/model.reasoning.target").status == 404


def test_a_configuration_can_be_loaded_meanwhile(site: Site, tmp_path: Path) -> None:
    """With persona files, whose summary is in the database."""
    (tmp_path / "USER.md").write_text("A person.")
    teacher = {"model": "teacher-model", "base_url": site.world.teacher.base_url, "api_key_env": ""}
    taught = {"classifier": teacher, "persona": {"user_path": str(tmp_path / "USER.md")}}
    site.world.configure(**taught)
    _hang_postgres(site)

    renamed = {**site.world.endpoint(site.world.primary), "model": "renamed-model"}
    site.world.configure(**taught, simple=[renamed])

    found = eventually(
        lambda: {answer.headers["x-hermes-model"] for answer in _of_each(site, lambda s: s.ask(new_user()))},
        lambda models: models == {"renamed-model"},
    )
    assert found == {"renamed-model"}
    site.recover()
    site.world.configure()


def test_who_is_ready_without_a_database_stays_in_the_balance(site: Site) -> None:
    _hang_postgres(site)

    answers = _of_each(site, _readiness)

    assert {(answer.status, answer.json["database"].partition(":")[0]) for answer in answers} == {(200, "degraded")}


def test_the_file_stops_everything_within_a_second_while_no_database_answers(site: Site) -> None:
    file = site.gateway.folder / "data" / "gateway.off"
    file.parent.mkdir(exist_ok=True)
    _hang_postgres(site)
    with Load(site.ask) as load:
        file.touch()
        thrown_at = time.monotonic()
        load.goes_on(200)
        off = load.since(thrown_at + SOON_S)
        file.unlink()
        taken_back_at = time.monotonic()
        eventually(lambda: load.since(taken_back_at + SOON_S), lambda answers: len(answers) > 20)
        on = load.since(taken_back_at + SOON_S)

    last_s = max(a.started_at for a in load.since(thrown_at) if a.status == 200 and a.ended_at < taken_back_at)
    print(f"the last answer began {last_s - thrown_at:.2f} s after the file was there")
    assert {(a.status, a.headers.get("x-should-retry")) for a in off if a.ended_at < taken_back_at} <= {(503, "false")}
    assert {answer.status for answer in on} == {200}
    assert {answer.status for answer in load.answers} == {200, 503}
    assert load.faults == []


@pytest.mark.parametrize("choice", ["open", "closed"])
@pytest.mark.parametrize("store", ["Postgres", "Redis"])
def test_budgets_follow_the_operators_choice(site: Site, store: Store, choice: str) -> None:
    """Open: who has a budget is served. Closed: they are not, where nobody can tell what they have spent."""
    site.world.configure(budgets={"on_store_failure": choice})
    met, stranger, free = new_user(), new_user(), new_user()
    for user in (met, stranger):
        put = {"scope": "user", "id": user, "period": "month", "limit_usd": 5}
        assert site.gateway.admin("PUT", "/admin/budgets", put).status == 200
    time.sleep(SOON_S)
    assert {site.ask(met).status for _ in range(6)} == {200}
    if store == "Postgres":
        _hang_postgres(site)
    else:
        site.redis.hang()
        eventually(lambda: {a.json["state"] for a in _of_each(site, _readiness)}, lambda s: "ok" not in s)

    answers = {user: [site.ask(user) for _ in range(8)] for user in (met, stranger, free)}

    refused = (503, "budget_unavailable", "5")
    wanted = {"met": (200,), "stranger": (200,), "free": (200,)}
    if choice == "closed":
        wanted["stranger"] = refused
        wanted["met"] = refused if store == "Redis" else (200,)
    found = {name: {_told(a) for a in answers[user]} for name, user in zip(wanted, answers, strict=True)}
    assert found == {name: {told} for name, told in wanted.items()}
    assert max(answer.took_s for found in answers.values() for answer in found) < NOTICED_S


def _told(answer: Answer) -> tuple[object, ...]:
    if answer.status == 200:
        return (200,)
    return answer.status, answer.error["code"], answer.headers["retry-after"]
