"""A target sees what the pinned model sees, and no caller, budget, limit, breaker or key sees the target."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from . import replies
from .client import Answer
from .gateway import eventually
from .provider import Call
from .replies import Reply, error
from .world import World

TARGET = "lone-model"
GATE = {"min_samples": 50}


@pytest.fixture
def shadowed(world: World) -> Iterator[World]:
    """A world in which each call of chat is compared with the lone model; the teacher's provider judges."""
    judge = {"model": "judge-model", "base_url": world.teacher.base_url, "api_key_env": ""}
    world.configure(shadow={"judge": judge, "gate": GATE, "daily_usd": 5}, logging={"store_prompts": "full"})
    pin(world, "model.chat.target", TARGET)
    pin(world, "model.chat.target.sample_rate", "1")
    yield world
    for name in ("model.chat", "model.chat.target", "model.chat.target.sample_rate"):
        world.gateway.admin("DELETE", f"/admin/pins/{name}")


def pin(world: World, name: str, value: str) -> None:
    assert world.gateway.admin("PUT", f"/admin/pins/{name}", {"value": value}).status == 200


def key_of(world: World, **more: Any) -> str:
    made = world.gateway.admin("POST", "/admin/keys", {"name": "svc", "scopes": ["gateway"], **more})
    return str(made.json["key"])


def ask(world: World, key: str, text: str = "hello", user: str = "", **body: Any) -> Answer:
    sent = {
        "messages": [{"role": "user", "content": text}],
        "metadata": {"function_name": "kit", "user_id": user or f"u{time.monotonic_ns()}"},
        **body,
    }
    path = "/v1/completions/stream" if body.get("stream") else "/v1/completions"
    return world.gateway.request("POST", path, {"Authorization": f"Bearer {key}"}, sent)


def sample(world: World, request_id: str) -> dict[str, Any]:
    """The sample of a request, as soon as it is there."""

    def find() -> list[dict[str, Any]]:
        found = world.gateway.admin("GET", "/admin/shadow").json
        rows: list[dict[str, Any]] = []
        for run in found["runs"]:
            rows += world.gateway.admin("GET", f"/admin/shadow?run={run['id']}&limit=50").json["samples"]
        return [row for row in rows if row["request_id"] == request_id]

    (row,) = eventually(find, bool)
    return row


def judging(better: str) -> Callable[[Call], Reply]:
    """A judge who says so of the answer that holds a word, in whichever place it stands."""

    def reply(call: Call) -> Reply:
        prompt = call.json["messages"][0]["content"]
        number = re.findall(r'"question": "([0-9a-f]+)"', prompt)[-1]
        where = "first" if prompt.index(better) < prompt.index("second answer>") else "second"
        return replies.chat(f'{{"question": "{number}", "better": "{where}", "reason": "It says {better}."}}')

    return reply


def test_both_answers_are_kept_and_judged(shadowed: World) -> None:
    shadowed.primary.script(replies.chat("the pin's words"))
    shadowed.lone.script(replies.chat("the target's words"))
    shadowed.teacher.script(judging("target's"))

    answer = ask(shadowed, key_of(shadowed), "which words?")

    assert answer.json["choices"][0]["message"]["content"] == "the pin's words"
    found = sample(shadowed, answer.request_id)
    assert (found["primary"]["answer"], found["target"]["answer"]) == ("the pin's words", "the target's words")
    assert (found["verdict"], found["judge"]["by"], found["prompt"]) == ("better", "judge", "which words?")
    assert found["judge"]["reason"] == "It says target's."
    assert found["primary"]["cost_usd"] == found["target"]["cost_usd"] > 0
    assert found["primary"]["latency_ms"] > 0
    assert found["target"]["latency_ms"] > 0
    assert 0 < found["similarity"] < 1
    sent, shown = shadowed.primary.calls[0].json, shadowed.lone.calls[0].json
    assert shown == {**sent, "model": TARGET}, "the target sees what the pinned model sees"
    assert len(shadowed.gateway.usage(function_name="kit", request_id=answer.request_id)) == 1


