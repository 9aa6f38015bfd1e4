"""What Hermes reads of a request, what it changes in it, and what it takes for an answer to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.chatrequest import MAX_MESSAGES, MAX_PARTS, ChatRequest, parse_object
from hermes.embeddingrequest import EmbeddingRequest
from hermes.errors import InvalidRequest

MESSAGES = [{"role": "user", "content": "hi"}]
REQUEST = ChatRequest.parse(json.dumps({"messages": MESSAGES}).encode())


def parsed(**fields: Any) -> ChatRequest:
    return ChatRequest.parse(json.dumps({"messages": MESSAGES, **fields}).encode())


def sent(request: ChatRequest, *, ask_usage: bool = True) -> dict[str, Any]:
    return dict(json.loads(b"".join(request.outgoing("m", ask_usage=ask_usage))))


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"messages":', id="cut off"),
        pytest.param(b"[" * 100_000, id="too deep"),
        pytest.param(b"[]" * 1_000_001, id="nothing but brackets"),
        pytest.param(b'{"a":"%b"' % (b"x" * 200_000), id="large and cut off"),
        pytest.param(b'{"messages":[{"role":"user","content":"\xff"}]}', id="no UTF-8"),
        pytest.param(b'{"messages":[],"seed":' + b"9" * 5000 + b"}", id="a number of five thousand digits"),
    ],
)
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_object(raw)


def test_what_providers_accept_is_accepted() -> None:
    body = parse_object(b'{"a":"\\ud800","t":NaN,"m":1,"m":2}')

    assert body["a"] == "\ud800"
    assert body["m"] == 2


@pytest.mark.parametrize("padding", [pytest.param(0, id="small"), pytest.param(200_000, id="large")])
def test_lone_surrogates_and_nan_are_accepted_in_any_size(padding: int) -> None:
    body = parse_object(b'{"a":"\\ud800","t":NaN,"p":"%b"}' % (b"x" * padding))

    assert body["a"] == "\ud800"
    assert body["t"] != body["t"]


def test_the_longest_conversation_is_read_and_a_longer_one_refused() -> None:
    message = {"role": "user", "content": "a"}

    assert len(parsed(messages=[message] * MAX_MESSAGES).messages) == MAX_MESSAGES
    with pytest.raises(InvalidRequest, match="20,000 messages"):
        parsed(messages=[message] * (MAX_MESSAGES + 1))


@pytest.mark.parametrize("messages", [1, 100])
def test_parts_are_counted_over_all_messages(messages: int) -> None:
    parts = [{"type": "text", "text": "a"}] * (MAX_PARTS // messages)
    conversation: list[dict[str, Any]] = [{"role": "user", "content": parts} for _ in range(messages)]

    assert len(parsed(messages=conversation).messages) == messages
    with pytest.raises(InvalidRequest, match="20,000 parts"):
        parsed(messages=[*conversation, {"role": "user", "content": ["a"]}])


@pytest.mark.parametrize("padding", [pytest.param(0, id="small"), pytest.param(200_000, id="large")])
@pytest.mark.parametrize("key", ["stream_options", "stream\\u005foptions"])
def test_stream_options_are_found_however_they_are_spelled(padding: int, key: str) -> None:
    fields = f'"stream":true,"{key}":{{"a":1}},"padding":"{"x" * padding}"'

    request = ChatRequest.parse(f'{{{fields},"messages":[{{"role":"user"}}]}}'.encode())

    assert sent(request)["stream_options"] == {"a": 1, "include_usage": True}
    assert "stream_options" not in sent(request, ask_usage=False)


@pytest.mark.parametrize("padding", [0, 200_000])
@pytest.mark.parametrize(
    "name", ["Model", "MODEL", "\u017ftream", "Stream_Options", "Messages", "Input", "Max_Tokens", "N"]
)
def test_a_name_that_some_providers_would_take_for_another_is_refused(name: str, padding: int) -> None:
    """Who decodes as Go does takes the last of `model` and `Model`: past a pin, or past what was masked."""
    raw = json.dumps({"x": " " * padding, "model": "a", "messages": MESSAGES, name: "b"}).encode()

    with pytest.raises(InvalidRequest, match=name) as refused:
        ChatRequest.parse(raw)

    assert refused.value.param == name


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        pytest.param({"messages": []}, "messages", id="no messages"),
        pytest.param({"messages": "hi"}, "messages", id="a text"),
        pytest.param({"messages": [1]}, "messages[0]", id="a number for a message"),
        pytest.param({"stream": "yes"}, "stream", id="a word for a flag"),
        pytest.param({"model": 5}, "model", id="a number for a name"),
    ],
)
def test_the_field_that_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parsed(**fields)

    assert refused.value.param == param


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"{}", "messages is missing", id="none"),
        pytest.param(b'{"messages": []}', "messages is empty", id="an empty list"),
        pytest.param(b'{"messages": "hi"}', "messages must be a list", id="a text"),
        pytest.param(b'{"messages": {}}', "messages must be a list", id="an object"),
        pytest.param(b'{"messages": null}', "messages must be a list", id="null"),
    ],
)
def test_what_is_wrong_with_the_messages_is_told(body: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        ChatRequest.parse(body)


def test_a_stream_is_asked_for_its_usage_and_nothing_else_changes() -> None:
    assert sent(parsed(stream=True)) == {
        "model": "m",
        "messages": MESSAGES,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize("stream", [{}, {"stream": False}, {"stream": None}])
def test_without_a_stream_there_are_no_stream_options(stream: dict[str, Any]) -> None:
    assert "stream_options" not in sent(parsed(**stream))


def test_other_stream_options_stay() -> None:
    request = parsed(stream=True, stream_options={"include_obfuscation": False})

    assert sent(request)["stream_options"] == {"include_obfuscation": False, "include_usage": True}


def test_who_refuses_stream_options_gets_none_at_all() -> None:
    request = parsed(stream=True, stream_options={"include_usage": True})

    assert request.wants_usage
    assert "stream_options" not in sent(request, ask_usage=False)


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        pytest.param({}, set(), id="nothing special"),
        pytest.param({"tools": [{"type": "function"}]}, {"tools"}, id="tools"),
        pytest.param({"tools": []}, set(), id="an empty list of tools"),
        pytest.param({"response_format": {"type": "json_schema"}}, {"json_schema"}, id="a schema"),
        pytest.param({"response_format": {"type": "json_object"}}, set(), id="plain JSON"),
        pytest.param({"messages": [{"content": [{"type": "image_url"}]}]}, {"vision"}, id="a picture"),
        pytest.param(
            {"messages": [{"content": [{"type": "input_audio"}, {"type": "file"}]}]}, {"audio", "files"}, id="more"
        ),
    ],
)
def test_what_an_endpoint_must_be_able_to_do(fields: dict[str, Any], needs: set[str]) -> None:
    assert parsed(**fields).needs() == needs


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        pytest.param({"choices": [{"message": {"content": None}}]}, True, id="null content"),
        pytest.param({"choices": [{}], "error": None}, True, id="error null"),
        pytest.param({"choices": []}, False, id="no choices"),
        pytest.param({"error": {"message": "x"}}, False, id="an error"),
        pytest.param([], False, id="a list"),
        pytest.param(None, False, id="nothing"),
    ],
)
def test_what_counts_as_an_answer(body: object, is_one: bool) -> None:
    assert REQUEST.is_answer(body) is is_one


@pytest.mark.parametrize("given", ["hello", ["hello", "you"], [[1, 2, 3]], [1, 2, 3]])
def test_embeddings_are_asked_for_in_every_form(given: Any) -> None:
    raw = json.dumps({"model": "a", "input": given}).encode()

    request = EmbeddingRequest.parse(raw)

    assert json.loads(b"".join(request.outgoing("m", ask_usage=True))) == {"model": "m", "input": given}
    assert request.messages[0]["content"]
    assert request.is_answer({"data": [{"embedding": [0.1]}]})
    assert not request.is_answer({"choices": [{}]})


@pytest.mark.parametrize("given", [None, "", [], 5])
def test_an_embedding_needs_an_input(given: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        EmbeddingRequest.parse(json.dumps({"input": given} if given is not None else {}).encode())

    assert refused.value.param == "input"
