"""The demo provider: speaks OpenAI's protocol well enough for the official client, and fails on command."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import openai
import pytest

from hermes import configfile
from hermes.demo import DemoProvider, DemoServer, demo_config, start_demo
from hermes.demo.answers import label
from hermes.demo.schema import filled

QUESTION = "What is a hedgehog?"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CLOCK = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}}


class Client:
    """Calls the WSGI application as a server would; no pause takes any time, but each is remembered."""

    def __init__(self) -> None:
        self.pauses_s: list[float] = []
        self.status = ""
        self.headers: dict[str, str] = {}
        self._provider = DemoProvider(sleep=self.pauses_s.append, clock=lambda: 1.0, new_id=lambda: "1")

    def send(
        self,
        body: bytes,
        path: str = "/v1/chat/completions",
        method: str = "POST",
        headers: dict[str, str] | None = None,
    ) -> Iterator[bytes]:
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            **(headers or {}),
        }
        return iter(self._provider(environ, self._started))

    def json(self, question: str = QUESTION, model: str = "demo-small", **fields: Any) -> Any:
        return json.loads(b"".join(self.chat(question, model, **fields)))

    def chat(self, question: str, model: str = "demo-small", **fields: Any) -> Iterator[bytes]:
        asked = {"model": model, "messages": [{"role": "user", "content": question}], **fields}
        return self.send(json.dumps(asked).encode())

    def events(self, question: str, model: str = "demo-small", **fields: Any) -> list[Any]:
        raw = b"".join(self.chat(question, model, stream=True, **fields))
        datas = [event.removeprefix(b"data: ") for event in raw.split(b"\n\n") if event]
        assert datas.pop() == b"[DONE]"
        return [json.loads(data) for data in datas]

    def _started(self, status: str, headers: list[tuple[str, str]]) -> None:
        self.status, self.headers = status, dict(headers)


@pytest.fixture
def client() -> Client:
    return Client()


def said(answer: Any) -> str:
    text: str = answer["choices"][0]["message"]["content"]
    return text


# -- what it says -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        pytest.param("What is 17 × 23?", "17 × 23 = 391.", id="a product"),
        pytest.param("7 / 2 please", "7 / 2 = 3.5.", id="a quotient"),
        pytest.param("1/0", "divided by zero", id="no quotient"),
        pytest.param("Hello there!", "Hello!", id="a greeting"),
        pytest.param("thanks a lot", "You are welcome!", id="thanks"),
        pytest.param(QUESTION, QUESTION, id="the gist of a question"),
        pytest.param("", "demo provider", id="nothing"),
    ],
)
def test_the_small_model_says_who_it_is_and_what_it_was_asked(client: Client, question: str, expected: str) -> None:
    answer = client.json(question)

    assert expected in said(answer)
    assert "demo-small" in said(answer)
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "demo-small"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert (
        answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"] > 0
    )


def test_the_large_model_says_more(client: Client) -> None:
    small, large = client.json(model="demo-small"), client.json(model="demo-large")

    assert len(said(large)) > 2 * len(said(small))
    assert "1. **" in said(large)


def test_the_same_question_gets_the_same_answer(client: Client) -> None:
    assert client.json() == client.json()


def test_images_are_counted(client: Client) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

    answer = client.json(messages=[{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}])

    assert said(answer).startswith("I see 1 image.")


def test_several_choices_and_a_limit(client: Client) -> None:
    answer = client.json(n=3, max_tokens=4)

    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"length"}
    assert answer["usage"]["completion_tokens"] == 12


def test_a_schema_is_satisfied(client: Client) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer", "minimum": 5}}}

    answer = client.json(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    free = client.json(response_format={"type": "json_object"})

    assert json.loads(said(answer)) == {"name": "demo name", "n": 5}
    assert json.loads(said(free))["model"] == "demo-small"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"enum": ["a", "b"]}, "a", id="a choice of values"),
        pytest.param({"const": 7}, 7, id="one value"),
        pytest.param({"type": ["null", "boolean"]}, True, id="several types"),
        pytest.param({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1, id="a choice of schemas"),
        pytest.param({"$ref": "#/$defs/a", "$defs": {"a": {"type": "number", "maximum": -2}}}, -2, id="a reference"),
        pytest.param({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "demo value", id="a loop"),
        pytest.param({"type": "integer", "minimum": 7, "multipleOf": 5}, 10, id="a multiple"),
        pytest.param({"type": "number", "exclusiveMaximum": 1}, 0, id="a bound that is outside"),
        pytest.param({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [True, True], id="a list"),
        pytest.param({"type": "string", "format": "date"}, "2026-01-31", id="a date"),
        pytest.param({"type": "string", "maxLength": 3}, "dem", id="a short text"),
        pytest.param(
            {"allOf": [{"properties": {"a": {"type": "boolean"}}}, {"properties": {"b": {"const": 1}}}]},
            {"a": True, "b": 1},
            id="schemas together",
        ),
        pytest.param({"type": "unheard of"}, None, id="an unknown type"),
        pytest.param("nonsense", "demo value", id="no schema"),
    ],
)
def test_a_value_fits_its_schema(schema: Any, expected: object) -> None:
    assert filled(schema) == expected


def test_a_recursive_schema_ends() -> None:
    node = {
        "type": "object",
        "properties": {
            "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
            "all": {"type": "array", "items": {"$ref": "#"}},
        },
        "required": ["next", "all"],
    }

    assert len(json.dumps(filled(node))) < 5000


@pytest.mark.parametrize(
    ("question", "tier"),
    [
        pytest.param("thanks!", "simple", id="small talk"),
        pytest.param("What is the capital of France?", "simple", id="a fact"),
        pytest.param("Implement a rate limiter", "complex", id="a task"),
        pytest.param("```\nx = 1\n```", "complex", id="code"),
        pytest.param("word " * 100, "complex", id="length"),
    ],
)
def test_the_teacher_names_a_tier(client: Client, question: str, tier: str) -> None:
    """It reads what stands between Hermes's marks, and not the instructions around it."""
    prompt = f"Implement nothing, classify: simple or complex?\n<message>\n{question}\n</message>"

    assert label(question) == tier
    assert said(client.json(prompt, "demo-teacher")) == tier


