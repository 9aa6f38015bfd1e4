"""OpenAI's own Python client works against Hermes as it does against OpenAI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pydantic
import pytest

from . import replies
from .gateway import Gateway, eventually
from .provider import Provider
from .replies import answer, broken_stream, chunk, error, sse
from .world import World

Messages = Any  # the SDK's own types are stricter than the wire
HELLO: Messages = [{"role": "user", "content": "hello"}]
PICTURE: Messages = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "what is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        ],
    }
]
SCHEMA: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "x",
        "strict": True,
        "schema": {"type": "object", "properties": {"zeta": {"type": "string"}, "alpha": {"type": "string"}}},
    },
}
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("weather", "time")
]


def client_of(gateway: Gateway) -> openai.OpenAI:
    base_url = f"http://127.0.0.1:{gateway.port}/v1"
    return openai.OpenAI(api_key="dummy", base_url=base_url, max_retries=0, timeout=10)


@pytest.fixture
def client(world: World) -> Iterator[openai.OpenAI]:
    with client_of(world.gateway) as client:
        yield client


def test_text(world: World, client: openai.OpenAI) -> None:
    world.primary.script(replies.chat("Hello!"))

    raw = client.chat.completions.with_raw_response.create(model="simple", messages=HELLO)

    completion = raw.parse()
    assert completion.choices[0].message.content == "Hello!"
    assert completion.usage is not None
    assert completion.usage.total_tokens == 18
    assert raw.headers["x-hermes-tier"] == "simple"
    assert raw.headers["x-request-id"]


def test_streamed_text_without_a_usage_chunk_that_nobody_asked_for(world: World, client: openai.OpenAI) -> None:
    world.primary.script(replies.stream("Hel", "lo"))

    chunks = list(client.chat.completions.create(model="simple", messages=HELLO, stream=True))

    assert "".join(part.choices[0].delta.content or "" for part in chunks) == "Hello"
    assert [part.usage for part in chunks] == [None] * len(chunks)


def test_streamed_text_with_the_usage_chunk_that_was_asked_for(world: World, client: openai.OpenAI) -> None:
    world.primary.script(replies.stream("Hello"))

    chunks = list(
        client.chat.completions.create(
            model="simple", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
    )

    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 18


def test_a_stream_with_comments_empty_events_and_a_byte_order_mark(world: World, client: openai.OpenAI) -> None:
    """The SDK dies on the last two; Hermes takes them away."""
    body = b"\xef\xbb\xbf: wait\n\n" + chunk({"content": "Hi"}) + b"data:\n\n: ping\n\n" + chunk({}, "stop")
    world.primary.script(sse(body + b"data: \n\n" + replies.DONE))

    chunks = list(client.chat.completions.create(model="simple", messages=HELLO, stream=True))

    assert [part.choices[0].delta.content for part in chunks] == ["Hi", None]


def test_a_stream_that_breaks_just_ends(world: World, client: openai.OpenAI) -> None:
    world.primary.script(broken_stream("half"))

    chunks = list(client.chat.completions.create(model="simple", messages=HELLO, stream=True))

    assert [part.choices[0].delta.content for part in chunks] == ["", "half"]
    assert chunks[-1].choices[0].finish_reason is None


def test_a_stream_that_breaks_raises_where_that_is_wished(world: World, client: openai.OpenAI) -> None:
    world.configure(streaming={"on_break": "error"})
    world.primary.script(broken_stream("half"))
    parts = client.chat.completions.create(model="simple", messages=HELLO, stream=True)
    seen = [next(parts).choices[0].delta.content for _ in range(2)]

    with pytest.raises(openai.APIError):
        next(parts)

    assert seen == ["", "half"]


def tool_delta(*calls: dict[str, Any]) -> bytes:
    return chunk({"tool_calls": list(calls)})


def test_parallel_tool_calls_in_a_stream_are_put_together_right(world: World, client: openai.OpenAI) -> None:
    def begin(index: int, call_id: str, name: str) -> dict[str, Any]:
        return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}

    def more(index: int, text: str) -> dict[str, Any]:
        return {"index": index, "function": {"arguments": text}}

    deltas = [
        tool_delta(begin(0, "t1", "weather"), begin(1, "t2", "time")),
        tool_delta(more(0, '{"city":')),
        tool_delta(more(1, '{"zone":"'), more(0, '"Ber')),
        tool_delta(more(1, 'UTC"}')),
        tool_delta(more(0, 'lin"}')),
    ]
    world.primary.script(sse(replies.ROLE + b"".join(deltas) + chunk({}, "tool_calls") + replies.DONE, split=11))
    calls: dict[int, list[str]] = {}

    for part in client.chat.completions.create(model="simple", messages=HELLO, tools=TOOLS, stream=True):
        for call in part.choices[0].delta.tool_calls or []:
            assert call.function is not None
            name_and_text = calls.setdefault(call.index, [call.function.name or "", ""])
            name_and_text[1] += call.function.arguments or ""

    assert calls == {0: ["weather", '{"city":"Berlin"}'], 1: ["time", '{"zone":"UTC"}']}
    assert world.primary.calls[0].json["tools"] == TOOLS
    assert world.gateway.usage()[0]["status"] == "ok"


def test_tools_and_their_results_without_streaming(world: World, client: openai.OpenAI) -> None:
    call = {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    message: Any = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = replies.completion("")
    body["choices"] = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    world.primary.script(answer(200, body), replies.chat("sunny"))

    first = client.chat.completions.create(model="simple", messages=HELLO, tools=TOOLS, parallel_tool_calls=True)
    result: Any = {"role": "tool", "tool_call_id": "t1", "content": "sun"}
    second = client.chat.completions.create(model="simple", messages=[*HELLO, message, result], tools=TOOLS)

    assert first.choices[0].message.tool_calls is not None
    assert first.choices[0].message.tool_calls[0].id == "t1"
    assert second.choices[0].message.content == "sunny"
    assert world.primary.calls[1].json["messages"][2] == result


def test_pictures_schemas_several_answers_and_new_fields_go_through(world: World, client: openai.OpenAI) -> None:
    body = replies.completion("a")
    body["choices"] = [{**body["choices"][0], "index": index} for index in range(2)]
    world.primary.script(answer(200, body))

    completion = client.chat.completions.create(
        model="simple",
        messages=PICTURE,
        n=2,
        seed=9007199254740993,
        logprobs=True,
        response_format=SCHEMA,
        extra_body={"reasoning_effort": "low", "not_invented_yet": {"a": None}},
    )

    assert len(completion.choices) == 2
    sent = world.primary.calls[0].json
    assert sent["messages"] == PICTURE
    assert list(sent["response_format"]["json_schema"]["schema"]["properties"]) == ["zeta", "alpha"]
    assert (sent["n"], sent["seed"], sent["not_invented_yet"]) == (2, 9007199254740993, {"a": None})


class Letters(pydantic.BaseModel):
    zeta: str
    alpha: str


def test_an_answer_in_a_schema(world: World, client: openai.OpenAI) -> None:
    world.primary.script(replies.chat('{"zeta": "z", "alpha": "a"}'))

    completion = client.chat.completions.parse(model="simple", messages=HELLO, response_format=Letters)

    assert completion.choices[0].message.parsed == Letters(zeta="z", alpha="a")
    sent = world.primary.calls[0].json["response_format"]["json_schema"]
    assert list(sent["schema"]["properties"]) == ["zeta", "alpha"]
    assert sent["strict"] is True


def test_several_answers_in_one_stream(world: World, client: openai.OpenAI) -> None:
    def part(index: int, text: str | None, finish: str | None = None) -> bytes:
        delta = {"role": "assistant", "content": text} if text else {}
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        event = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        return replies.event(event)

    parts = [part(0, "a"), part(1, "x"), part(0, "b"), part(1, None, "stop"), part(0, None, "stop")]
    world.primary.script(sse(b"".join(parts) + replies.DONE))

    with client.chat.completions.stream(model="simple", messages=HELLO, n=2) as stream:
        completion = stream.get_final_completion()

    assert [choice.message.content for choice in completion.choices] == ["ab", "x"]


def test_logprobs(world: World, client: openai.OpenAI) -> None:
    other = {"token": "no", "logprob": -1.5, "bytes": None}
    token = {"token": "ok", "logprob": -0.25, "bytes": [111, 107], "top_logprobs": [other]}
    whole = replies.completion("ok")
    whole["choices"][0]["logprobs"] = {"content": [token], "refusal": None}
    choice = {"index": 0, "delta": {"content": "ok"}, "logprobs": {"content": [token]}, "finish_reason": None}
    event = replies.event({"id": "c1", "object": "chat.completion.chunk", "created": 1, "choices": [choice]})
    streamed = sse(event + chunk({}, "stop") + replies.DONE)
    world.primary.script(streamed.only(has="stream"), answer(200, whole))
    create = client.chat.completions.create

    completion = create(model="simple", messages=HELLO, logprobs=True, top_logprobs=1)
    chunks = list(create(model="simple", messages=HELLO, logprobs=True, top_logprobs=1, stream=True))

    for seen in (completion.choices[0].logprobs, chunks[0].choices[0].logprobs):
        assert seen is not None
        assert seen.content is not None
        assert seen.content[0].model_dump() == token
    assert [(call.json["logprobs"], call.json["top_logprobs"]) for call in world.primary.calls] == [(True, 1)] * 2


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    ("reply", "raised", "status"),
    [
        pytest.param(error(400, "temperature must be <= 2", code="c"), openai.BadRequestError, 400, id="400"),
        pytest.param(error(422, "bad tool"), openai.UnprocessableEntityError, 422, id="422"),
        *(pytest.param(error(s), openai.InternalServerError, 502, id=str(s)) for s in (401, 403, 404, 429, 500, 529)),
        pytest.param(answer(200, "<html>"), openai.InternalServerError, 502, id="a page"),
    ],
)
def test_failures_are_raised_as_what_they_are(
    world: World, client: openai.OpenAI, reply: Any, raised: type[openai.APIStatusError], status: int, stream: bool
) -> None:
    """A provider's 401 is never the caller's: an AuthenticationError would send people to look at the wrong key."""
    world.lone.script(reply)

    with pytest.raises(raised) as caught:
        client.chat.completions.create(model="complex", messages=HELLO, stream=stream)

    assert caught.value.status_code == status
    assert isinstance(caught.value.body, dict)
    if status == 502:
        assert caught.value.body["attempts"]
    else:
        assert caught.value.body == reply_error(reply)


def reply_error(reply: Any) -> Any:
    return json.loads(replies.wire(reply).split(b"\r\n\r\n", 1)[1])["error"]


def test_open_circuits_are_raised_as_unavailable(world: World, client: openai.OpenAI) -> None:
    world.configure(circuit_breaker={"failure_threshold": 1, "recovery_timeout_sec": 30})
    world.lone.script(error(500))

    for status in (502, 503):
        with pytest.raises(openai.InternalServerError) as caught:
            client.chat.completions.create(model="complex", messages=HELLO)
        assert caught.value.status_code == status


def test_the_time_that_a_caller_gives_is_kept(world: World, client: openai.OpenAI) -> None:
    """By Hermes, which says so as an error of the server's side."""
    world.lone.script(replies.silence())

    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model="complex", messages=HELLO, extra_headers={"X-Request-Timeout": "0.2"})

    assert (caught.value.status_code, caught.value.type) == (504, "timeout")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_the_clients_own_timeout_frees_the_provider(world: World, client: openai.OpenAI, stream: bool) -> None:
    world.configure(complex=[world.endpoint(world.lone, timeout_seconds=30)])
    world.lone.script(replies.silence())

    with pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(model="complex", messages=HELLO, stream=stream, timeout=0.3)

    assert eventually(lambda: world.lone.calls_under_way, lambda count: count == 0) == 0


