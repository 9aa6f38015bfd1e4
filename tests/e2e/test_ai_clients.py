"""The shipped clients keep an application alive: through Hermes where it can be had, by themselves where it cannot.

The first half is against a real Hermes between scripted providers; the second against a scripted Hermes, which says
what a real one says only on its worst days.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from . import replies
from .aiclients import AiClient
from .gateway import eventually
from .provider import Call, Provider
from .replies import Reply, answer, broken_stream, chunk, error, in_pieces, sse
from .world import World

pytestmark = pytest.mark.timeout(180)
"""The first one installs what Node and Deno need, where it is not there yet."""

Ask = Callable[..., dict[str, Any]]

HELLO = [{"role": "user", "content": "hello"}]
META = {"functionName": "tell-time", "useCase": "clock", "userId": "alice"}
PIN = "pinned-model"
PINS = {"model.chat": PIN, "model.reasoning": "deep-model", "ai.gateway.enabled": True}
SOON_MS = 400
"""A deadline in place of 45 s, where a test waits for its end."""

numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["node", "deno", "python"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AiClient]:
    """Each of the clients."""
    made = AiClient(request.param, tmp_path_factory.mktemp(request.param))
    yield made
    made.close()


def ask(
    client: AiClient, options: dict[str, Any], what: str = "call", direct: str = "whole", **more: Any
) -> dict[str, Any]:
    """One call; `request`, `env`, `abortAfterMs` and `most` may be given."""
    request = {"messages": HELLO, "meta": META, **more.pop("request", {})}
    return client.ask({"what": what, "direct": direct, "options": options, "request": request, **more})


# -- through a real Hermes --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running_world() -> Iterator[World]:
    """A world of the module's own, which tests may kill: what it logs is not looked at."""
    world = World()
    yield world
    world.close()


@pytest.fixture
def world(running_world: World) -> World:
    """A Hermes that is well, whose role `chat` is pinned to a model that no endpoint has."""
    if not running_world.gateway.is_healthy():
        running_world.gateway.spawn()
    running_world.begin()
    assert running_world.gateway.admin("PUT", "/admin/pins/model.chat", {"value": PIN}).status == 200
    assert running_world.gateway.admin("PUT", "/admin/pins/ai.gateway.enabled", {"value": "true"}).status == 200
    return running_world


@pytest.fixture
def service_key(world: World) -> str:
    """A key that no client has used: what a client knows of pins it has learned in this test."""
    made = world.gateway.admin("POST", "/admin/keys", {"name": f"functions-{next(numbers)}", "scopes": ["gateway"]})
    return str(made.json["key"])


def url(world: World) -> str:
    return f"http://127.0.0.1:{world.gateway.port}"


@pytest.fixture
def through(client: AiClient, world: World, service_key: str) -> Ask:
    """Calls through the gateway."""

    def call(what: str = "call", direct: str = "whole", **more: Any) -> dict[str, Any]:
        options = {"url": url(world), "serviceKey": service_key, **more.pop("options", {})}
        return ask(client, options, what, direct, **more)

    return call


def assert_asked_directly(got: dict[str, Any], model: str = PIN) -> None:
    assert got["answer"] == {"content": "directly", "model": model}
    assert [(call["model"], call["messages"]) for call in got["direct"]] == [(model, HELLO)]
    assert [fallback["model"] for fallback in got["fallbacks"]] == [model]


def test_an_answer_comes_through_hermes_with_its_row(world: World, through: Ask) -> None:
    world.primary.script(replies.chat("noon"))
    request = {"responseFormat": "json_object", "temperature": 0.5, "maxTokens": 50}

    got = through(request=request)

    assert got["answer"] == {"content": "noon", "model": "said-by-provider"}
    assert (got["direct"], got["fallbacks"]) == ([], [])
    sent = world.primary.calls[0].json
    assert sent["model"] == PIN
    assert sent["response_format"] == {"type": "json_object"}
    assert (sent["temperature"], sent["max_tokens"], sent["messages"]) == (0.5, 50, HELLO)
    (row,) = world.gateway.usage(function_name="tell-time", limit=1)
    assert (row["use_case"], row["user_id"], row["role"], row["status"]) == ("clock", "alice", "chat", "ok")


def test_a_role_is_another_tier(world: World, through: Ask) -> None:
    world.lone.script(replies.chat("deeply"))

    assert through(request={"role": "reasoning"})["answer"]["content"] == "deeply"


