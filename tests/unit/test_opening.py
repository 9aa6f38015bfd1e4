"""Which state store a URL names, and which it cannot."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from hermes.errors import StartRefused
from hermes.settings import Settings
from hermes.state.opening import open_store
from hermes.state.resilient import ResilientStore
from hermes.state.store import MemoryStore


def test_memory_is_for_one_worker_and_needs_no_redis() -> None:
    assert isinstance(open_store("memory://"), MemoryStore)
    script = ["import sys", "from hermes.state.opening import open_store", "open_store('memory://')"]
    script.append("print('redis' in sys.modules)")

    done = subprocess.run(
        [sys.executable, "-c", "\n".join(script)], capture_output=True, text=True, check=True, timeout=30
    )

    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    "url", ["redis://localhost", "redis://10.0.0.7:6380/3", "rediss://user:canary@redis.example/0"]
)
def test_redis_need_not_be_there(url: str) -> None:
    assert isinstance(open_store(url), ResilientStore)
    assert Settings.from_env({"HERMES_STATE_URL": url, "WEB_CONCURRENCY": "4"}).shares_state()


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        pytest.param({"WEB_CONCURRENCY": "2"}, "Set WEB_CONCURRENCY=1, or HERMES_STATE_URL=redis", id="two workers"),
        pytest.param(
            {"HERMES_STATE_URL": "memory://", "WEB_CONCURRENCY": "2"}, "could not see each other's", id="said aloud"
        ),
        pytest.param({"HERMES_STATE_URL": "memcached://x"}, "must be memory:// or begin with redis://", id="another"),
        pytest.param(
            {"HERMES_STATE_URL": "localhost:6379"}, "must be memory:// or begin with redis://", id="no scheme"
        ),
        pytest.param({"HERMES_STATE_URL": "redis://localhost:port/0"}, "cannot be read", id="a port that is none"),
        pytest.param({"HERMES_STATE_URL": "redis://[::1/0"}, "cannot be read", id="half an address"),
    ],
)
def test_what_cannot_work_is_refused_with_a_sentence(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(StartRefused, match=sentence):
        Settings.from_env(environ)


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        pytest.param("redis://redis.example:6379/0", True, id="open to the network"),
        pytest.param("redis://:canary@redis.example:6379/0", False, id="with a password"),
        pytest.param("rediss://redis.example:6379/0", False, id="encrypted"),
        pytest.param("redis://127.0.0.1:6379/0", False, id="on this machine"),
        pytest.param("redis://localhost/0", False, id="on this machine by name"),
    ],
)
def test_a_redis_that_anybody_may_use_is_warned_of(url: str, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    open_store(url)

    assert ("asks for no password" in caplog.text) == warned


def test_the_password_is_known_as_a_secret_and_not_shown() -> None:
    settings = Settings.from_env({"HERMES_STATE_URL": "redis://user:can%40ary@localhost/0"})

    assert settings.state_password() == "can@ary"
    assert "can" not in repr(settings)
    assert Settings().state_password() == ""
