"""Nothing of a request reaches who may not see it, whatever path it takes and whatever fails on the way."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from . import replies
from .client import Answer
from .provider import Call, Provider
from .replies import Reply, broken_stream, chat, chunk, error, in_pieces, raw, stream
from .world import World

ADDRESS = "user@example.com"
REDACT = {"match": {"detected": ["email"]}, "action": "redact"}
CUSTOMERS_IN_EU = {"name": "customers stay", "match": {"data_classes": ["customer"]}, "regions": ["eu"]}
CUSTOMER = {"data_classes": ["customer"]}


@pytest.fixture(scope="module")
def key(running_world: World) -> str:
    made = running_world.gateway.admin("POST", "/admin/keys", {"name": "f", "scopes": ["gateway", "router"]})
    return str(made.json["key"])


def echo(call: Call) -> Reply:
    """Says the last message again; streamed, three characters an event."""
    said = str(call.json["messages"][-1]["content"])
    if not call.json.get("stream"):
        return chat(said)
    pieces = [chunk({"content": said[at : at + 3]}) for at in range(0, len(said), 3)]
    events = [*pieces, chunk({}, "stop"), b"data: [DONE]\n\n"]
    return in_pieces([(0.0, one) for one in events], headers=replies.EVENT_STREAM)


def in_regions(world: World, primary: str | None, fallback: str | None, lone: str | None = None, **more: Any) -> None:
    world.configure(
        simple=[world.endpoint(world.primary, region=primary), world.endpoint(world.fallback, region=fallback)],
        complex=[world.endpoint(world.lone, region=lone)],
        **more,
    )


def receipt(world: World, answer: Answer) -> dict[str, Any]:
    world.gateway.row(answer)
    whole: dict[str, Any] = world.gateway.admin("GET", f"/admin/usage/{answer.request_id}").json
    return whole


@pytest.mark.parametrize("streams", [False, True])
def test_what_is_masked_comes_back_to_the_caller_alone(world: World, streams: bool) -> None:
    world.configure(residency={"rules": [{**REDACT, "store_text": True}]})
    world.primary.script(echo)
    text = f"write to {ADDRESS}, not to [EMAIL_1] or [EMAIL_"

    answer = world.gateway.chat(text, stream=streams)

    assert answer.text == text
    (call,) = world.primary.calls
    assert call.json["messages"][0]["content"] == text.replace(ADDRESS, "[EMAIL_2]")
    whole = receipt(world, answer)
    assert whole["row"]["prompt_preview"] == text.replace(ADDRESS, "[EMAIL_2]")
    assert whole["masked"] == [{"kind": "email", "count": 1, "rule": 1, "why": "detected email"}]
    assert ADDRESS not in json.dumps(whole)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/completions/stream"])
@pytest.mark.parametrize("form", ["messages", "prompt"])
def test_the_contract_masks_and_restores_in_every_form(world: World, key: str, path: str, form: str) -> None:
    world.configure(residency={"rules": [REDACT]}, gateway={"house_voice": "Write to help@example.com."})
    world.primary.script(echo)
    text = f"hello {ADDRESS}!"
    asked = {"prompt": text} if form == "prompt" else {"messages": [{"role": "user", "content": text}]}

    body = {**asked, "metadata": {"function_name": "f"}}
    answer = world.gateway.request("POST", path, {"Authorization": f"Bearer {key}"}, body)

    if form == "messages":
        assert answer.text == text
    elif path.endswith("stream"):
        assert "".join(choice["text"] for chunk in answer.chunks for choice in chunk["choices"]) == text
    else:
        assert answer.json["choices"][0]["text"] == text
    (call,) = world.primary.calls
    assert [message["content"] for message in call.json["messages"]] == [
        "Write to help@example.com.",
        "hello [EMAIL_1]!",
    ]


def test_a_providers_own_refusal_is_told_in_the_callers_words(world: World) -> None:
    world.configure(residency={"rules": [{**REDACT, "store_text": False}]})
    world.primary.script(error(400, "cannot parse: write to [EMAIL_1]"))

    answer = world.gateway.chat(f"write to {ADDRESS}")

    assert (answer.status, answer.json["error"]["message"]) == (400, f"cannot parse: write to {ADDRESS}")
    told = json.dumps(receipt(world, answer)) + world.gateway.logs()
    assert "cannot parse" not in told, "a provider's words quote the prompt, and its text may not be kept"


def test_a_stream_that_breaks_gives_what_was_held_back_first(world: World) -> None:
    world.configure(residency={"rules": [REDACT]})
    world.primary.script(broken_stream("to [EMAIL_1", "] and [EMAI"))

    answer = world.gateway.chat(f"write to {ADDRESS}", stream=True)

    body = answer.body.decode()
    assert body.endswith(": hermes stream interrupted\ndata: [DONE]\n\n")
    assert answer.text == f"to {ADDRESS} and [EMAI"


def test_the_usage_chunk_that_only_hermes_asked_for_is_left_out_of_restored_streams_too(world: World) -> None:
    world.configure(residency={"rules": [REDACT]})
    world.primary.script(stream("hi [EMAIL_1]", "!"))

    answer = world.gateway.chat(f"write to {ADDRESS}", stream=True)

    assert answer.text == f"hi {ADDRESS}!"
    assert b'"usage":{' not in answer.body
    assert world.gateway.row(answer)["total_tokens"] == replies.USAGE["total_tokens"]


def test_where_nobody_may_see_it_nothing_is_sent_and_the_row_says_why(world: World) -> None:
    in_regions(world, "us", None, "us", residency={"rules": [CUSTOMERS_IN_EU]})

    answer = world.gateway.chat("hello", metadata=CUSTOMER)

    assert (answer.status, answer.json["error"]["code"]) == (403, "residency_blocked")
    assert answer.headers["x-should-retry"] == "false"
    assert world.calls() == []
    whole = receipt(world, answer)
    assert whole["row"]["status"] == "refused"
    assert whole["residency"]["rules"][0]["name"] == "customers stay"
    assert world.gateway.chat("hello").status == 200


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"tier": "complex"}, id="a forced tier"),
        pytest.param({"model": "complex", "tier": None}, id="a model"),
        pytest.param({"model": "reasoning", "tier": None}, id="a role"),
    ],
)
def test_nothing_that_a_caller_asks_for_goes_round_a_rule(world: World, how: Mapping[str, Any]) -> None:
    in_regions(world, "eu", "eu", "us", residency={"rules": [CUSTOMERS_IN_EU]})

    answer = world.gateway.chat("hello", metadata=CUSTOMER, **how)

    assert (answer.status, world.calls()) == (403, [])
    assert "rule 1" in receipt(world, answer)["attempts"][0]["message"]


def test_every_attempt_says_in_which_region_it_was(world: World) -> None:
    in_regions(world, "eu", "us", residency={"rules": [{"match": {}, "regions": ["eu", "us"]}]})
    world.primary.script(error(500))

    answer = world.gateway.chat("hello")

    assert [(one["region"], one["called"]) for one in receipt(world, answer)["attempts"]] == [
        ("eu", True),
        ("us", True),
    ]


def test_a_teacher_who_may_not_see_it_is_passed_over(world: World) -> None:
    teacher = {"model": "t", "base_url": world.teacher.base_url, "api_key_env": "", "surrogate": {"enabled": False}}
    in_regions(world, "eu", "eu", "eu", residency={"rules": [CUSTOMERS_IN_EU]}, classifier=teacher)
    world.teacher.script(chat("complex"))

    kept, seen = (world.gateway.chat("a question", tier=None, metadata=data) for data in (CUSTOMER, {}))

    assert (kept.headers["x-hermes-decision"], seen.headers["x-hermes-decision"]) == ("default", "teacher")
    assert len(world.teacher.calls) == 1


def test_a_masked_conversation_stays_one_session(world: World) -> None:
    world.configure(residency={"rules": [REDACT]})
    first = [{"role": "user", "content": f"hello from {ADDRESS}"}]
    more = [*first, {"role": "assistant", "content": "hi [EMAIL_1]"}, {"role": "user", "content": "and now?"}]

    rows = [
        world.gateway.row(world.gateway.chat(user="u-masked", tier=None, messages=messages))
        for messages in (first, more)
    ]

    assert rows[0]["session_key"] == rows[1]["session_key"]
    assert rows[1]["decision"] == "session"


# -- whatever is configured and whatever fails

NAMES = ("primary", "fallback", "lone", "teacher")
FAULTS: Mapping[str, Any] = {
    "fine": lambda: echo_or_embedding,
    "fails": lambda: error(500),
    "busy": lambda: error(503),
    "limited": lambda: error(429),
    "refuses": lambda: error(400, "no: context length exceeded"),
    "rubbish": lambda: raw(b"garbage"),
    "breaks": lambda: broken_stream("half an ans"),
}


def echo_or_embedding(call: Call) -> Reply:
    if call.path.endswith("/embeddings"):
        return replies.answer(payload={"data": [{"embedding": [0.5], "index": 0}], "usage": {"prompt_tokens": 1}})
    return echo(call)


PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/completions/stream", "/v1/embeddings")
ROUNDS = 120


@dataclass
class Drawn:
    """One example, the same for the same number."""

    number: int

    def __post_init__(self) -> None:
        chance = random.Random(self.number)
        self.where = {name: chance.choice(("eu", "eu", "us", None)) for name in NAMES}
        self.faults = {name: chance.choice(("fine", *FAULTS)) for name in NAMES}
        self.rules = [self._rule(chance) for _ in range(chance.choice((1, 1, 2, 3)))]
        self.threshold = chance.choice((0.0, 1.0))
        """Of the surrogate: it decides everything, or nothing."""

        self.asked = [self._how(chance) for _ in range(3)]

    @staticmethod
    def _rule(chance: random.Random) -> dict[str, Any]:
        match = chance.choice(({}, CUSTOMER, CUSTOMER, {"detected": ["email"]}, {"data_classes": ["other"]}))
        rule: dict[str, Any] = {"match": match, "action": chance.choice(("allow",) * 6 + ("redact",) * 3 + ("block",))}
        if chance.random() < 0.6:
            rule["regions"] = chance.choice((["eu"], ["us"], ["eu", "us"], []))
        if chance.random() < 0.3:
            rule["endpoints"] = [f"{name}-model" for name in chance.sample(NAMES, 2)]
        if chance.random() < 0.5:
            rule["store_text"] = chance.random() < 0.3
        return rule

    @staticmethod
    def _how(chance: random.Random) -> dict[str, Any]:
        return {
            "path": chance.choice((PATHS[0], *PATHS)),
            "stream": chance.random() < 0.5,
            "tier": chance.choice((None, None, "simple", "complex")),
            "role": chance.choice(("chat", "reasoning")),
        }


def is_for_it(rule: Mapping[str, Any]) -> bool:
    """The marked requests are of the class `customer`, and hold an address."""
    return rule["match"].get("data_classes") != ["other"]


def may_see(rule: Mapping[str, Any], name: str, region: str | None) -> bool:
    if rule["action"] == "block":
        return False
    if "regions" not in rule and "endpoints" not in rule:
        return True
    return region in rule.get("regions", ()) or f"{name}-model" in rule.get("endpoints", ())


class Watch:
    """What every provider has received, through all examples: an audit may come late."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.received: dict[str, list[bytes]] = {name: [] for name in NAMES}
        self.forbidden: list[tuple[str, bytes]] = []
        self.unkept: list[str] = []

    def gather(self) -> None:
        """Before the providers forget it."""
        for name in NAMES:
            provider: Provider = getattr(self.world, name)
            self.received[name] += [call.body for call in provider.calls]

    def expect(self, drawn: Drawn, answer: Answer, mark: str) -> None:
        """What follows of the rules, told without Hermes's own code."""
        mine = [rule for rule in drawn.rules if is_for_it(rule)]
        if any(rule["action"] == "block" for rule in mine):
            assert (answer.status, answer.json["error"]["code"]) == (403, "residency_blocked"), drawn
        where = drawn.where
        self.forbidden += [
            (name, mark.encode()) for name in NAMES if not all(may_see(rule, name, where[name]) for rule in mine)
        ]
        if any(rule["action"] == "redact" for rule in mine):
            self.forbidden += [(name, f"{mark}@example.com".encode()) for name in NAMES]
        if not all(rule.get("store_text", True) for rule in mine):
            self.unkept.append(mark)

    def check(self, drawn: Drawn) -> None:
        for name, mark in self.forbidden:
            assert not any(mark in body for body in self.received[name]), f"{name} has received {mark!r}, by {drawn}"