@pytest.mark.parametrize("ending", ["", "/", "/api", "/api/", "/v1", "/api/v1"])
def test_the_environment_says_where_hermes_is(client: AiClient, world: World, service_key: str, ending: str) -> None:
    env = {"HERMES_URL": url(world) + ending, "HERMES_SERVICE_KEY": f"{service_key}\n", "AI_GATEWAY_ENABLED": "true"}

    got = ask(client, {}, env=env)

    assert (got["answer"]["content"], got["fallbacks"]) == ("ok", [])


def test_tool_calls_come_back(world: World, through: Ask) -> None:
    made = [{"id": "t1", "type": "function", "function": {"name": "time", "arguments": "{}"}}]
    body = replies.completion("")
    body["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": made}
    tools = [{"type": "function", "function": {"name": "time", "parameters": {"type": "object"}}}]
    world.primary.script(answer(200, body))

    got = through(request={"tools": tools, "toolChoice": "auto"})

    assert (got["answer"]["content"], got["answer"]["toolCalls"]) == ("", made)
    assert (world.primary.calls[0].json["tools"], world.primary.calls[0].json["tool_choice"]) == (tools, "auto")


def test_a_stream_comes_piece_by_piece(world: World, through: Ask) -> None:
    world.primary.script(replies.stream("Hel", "lo", " – wörld"))

    got = through("stream")

    assert [piece["content"] for piece in got["pieces"]] == ["Hel", "lo", " – wörld"]
    assert {piece["model"] for piece in got["pieces"]} == {"said-by-provider"}
    assert (got.get("raised"), got["direct"]) == (None, [])


def test_a_caller_that_has_seen_enough_frees_the_provider(world: World, through: Ask) -> None:
    world.primary.script(replies.endless_stream("again"))

    got = through("stream", most=2)

    assert len(got["pieces"]) == 2
    assert eventually(lambda: world.primary.calls_under_way, lambda count: count == 0) == 0


def test_hermes_that_is_off_is_done_without(world: World, through: Ask) -> None:
    through()
    world.gateway.kill()

    got = through()

    assert_asked_directly(got)
    assert got["fallbacks"][0]["reason"] == "failed"
    assert got["tookS"] < 2


@pytest.mark.parametrize("what", ["call", "stream"])
def test_hermes_that_is_killed_in_the_middle_of_a_call_is_done_without(world: World, through: Ask, what: str) -> None:
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=30)])
    world.primary.script(replies.silence())
    killer = threading.Thread(
        target=lambda: (eventually(lambda: world.primary.calls, bool, 10), world.gateway.kill()), daemon=True
    )
    killer.start()

    got = through(what, direct="stream")

    killer.join()
    said = [got["answer"]["content"]] if what == "call" else [piece["content"] for piece in got["pieces"]]
    assert "".join(said) == ("directly" if what == "call" else "direct")
    assert [call["model"] for call in got["direct"]] == [PIN]


def test_hermes_that_is_killed_in_the_middle_of_a_stream_is_told_of(world: World, through: Ask) -> None:
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=30)])
    world.primary.script(replies.endless_stream("half ", every_s=0.3))
    killer = threading.Thread(
        target=lambda: (eventually(lambda: world.primary.calls, bool, 10), time.sleep(0.5), world.gateway.kill()),
        daemon=True,
    )
    killer.start()

    got = through("stream", direct="stream")

    killer.join()
    assert got["raised"]["name"] == "AIStreamBroken"
    assert got["raised"]["received"].startswith("half ")
    assert "".join(piece["content"] for piece in got["pieces"]) == got["raised"]["received"]
    assert got["direct"] == []


@pytest.mark.parametrize("what", ["call", "stream"])
def test_hermes_that_stands_still_is_done_without(world: World, through: Ask, what: str) -> None:
    through()
    workers = world.gateway.workers()
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    try:
        got = through(what, options={"deadlineMs": SOON_MS})
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGCONT)

    assert [call["model"] for call in got["direct"]] == [PIN], got
    assert SOON_MS / 1000 <= got["tookS"] < SOON_MS / 1000 + 3


def test_a_provider_that_stands_still_is_freed_at_the_deadline(world: World, through: Ask) -> None:
    world.configure(simple=[world.endpoint(world.primary, timeout_seconds=30)])
    world.primary.script(replies.silence())

    assert_asked_directly(through(options={"deadlineMs": SOON_MS}))

    assert eventually(lambda: world.primary.calls_under_way, lambda count: count == 0) == 0


