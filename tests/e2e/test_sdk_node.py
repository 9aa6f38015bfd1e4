"""OpenAI's own client for Node works against Hermes as it does against OpenAI."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from . import replies
from .gateway import Gateway, eventually
from .nodesdk import NodeSdk, Raised, install
from .provider import Provider
from .replies import answer, broken_stream, chunk, error, sse
from .test_sdk_python import HELLO, PICTURE, SCHEMA, TOOLS
from .world import World

Run = Callable[..., Any]


@pytest.fixture(scope="session")
def node() -> Iterator[NodeSdk]:
    """The client, installed if need be."""
    install()
    sdk = NodeSdk()
    yield sdk
    sdk.close()


@pytest.fixture
def run(node: NodeSdk, world: World) -> Run:
    """Runs a scenario against the gateway; further fields are those of the request's body."""

    def scenario(name: str, body: dict[str, Any] | None = None, **arguments: Any) -> Any:
        whole = {"model": "simple", "messages": HELLO, **(body or {})}
        return node.run(name, f"http://127.0.0.1:{world.gateway.port}/v1", body=whole, **arguments)

    return scenario


# -- answers ----------------------------------------------------------------------------------------------


def test_text(world: World, run: Run) -> None:
    world.primary.script(replies.chat("Hello!"))

    got = run("create")

    assert got["completion"]["choices"][0]["message"]["content"] == "Hello!"
    assert got["completion"]["usage"]["total_tokens"] == 18
    assert got["headers"]["x-hermes-tier"] == "simple"
    assert got["requestId"] == got["headers"]["x-request-id"]
    assert world.primary.calls[0].json["messages"] == HELLO


def test_streamed_text_without_a_usage_chunk_that_nobody_asked_for(world: World, run: Run) -> None:
    world.primary.script(replies.stream("Hel", "lo"))

    chunks = run("stream")

    assert "".join(part["choices"][0]["delta"].get("content") or "" for part in chunks) == "Hello"
    assert [part.get("usage") for part in chunks] == [None] * len(chunks)


def test_streamed_text_with_the_usage_chunk_that_was_asked_for(world: World, run: Run) -> None:
    world.primary.script(replies.stream("Hello"))

    chunks = run("stream", {"stream_options": {"include_usage": True}})

    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["total_tokens"] == 18


def test_a_stream_with_comments_empty_events_and_a_byte_order_mark(world: World, run: Run) -> None:
    """The client dies on the last two; Hermes takes them away."""
    body = b"\xef\xbb\xbf: wait\n\n" + chunk({"content": "Hi"}) + b"data:\n\n: ping\n\n" + chunk({}, "stop")
    world.primary.script(sse(body + b"data: \n\n" + replies.DONE))

    chunks = run("stream")

    assert [part["choices"][0]["delta"].get("content") for part in chunks] == ["Hi", None]


def test_pictures_several_answers_and_new_fields_go_through(world: World, run: Run) -> None:
    body = replies.completion("a")
    body["choices"] = [{**body["choices"][0], "index": index} for index in range(2)]
    world.primary.script(answer(200, body))

    got = run("create", {"messages": PICTURE, "n": 2, "reasoning_effort": "low", "not_invented_yet": {"a": None}})

    assert [choice["index"] for choice in got["completion"]["choices"]] == [0, 1]
    sent = world.primary.calls[0].json
    assert sent["messages"] == PICTURE
    assert (sent["n"], sent["reasoning_effort"], sent["not_invented_yet"]) == (2, "low", {"a": None})


def test_several_answers_in_one_stream(world: World, run: Run) -> None:
    def part(index: int, text: str | None, finish: str | None = None) -> bytes:
        delta = {"role": "assistant", "content": text} if text else {}
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        return replies.event({"id": "c1", "object": "chat.completion.chunk", "created": 1, "choices": [choice]})

    parts = [part(0, "a"), part(1, "x"), part(0, "b"), part(1, None, "stop"), part(0, None, "stop")]
    world.primary.script(sse(b"".join(parts) + replies.DONE))

    completion = run("streamHelper", {"n": 2})

    assert [choice["message"]["content"] for choice in completion["choices"]] == ["ab", "x"]


def test_an_answer_in_a_schema(world: World, run: Run) -> None:
    world.primary.script(replies.chat('{"zeta": "z", "alpha": "a"}'))

    parsed = run("parse", {"response_format": SCHEMA})

    assert parsed == {"zeta": "z", "alpha": "a"}
    sent = world.primary.calls[0].json["response_format"]
    assert sent == SCHEMA
    assert list(sent["json_schema"]["schema"]["properties"]) == ["zeta", "alpha"]


