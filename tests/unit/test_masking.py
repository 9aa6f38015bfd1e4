"""Masking changes the texts that hold personal data, and no other byte."""

from __future__ import annotations

import base64
import json
import random
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.admission.masking import SLICE_BYTES, Masked, mask
from hermes.admission.personal_data import KINDS
from hermes.chatrequest import ChatRequest
from hermes.contractrequest import ContractRequest, with_house_voice
from hermes.embeddingrequest import EmbeddingRequest
from hermes.errors import InvalidRequest
from hermes.upstream.restoring import Placeholders

EVERY = frozenset(KINDS)
ADDRESS = "user@example.com"


def masked(body: Any, kinds: frozenset[str] = EVERY) -> Masked:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return mask(ChatRequest.parse(raw), None, kinds, kinds)


def sent(found: Masked, model: str = "m") -> bytes:
    return b"".join(found.request.outgoing(model, ask_usage=False))


def user(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


def test_every_text_of_every_message_is_masked_and_nothing_else_changes() -> None:
    raw = (
        b'{ "model":"m",  "temperature": 1.50, "messages" : [{"role":"system","content":"for user@example.com"},'
        b' {"role":"user","content":[{"type":"text","text":"I am user@example.com"}],"name":"x"},'
        b'{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"mail",'
        b'"arguments":"{\\"to\\":\\"user@example.com\\"}"}}]},'
        b'{"role":"tool","tool_call_id":"t","content":"\\u00e9 a@b.ie"}],'
        b'"metadata":{"who":"user@example.com"},"user":"user@example.com","seed":12345678901234567890 }'
    )

    found = masked(raw)

    assert sent(found) == raw.replace(b"user@example.com", b"[EMAIL_1]").replace(
        b'"\\u00e9 a@b.ie"', '"é [EMAIL_2]"'.encode()
    )
    assert found.found == {"email": 6}
    assert found.request.messages[0]["content"] == "for [EMAIL_1]"
    assert found.placeholders == {"[EMAIL_1]": ADDRESS, "[EMAIL_2]": "a@b.ie"}


def test_what_takes_no_room_in_a_number_hides_nothing_and_comes_back_with_it() -> None:
    text = "card 4111\u200b1111\u200b1111\u200b1111, then\u200b us\u2060er@example.com!"

    for raw in (json.dumps(user(text)).encode(), json.dumps(user(text), ensure_ascii=False).encode()):
        found = masked(raw)

        gone = found.request.messages[0]["content"]
        assert gone == "card [CREDIT_CARD_1], then\u200b [EMAIL_1]!"
        assert Placeholders(found.placeholders).text(gone) == text


@pytest.mark.parametrize("written", [r"[EMAIL\_1]", r"[EMAIL\_1\]"])
def test_a_placeholder_that_the_caller_has_escaped_is_none_of_ours(written: str) -> None:
    found = masked(user(f"keep {written}, {ADDRESS}"))

    assert found.placeholders == {"[EMAIL_2]": ADDRESS}
    assert Placeholders(found.placeholders).text(written) == written


def test_a_request_without_personal_data_stays_the_object_it_was() -> None:
    request = ChatRequest.parse(json.dumps(user("write a@ to 12 people")).encode())

    assert mask(request, None, EVERY, EVERY).request is request


def test_what_is_looked_for_but_not_masked_is_counted_and_sent() -> None:
    request = ChatRequest.parse(json.dumps(user(f"{ADDRESS} 4111111111111111")).encode())

    found = mask(request, None, EVERY, frozenset({"credit_card"}))

    assert found.found == {"email": 1, "credit_card": 1}
    assert found.request.messages[0]["content"] == f"{ADDRESS} [CREDIT_CARD_1]"


def test_a_placeholder_that_the_caller_wrote_is_never_one_of_ours() -> None:
    found = masked(user(f"keep [EMAIL_1] and [EMAIL_3], {ADDRESS} a@b.ie"))

    assert found.placeholders == {"[EMAIL_2]": ADDRESS, "[EMAIL_4]": "a@b.ie"}


def test_of_two_members_of_one_name_both_are_masked() -> None:
    raw = b'{"messages":[{"role":"user","content":"user@example.com"}],"messages":[{"role":"user","content":"hi"}]}'

    found = masked(raw)

    assert b"user@example.com" not in sent(found)
    assert found.request.messages == [{"role": "user", "content": "hi"}]


def test_escapes_do_not_hide_an_address() -> None:
    assert b"example" not in sent(masked(b'{"messages":[{"role":"user","content":"\\u0075ser\\u0040example.com"}]}'))


def test_arguments_stay_json_whatever_is_masked_in_them() -> None:
    arguments = json.dumps({"to": "müller@example.com", "card": 4111111111111111, "n": 3, "note": 'say "a@b.ie"'})

    found = masked({"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": arguments}}]}]})

    inner = json.loads(found.request.messages[0]["tool_calls"][0]["function"]["arguments"])
    assert inner == {"to": "[EMAIL_1]", "card": "[CREDIT_CARD_1]", "n": 3, "note": 'say "[EMAIL_2]"'}