def test_a_caller_that_has_seen_enough_of_a_stream_frees_the_provider(world: World, client: openai.OpenAI) -> None:
    world.configure(complex=[world.endpoint(world.lone, timeout_seconds=30)])
    world.lone.script(replies.endless_stream("again"))

    with client.chat.completions.create(model="complex", messages=HELLO, stream=True) as stream:
        assert next(stream).choices[0].delta.content == "again"

    assert eventually(lambda: world.lone.calls_under_way, lambda count: count == 0) == 0


def test_a_server_that_is_away() -> None:
    with Provider() as away:
        away.refuse()
        with (
            openai.OpenAI(api_key="dummy", base_url=away.base_url, max_retries=0) as client,
            pytest.raises(openai.APIConnectionError),
        ):
            client.chat.completions.create(model="simple", messages=HELLO)


def test_models_are_listed(client: openai.OpenAI) -> None:
    names = [model.id for model in client.models.list()]

    assert {"auto", "simple", "complex", "chat", "reasoning", "primary-model", "lone-model"} <= set(names)
    assert client.models.retrieve("auto").id == "auto"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


def test_the_demo_provider_answers_the_sdk_as_well() -> None:
    gateway = Gateway.start()
    try:
        with client_of(gateway) as client:
            whole = client.chat.completions.create(model="auto", messages=HELLO)
            parts = list(client.chat.completions.create(model="auto", messages=HELLO, stream=True))
    finally:
        gateway.stop()

    assert whole.choices[0].message.content
    assert "".join(part.choices[0].delta.content or "" for part in parts)
    assert parts[-1].choices[0].finish_reason == "stop"