def test_an_answer_that_is_too_large_to_be_compared_is_paid_for(shadowed: World) -> None:
    shadowed.primary.script(replies.chat("the pin's words"))
    shadowed.lone.script(replies.chat("the target's words" * 120_000))
    key = key_of(shadowed)

    def spent_usd() -> float:
        return float(shadowed.gateway.admin("GET", "/admin/shadow").json["spent_today_usd"])

    def asked_once_more() -> float:
        """A busy machine drops samples, so one request may not be enough."""
        ask(shadowed, key, "which words?")
        return spent_usd()

    def dropped() -> int:
        return int(shadowed.gateway.admin("GET", "/admin/shadow").json["queue"]["dropped"].get("too_large", 0))

    before = spent_usd()
    eventually(asked_once_more, lambda _: dropped() > 0, within_s=20.0)

    assert dropped() > 0
    assert eventually(spent_usd, lambda usd: usd > before) > before


def test_streams_are_compared_too(shadowed: World) -> None:
    shadowed.primary.script(replies.stream("one ", "two"))
    shadowed.lone.script(replies.stream("three ", "four"))
    shadowed.teacher.script(judging("one two"))

    answer = ask(shadowed, key_of(shadowed), stream=True)

    assert b"one " in answer.body
    assert b"four" not in answer.body
    found = sample(shadowed, answer.request_id)
    assert (found["primary"]["answer"], found["target"]["answer"]) == ("one two", "three four")
    assert (found["verdict"], found["stream"]) == ("worse", True)
    assert found["target"]["ttft_ms"] > 0
    assert found["primary"]["ttft_ms"] > 0


def test_the_same_answers_are_a_tie_without_a_judge(shadowed: World) -> None:
    answer = ask(shadowed, key_of(shadowed))

    assert sample(shadowed, answer.request_id)["judge"]["by"] == "equal"
    assert shadowed.teacher.calls == []


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(error(500), id="fails"),
        pytest.param(error(503, headers={"Retry-After": "1"}), id="is busy"),
        pytest.param(error(429, headers={"Retry-After": "60"}), id="limits"),
        pytest.param(replies.raw(b"garbage"), id="talks rubbish"),
        pytest.param(replies.silence(), id="says nothing"),
        pytest.param(error(400), id="refuses"),
    ],
)
def test_a_target_that_fails_is_asked_once_and_nobody_else_notices(shadowed: World, reply: Reply) -> None:
    shadowed.lone.script(reply)

    answer = ask(shadowed, key_of(shadowed))

    assert answer.status == 200
    found = sample(shadowed, answer.request_id)
    assert found["target"]["error"]
    assert (found["verdict"], found["judge"]["by"]) == ("worse", "error")
    assert len(shadowed.lone.calls) == 1
    assert shadowed.fallback.calls == []
    circuit = shadowed.gateway.circuits()[TARGET]
    assert (circuit["state"], circuit["failures"]) == ("closed", 0)
    shadowed.lone.script(replies.chat("of its own tier"))
    assert shadowed.gateway.chat(tier="complex").json["choices"][0]["message"]["content"] == "of its own tier", (
        "no key of it rests"
    )


def test_a_target_that_refuses_an_option_of_ours_is_asked_without_it_the_next_time(shadowed: World) -> None:
    def reply(call: Call) -> Reply:
        if "stream_options" in call.json:
            return error(400, "Unrecognized request argument supplied: stream_options")
        return replies.stream("of the target", usage=None)

    shadowed.lone.script(reply)
    shadowed.primary.script(replies.stream("of the pin"))
    key = key_of(shadowed)

    ask(shadowed, key, stream=True)
    eventually(lambda: len(shadowed.lone.calls), lambda calls: calls == 1)
    answer = ask(shadowed, key, stream=True)

    assert sample(shadowed, answer.request_id)["target"]["answer"] == "of the target"
    assert len(shadowed.lone.calls) == 2
    assert shadowed.gateway.admin("GET", "/admin/shadow").json["queue"]["dropped"]["unfit"] == 1