def test_logprobs(world: World, run: Run) -> None:
    token = {"token": "ok", "logprob": -0.25, "bytes": [111, 107], "top_logprobs": [{"token": "no", "logprob": -1.5}]}
    whole = replies.completion("ok")
    whole["choices"][0]["logprobs"] = {"content": [token], "refusal": None}
    part = {"index": 0, "delta": {"content": "ok"}, "logprobs": {"content": [token]}, "finish_reason": None}
    event = replies.event({"id": "c1", "object": "chat.completion.chunk", "created": 1, "choices": [part]})
    streamed = sse(event + chunk({}, "stop") + replies.DONE)
    world.primary.script(streamed.only(has="stream"), answer(200, whole))
    wanted = {"logprobs": True, "top_logprobs": 1}

    got = run("create", wanted)["completion"]
    chunks = run("stream", wanted)

    assert got["choices"][0]["logprobs"]["content"] == [token]
    assert chunks[0]["choices"][0]["logprobs"]["content"] == [token]
    assert {name: world.primary.calls[0].json[name] for name in wanted} == wanted


# -- tools ------------------------------------------------------------------------------------------------


def a_begin(index: int, call_id: str, name: str) -> dict[str, Any]:
    return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}


def a_piece(index: int, text: str) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": text}}


def calls(*pieces: dict[str, Any]) -> bytes:
    return chunk({"tool_calls": list(pieces)})


PARALLEL = sse(
    replies.ROLE
    + calls(a_begin(0, "t1", "weather"), a_begin(1, "t2", "time"))
    + calls(a_piece(0, '{"city":'))
    + calls(a_piece(1, '{"zone":"'), a_piece(0, '"Ber'))
    + calls(a_piece(1, 'UTC"}'))
    + calls(a_piece(0, 'lin"}'))
    + chunk({}, "tool_calls")
    + replies.DONE,
    split=11,
)


def test_parallel_tool_calls_in_a_stream_are_put_together_right(world: World, run: Run) -> None:
    world.primary.script(PARALLEL)

    choice = run("streamHelper", {"tools": TOOLS})["choices"][0]

    assert choice["finish_reason"] == "tool_calls"
    made = choice["message"]["tool_calls"]
    assert [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in made] == [
        ("t1", "weather", '{"city":"Berlin"}'),
        ("t2", "time", '{"zone":"UTC"}'),
    ]
    assert world.primary.calls[0].json["tools"] == TOOLS
    assert world.gateway.usage()[0]["status"] == "ok"


