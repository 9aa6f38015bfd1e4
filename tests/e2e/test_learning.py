"""The classifier's report of a running server, and audits of what its surrogate decides."""

from __future__ import annotations

import time
from typing import Any

import pytest

from . import replies
from .world import World

TALK = "hello there, how is it going with you today"


@pytest.fixture
def taught(world: World) -> World:
    """A world whose surrogate decides, and whose teacher audits all of it."""
    teacher = {"model": "teacher-model", "base_url": world.teacher.base_url, "api_key_env": ""}
    world.teacher.script(replies.chat("simple"))
    world.configure(
        classifier={**teacher, "timeout_seconds": 2, "surrogate": {"audit_rate": 1.0}},
        logging={"store_prompts": "full"},
    )
    return world


def report(world: World, query: str = "") -> Any:
    answer = world.gateway.admin("GET", f"/classifier/report{query}")
    assert answer.status == 200, answer.body
    return answer.json


def test_the_report_counts_who_decided_and_whether_the_teacher_agrees(taught: World) -> None:
    before = report(taught)["surrogate"]

    answer = taught.gateway.chat(TALK, tier=None)
    assert answer.headers["x-hermes-decision"].startswith("surrogate")
    limit = time.monotonic() + 5
    while report(taught)["surrogate"]["agreement"]["audited"] == before["agreement"]["audited"]:
        assert time.monotonic() < limit
        time.sleep(0.05)

    content = report(taught)
    after = content["surrogate"]
    assert after["surrogate_hits"] == before["surrogate_hits"] + 1
    assert after["agreement"]["agreed"] == before["agreement"]["agreed"] + 1
    assert after["model"].startswith("starter@")
    assert after["state"] == "borrowed"
    assert content["drift"]["hourly"][-1]["total_classifications"] >= 1


def test_an_audit_holds_nobody_up(taught: World) -> None:
    taught.teacher.script(replies.chat("simple", after_s=1.5))
    began = time.monotonic()

    answer = taught.gateway.chat(f"{TALK} again", tier=None)

    assert answer.headers["x-hermes-decision"].startswith("surrogate")
    assert time.monotonic() - began < 1.0


@pytest.mark.parametrize("hours", ["0", "-1", "x", "nan", "1e9"])
def test_hours_that_are_none_are_refused(world: World, hours: str) -> None:
    answer = world.gateway.admin("GET", f"/classifier/report?hours={hours}")

    assert answer.status == 400
    assert answer.json["error"]["param"] == "hours"