def test_the_kill_switch_is_heeded_before_and_after_the_pins_are_known(world: World, through: Ask) -> None:
    assert world.gateway.admin("PUT", "/admin/pins/ai.gateway.enabled", {"value": "false"}).status == 200
    eventually(lambda: world.gateway.chat().status, lambda status: status == 503)

    answers = [through() for _ in range(2)]

    for got in answers:
        assert_asked_directly(got)
    assert answers[1]["fallbacks"][0]["reason"] == "off"
    assert world.primary.calls == []


@pytest.mark.parametrize("what", ["call", "stream"])
def test_a_provider_that_fails_for_good_is_a_failure_of_hermes(world: World, through: Ask, what: str) -> None:
    for provider in (world.primary, world.fallback):
        provider.script(error(500))

    got = through(what)

    assert [call["model"] for call in got["direct"]] == [PIN]
    assert "502" in got["fallbacks"][0]["message"]


def test_a_stream_that_breaks_after_its_first_token_is_told_and_not_begun_anew(world: World, through: Ask) -> None:
    world.primary.script(broken_stream("half"))

    got = through("stream", direct="stream")

    assert [piece["content"] for piece in got["pieces"]] == ["half"]
    assert (got["raised"]["name"], got["raised"]["received"]) == ("AIStreamBroken", "half")
    assert got["direct"] == []


# -- through a scripted Hermes ----------------------------------------------------------------------------


class Scripted:
    """A Hermes that answers for its pins what it should, and for completions what a test says."""

    def __init__(self, client: AiClient) -> None:
        self.provider = Provider()
        self.pins: dict[str, Any] | None = PINS
        self._client = client
        self.says(replies.chat())

    def says(self, reply: Reply) -> None:
        """What completions are answered with."""

        def said(call: Call) -> Reply:
            if call.path.endswith("/v1/pins"):
                return answer(200, self.pins) if self.pins else error(500)
            return reply

        self.provider.script(said)

    def ask(self, what: str = "call", direct: str = "whole", **more: Any) -> dict[str, Any]:
        """One call, with a deadline that is soon over."""
        address = f"http://127.0.0.1:{self.provider.port}"
        options = {"url": address, "serviceKey": "k", "deadlineMs": SOON_MS, **more.pop("options", {})}
        return ask(self._client, options, what, direct, **more)

    def asked(self) -> list[str]:
        """The paths that it was asked for."""
        return [call.path for call in self.provider.calls]


@pytest.fixture
def hermes(client: AiClient) -> Iterator[Scripted]:
    """One on a port of its own."""
    scripted = Scripted(client)
    yield scripted
    scripted.provider.close()


NO_MESSAGE = {"choices": [{"message": {"role": "assistant", "content": None}}]}
WRONG_ANSWERS = [
    *(pytest.param(error(status), id=str(status)) for status in (400, 401, 403, 404, 429, 500, 502, 503, 504)),
    pytest.param(answer(500, "<html>Bad gateway</html>"), id="a page that says 500"),
    pytest.param(answer(200, "<html>Log in</html>"), id="a page that says 200"),
    pytest.param(answer(302, "", headers={"Location": "http://127.0.0.1:1/"}), id="a redirect"),
    pytest.param(answer(200, b""), id="nothing"),
    pytest.param(answer(200, [1]), id="a list"),
    pytest.param(answer(200, {"choices": []}), id="no choices"),
    pytest.param(answer(200, NO_MESSAGE), id="no content"),
    pytest.param(answer(200, b'{"choices": [', headers={"Content-Length": "500"}, end="fin"), id="half a body"),
    pytest.param(in_pieces([(0.0, b'{"cho')], whole=False, end="rst"), id="a connection that breaks"),
    pytest.param(replies.raw(b"\x16\x03\x01 no HTTP"), id="no HTTP"),
    pytest.param(replies.silence(), id="silence"),
    pytest.param(replies.drip(replies.wire(replies.chat()), at_once=60), id="a drip that outlasts the deadline"),
]


@pytest.mark.parametrize("reply", WRONG_ANSWERS)
def test_whatever_is_wrong_with_an_answer_the_provider_is_asked(hermes: Scripted, reply: Reply) -> None:
    hermes.says(reply)

    got = hermes.ask()

    assert_asked_directly(got)
    assert got["tookS"] < SOON_MS / 1000 + 1
    assert sum("completions" in path for path in hermes.asked()) == 1