# -- tools ------------------------------------------------------------------------------------------------


def called(answer: Any) -> list[str]:
    return [call["function"]["name"] for call in answer["choices"][0]["message"].get("tool_calls", [])]


@pytest.mark.parametrize(
    ("question", "fields", "expected"),
    [
        pytest.param("ask get_weather", {}, ["get_weather"], id="a tool that is named"),
        pytest.param("get_weather and get_time", {}, ["get_weather", "get_time"], id="two at once"),
        pytest.param("get_weather and get_time", {"parallel_tool_calls": False}, ["get_weather"], id="one at a time"),
        pytest.param("please use tools", {}, ["get_weather"], id="none is named"),
        pytest.param("hello", {}, [], id="none is wanted"),
        pytest.param("hello", {"tool_choice": "required"}, ["get_weather"], id="one is required"),
        pytest.param("get_weather", {"tool_choice": "none"}, [], id="none is allowed"),
        pytest.param(
            "hi",
            {"tool_choice": {"type": "function", "function": {"name": "get_time"}}},
            ["get_time"],
            id="one is forced",
        ),
    ],
)
def test_tools_are_called(client: Client, question: str, fields: dict[str, Any], expected: list[str]) -> None:
    answer = client.json(question, tools=[WEATHER, CLOCK], **fields)

    assert called(answer) == expected
    assert answer["choices"][0]["finish_reason"] == ("tool_calls" if expected else "stop")


def test_a_tool_result_ends_the_loop(client: Client) -> None:
    messages = [
        {"role": "user", "content": "ask get_weather"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "tool_call_id": "call_demo_0", "content": "18 °C"},
    ]

    answer = client.json(messages=messages, tools=[WEATHER])

    assert "18 °C" in said(answer)


# -- streams ----------------------------------------------------------------------------------------------


def test_a_stream_says_the_same_piece_by_piece(client: Client) -> None:
    events = client.events(QUESTION, n=2, stream_options={"include_usage": True})

    *chunks, usage = events
    texts = ["", ""]
    for chunk in chunks:
        choice = chunk["choices"][0]
        texts[choice["index"]] += choice["delta"].get("content") or ""
    whole = client.json(n=2)
    assert texts == [choice["message"]["content"] for choice in whole["choices"]]
    assert len(client.pauses_s) == len(chunks) - 2  # after each token, not after the two ends
    assert usage["choices"] == []
    assert usage["usage"] == whole["usage"]
    assert all(chunk["usage"] is None for chunk in chunks)


def test_a_stream_without_the_wish_has_no_usage(client: Client) -> None:
    assert not [event for event in client.events(QUESTION) if "usage" in event]


def test_streamed_tool_calls_come_in_fragments(client: Client) -> None:
    events = client.events("get_weather and get_time", tools=[WEATHER, CLOCK])

    arguments = ["", ""]
    for event in events:
        for call in event["choices"][0]["delta"].get("tool_calls", []):
            arguments[call["index"]] += call["function"]["arguments"]
    assert [json.loads(text) for text in arguments] == [{"city": "demo city"}, {}]
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert len(events) > 6


