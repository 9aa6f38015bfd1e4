"""What operators change under load is in force in every worker within a second; nobody else is disturbed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.redis_server import RedisServer

from . import replies
from .client import Answer
from .gateway import eventually, new_user
from .load import Load, requests_by_worker
from .world import EVERYWHERE_S, FILLING_S, World

WORKERS = 2
WATCHED_S = 1.6
"""How long answers are looked at after a change."""

MONTHLY = {"scope": "user", "period": "month"}


@dataclass(frozen=True)
class Site:
    """Two workers on one Redis and one database, with a key for those who are changed and one for bystanders."""

    world: World
    off_file: Path
    counts: Path
    changed: dict[str, Any]
    user: str
    bystander: str

    def admin(self, method: str, path: str, body: Any = None) -> None:
        """A change, which must succeed."""
        answer = self.world.gateway.admin(method, path, body)
        assert answer.status == 200, answer.body

    def ask(self, user: str) -> Answer:
        """A call with the key of those who are changed."""
        return self._complete(self.changed["key"], self.user)

    def stand_by(self, user: str) -> Answer:
        """A call of somebody else."""
        return self._complete(self.bystander, user)

    def _complete(self, key: str, user: str) -> Answer:
        body = {"messages": [{"role": "user", "content": "hi"}], "metadata": {"function_name": "f", "user_id": user}}
        return self.world.gateway.request("POST", "/v1/completions", {"Authorization": f"Bearer {key}"}, body)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Path, Path]]:
    counts, off_file = tmp_path_factory.mktemp("metrics"), tmp_path_factory.mktemp("switch") / "off"
    with RedisServer() as redis:
        env = {
            "WEB_CONCURRENCY": str(WORKERS),
            "HERMES_STATE_URL": redis.url,
            "HERMES_OFF_FILE": str(off_file),
            "PROMETHEUS_MULTIPROC_DIR": str(counts),
        }
        world = World(env=env, attempt_s=FILLING_S)
        yield world, off_file, counts
        logs = world.gateway.logs()
        world.close()
    assert "Traceback" not in logs


@pytest.fixture
def site(running: tuple[World, Path, Path]) -> Site:
    world, off_file, counts = running
    world.primary.script(replies.chat(after_s=0.03))
    world.lone.script(replies.chat(after_s=0.03))
    keys = [
        world.gateway.admin("POST", "/admin/keys", {"name": name, "scopes": ["gateway"]}).json
        for name in ("changed", "bystander")
    ]
    return Site(world, off_file, counts, keys[0], new_user(), keys[1]["key"])


@dataclass(frozen=True)
class Change:
    """One that an operator makes, and by which answers one sees that it is in force."""

    make: Callable[[Site], None]
    is_old: Callable[[Answer], bool]
    refusals: tuple[tuple[int, str], ...]
    """Status and code of what is refused from then on; none: nothing is."""

    concerns_all: bool
    undo: Callable[[Site], None] = lambda site: None


def served(answer: Answer) -> bool:
    """The old behaviour, where the new one refuses."""
    return answer.status == 200


CHANGES = {
    "a key is revoked": Change(
        lambda site: site.admin("DELETE", f"/admin/keys/{site.changed['id']}"),
        served,
        ((401, "invalid_api_key"),),
        concerns_all=False,
    ),
    "a user's budget is set to nothing": Change(
        lambda site: site.admin("PUT", "/admin/budgets", {**MONTHLY, "id": site.user, "limit_requests": 0}),
        served,
        ((429, "budget_exceeded"),),
        concerns_all=False,
    ),
    "a pin names another model": Change(
        lambda site: site.admin("PUT", "/admin/pins/model.chat", {"value": "lone-model"}),
        lambda answer: answer.headers["x-hermes-model"] == "primary-model",
        (),
        concerns_all=True,
        undo=lambda site: site.admin("DELETE", "/admin/pins/model.chat"),
    ),
    "the kill switch is thrown by its pin": Change(
        lambda site: site.admin("PUT", "/admin/pins/ai.gateway.enabled", {"value": "false"}),
        served,
        ((503, "gateway_disabled"),),
        concerns_all=True,
        undo=lambda site: site.admin("PUT", "/admin/pins/ai.gateway.enabled", {"value": "true"}),
    ),
    "the kill switch is thrown by its file": Change(
        lambda site: site.off_file.touch(),
        served,
        ((503, "gateway_disabled"),),
        concerns_all=True,
        undo=lambda site: site.off_file.unlink(),
    ),
}


def last_after_s(answers: list[Answer], is_one: Callable[[Answer], bool], moment: float) -> float:
    """When, after a moment, the last of these answers began: 0 where none did."""
    return max((answer.started_at - moment for answer in answers if is_one(answer)), default=0.0)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_in_force_everywhere_within_a_second(site: Site, name: str) -> None:
    change = CHANGES[name]
    before = requests_by_worker(site.counts)
    time.sleep(EVERYWHERE_S)  # the keys are new
    with Load(site.ask) as load, Load(site.stand_by, 2) as bystanders:
        eventually(
            lambda: [n - before.get(w, 0) for w, n in requests_by_worker(site.counts).items()],
            lambda numbers: sum(number > 5 for number in numbers) == WORKERS,
        )
        change.make(site)
        made_at = time.monotonic()
        time.sleep(WATCHED_S)
        undone_from = time.monotonic()
        change.undo(site)
        undone_at = time.monotonic()
        time.sleep(WATCHED_S if change.concerns_all else 0)

    # One that began before the change was taken back may have been served after it.
    changed = [answer for answer in load.since(made_at) if answer.ended_at < undone_from]
    took_s = last_after_s(changed, change.is_old, made_at)
    taken_back_s = last_after_s(load.since(undone_at), lambda a: not change.is_old(a), undone_at)
    print(f"{name}: in force everywhere after {took_s:.2f} s, taken back after {taken_back_s:.2f} s")
    assert took_s < EVERYWHERE_S
    assert not any(change.is_old(answer) for answer in changed[-20:])
    if change.concerns_all:
        assert taken_back_s < EVERYWHERE_S

    # Nobody fails but those who are refused, and they are refused in the right words.
    refused = {(a.status, a.error["code"]) for a in [*load.answers, *bystanders.answers] if a.status != 200}
    assert refused == set(change.refusals)
    assert load.faults == bystanders.faults == []
    if not change.concerns_all:
        assert {answer.status for answer in bystanders.answers} == {200}


def test_who_is_refused_by_the_switch_has_not_waited(site: Site) -> None:
    """About a millisecond of Hermes's own; the rest is the connection and a busy machine."""
    site.off_file.touch()
    time.sleep(EVERYWHERE_S / 2)
    try:
        answers = [site.stand_by(new_user()) for _ in range(60)]
    finally:
        site.off_file.unlink()

    assert {answer.status for answer in answers} == {503}
    rows = [site.world.gateway.row(answer) for answer in answers[:10]]
    own_ms, all_ms = (sorted(times)[len(times) // 2] for times in _times(rows, answers))
    print(f"refused in {own_ms:.2f} ms, with the connection {all_ms:.2f} ms (medians)")
    assert own_ms < 1.0
    assert all_ms < 10.0
    eventually(lambda: [site.stand_by(new_user()).status for _ in range(8)], lambda seen: set(seen) == {200})


def _times(rows: list[dict[str, Any]], answers: list[Answer]) -> tuple[list[float], list[float]]:
    return [row["duration_ms"] for row in rows], [answer.took_s * 1000 for answer in answers]