NO_TOKEN = [
    *(pytest.param(error(status), id=str(status)) for status in (400, 429, 503)),
    pytest.param(broken_stream(), id="broken before a token"),
    pytest.param(sse(replies.ROLE), id="an end without an end"),
    pytest.param(sse(replies.ROLE + b": hermes stream interrupted\n\n" + replies.DONE), id="interrupted"),
    pytest.param(sse(replies.ROLE + replies.event({"error": {"message": "no", "code": "c"}})), id="an error event"),
    pytest.param(sse(b"data: {half\n\n"), id="no JSON"),
    pytest.param(answer(200, "<html>"), id="a page"),
    pytest.param(replies.then_silence(sse(replies.ROLE, end="fin")), id="silence after the head"),
    pytest.param(
        replies.over_and_over(replies.wire(sse(replies.ROLE))[:-5], b"d\r\n: keep-alive\n\r\n", 0.05),
        id="only heartbeats",
    ),
]


@pytest.mark.parametrize("reply", NO_TOKEN)
def test_a_stream_without_a_token_is_begun_anew_at_the_provider(hermes: Scripted, reply: Reply) -> None:
    hermes.says(reply)

    got = hermes.ask("stream", direct="stream")

    assert [piece["content"] for piece in got["pieces"]] == ["di", "rect"]
    assert [call["model"] for call in got["direct"]] == [PIN]
    assert got["tookS"] < SOON_MS / 1000 + 1


def test_a_provider_that_cannot_stream_is_one_piece(hermes: Scripted) -> None:
    hermes.says(error(503))

    got = hermes.ask("stream", direct="whole")

    assert got["pieces"] == [{"content": "directly", "model": PIN}]


BEGUN = replies.ROLE + chunk({"content": "half"})


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(broken_stream("half"), id="a connection that breaks"),
        pytest.param(sse(BEGUN), id="an end without an end"),
        pytest.param(sse(BEGUN + b": hermes stream interrupted\n\n" + replies.DONE), id="interrupted"),
        pytest.param(sse(BEGUN + replies.event({"error": {"message": "no", "code": "c"}})), id="an error event"),
        pytest.param(sse(BEGUN + b"data: {half\n\n"), id="no JSON"),
        pytest.param(replies.then_silence(sse(BEGUN, end="fin")), id="silence"),
    ],
)
def test_a_stream_that_breaks_later_is_told_of(hermes: Scripted, reply: Reply) -> None:
    hermes.says(reply)

    got = hermes.ask("stream", direct="stream")

    assert [piece["content"] for piece in got["pieces"]] == ["half"]
    assert (got["raised"]["name"], got["raised"]["received"], got["direct"]) == ("AIStreamBroken", "half", [])


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(chunk({}, "stop") + replies.DONE, id="as it should"),
        pytest.param(chunk({}, "stop"), id="without DONE"),
        pytest.param(replies.DONE, id="without a finish reason"),
    ],
)
def test_a_stream_that_is_whole_ends_well(hermes: Scripted, ending: bytes) -> None:
    hermes.says(sse(BEGUN + ending, split=7))

    got = hermes.ask("stream")

    assert (got.get("raised"), [piece["content"] for piece in got["pieces"]]) == (None, ["half"])


def test_a_stream_may_be_longer_than_the_deadline(hermes: Scripted) -> None:
    """The deadline is for the first token, and then for the time between two of them. Thoughts count."""
    thought = (0.25, chunk({"reasoning_content": "hm"}))
    words = [(0.25, chunk({"content": word})) for word in "abc"]
    events = [(0.0, replies.ROLE), thought, thought, *words, (0.0, replies.DONE)]
    hermes.says(in_pieces(events, headers=replies.EVENT_STREAM))

    got = hermes.ask("stream")

    assert "".join(piece["content"] for piece in got["pieces"]) == "abc"
    assert got["tookS"] > SOON_MS / 1000 * 2


def test_a_refusal_for_the_datas_residency_is_final(hermes: Scripted) -> None:
    hermes.says(error(403, "not outside of eu", code="residency_blocked"))

    for what in ("call", "stream"):
        got = hermes.ask(what)
        assert (got["raised"]["status"], got["raised"]["code"]) == (403, "residency_blocked")
        assert (got["direct"], got["fallbacks"]) == ([], [])


