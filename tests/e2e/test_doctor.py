"""`doctor` beside a running server: what is well, what is not, and what to do about it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from .gateway import Gateway
from .provider import Provider
from .replies import answer, chat, error

KEYS = {f"KEY_{number}": f"canary-provider-key-{number}" for number in range(3)}
STRONG = "canary-admin-key-long-enough"


@pytest.fixture
def good() -> Iterator[Provider]:
    with Provider(chat()) as provider:
        yield provider


@pytest.fixture
def other() -> Iterator[Provider]:
    """Another one, whose fault is the test's."""
    with Provider(chat()) as provider:
        yield provider


def started(*providers: Provider) -> Gateway:
    """A server whose simple tier has these providers; the first one is the complex tier's as well."""
    endpoints = [
        {"model": f"model-{number}", "base_url": provider.base_url, "api_key_env": f"KEY_{number}"}
        for number, provider in enumerate(providers)
    ]
    models = {"simple": {"endpoints": endpoints}, "complex": {"endpoints": endpoints[:1]}}
    return Gateway.start({"models": models}, {**KEYS, "ROUTER_PROXY_API_KEY": STRONG})


def examined(gateway: Gateway, *arguments: str) -> tuple[int, dict[str, list[Any]]]:
    """The exit code, and the findings by what was looked at."""
    done = gateway.command("doctor", "--json", *arguments)
    assert "canary" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    found: dict[str, list[Any]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        found.setdefault(finding["check"], []).append(finding)
    return done.returncode, found


def test_all_is_well(good: Provider, other: Provider) -> None:
    gateway = started(good, other)
    try:
        code, found = examined(gateway)
    finally:
        gateway.stop()

    assert code == 0, found
    assert {finding["level"] for findings in found.values() for finding in findings} == {"ok"}
    assert "is ready" in found["server"][0]["message"]
    assert [len(good.calls), len(other.calls)] == [1, 1]
    assert good.calls[0].json["max_tokens"] == 1
    assert good.calls[0].key == KEYS["KEY_0"]


@pytest.mark.parametrize(
    ("reply", "said", "fix"),
    [
        pytest.param(error(401, f"bad key {KEYS['KEY_1']}"), "it answers 401", "KEY_1", id="a wrong key"),
        pytest.param(error(404, "no such model"), "404: no such model", "model", id="a wrong model"),
        pytest.param(answer(200, "<html>"), "with no completion", "base_url", id="a page"),
        pytest.param(None, "the connection is refused", "port", id="nobody"),
    ],
)
def test_a_provider_that_is_not_well_is_found(good: Provider, other: Provider, reply: Any, said: str, fix: str) -> None:
    gateway = started(good, other)
    other.refuse() if reply is None else other.script(reply)
    try:
        code, found = examined(gateway)
        offline_code, _ = examined(gateway, "--offline")
    finally:
        gateway.stop()

    fine, ill = found["endpoint"]
    assert (code, fine["level"], ill["level"]) == (1, "ok", "fail")
    assert said in ill["message"]
    assert fix in ill["fix"]
    assert found["server"][0]["level"] == "ok", "one provider is enough to serve"
    assert offline_code == 0


def test_a_server_that_cannot_serve_is_told(good: Provider) -> None:
    good.script(error(500))
    gateway = started(good)
    try:
        for _ in range(3):
            gateway.chat()
            gateway.chat(tier="complex")
        code, found = examined(gateway)
    finally:
        gateway.stop()

    assert code == 1
    assert found["server"][0]["level"] == "fail"
    assert "every circuit is open" in found["server"][0]["message"]


def test_a_server_that_does_not_start_is_explained(good: Provider) -> None:
    """Where it is needed most: nothing runs, as the file is wrong."""
    gateway = Gateway({"models": {"simple": {"model": "m"}}}, KEYS)
    try:
        done: subprocess.CompletedProcess[str] = gateway.command("doctor")
    finally:
        gateway.stop()

    assert done.returncode == 1
    assert "models.simple.base_url" in done.stdout
    assert "models.complex" in done.stdout
    assert "-> put it right" in done.stdout
    assert "none runs at" in done.stdout
