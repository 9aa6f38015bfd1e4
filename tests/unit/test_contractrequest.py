"""What the organisation's functions send, in each of the spellings that are deployed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.chatrequest import ChatRequest
from hermes.contractrequest import MAX_HINT_CHARS, ContractRequest, with_house_voice
from hermes.errors import InvalidRequest

MESSAGES = [{"role": "user", "content": "hi"}]


def parsed(**fields: Any) -> ContractRequest:
    body = {"messages": MESSAGES, "metadata": {"function_name": "f"}, **fields}
    return ContractRequest.parse(json.dumps(body).encode())


def sent(request: ContractRequest) -> dict[str, Any]:
    return sent_chat(request.chat)


def sent_chat(chat: ChatRequest) -> dict[str, Any]:
    return dict(json.loads(b"".join(chat.outgoing("m", ask_usage=True))))


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"function_name": "f", "use_case": "u", "user_id": "alice"}, id="snake_case"),
        pytest.param({"functionName": "f", "useCase": "u", "userId": "alice"}, id="camelCase"),
    ],
)
def test_both_spellings_of_the_metadata_are_read_and_none_is_sent(metadata: dict[str, str]) -> None:
    request = parsed(metadata=metadata, role="reasoning", context_hint="shop")

    assert (request.function_name, request.use_case, request.user_id) == ("f", "u", "alice")
    assert (request.role, request.context_hint) == ("reasoning", "shop")
    assert sent(request) == {"model": "m", "messages": MESSAGES}


def test_the_role_is_chat_unless_it_is_said() -> None:
    assert parsed().role == "chat"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param("json_object", {"type": "json_object"}, id="a word"),
        pytest.param("text", {"type": "text"}, id="text"),
        pytest.param({"type": "json_schema", "json_schema": {"b": 1, "a": 2}}, None, id="an object stays as it is"),
    ],
)
def test_a_response_format_in_a_word_becomes_an_object(given: Any, wanted: Any) -> None:
    assert sent(parsed(response_format=given))["response_format"] == (wanted or given)


def test_what_is_not_the_contracts_own_goes_on_byte_for_byte() -> None:
    messages = b'{"messages":[{"role":"user","content":"h\\u00e9"}]'
    raw = messages + b', "seed" : 9007199254740993, "metadata":{"functionName":"f"}}'

    request = ContractRequest.parse(raw)

    out = b"".join(request.chat.outgoing("m", ask_usage=True))
    assert out == b'{"model":"m","messages":[{"role":"user","content":"h\\u00e9"}], "seed" : 9007199254740993}'


def test_the_stream_route_streams_whatever_the_body_says() -> None:
    raw = json.dumps({"messages": MESSAGES, "stream": False, "metadata": {"functionName": "f"}}).encode()

    request = ContractRequest.parse(raw, stream=True)

    assert request.chat.stream
    assert sent(request)["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("prompt", ["say hi", ["say hi"]])
def test_a_prompt_is_served_as_a_chat_of_one_message(prompt: Any) -> None:
    request = ContractRequest.parse(json.dumps({"prompt": prompt, "max_tokens": 5}).encode())

    assert request.is_legacy
    assert sent(request) == {"model": "m", "messages": [{"role": "user", "content": "say hi"}], "max_tokens": 5}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        pytest.param({"metadata": {}}, "metadata", id="no function"),
        pytest.param({"metadata": {"function_name": " "}}, "metadata", id="a blank function"),
        pytest.param({"metadata": "f"}, "metadata", id="metadata that is no object"),
        pytest.param({"role": 7}, "role", id="a role that is no text"),
        pytest.param({"response_format": "xml"}, "response_format", id="an unknown format"),
        pytest.param({"context_hint": []}, "context_hint", id="a hint that is no text"),
        pytest.param({"context_hint": "x" * (MAX_HINT_CHARS + 1)}, "context_hint", id="a hint that is a document"),
        pytest.param({"role": "x" * 300}, "role", id="a role that is a text"),
        pytest.param(
            {"metadata": {"function_name": "f", "data_classes": 7}}, "metadata.data_classes", id="a class of data"
        ),
        pytest.param({"messages": []}, "messages", id="no messages"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parsed(**fields)

    assert refused.value.param == param


def test_the_house_voice_stands_in_front() -> None:
    request = with_house_voice(parsed().chat, "Be kind.")

    assert request.messages == [{"role": "system", "content": "Be kind."}, *MESSAGES]
    assert sent_chat(request) == {"model": "m", "messages": request.messages}
    assert with_house_voice(request, "") is request


@pytest.mark.parametrize(
    ("raw", "messages"),
    [
        pytest.param(
            b'{"messages":[ {"role":"system", "content":"mine"},{"role":"user","content":"h\\u00e9"} ],%b}',
            b' {"role":"system", "content":"mine"},{"role":"user","content":"h\\u00e9"} ',
            id="a system message of the caller's, byte for byte",
        ),
        pytest.param(
            b'{"prompt":"hi",%b}',
            b'{"role":"user","content":"hi"}',
            id="a prompt",
        ),
        pytest.param(
            b'{"messages":[],"messages":[{"role":"user"}],%b}',
            b'{"role":"user"}',
            id="the messages that count",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_house_voice_is_first_whatever_the_form_of_the_request(raw: bytes, messages: bytes, stream: bool) -> None:
    read = ContractRequest.parse(raw.replace(b"%b", b'"metadata":{"function_name":"f"}'), stream=stream)

    request = with_house_voice(read.chat, "Be kind.")

    out = b"".join(request.outgoing("m", ask_usage=True))
    assert b'"messages":[{"role":"system","content":"Be kind."},' + messages + b"]" in out
    assert json.loads(out)["messages"] == request.messages == request.body["messages"]
    assert b"metadata" not in out
    assert b"prompt" not in out


def test_what_is_written_anew_may_hold_what_the_strict_parser_refuses() -> None:
    prompt = ContractRequest.parse(b'{"prompt":"a\\ud800b"}', stream=True)
    options = ContractRequest.parse(
        b'{"prompt":"a","stream_options":{"a":"\\ud800","b":123456789012345678901234567890}}', stream=True
    )

    assert sent(prompt)["messages"] == [{"role": "user", "content": "a\ud800b"}]
    assert sent(options)["stream_options"] == {
        "a": "\ud800",
        "b": 123456789012345678901234567890,
        "include_usage": True,
    }