def test_a_slow_target_costs_the_caller_nothing(shadowed: World) -> None:
    shadowed.lone.script(replies.chat("late", after_s=0.5))

    began = time.monotonic()
    answer = ask(shadowed, key_of(shadowed))
    took_s = time.monotonic() - began

    assert answer.status == 200
    assert took_s < 0.4
    assert sample(shadowed, answer.request_id)["target"]["latency_ms"] >= 500


def test_limits_and_budgets_count_the_request_alone(shadowed: World) -> None:
    key = key_of(shadowed, limits={"requests_per_minute": 2})
    user = f"saver-{time.monotonic_ns()}"
    budget = {"scope": "user", "id": user, "period": "day", "limit_requests": 2}
    assert shadowed.gateway.admin("PUT", "/admin/budgets", budget).status == 200
    shadowed.lone.script(replies.chat("other"))
    shadowed.teacher.script(judging("other"))

    answers = [ask(shadowed, key, user=user) for _ in range(3)]
    for answer in answers[:2]:
        sample(shadowed, answer.request_id)

    assert [answer.status for answer in answers] == [200, 200, 429]
    (spent,) = [b for b in shadowed.gateway.admin("GET", "/admin/budgets").json["budgets"] if b["id"] == user]
    (row,) = shadowed.gateway.usage(request_id=answers[0].request_id)
    assert spent["spent_requests"] == 2
    assert float(spent["spent_usd"]) == pytest.approx(2 * float(row["estimated_cost_usd"]))


def test_a_primary_that_fails_loses_against_a_target_that_answers(shadowed: World) -> None:
    shadowed.primary.script(error(500))

    answer = ask(shadowed, key_of(shadowed))

    assert answer.headers["x-hermes-model"] == "fallback-model"
    found = sample(shadowed, answer.request_id)
    assert (found["verdict"], found["primary"]["error"]) == ("better", "the provider answered 500: no")


def test_a_role_of_the_router_is_compared_as_well(shadowed: World) -> None:
    shadowed.lone.script(replies.chat("other"))
    shadowed.teacher.script(judging("other"))

    answer = shadowed.gateway.chat(tier=None, model="chat")

    assert sample(shadowed, answer.request_id)["role"] == "chat"


def test_other_requests_are_nobodys_sample(shadowed: World) -> None:
    shadowed.gateway.chat()
    ask(shadowed, key_of(shadowed), role="reasoning")
    answer = ask(shadowed, key_of(shadowed))

    sample(shadowed, answer.request_id)

    assert len(shadowed.lone.calls) == 2, "one as the model of its own role, one as the target"


def test_texts_are_kept_as_far_as_the_configuration_says(shadowed: World) -> None:
    shadowed.configure(logging={"store_prompts": "none"})
    shadowed.lone.script(replies.chat("other"))

    found = sample(shadowed, ask(shadowed, key_of(shadowed), "a secret").request_id)

    assert (found["prompt"], found["primary"]["answer"], found["target"]["answer"]) == (None, None, None)
    assert found["target"]["completion_tokens"] is not None


def test_residency_binds_target_and_judge(shadowed: World) -> None:
    """The pinned model and the target's provider are in the EU at first, the judge is nowhere."""
    only_eu = [{"match": {"use_case": "payroll"}, "regions": ["eu"], "store_text": False}]
    judge = {"model": "judge-model", "base_url": shadowed.teacher.base_url, "api_key_env": ""}
    simple = [shadowed.endpoint(shadowed.primary, region="eu")]
    shadowed.lone.script(replies.chat("other"))

    def payroll(region: str) -> Answer:
        shadowed.configure(
            simple=simple, complex=[shadowed.endpoint(shadowed.lone, region=region)],
            residency={"rules": only_eu}, shadow={"judge": judge}, logging={"store_prompts": "full"},
        )  # fmt: skip
        return ask(shadowed, key_of(shadowed), metadata={"function_name": "kit", "use_case": "payroll"})

    found = sample(shadowed, payroll("eu").request_id)
    assert found["judge"]["error"] == "residency does not let the judge see this request"
    assert (found["prompt"], found["primary"]["answer"], found["target"]["answer"]) == (None, None, None)
    assert len(shadowed.lone.calls) == 1

    before = shadowed.gateway.admin("GET", "/admin/shadow").json["queue"]["dropped"].get("residency", 0)
    assert payroll("us").status == 200
    assert shadowed.gateway.admin("GET", "/admin/shadow").json["queue"]["dropped"]["residency"] == before + 1
    assert len(shadowed.lone.calls) == 1
    assert shadowed.teacher.calls == []