def test_the_clients_own_loop_of_tools_comes_to_its_end(world: World, run: Run) -> None:
    made = [
        {"id": f"t{number}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for number, name in enumerate(("weather", "time"))
    ]
    body = replies.completion("")
    message = {"role": "assistant", "content": None, "tool_calls": made}
    body["choices"] = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    world.primary.script(answer(200, body), replies.chat("sunny at noon"))

    got = run("runTools", {"tools": TOOLS}, results={"weather": "sun", "time": "12:00"})

    assert got == {"called": [["weather", {}], ["time", {}]], "text": "sunny at noon"}
    sent = world.primary.calls[1].json["messages"]
    assert [(part["tool_call_id"], part["content"]) for part in sent if part["role"] == "tool"] == [
        ("t0", "sun"),
        ("t1", "12:00"),
    ]


# -- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["create", "stream"])
@pytest.mark.parametrize(
    ("reply", "raised", "status"),
    [
        pytest.param(error(400, "temperature must be <= 2", code="c"), "BadRequestError", 400, id="400"),
        pytest.param(error(422, "bad tool"), "UnprocessableEntityError", 422, id="422"),
        *(pytest.param(error(s), "InternalServerError", 502, id=str(s)) for s in (401, 403, 404, 429, 500, 529)),
        pytest.param(answer(200, "<html>"), "InternalServerError", 502, id="a page"),
    ],
)
def test_failures_are_raised_as_what_they_are(
    world: World, run: Run, reply: Any, raised: str, status: int, scenario: str
) -> None:
    """A provider's 401 is never the caller's: an AuthenticationError would send people to look at the wrong key."""
    world.lone.script(reply)

    with pytest.raises(Raised) as caught:
        run(scenario, {"model": "complex"})

    told = caught.value.told
    assert (told["name"], told["status"]) == (raised, status)
    assert "APIError" in told["classes"]
    assert told["requestId"].startswith("req_")
    if status == 502:
        assert told["type"] == "upstream_error"
        assert told["body"]["attempts"]
    else:
        assert told["body"] == json.loads(replies.wire(reply).split(b"\r\n\r\n", 1)[1])["error"]


def test_a_request_that_hermes_refuses_names_what_is_wrong(run: Run) -> None:
    with pytest.raises(Raised) as caught:
        run("create", options={"headers": {"X-Hermes-Tier": "medium"}})

    assert (caught.value.told["name"], caught.value.told["param"]) == ("BadRequestError", "X-Hermes-Tier")


def test_open_circuits_are_raised_as_unavailable(world: World, run: Run) -> None:
    world.configure(circuit_breaker={"failure_threshold": 1, "recovery_timeout_sec": 30})
    world.lone.script(error(500))

    for status in (502, 503):
        with pytest.raises(Raised) as caught:
            run("create", {"model": "complex"})
        assert (caught.value.told["name"], caught.value.told["status"]) == ("InternalServerError", status)


def test_the_time_that_a_caller_gives_is_kept(world: World, run: Run) -> None:
    """By Hermes, which says so as an error of the server's side."""
    world.lone.script(replies.silence())

    with pytest.raises(Raised) as caught:
        run("create", {"model": "complex"}, options={"headers": {"X-Request-Timeout": "0.2"}})

    assert (caught.value.told["name"], caught.value.told["status"]) == ("InternalServerError", 504)
    assert caught.value.told["type"] == "timeout"


def test_the_clients_own_timeout_frees_the_provider(world: World, run: Run) -> None:
    world.configure(complex=[world.endpoint(world.lone, timeout_seconds=30)])
    world.lone.script(replies.silence())

    with pytest.raises(Raised) as caught:
        run("create", {"model": "complex"}, timeoutMs=300)

    assert caught.value.told["name"] == "APIConnectionTimeoutError"
    assert eventually(lambda: world.lone.calls_under_way, lambda count: count == 0) == 0


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_caller_that_aborts_frees_the_provider(world: World, run: Run, stream: bool) -> None:
    world.configure(complex=[world.endpoint(world.lone, timeout_seconds=30)])
    world.lone.script(replies.silence())

    with pytest.raises(Raised) as caught:
        run("abort", {"model": "complex", "stream": stream}, afterMs=200)

    assert caught.value.told["name"] == "APIUserAbortError"
    assert eventually(lambda: world.lone.calls_under_way, lambda count: count == 0) == 0


def test_a_caller_that_has_seen_enough_of_a_stream_frees_the_provider(world: World, run: Run) -> None:
    world.configure(complex=[world.endpoint(world.lone, timeout_seconds=30)])
    world.lone.script(replies.endless_stream("again"))

    assert run("abortStream", {"model": "complex"}) == ["again"]

    assert eventually(lambda: world.lone.calls_under_way, lambda count: count == 0) == 0
    (row,) = world.gateway.usage(status="client_disconnected", tier="complex", limit=1)
    assert row["completion_tokens"] >= 1


def test_a_server_that_is_away(node: NodeSdk) -> None:
    with Provider() as away:
        away.refuse()
        with pytest.raises(Raised) as caught:
            node.run("create", away.base_url, body={"model": "simple", "messages": HELLO})

    assert caught.value.told["name"] == "APIConnectionError"


@pytest.mark.parametrize(("on_break", "raised"), [("done", None), ("error", "APIError")])
def test_a_stream_that_breaks_ends_or_raises_as_is_wished(
    world: World, run: Run, on_break: str, raised: str | None
) -> None:
    world.configure(streaming={"on_break": on_break})
    world.primary.script(broken_stream("half"))

    got = run("streamUntilItFails")

    assert got["seen"] == ["", "half"]
    assert (got["raised"] or {}).get("name") == raised


# -- the rest ---------------------------------------------------------------------------------------------


def test_models_are_listed(run: Run) -> None:
    got = run("models")

    assert {"auto", "simple", "complex", "chat", "reasoning", "primary-model", "lone-model"} <= set(got["names"])
    assert got["one"]["id"] == "auto"
    with pytest.raises(Raised) as caught:
        run("model", id="no-such-model")
    assert caught.value.told["name"] == "NotFoundError"


def test_the_demo_provider_answers_the_sdk_as_well(node: NodeSdk) -> None:
    gateway = Gateway.start()
    url = f"http://127.0.0.1:{gateway.port}/v1"
    body = {"model": "auto", "messages": HELLO}
    try:
        whole = node.run("create", url, body=body)["completion"]
        parts = node.run("stream", url, body=body)
    finally:
        gateway.stop()

    assert whole["choices"][0]["message"]["content"]
    assert "".join(part["choices"][0]["delta"].get("content") or "" for part in parts)
    assert parts[-1]["choices"][0]["finish_reason"] == "stop"
