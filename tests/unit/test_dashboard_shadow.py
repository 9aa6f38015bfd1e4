"""What the overview says of shadow runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hermes.evaluation.gate import Gate
from hermes.trials import Run
from hermes.web.dashboard.views.shadow import sentence_of

RUN = Run(7, "chat", "small", "large", "trial", "running", "2026-05-10T12:00:00.000Z")
COUNTS = {"better": 20, "tie": 39, "worse": 1}


def test_a_target_that_has_passed_waits_for_somebody() -> None:
    said = sentence_of(replace(RUN, counts=COUNTS), Gate("passed", (), ""))

    assert said is not None
    assert (said.kind, said.title, said.text) == (
        "idle",
        "large passed the gate for model.chat.",
        "60 judged, 98.3% win or tie.",
    )
    assert said.href == "/dashboard/shadow?run=7"


def test_a_promoted_model_that_does_worse_is_said_first() -> None:
    said = sentence_of(replace(RUN, kind="watch"), Gate("failed", (), "It loses more often."))

    assert said is not None
    assert (said.kind, said.title) == ("bad", "small does worse for model.chat than large did.")
    assert said.text == "It loses more often."


@pytest.mark.parametrize(
    ("standing", "changes"),
    [("open", {}), ("failed", {}), ("passed", {"kind": "watch"}), (None, {"state": "promoted"})],
)
def test_of_others_nothing_is_said(standing: Any, changes: dict[str, Any]) -> None:
    gate = Gate(standing, (), "") if standing else None

    assert sentence_of(replace(RUN, **changes), gate) is None