def test_the_days_money_ends_it(shadowed: World) -> None:
    shadowed.configure(shadow={"daily_usd": 0.0000001})

    ask(shadowed, key_of(shadowed))
    found = eventually(lambda: shadowed.gateway.admin("GET", "/admin/shadow").json, lambda f: f["queue"]["dropped"])

    assert found["queue"]["dropped"]["money"] >= 1
    assert shadowed.lone.calls == []
    metrics = shadowed.gateway.admin("GET", "/metrics").body.decode()
    assert re.search(r'hermes_shadow_dropped_total\{reason="money"\} [1-9]', metrics)
    assert "hermes_shadow_queue_depth" in metrics


def test_an_operator_promotes_and_rolls_back_by_commands(shadowed: World) -> None:
    sample(shadowed, ask(shadowed, key_of(shadowed)).request_id)
    gateway = shadowed.gateway

    refused = gateway.command("shadow", "promote", "chat")
    assert refused.returncode == 1
    assert "at least 50 are wanted" in refused.stderr
    report = gateway.command("shadow", "report")
    assert f"{TARGET} for chat: open" in report.stdout
    done = gateway.command("shadow", "promote", "chat", "--force", "--reason", "a test")
    assert done.stdout == f"{TARGET} serves chat from now on, in the place of primary-model.\n"
    shadowed.until_every_worker_knows()
    assert ask(shadowed, key_of(shadowed)).headers["x-hermes-model"] == TARGET

    assert gateway.command("shadow", "rollback", "chat").stdout == "primary-model serves chat again.\n"
    shadowed.until_every_worker_knows()
    assert ask(shadowed, key_of(shadowed)).headers["x-hermes-model"] == "primary-model"
    runs = gateway.admin("GET", "/admin/shadow").json["runs"]
    assert "rolled_back" in [run["state"] for run in runs]


@pytest.mark.parametrize(
    ("act", "body", "status", "param"),
    [
        ("promote", {}, 400, "run"),
        ("promote", {"run": 0}, 404, None),
        ("promote", {"role": "nobody"}, 409, None),
        ("promote", {"run": "1"}, 400, "run"),
        ("promote", {"run": 1, "force": "yes"}, 400, "force"),
        ("reject", {"run": 1, "verdict": "x"}, 400, "verdict"),
        ("rollback", {"role": "chat", "reason": 7}, 400, "reason"),
        ("verdict", {"id": 99_999, "verdict": "tie"}, 404, None),
        ("verdict", {"id": 1, "verdict": "great"}, 400, "verdict"),
        ("verdict", [], 400, None),
    ],
)
def test_what_cannot_be_is_refused(world: World, act: str, body: Any, status: int, param: str | None) -> None:
    answer = world.gateway.admin("POST", f"/admin/shadow/{act}", body)

    assert (answer.status, answer.json["error"]["param"]) == (status, param)


def test_nobody_else_may_look_or_act(world: World) -> None:
    key = key_of(world)

    for method, path in (("GET", ""), ("POST", "/promote"), ("POST", "/reject"), ("POST", "/rollback")):
        sent: Any = None if method == "GET" else {"role": "chat"}
        answer = world.gateway.request(method, f"/admin/shadow{path}", {"Authorization": f"Bearer {key}"}, sent)
        assert answer.status in (401, 403)