# -- failures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "status"),
    [
        pytest.param("demo:429", "429 Too Many Requests", id="limited"),
        pytest.param("demo:429-retry", "429 Too Many Requests", id="limited, with a time"),
        pytest.param("demo:500", "500 Internal Server Error", id="an error"),
        pytest.param("demo:503", "503 Service Unavailable", id="overloaded"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_primary_fails_on_command(client: Client, command: str, status: str, stream: bool) -> None:
    answer = client.json(f"please {command}", stream=stream)

    assert client.status == status
    assert answer["error"]["message"]
    assert client.headers.get("Retry-After") == ("2" if command == "demo:429-retry" else None)


@pytest.mark.parametrize(
    ("model", "question", "fails"),
    [
        pytest.param("demo-small", "demo:503", True, id="a primary"),
        pytest.param("demo-small-b", "demo:503", False, id="a fallback"),
        pytest.param("demo-large-b", "demo:503:all", True, id="a fallback, when all do"),
        pytest.param("demo-teacher", "demo:503:all", False, id="the teacher never"),
        pytest.param("demo-small", "demo:5034", False, id="another word"),
        pytest.param("demo-small", "http://demo:500/", False, id="an address"),
    ],
)
def test_who_fails(client: Client, model: str, question: str, fails: bool) -> None:
    list(client.chat(question, model))

    assert client.status.startswith("503" if fails else "200")


def test_an_older_message_commands_nothing(client: Client) -> None:
    messages = [{"role": "user", "content": "demo:503"}, {"role": "user", "content": QUESTION}]

    client.json(messages=messages)

    assert client.status == "200 OK"


@pytest.mark.parametrize("value", ["503", "demo:503", "503:all"])
def test_a_header_commands_too(client: Client, value: str) -> None:
    body = json.dumps({"model": "demo-small", "messages": [{"role": "user", "content": "hi"}]}).encode()

    list(client.send(body, headers={"HTTP_X_DEMO": value}))

    assert client.status.startswith("503")


def until_cut(pieces: Iterator[bytes]) -> list[bytes]:
    received: list[bytes] = []
    with pytest.raises(ConnectionResetError):
        received.extend(pieces)
    return received


@pytest.mark.parametrize("fields", [{}, {"max_tokens": 1}, {"tools": [CLOCK], "tool_choice": "required"}])
def test_a_broken_stream_ends_without_an_end(client: Client, fields: dict[str, Any]) -> None:
    received = until_cut(client.chat(f"{QUESTION} demo:break", stream=True, **fields))

    assert len(received) >= 2
    assert b'finish_reason":"' not in b"".join(received)
    assert b"[DONE]" not in b"".join(received)


def test_a_broken_answer_is_shorter_than_it_says(client: Client) -> None:
    received = until_cut(client.chat("demo:break"))

    assert 0 < len(b"".join(received)) < int(client.headers["Content-Length"])


@pytest.mark.parametrize("stream", [False, True])
def test_slow_hanging_and_senseless_answers(client: Client, stream: bool) -> None:
    list(client.chat("demo:slow", stream=stream))
    assert client.pauses_s[0] == 2

    assert list(client.chat("demo:garbage", stream=stream)) == [b"not JSON\n"]
    assert client.headers["Content-Type"] == "text/plain"

    with pytest.raises(ConnectionResetError):
        list(client.chat("demo:hang", stream=stream))
    assert client.pauses_s[-1] == 120


# -- requests that cannot be served -----------------------------------------------------------------------

HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        pytest.param(b"", None, id="nothing"),
        pytest.param(b"{", None, id="no JSON"),
        pytest.param(b"[" * 100_000, None, id="deep JSON"),
        pytest.param(b"\xff", None, id="no text"),
        pytest.param(b"[]", None, id="a list"),
        pytest.param({"messages": HI}, "model", id="no model"),
        pytest.param({"model": "demo-small"}, "messages", id="no messages"),
        pytest.param({"model": "demo-small", "messages": []}, "messages", id="empty messages"),
        pytest.param({"model": "demo-small", "messages": ["hi"]}, "messages[0]", id="a message that is a text"),
        pytest.param(
            {"model": "demo-small", "messages": [{"role": "wizard"}]}, "messages[0].role", id="a strange role"
        ),
        pytest.param(
            {"model": "demo-small", "messages": [{"role": "user", "content": 7}]}, "messages[0].content", id="a number"
        ),
        pytest.param(
            {"model": "demo-small", "messages": [{"role": "user", "content": ["x"]}]},
            "messages[0].content",
            id="a bad part",
        ),
        pytest.param({"model": "demo-small", "messages": HI, "stream": "yes"}, "stream", id="a stream in words"),
        pytest.param({"model": "demo-small", "messages": HI, "n": 0}, "n", id="no choices"),
        pytest.param(
            {"model": "demo-small", "messages": HI, "max_tokens": True}, "max_tokens", id="a flag as a number"
        ),
        pytest.param({"model": "demo-small", "messages": HI, "tools": [{}]}, "tools[0]", id="a tool without a name"),
        pytest.param({"model": "demo-small", "messages": HI, "tools": {}}, "tools", id="tools that are no list"),
        pytest.param(
            {"model": "demo-small", "messages": HI, "response_format": "json"},
            "response_format",
            id="a format in words",
        ),
    ],
)
def test_what_cannot_be_read_is_an_openai_error(client: Client, body: Any, param: str | None) -> None:
    answer = json.loads(b"".join(client.send(body if isinstance(body, bytes) else json.dumps(body).encode())))

    assert client.status == "400 Bad Request"
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["param"] == param


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/v1/models", "200 OK", id="the models"),
        pytest.param("GET", "/v1/chat/completions", "405 Method Not Allowed", id="a wrong method"),
        pytest.param("POST", "/v1/embeddings", "404 Not Found", id="a path that is not there"),
    ],
)
def test_other_paths(client: Client, method: str, path: str, status: str) -> None:
    json.loads(b"".join(client.send(b"", path, method)))

    assert client.status == status