def ask(world: World, key: str, mark: str, how: Mapping[str, Any]) -> Answer:
    text = f"note {mark}: write to {mark}@example.com"
    metadata = {**CUSTOMER, "function_name": "f"}
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": text}],
        "metadata": metadata,
        "stream": how["stream"],
    }
    if how["path"] == "/v1/embeddings":
        body = {"input": [text], "model": "teacher-model", "metadata": metadata}
    elif how["path"].startswith("/v1/completions"):
        body["role"] = how["role"]
    headers = {"Authorization": f"Bearer {key}", **({"X-Hermes-Tier": how["tier"]} if how["tier"] else {})}
    return world.gateway.request("POST", how["path"], headers, body)


@pytest.fixture(scope="module")
def watch(running_world: World) -> Watch:
    return Watch(running_world)


def test_no_byte_of_a_marked_text_reaches_who_may_not_see_it(world: World, key: str, watch: Watch) -> None:
    for number in range(ROUNDS):
        drawn = Drawn(number)
        teacher = {"model": "teacher-model", "base_url": world.teacher.base_url, "region": drawn.where["teacher"]}
        surrogate = {"audit_rate": 1.0, "confidence_threshold": drawn.threshold}
        in_regions(
            world, drawn.where["primary"], drawn.where["fallback"], drawn.where["lone"],
            classifier={**teacher, "api_key_env": "", "timeout_seconds": 0.5, "surrogate": surrogate},
            knowledge={"embedder": {**teacher, "api_key_env": ""}},
            residency={"rules": drawn.rules}, logging={"store_prompts": "full"},
        )  # fmt: skip
        world.gateway.close_circuits()
        watch.gather()
        for name in NAMES:
            getattr(world, name).script(FAULTS[drawn.faults[name]]())
        for how in drawn.asked:
            watch.expect(drawn, ask(world, key, mark := f"mark{secrets.token_hex(6)}", how), mark)
        watch.check(drawn)
    watch.gather()
    watch.check(drawn)

    assert len(watch.forbidden) > 500
    assert len(watch.unkept) > 50
    assert min(map(len, watch.received.values())) > 15, {name: len(bodies) for name, bodies in watch.received.items()}

    # Nor is it kept where it may not be.
    rows = json.dumps(world.gateway.usage(limit=1000))
    traces = json.dumps(world.gateway.traces())
    stored = (world.gateway.folder / "hermes.db").read_bytes() + (world.gateway.folder / "hermes.db-wal").read_bytes()
    for mark in watch.unkept:
        assert mark not in rows
        assert mark not in traces
        assert mark not in world.gateway.logs()
        assert mark.encode() not in stored