def test_a_members_name_says_what_its_value_is() -> None:
    arguments = '{"home_phone": "9912 3456", "mobile": 99123456, "order": "9912 3456", "order_no": 99123457}'

    found = masked({"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": arguments}}]}]})

    inner = json.loads(found.request.messages[0]["tool_calls"][0]["function"]["arguments"])
    assert inner == {"home_phone": "[PHONE_1]", "mobile": "[PHONE_2]", "order": "9912 3456", "order_no": 99123457}


def test_pictures_are_passed_over() -> None:
    url = "data:image/png;base64," + "4111111111111111" * 400
    parts = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "input_audio", "input_audio": {"data": url[22:]}},
    ]

    assert masked(user(parts)).found == {}


def test_the_house_voice_is_the_operators_own() -> None:
    raw = json.dumps({"metadata": {"function_name": "f"}, **user("hi a@b.ie")}).encode()
    request = with_house_voice(ContractRequest.parse(raw).chat, "Help is at help@example.com.")

    found = mask(request, "about x@y.ie", EVERY, EVERY)

    assert found.hint == "about [EMAIL_1]"
    assert [message["content"] for message in found.request.messages] == [
        "Help is at help@example.com.",
        "hi [EMAIL_2]",
    ]
    assert b"help@example.com" in sent(found)


def test_a_legacy_prompt_is_masked_in_the_message_it_has_become() -> None:
    found = mask(ContractRequest.parse(b'{"prompt":"hi a@b.ie"}').chat, None, EVERY, EVERY)

    assert found.request.messages == [{"role": "user", "content": "hi [EMAIL_1]"}]
    assert b"a@b.ie" not in sent(found)


def test_the_input_of_embeddings_is_masked() -> None:
    request = EmbeddingRequest.parse(b'{"model":"e","input":["hi a@b.ie", "ho"]}')

    found = mask(request, None, EVERY, EVERY)

    assert sent(found) == b'{"model":"m","input":["hi [EMAIL_1]", "ho"]}'
    assert found.request.messages == [{"role": "user", "content": "hi [EMAIL_1] ho"}]


@pytest.mark.parametrize(
    "filler", ["lorem ipsum dolor sit amet, ", "数据处理" * 7, "1234 5678 ", "x" * 40, '\\n\n\t"é ']
)
def test_long_texts_are_masked_wherever_an_address_stands(filler: str) -> None:
    text = "".join(filler * 50 + f" user{number}@example.com " for number in range(40))
    assert len(text) > 6 * SLICE_BYTES

    found = masked(user(text), frozenset({"email"}))

    assert found.found == {"email": 40}
    restored = found.request.messages[0]["content"]
    assert Placeholders(found.placeholders).text(restored) == text


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("between", ["\n", ",", "\t", " ", ";é;", "\r\n😀\r\n"])
@pytest.mark.parametrize(
    "value", ["first.last{:04}@example.com", "DE89370400440532013000", "4111 1111 1111 1111", "+49 170 1{:06}"]
)
def test_a_long_list_of_nothing_but_personal_data_is_cut_within_none_of_it(
    value: str, between: str, ascii_only: bool
) -> None:
    text = between.join(value.format(number) for number in range(500))

    found = masked(json.dumps(user(text), ensure_ascii=ascii_only).encode())

    content = found.request.messages[0]["content"]
    assert set(content.split(between)) == set(found.placeholders)
    assert sum(found.found.values()) == 500
    assert Placeholders(found.placeholders).text(content) == text


def test_a_word_before_a_cut_says_what_is_behind_it() -> None:
    text = ",".join("tel 55512345" for _ in range(600))

    assert "55512345" not in masked(user(text)).request.messages[0]["content"]


def test_a_text_that_begins_as_a_file_is_looked_through_where_it_goes_on() -> None:
    picture = "data:image/png;base64," + "iVBORw0KGgo" * 8

    assert masked(user(f"{picture} write to {ADDRESS}")).found == {"email": 1}
    assert masked(user(f"{picture}4111111111111111")).found == {}


