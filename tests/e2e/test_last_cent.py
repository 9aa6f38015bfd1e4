"""Two hundred requests at once on a user's last cent: at most one of them too much, and all books agree afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal

import pytest

from tests.redis_server import RedisServer

from . import replies
from .client import Answer
from .gateway import eventually, new_user
from .world import FILLING_S, PRICE, World

CROWD = 200
LAST_CENT_NANOUSD = 10_000_000
USAGE = {"prompt_tokens": 1000, "completion_tokens": 900, "total_tokens": 1900}
COST_NANOUSD = 1000 * 1000 + 900 * 2000
MAX_TOKENS = 1400
ESTIMATE_NANOUSD = MAX_TOKENS * 2000
"""But for the prompt's few tokens, which are estimated: see `PROMPT_NANOUSD`."""

PROMPT_NANOUSD = 100 * 1000
PATIENCE_S = 40.0
HELD_S = 2.5
"""What the provider takes: until all of the crowd have asked."""


@dataclass(frozen=True)
class Till:
    """A gateway, and its Redis where it has one."""

    world: World
    redis: RedisServer | None

    def put_budget(self, user: str, nanousd: int) -> None:
        """Sets the user's limit and waits until it is in force everywhere."""
        limit_usd = float(Decimal(nanousd).scaleb(-9))
        put = {"scope": "user", "id": user, "period": "month", "limit_usd": limit_usd}
        assert self.world.gateway.admin("PUT", "/admin/budgets", put).status == 200
        if self.redis is not None:
            self.world.until_every_worker_knows()

    def ask(self, user: str) -> Answer:
        """One request."""
        headers = {"X-Hermes-User": user, "X-Hermes-Tier": "simple"}
        body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], "max_tokens": MAX_TOKENS}
        return self.world.gateway.request("POST", "/v1/chat/completions", headers, body, PATIENCE_S)

    def shown_nanousd(self, user: str) -> int:
        """What operators are shown as spent."""
        budgets = self.world.gateway.admin("GET", "/admin/budgets").json["budgets"]
        (found,) = [budget["spent_usd"] for budget in budgets if budget["id"] == user]
        return round(Decimal(str(found)) * 10**9)

    def counted_nanousd(self, user: str) -> list[int]:
        """The user's counters in Redis, which hold what is spent and what is set aside."""
        assert self.redis is not None
        names = self.redis.ask("KEYS", f"hermes:budget:*:user:{user}")
        return [int(self.redis.ask("GET", name)) for name in names]


@pytest.fixture(
    scope="module",
    params=[pytest.param(1, id="memory, one worker"), pytest.param(2, id="Redis, two workers")],
)
def till(request: pytest.FixtureRequest) -> Iterator[Till]:
    with ExitStack() as held:
        redis = held.enter_context(RedisServer()) if request.param > 1 else None
        shared = {"HERMES_STATE_URL": redis.url, "WEB_CONCURRENCY": "2"} if redis else {}
        world = World(env=shared, attempt_s=FILLING_S)
        held.callback(world.close)
        world.configure(simple=[world.endpoint(world.primary, timeout_seconds=30)])
        if redis is not None:
            world.until_every_worker_knows()
        yield Till(world, redis)
        assert "Traceback" not in world.gateway.logs()


def test_two_hundred_at_once_do_not_share_the_last_cent_twice(till: Till) -> None:
    user = new_user()
    till.put_budget(user, LAST_CENT_NANOUSD)
    till.world.primary.script(replies.chat(usage=USAGE, after_s=HELD_S))

    with ThreadPoolExecutor(CROWD) as pool:
        answers = list(pool.map(lambda _: till.ask(user), range(CROWD)))

    # At most one request's estimate too much, and nobody refused while there was something left.
    served = [answer for answer in answers if answer.status == 200]
    refused = [answer for answer in answers if answer.status != 200]
    reserved_nanousd = len(served) * ESTIMATE_NANOUSD
    print(f"{len(served)} of {CROWD} served, for {len(served) * COST_NANOUSD} nano-USD of {LAST_CENT_NANOUSD}")
    assert len(served) == len(till.world.primary.calls)
    assert reserved_nanousd + len(served) * PROMPT_NANOUSD >= LAST_CENT_NANOUSD
    assert (len(served) - 1) * ESTIMATE_NANOUSD < LAST_CENT_NANOUSD
    assert len(served) * COST_NANOUSD <= LAST_CENT_NANOUSD + ESTIMATE_NANOUSD + PROMPT_NANOUSD

    # Refusals say when to come again, and that repeating is of no use.
    assert Counter((a.status, a.error["code"], a.headers["x-should-retry"]) for a in refused) == {
        (429, "budget_exceeded", "false"): CROWD - len(served)
    }
    assert all(0 < int(answer.headers["retry-after"]) <= 31 * 86_400 for answer in refused)

    # The provider, the rows and what operators are shown agree.
    spent_nanousd = len(served) * COST_NANOUSD
    rows = till.world.gateway.usage(CROWD, user_id=user, limit=1000)
    assert Counter(row["status"] for row in rows) == {"ok": len(served), "refused": CROWD - len(served)}
    assert sum(round(Decimal(str(row["estimated_cost_usd"] or 0)) * 10**9) for row in rows) == spent_nanousd
    assert till.shown_nanousd(user) == spent_nanousd
    if till.redis is not None:
        assert eventually(lambda: till.counted_nanousd(user), lambda counted: counted == [spent_nanousd]) == [
            spent_nanousd
        ]


def test_what_was_set_aside_is_back_to_the_last_millionth(till: Till) -> None:
    """The counter itself: a limit of just what was spent refuses, one of a micro-dollar more lets one pass."""
    user = new_user()
    till.put_budget(user, LAST_CENT_NANOUSD)
    till.world.primary.script(replies.chat(usage=USAGE, after_s=HELD_S / 10))
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda _: till.ask(user), range(40)))
    spent_nanousd = sum(answer.status == 200 for answer in answers) * COST_NANOUSD

    till.put_budget(user, spent_nanousd)
    exactly = [till.ask(user).status for _ in range(4)]
    till.put_budget(user, spent_nanousd + 1000)
    a_millionth_more = [till.ask(user).status for _ in range(4)]

    assert spent_nanousd > 0
    assert exactly == [429] * 4
    assert a_millionth_more == [200, 429, 429, 429]


@pytest.mark.parametrize("till", [pytest.param(2, id="Redis, two workers")], indirect=True)
@pytest.mark.parametrize("held_s", [0.05, 0.4])
def test_a_flush_of_redis_amid_requests_spends_no_budget_twice(till: Till, held_s: float) -> None:
    """Those of the other worker count as well: under way, or just ended, with rows that nobody else can see yet."""
    assert till.redis is not None
    user, most = new_user(), 30
    put = {"scope": "user", "id": user, "period": "month", "limit_requests": most}
    assert till.world.gateway.admin("PUT", "/admin/budgets", put).status == 200
    till.world.until_every_worker_knows()
    till.world.primary.script(replies.chat(after_s=held_s))

    with ThreadPoolExecutor(2 * most) as pool:
        asked = [pool.submit(till.ask, user) for _ in range(2 * most)]
        eventually(lambda: len(till.world.primary.calls), lambda calls: calls >= most / 2)
        till.redis.ask("FLUSHALL")
        asked += [pool.submit(till.ask, user) for _ in range(2 * most)]
        outcome = Counter(one.result().status for one in asked)

    assert outcome == {200: most, 429: 3 * most}


assert PRICE == {"input_per_mtok": 1.0, "output_per_mtok": 2.0}, "the figures above are made of these"