def test_an_unknown_model_is_not_found(client: Client) -> None:
    assert client.json(model="gpt-unheard-of")["error"]["code"] == "model_not_found"
    assert client.status == "404 Not Found"


# -- on a port --------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[DemoServer]:
    running = start_demo()
    yield running
    running.stop()


def in_a_thread(work: Callable[[], Any]) -> Any:
    """The official client blocks, so it runs in a thread while this one runs the server's event loop."""
    return gevent.get_hub().threadpool.spawn(work).get(timeout=20)


def test_the_official_client_understands_everything(server: DemoServer) -> None:
    def work() -> tuple[str | None, list[str], str, int]:
        with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
            answer = client.chat.completions.create(model="demo-small", messages=[{"role": "user", "content": "2+2"}])
            asked: Any = {
                "messages": [{"role": "user", "content": "get_weather and get_time"}],
                "tools": [WEATHER, CLOCK],
            }
            with client.chat.completions.stream(model="demo-large", **asked) as stream:
                final = stream.get_final_completion()
            names = [call.function.name for call in final.choices[0].message.tool_calls or []]
            try:
                client.chat.completions.create(model="demo-small", messages=[{"role": "user", "content": "demo:429"}])
            except openai.RateLimitError as error:
                return answer.choices[0].message.content, names, str(error.code), len(client.models.list().data)
        raise AssertionError("no error came")

    text, names, code, models = in_a_thread(work)

    assert text == "2 + 2 = 4. (demo-small)"
    assert names == ["get_weather", "get_time"]
    assert code == "rate_limit_exceeded"
    assert models == 5


def test_a_broken_stream_is_a_broken_connection(server: DemoServer, capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> str:
        with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
            text = ""
            try:
                asked: Any = {"model": "demo-small", "messages": [{"role": "user", "content": "why? demo:break"}]}
                for chunk in client.chat.completions.create(stream=True, **asked):
                    text += chunk.choices[0].delta.content or ""
            except openai.APIConnectionError:
                return text
            except Exception as error:  # noqa: BLE001  (the client passes on what its HTTP library raises)
                return f"{text} {type(error).__name__}"
        return "it ended well"

    text = in_a_thread(work)

    assert text.startswith("This is demo-small")
    assert "ended well" not in text
    assert capfd.readouterr().err == ""


def test_the_configuration_leads_to_the_server() -> None:
    policy = configfile.parse(demo_config("http://127.0.0.1:1234/v1"), "demo", {})

    assert {tier: [e.model for e in cascade.endpoints] for tier, cascade in policy.cascades.items()} == {
        "simple": ["demo-small", "demo-small-b"],
        "complex": ["demo-large", "demo-large-b"],
    }
    assert policy.routing.teacher is not None
    assert policy.routing.teacher.endpoint.model == "demo-teacher"
    assert {e.base_url for e in policy.endpoints().values()} == {"http://127.0.0.1:1234/v1"}
    assert all(e.price for e in policy.endpoints().values())
    assert policy.warnings == ()
