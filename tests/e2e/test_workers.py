"""Two workers on one Redis are one server: in sessions, breakers, reloads and metrics, whatever becomes of Redis."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hermes.routing.surrogates import STARTER
from tests.redis_server import RedisServer

from . import replies
from .client import Answer
from .gateway import Gateway, eventually, new_user
from .load import Load, requests_by_worker
from .replies import completion, error
from .world import World

WORKERS = 2
AT_ONCE = 12
BUSY_S = 0.1
"""What a provider takes here: a worker that waits for it leaves further requests to the other."""

REACHES_ALL_S = 1.0
RECOVERY_S = 5.0
AWAY, BACK, EMPTY = "The shared state is away", "The shared state is back", "The shared state was empty"

numbers = itertools.count(1)


class Pair:
    """A gateway of two workers between its providers, and their Redis."""

    def __init__(self, redis: RedisServer, folder: Path) -> None:
        self.redis = redis
        self._counts = folder
        env = {"HERMES_STATE_URL": redis.url, "WEB_CONCURRENCY": str(WORKERS), "PROMETHEUS_MULTIPROC_DIR": str(folder)}
        self.world = World(env=env)
        self.gateway: Gateway = self.world.gateway
        eventually(self.served, lambda workers: len(workers) == WORKERS, 30)
        assert self.gateway.reload(self.config()).status == 200
        self.begin()
        eventually(lambda: decisions(self.by_both(self.ask_anew)), lambda found: found == {"teacher"}, 30)

    def config(self, **sections: Any) -> dict[str, Any]:
        """The plain configuration with a teacher, and with other sections."""
        teacher = {"model": "teacher-model", "base_url": self.world.teacher.base_url, "api_key_env": ""}
        circuits = {"failure_threshold": 3, "recovery_timeout_sec": 30, "window_sec": 60}
        taught = {"classifier": {**teacher, "surrogate": {"enabled": False}}, "circuit_breaker": circuits}
        return self.world.config(**{**taught, **sections})

    def begin(self) -> None:
        """Healthy providers that take a moment, closed breakers."""
        for provider in self.world.providers:
            provider.script(replies.answer(200, completion("ok"), after_s=BUSY_S))
        self.world.teacher.script(replies.chat("complex"))
        self.gateway.close_circuits()

    def ask_anew(self) -> Answer:
        """The first turn of a conversation that nobody knows."""
        return self.ask(new_user())

    def ask(self, name: str) -> Answer:
        """A turn of the conversation of this name, which its user has no other of."""
        text = f"a question that no keyword knows, number {next(numbers)}"
        return self.gateway.chat(text, tier=None, user=name, headers={"X-Hermes-Session": name})

    def served(self) -> dict[str, float]:
        """How many completion requests each worker has taken on, by the process."""
        return requests_by_worker(self._counts)

    def by_both(self, ask: Callable[[], Answer]) -> list[Answer]:
        """The answers to a crowd of requests, of which each worker has served some."""
        before = self.served()
        answers: list[Answer] = []
        while sum(number > before.get(name, 0) for name, number in self.served().items()) < WORKERS:
            assert len(answers) < 20 * AT_ONCE, "one worker serves everything"
            answers += together(AT_ONCE, ask)
        return answers

    def metrics(self) -> dict[str, float]:
        """What one of the workers says when it is scraped."""
        families = text_string_to_metric_families(self.gateway.admin("GET", "/metrics").body.decode())
        samples = [sample for family in families for sample in family.samples]
        return {" ".join([sample.name, *sample.labels.values()]): sample.value for sample in samples}

    def said(self, sentence: str) -> int:
        """How often the workers have printed it."""
        return self.gateway.logs().count(sentence)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with RedisServer() as redis:
        made = Pair(redis, tmp_path_factory.mktemp("metrics"))
        yield made
        logs = made.gateway.logs()
        made.world.close()
    assert "Traceback" not in logs, logs[logs.index("Traceback") - 500 :][:5000]


@pytest.fixture
def two(pair: Pair) -> Iterator[Pair]:
    """The pair, as good as new."""
    pair.begin()
    yield pair
    pair.redis.recover()


def together(number: int, ask: Callable[[], Answer]) -> list[Answer]:
    with ThreadPoolExecutor(number) as pool:
        return [future.result() for future in [pool.submit(ask) for _ in range(number)]]


def decisions(answers: list[Answer]) -> set[str]:
    return {got.headers.get("x-hermes-decision", f"status {got.status}") for got in answers}


def models(answers: list[Answer]) -> set[str]:
    return {got.headers.get("x-hermes-model", f"status {got.status}") for got in answers}


# -- as one -----------------------------------------------------------------------------------------------


def test_a_conversation_is_known_to_both(two: Pair) -> None:
    user = new_user()
    assert decisions([two.ask(user)]) == {"teacher"}

    answers = two.by_both(lambda: two.ask(user))

    assert decisions(answers) == {"session"}
    assert len(two.world.teacher.calls) == 1


def test_a_conversation_that_an_operator_ends_is_ended_for_both(two: Pair) -> None:
    user = new_user()
    two.ask(user)
    known = two.gateway.admin("GET", "/admin/sessions").json
    (key,) = [key for key, session in known["sessions"].items() if session["user_id"] == user]

    assert two.gateway.admin("DELETE", f"/admin/sessions/{key}").status == 200

    assert two.gateway.admin("DELETE", f"/admin/sessions/{key}").status == 404
    assert decisions([two.ask(user)]) == {"teacher"}
    counts = {two.gateway.request("GET", "/health").json["sessions"] for _ in range(6)}
    assert counts == {known["count"]}


def test_a_breaker_that_one_opens_is_open_for_the_other(two: Pair) -> None:
    two.world.primary.script(error(500))
    for _ in range(3):
        assert two.gateway.chat().status == 200
    asked = len(two.world.primary.calls)

    answers = two.by_both(two.gateway.chat)

    assert models(answers) == {"fallback-model"}
    assert len(two.world.primary.calls) == asked == 3
    assert {two.metrics()["hermes_router_circuits_open"] for _ in range(4)} == {1}


@pytest.mark.parametrize(
    ("limits", "asked", "granted"),
    [
        pytest.param({"concurrent": 3}, 24, 3, id="at once"),
        pytest.param({"requests_per_minute": 7}, 24, 7, id="a minute"),
        pytest.param({"tokens_per_minute": 1000}, 24, 4, id="tokens a minute"),
    ],
)
def test_a_limit_is_one_for_both(two: Pair, limits: dict[str, int], asked: int, granted: int) -> None:
    assert two.gateway.reload(two.config(limits={"per_user": limits})).status == 200
    time.sleep(REACHES_ALL_S)
    eventually(lambda: time.time() % 60, lambda second: second < 55, 6)  # not across the turn of a minute
    two.world.primary.script(replies.answer(200, completion("ok"), after_s=1.0))
    user, before = new_user(), two.served()

    answers = together(asked, lambda: two.gateway.chat(user=user, max_tokens=240))

    assert sorted(got.status for got in answers) == [200] * granted + [429] * (asked - granted)
    assert {got.error["code"] for got in answers if got.status == 429} == {"rate_limit_exceeded"}
    others = two.by_both(lambda: two.gateway.chat(max_tokens=240))
    assert {got.status for got in others} == {200}, "of other users"
    assert sum(two.served().values()) - sum(before.values()) == len(answers) + len(others)
    assert two.gateway.reload(two.config()).status == 200
    time.sleep(REACHES_ALL_S)


def test_exactly_one_of_all_probes(two: Pair) -> None:
    circuits = {"failure_threshold": 3, "recovery_timeout_sec": 0.3, "window_sec": 60}
    patient = [two.world.endpoint(provider, timeout_seconds=10) for provider in (two.world.primary, two.world.fallback)]
    assert two.gateway.reload(two.config(simple=patient, circuit_breaker=circuits)).status == 200
    time.sleep(REACHES_ALL_S)
    two.world.primary.script(error(500))
    for _ in range(3):
        two.gateway.chat()
    # The probe is under way until all others have asked.
    two.world.primary.script(replies.answer(200, completion("well"), after_s=2.0))
    eventually(lambda: two.gateway.circuits()["primary-model"]["retry_in_sec"], lambda left: not left)

    answers = together(20, two.gateway.chat)

    assert sorted(got.headers["x-hermes-fallback-level"] for got in answers) == ["0"] + ["1"] * 19
    assert two.gateway.reload(two.config()).status == 200


def test_a_reload_reaches_both_within_a_second(two: Pair) -> None:
    lone = two.world.endpoint(two.world.lone)
    renamed = two.config(simple=[{**lone, "model": "renamed-model"}])

    assert two.gateway.reload(renamed).status == 200

    reloaded_at = time.monotonic()
    answers = []
    while time.monotonic() < reloaded_at + REACHES_ALL_S + 0.5:
        answers += together(4, two.gateway.chat)
    answers += two.by_both(two.gateway.chat)
    assert models([got for got in answers if got.started_at > reloaded_at + REACHES_ALL_S]) == {"renamed-model"}
    assert two.gateway.reload(two.config()).status == 200
    eventually(lambda: models(two.by_both(two.gateway.chat)), lambda found: "renamed-model" not in found)


def test_a_bad_file_changes_nothing_in_either(two: Pair) -> None:
    refused = two.gateway.reload(two.config(circuit_braker={}))

    assert refused.status == 400
    assert [problem["path"] for problem in refused.json["errors"]] == ["circuit_braker"]
    until = time.monotonic() + REACHES_ALL_S
    while time.monotonic() < until:
        assert models(two.by_both(two.gateway.chat)) == {"primary-model"}
    assert two.said("not good here") == 0
    two.gateway.write_config(two.config())


def test_whichever_is_scraped_answers_for_both(two: Pair) -> None:
    names = ("hermes_router_requests_total simple", "hermes_request_duration_seconds_count simple")
    before = two.metrics()
    answers = two.by_both(two.gateway.chat)

    scrapes = [two.metrics() for _ in range(6)]

    assert {tuple(scrape[name] - before[name] for name in names) for scrape in scrapes} == {(len(answers),) * 2}
    assert {scrape["hermes_build_info 0.1.0"] for scrape in scrapes} == {1}
    assert {scrape["hermes_router_sessions_active"] for scrape in scrapes} == {before["hermes_router_sessions_active"]}
    assert {scrape["hermes_state_up"] for scrape in scrapes} == {1}
    calls, total = before["hermes_classifier_latency_seconds_count"], before["hermes_classifier_latency_seconds_sum"]
    assert scrapes[0]["hermes_router_classifier_latency_ms_avg"] == pytest.approx(1000 * total / calls)


def test_what_a_killed_worker_counted_still_counts(two: Pair) -> None:
    appended, moved = (f"hermes_ledger_rows_total {stage}" for stage in ("appended", "moved"))
    before = eventually(two.metrics, lambda read: read[moved] == read[appended], 10)
    victim = int(next(iter(two.served())).rpartition("_")[2])

    os.kill(victim, signal.SIGKILL)
    eventually(two.served, lambda workers: len(workers) > WORKERS, 10)

    after = two.metrics()
    counters = [name for name in before if "_total" in name or "_count" in name]
    assert {name: after[name] for name in counters} == {name: before[name] for name in counters}
    assert two.gateway.chat().status == 200


# -- without Redis ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hangs", "is killed"])
def test_whatever_becomes_of_redis_every_caller_is_answered(two: Pair, how: str) -> None:
    warned, came_back = two.said(AWAY), two.said(BACK)
    with Load(two.ask) as load:
        (two.redis.hang if how == "hangs" else two.redis.kill)()
        gone_at = time.monotonic()
        load.goes_on()
        assert eventually(lambda: two.said(AWAY), lambda said: said == warned + WORKERS) == warned + WORKERS
        assert two.metrics()["hermes_state_up"] == 0
        assert two.gateway.request("GET", "/health/ready").status == 200
        load.goes_on()
        assert two.said(AWAY) == warned + WORKERS

        (two.redis.go_on if how == "hangs" else two.redis.start)()
        back_at = time.monotonic()
        eventually(lambda: two.said(BACK), lambda said: said == came_back + WORKERS, RECOVERY_S)
        took_s = time.monotonic() - back_at
        load.goes_on()

    assert {got.status for got in load.answers} == {200}
    assert took_s < RECOVERY_S
    assert max(got.took_s for got in load.answers if got.started_at > gone_at) < 1.0
    assert decisions(load.answers[-30:]) == {"session"}
    assert two.metrics()["hermes_state_up"] == 1
    assert two.said(AWAY) == warned + WORKERS


def test_without_redis_a_worker_still_opens_breakers_and_tells_of_them_later(two: Pair) -> None:
    came_back = two.said(BACK)
    two.world.primary.script(error(500))
    two.redis.hang()
    answers = together(AT_ONCE, two.gateway.chat) + [two.gateway.chat() for _ in range(8)]
    asked = len(two.world.primary.calls)

    two.redis.go_on()
    eventually(lambda: two.said(BACK), lambda said: said == came_back + WORKERS, RECOVERY_S)

    assert {got.status for got in answers} == {200}
    assert models(two.by_both(two.gateway.chat)) == {"fallback-model"}
    assert len(two.world.primary.calls) == asked


def test_a_reload_without_redis_reaches_the_other_when_it_is_back(two: Pair) -> None:
    came_back = two.said(BACK)
    two.redis.hang()
    eventually(lambda: two.metrics()["hermes_state_up"], lambda is_up: not is_up)
    renamed = two.config(simple=[{**two.world.endpoint(two.world.lone), "model": "renamed-model"}])
    assert two.gateway.reload(renamed).status == 200
    two.redis.go_on()
    eventually(lambda: two.said(BACK), lambda said: said == came_back + WORKERS, RECOVERY_S)

    found = eventually(lambda: models(two.by_both(two.gateway.chat)), lambda found: found == {"renamed-model"})

    assert found == {"renamed-model"}
    assert two.gateway.reload(two.config()).status == 200
    eventually(lambda: models(two.by_both(two.gateway.chat)), lambda found: "renamed-model" not in found)


def test_conversations_outlive_a_flushed_redis(two: Pair) -> None:
    user, offered = new_user(), two.said(EMPTY)
    two.ask(user)

    two.redis.ask("FLUSHALL")
    eventually(lambda: two.said(EMPTY), lambda said: said == offered + WORKERS)

    answers = two.by_both(lambda: two.ask(user))
    assert decisions(answers) == {"session"}


def test_a_server_starts_and_answers_without_redis(tmp_path: Path) -> None:
    with RedisServer() as redis:
        redis.kill()
        env = {"HERMES_STATE_URL": redis.url, "WEB_CONCURRENCY": str(WORKERS)}
        world = World(env={**env, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)})
        try:
            assert world.gateway.chat().status == 200
            away = eventually(lambda: world.gateway.logs().count(AWAY), lambda said: said == WORKERS, RECOVERY_S)
            assert away == WORKERS, "a worker that begins later has nothing to come back from"
            redis.start()
            back = eventually(lambda: world.gateway.logs().count(BACK), lambda said: said == WORKERS, RECOVERY_S)
            assert back == WORKERS
            assert world.gateway.chat().status == 200
        finally:
            world.close()


def test_a_surrogate_that_is_put_in_force_decides_in_every_worker(pair: Pair) -> None:
    teacher = {"model": "teacher-model", "base_url": pair.world.teacher.base_url, "api_key_env": ""}
    surrogate = {"audit_rate": 0, "confidence_threshold": None}
    assert pair.gateway.reload(pair.config(classifier={**teacher, "surrogate": surrogate})).status == 200
    folder = pair.gateway.folder / "data" / "surrogate"
    shutil.copytree(STARTER, folder / "20260510T000000Z-aaaaaa")
    manifest = json.loads((folder / "20260510T000000Z-aaaaaa" / "manifest.json").read_text())
    manifest["thresholds"]["accept"] = 0.0
    (folder / "20260510T000000Z-aaaaaa" / "manifest.json").write_text(json.dumps(manifest))

    (folder / "current").write_text("20260510T000000Z-aaaaaa")

    eventually(lambda: decisions(pair.by_both(pair.ask_anew)), lambda found: found == {"surrogate"}, 10)
    assert pair.gateway.reload(pair.config()).status == 200