def test_further_refusals_are_final_if_an_application_says_so(hermes: Scripted) -> None:
    hermes.says(error(429, "spent", code="budget_exceeded"))

    assert_asked_directly(hermes.ask())
    assert hermes.ask(options={"finalCodes": ["budget_exceeded"]})["raised"]["code"] == "budget_exceeded"


def test_switched_off_here_hermes_is_not_asked_at_all(hermes: Scripted) -> None:
    got = hermes.ask(env={"AI_GATEWAY_ENABLED": "false"}, options={"models": {"chat": "written-model"}})

    assert_asked_directly(got, "written-model")
    assert got["fallbacks"][0]["reason"] == "off"
    assert hermes.asked() == []


def test_switched_off_here_without_a_written_model_only_the_pins_are_asked(hermes: Scripted) -> None:
    assert_asked_directly(hermes.ask(env={"AI_GATEWAY_ENABLED": "False"}))

    assert hermes.asked() == ["/v1/pins"]


def test_switched_off_by_its_pin_no_completion_is_asked_for(hermes: Scripted) -> None:
    hermes.says(error(503, code="gateway_disabled"))
    hermes.pins = {**PINS, "ai.gateway.enabled": False}
    hermes.ask()
    before = len(hermes.asked())

    got = hermes.ask()

    assert_asked_directly(got)
    assert got["fallbacks"][0]["reason"] == "off"
    assert hermes.asked()[before:] == []


def test_pins_are_asked_for_once_in_many_calls(hermes: Scripted) -> None:
    for _ in range(5):
        hermes.ask()

    assert hermes.asked().count("/v1/pins") == 1


def test_a_process_that_has_never_seen_pins_uses_what_is_written(hermes: Scripted) -> None:
    hermes.provider.refuse()

    got = hermes.ask(options={"models": {"chat": "written-model"}})

    assert_asked_directly(got, "written-model")


def test_no_model_at_all_is_an_error_that_says_so(hermes: Scripted) -> None:
    hermes.provider.refuse()

    got = hermes.ask()

    assert "No model is known for the role chat" in got["raised"]["message"]


def test_without_a_provider_a_failure_is_raised(hermes: Scripted) -> None:
    hermes.says(error(503, "down for tea", code="gateway_disabled"))

    got = hermes.ask(direct="none")

    told = got["raised"]
    assert (told["name"], told["status"], told["code"]) == ("AIError", 503, "gateway_disabled")
    assert "down for tea" in told["message"]


def test_a_client_that_nobody_has_told_where_hermes_is_asks_the_provider(client: AiClient) -> None:
    got = ask(client, {"models": {"chat": "written-model"}})

    assert_asked_directly(got, "written-model")
    assert "HERMES_URL" in got["fallbacks"][0]["message"]


def test_no_message_holds_the_key(hermes: Scripted) -> None:
    hermes.says(answer(200, "<html>"))

    got = hermes.ask(options={"serviceKey": "canary-service-key"})

    assert "canary" not in json.dumps(got)


# -- what only one of them has ----------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["call", "stream"])
def test_a_caller_that_aborts_ends_all_of_it(client: AiClient, hermes: Scripted, what: str) -> None:
    if client.name == "python":
        return  # a function that blocks has nobody who could abort it
    hermes.says(replies.silence())

    got = hermes.ask(what, abortAfterMs=100, options={"deadlineMs": 5000})

    assert (got["raised"]["message"], got["direct"]) == ("the caller has left", [])
    assert got["tookS"] < 1
    assert eventually(lambda: hermes.provider.calls_under_way, lambda count: count == 0) == 0


def test_a_stream_can_be_handed_on_to_a_browser(client: AiClient, hermes: Scripted) -> None:
    if client.name == "python":
        return
    hermes.says(replies.stream("Hel", "lo"))
    whole = hermes.ask("events")["text"]
    hermes.says(broken_stream("half"))
    broken = hermes.ask("events")["text"]

    assert whole.endswith("data: [DONE]\n\n")
    parts = [json.loads(line[6:]) for line in whole.splitlines() if line.startswith("data: {")]
    assert "".join(part["choices"][0]["delta"]["content"] for part in parts) == "Hello"
    assert json.loads(broken.splitlines()[-2][6:])["error"]["message"] == "The stream broke off."
    assert "[DONE]" not in broken
