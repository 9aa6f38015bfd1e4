"""What goes back: a provider's own words as they came, but never with one of our keys, however it is spelled."""

from __future__ import annotations

import json

import pytest

from hermes.observe.redact import Redactor
from hermes.policy import BreakerPolicy
from hermes.reply import clean_events, content_bytes_of, headers_of, refusal_body
from hermes.state.store import MemoryStore
from hermes.types import Decision, Endpoint
from hermes.upstream.answer import Answer
from hermes.upstream.breaker import Breakers

KEY = "ab/cd+efgh/ijklmnop=="
REDACTOR = Redactor({KEY})
ESCAPED = "".join(f"\\u{ord(char):04x}" for char in KEY)


def answer(body: bytes, model: str = "m", status: int = 400) -> Answer:
    endpoint = Endpoint(f"{model}@h", model, "http://h", "http://h")
    permit = Breakers(MemoryStore(), lambda *_: None).permit(endpoint, BreakerPolicy(), 1.0)
    assert permit is not None
    return Answer(endpoint, 0, permit, status=status, body=body)


@pytest.mark.parametrize("spelled", [KEY, KEY.replace("/", "\\/"), ESCAPED], ids=["plain", "slashes", "code points"])
def test_a_key_in_a_refusal_is_hidden_however_json_spells_it(spelled: str) -> None:
    body = b'{"error": {"message": "bad key %s given"}}' % spelled.encode()

    shown = refusal_body(answer(body), "req_1", REDACTOR)

    assert KEY not in json.loads(shown)["error"]["message"]


def test_a_refusal_without_one_is_passed_on_byte_for_byte() -> None:
    body = b'{ "error" : {"message":"h\\u00e9", "n": 1.50} }'

    assert refusal_body(answer(body), "req_1", REDACTOR) == body


def test_a_page_in_place_of_an_error_is_not_passed_on() -> None:
    shown = json.loads(refusal_body(answer(b"<html>no</html>"), "req_1", REDACTOR))

    assert "req_1" in shown["error"]["message"]
    assert "<html>" not in shown["error"]["message"]


def test_a_key_in_an_error_event_is_hidden_and_the_other_events_stay() -> None:
    content = b'data: {"choices":[{"delta":{"content":"A"}}]}\n\n'
    error = b'data: {"error":{"message":"bad key %s"}}\n\n' % ESCAPED.encode()

    shown = clean_events(content + error, REDACTOR)

    assert shown.startswith(content)
    assert KEY not in json.loads(shown[len(content) :].removeprefix(b"data: "))["error"]["message"]


def test_a_model_of_any_name_fits_into_a_header() -> None:
    headers = dict(headers_of(answer(b"", model="модель 1"), Decision("simple", "teacher", 0.5), 1.234))

    assert headers["X-Hermes-Model"].isascii()
    assert headers["X-Hermes-Decision"] == "teacher;confidence=0.500"
    assert headers["X-Hermes-Overhead-Ms"] == "1.23"


def test_the_text_of_a_whole_answer_is_measured_without_its_envelope() -> None:
    body = json.dumps({"choices": [{"message": {"role": "assistant", "content": "x" * 40}}]}).encode()

    assert content_bytes_of(body) == 40


def test_embeddings_hold_no_text() -> None:
    """Nor is their answer a fault where it does not say its usage."""
    assert content_bytes_of(b'{"data":[{"index":0,"embedding":[0.5]}],"model":"m"}') == 0
