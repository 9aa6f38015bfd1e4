"""Secrets are hidden wherever they stand; ordinary text stays as it is."""

from __future__ import annotations

import json
import time

import pytest

from hermes.observe.redact import PUBLIC_CHARS, READ_CHARS, Redactor

KNOWN = frozenset({"up-SECRET-key", "up-SECRET-key-longer", 'we"ird\\key', "sk-live-SECRET\nX"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("sent up-SECRET-key to it", "sent *** to it", id="a known secret"),
        pytest.param("up-SECRET-key-longer", "***", id="a known secret that contains another"),
        pytest.param(repr({"k": 'we"ird\\key'}), "{'k': '***'}", id="a known secret as repr writes it"),
        pytest.param(json.dumps('we"ird\\key'), '"***"', id="a known secret as JSON writes it"),
        pytest.param("bad header b'sk-live-SECRET'", "bad header b'***'", id="the first line of a secret of two"),
        pytest.param("key sk-proj-abcd************wxyz.", "key ***", id="a key that the provider blotted out itself"),
        pytest.param("use gsk_0123456789abcdef now", "use *** now", id="another provider's shape"),
        pytest.param("AIzaSyA1234567890abcdefghijk", "***", id="Google's shape"),
        pytest.param("t=eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM", "t=***", id="a JSON web token"),
        pytest.param("'Authorization': 'Bearer gw-user-SECRET'", "'Authorization': 'Bearer ***'", id="bearer"),
        pytest.param(
            "authorization: bearer   gwusersecret", "authorization: bearer   ***", id="bearer, other spelling"
        ),
        pytest.param(repr("x\nBearer gwusersecret"), "'x\\nBearer ***'", id="bearer behind an escaped line end"),
        pytest.param(repr("x\nsk-0123456789"), "'x\\n***'", id="a shape behind an escaped line end"),
        pytest.param("Basic dXNlcjpwYXNz", "Basic ***", id="basic"),
        pytest.param("GET /v1/x?a=1&api_key=abc&b=2", "GET /v1/x?a=1&api_key=***&b=2", id="a key in a query"),
        pytest.param("POST /x?key=abcd HTTP/1.1", "POST /x?key=*** HTTP/1.1", id="a short key in a query"),
        pytest.param("https://me:p@ss@example.com/v1", "https://***@example.com/v1", id="a password in a URL"),
        pytest.param('{"password": "hunter22"}', '{"password": "***"}', id="a password in JSON"),
        pytest.param(r'"{\"api_key\": \"hunter22\"}"', r'"{\"api_key\": \"***\"}"', id="a key in JSON in JSON"),
        pytest.param("x-api-key: hunter22", "x-api-key: ***", id="a header"),
        pytest.param("Set-Cookie: session=abcdef; Path=/", "Set-Cookie: ***; Path=/", id="a cookie"),
        pytest.param(
            "Incorrect API key provided: abcd1234efgh5678ijkl.",
            "Incorrect API key provided: ***",
            id="a long run after words about keys",
        ),
    ],
)
def test_a_secret_is_hidden(text: str, expected: str) -> None:
    assert Redactor(KNOWN).clean(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Routing session a1b2c3 → simple (deepseek-v4-flash)", id="a log line"),
        pytest.param("Starting new HTTPS connection (1): api.example.com:443", id="urllib3"),
        pytest.param("https://api.example.com/v1/chat/completions?n=2", id="a URL without secrets"),
        pytest.param("The server wants Bearer authentication, and a token", id="words about bearer"),
        pytest.param("a basic understanding of Basic English", id="words about basics"),
        pytest.param("prompt_tokens=1234567 max_tokens: 400000", id="token counts"),
        pytest.param("a risk-averse task-management key", id="words that end like a prefix"),
        pytest.param("KIT_KEY is not set", id="the name of an environment variable"),
        pytest.param("mail me@example.com about c: d", id="an address"),
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert Redactor(KNOWN).clean(text) == text


def test_what_is_learned_replaces_what_was_known() -> None:
    redactor = Redactor({"first-secret"})

    redactor.learn(frozenset({"second-secret"}))

    assert redactor.clean("first-secret second-secret") == "first-secret ***"


LONG_KEY = "sk-Ab12Cd34Ef56Gh78Ij90Kl12Mn34"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"bad value: {LONG_KEY[3:]}", "bad value: ***"),
        (f"ends in {LONG_KEY[-20:]}, which is unknown", "ends in ***, which is unknown"),
        (f"begins with {LONG_KEY[:15]}", "begins with ***"),
        (f"({LONG_KEY[-12:]})({LONG_KEY[-14:]})", "(***)(***)"),
        *((f"holds {LONG_KEY[at : at + 20]}!", "holds ***!") for at in range(len(LONG_KEY) - 19)),
        (f"ends in {LONG_KEY[-4:]}", f"ends in {LONG_KEY[-4:]}"),
    ],
)
def test_a_piece_of_a_long_secret_is_hidden_with_its_word(text: str, expected: str) -> None:
    """Four characters tell an operator which key it was, and nobody else anything."""
    assert Redactor({LONG_KEY}).clean(text) == expected


def test_half_a_short_secret_is_an_ordinary_word() -> None:
    assert Redactor({"information-desk"}).clean("the information-board") == "the information-board"


def test_a_dummy_key_does_not_blot_out_the_log() -> None:
    """Local providers are given `ollama` or `x` as a key; these words are no secrets."""
    assert Redactor({"ollama", "x"}).clean("ollama said x") == "ollama said x"


def test_bytes_that_are_no_text_survive() -> None:
    assert Redactor({"up-SECRET-key"}).clean_bytes(b"\xff up-SECRET-key \xc3\xa9\xfe") == b"\xff *** \xc3\xa9\xfe"


@pytest.mark.parametrize(
    "part",
    ["a", "-", "key ", "key-", "a-key-", "?a.key-", "&key", "sk-", "://", "bearer ", "basic ", "eyJ", "token is ",
     LONG_KEY[-12:], f"{LONG_KEY[-12:]} "],
)  # fmt: skip
def test_no_text_takes_long(part: str) -> None:
    """Whoever writes a prompt or an error must not be able to stop the event loop; 100 kB, in CPU time."""
    text = part * (100_000 // len(part))
    began = time.process_time()

    Redactor((*KNOWN, LONG_KEY)).clean(text)

    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Rate limit reached", "Rate limit reached", id="an ordinary message"),
        pytest.param("<html>\r\n<head><title>502", "", id="a page"),
        pytest.param("x <!DOCTYPE html> y", "", id="a page after something"),
        pytest.param("if a < b then c", "if a < b then c", id="a comparison is no page"),
        pytest.param(
            "Incorrect API key provided: sk-proj-abcd************wxyz. You can find your API key at https://a.com/keys.",
            "Incorrect API key provided: *** You can find your API key at [link]",
            id="OpenAI's words about a wrong key",
        ),
        pytest.param("key abcd****wxyz is wrong", "key *** is wrong", id="a blotted key of no known shape"),
        pytest.param("cannot reach 10.0.0.7:8080", "cannot reach [address]", id="an internal address"),
        pytest.param("two\r\n lines\u2028and\x00more\t ", "two lines and more", id="several lines"),
    ],
)
def test_a_provider_message_is_fit_for_callers(text: str, expected: str) -> None:
    assert Redactor().public_message(text) == expected


def test_a_long_provider_message_is_cut() -> None:
    shown = Redactor().public_message("word " * READ_CHARS)

    assert len(shown) == PUBLIC_CHARS
    assert shown.endswith("…")