IBAN = "DE89370400440532013000"
PICTURE = base64.b64encode(random.Random(1).randbytes(30_000)).decode()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"data:a/b;base64,;IBAN:{IBAN};please-pay", id="no base64"),
        pytest.param(f"data:a/b;base64,{IBAN}", id="too short for a file"),
        pytest.param(f"data:image/png;base64,{PICTURE};IBAN:{IBAN};please-pay", id="behind a file"),
        pytest.param(f"data:image/png;base64,{PICTURE[:20_000]}{IBAN}{PICTURE[20_000:]}", id="within a file"),
        pytest.param(f"{PICTURE[:16_370]}{IBAN}{PICTURE[:8000]}", id="where base64 is cut"),
        pytest.param("A" * 600 + IBAN, id="behind letters"),
        pytest.param("A" * 3000 + " " + IBAN, id="behind letters and a blank"),
        pytest.param(IBAN + "A" * 600, id="before letters"),
    ],
)
def test_what_looks_like_a_file_hides_no_account(text: str) -> None:
    found = masked(user(text))

    assert found.found == {"iban": 1}
    assert IBAN.encode() not in sent(found)


def test_a_file_stays_as_it_is() -> None:
    whole = base64.b64encode(random.Random(2).randbytes(2_000_000)).decode()

    assert masked(user(f"data:image/png;base64,{whole}")).found == {}
    assert masked(user(whole)).found == {}


def test_every_member_is_looked_through_names_too() -> None:
    found = masked({**user("hi"), "stream_options": {"a": ADDRESS}, "user": ADDRESS, "response_format": {ADDRESS: 1}})

    assert found.found == {"email": 3}
    assert ADDRESS.encode() not in sent(found)
    assert mask(ChatRequest.parse(json.dumps({**user("hi"), ADDRESS: 1}).encode()), None, EVERY, frozenset()).found
    with pytest.raises(InvalidRequest, match="name of a field"):
        masked({**user("hi"), ADDRESS: 1})


class TooLateError(Exception):
    """Somebody's time is over."""


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("".join(f"a{number}@b.de " for number in range(30_000)), id="addresses"),
        pytest.param(json.dumps(list(range(12_345_678, 12_345_678 + 20_000))), id="numbers in JSON"),
        pytest.param("1 " * 200_000, id="digits"),
        pytest.param("some words " * 200_000, id="words"),
    ],
)
def test_the_search_ends_when_the_time_is_over(content: str) -> None:
    checked = 0

    def check() -> None:
        nonlocal checked
        checked += 1
        if checked == 3:
            raise TooLateError

    with pytest.raises(TooLateError):
        mask(ChatRequest.parse(json.dumps(user(content)).encode()), None, EVERY, EVERY, check)


def test_json_in_a_text_stays_json_with_blanks_around_it() -> None:
    found = masked(user('\n {"to": "user\\u0040example.com", "card": 4111111111111111}\n'))

    told = json.loads(found.request.messages[0]["content"])
    assert told == {"to": "[EMAIL_1]", "card": "[CREDIT_CARD_1]"}


TEXTS = st.text(st.sampled_from('ab @.[]_1\\"{}é\n\u2028😀' + string.digits), max_size=40)
VALUES = st.sampled_from(
    [ADDRESS, "DE89 3704 0044 0532 0130 00", "4111111111111111", "+965 9912 3456", "[EMAIL_1]", "[EMAIL_"]
)
JSON = st.recursive(
    st.one_of(TEXTS, st.builds("{} {} {}".format, TEXTS, VALUES, TEXTS), st.none(), st.integers(), st.booleans()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4) | inner.map(json.dumps),
    max_leaves=12,
)


@settings(max_examples=150)
@given(content=JSON, ascii_only=st.booleans())
def test_masked_and_restored_means_what_was_written(content: Any, ascii_only: bool) -> None:
    """And the sent bytes are JSON in which no masked value stands any more."""
    raw = json.dumps(user(content), ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    found = masked(raw)

    body = sent(found)
    whole = json.loads(body)
    assert whole["messages"] == json.loads(json.dumps(found.request.messages))
    if "[" not in json.dumps(content).replace("[EMAIL_", "") or not found.placeholders:
        return
    restored = json.loads(Placeholders(found.placeholders).whole(json.dumps(whole, ensure_ascii=False).encode()))
    assert _words(restored["messages"]) == _words(json.loads(raw)["messages"])


def _words(value: Any) -> str:
    """All texts, those that are JSON themselves by what they mean: their spelling may change."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_words(key)}:{_words(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_words, value)) + "]"
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return _words(json.loads(value))
        except ValueError:
            return value
    return str(value)
