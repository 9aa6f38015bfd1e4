"""The knowledge page's values."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hermes.documents import Hit
from hermes.knowledge.vectors import Identity
from hermes.web.dashboard.views.knowledge import Wanted, found_by, knowledge_view, line_of
from hermes.web.dashboard.views.usage_request import _known

from .test_knowledge_ground import a_document

NOW = 1_778_414_400.0 + 10
"""Ten seconds after the document was changed."""


@pytest.mark.parametrize(
    ("changes", "kind", "state"),
    [
        pytest.param({}, "ok", "ready", id="ready"),
        pytest.param({"embedder": "old"}, "idle", "other embedder", id="outdated"),
        pytest.param({"state": "indexing", "chunks": 200, "done": 123}, "warn", "indexing 61%", id="on its way"),
        pytest.param({"state": "indexing", "chunks": 0}, "warn", "reading", id="being read"),
        pytest.param({"state": "failed"}, "bad", "failed", id="failed"),
        pytest.param(
            {"state": "indexing", "updated_at": "2026-05-10T11:00:00.000Z"}, "bad", "interrupted", id="left behind"
        ),
    ],
)
def test_the_state_of_a_document(changes: dict[str, Any], kind: str, state: str) -> None:
    line = line_of(replace(a_document(), **changes), Identity("fake"), 3, NOW)

    assert (line.kind, line.state, line.uses) == (kind, state, 3)


def test_what_is_looked_for_and_what_there_is_in_all() -> None:
    documents = [a_document(), a_document("office", "blue")]
    view = knowledge_view(documents, Wanted(text="BLUE"), identity=Identity("fake"), uses={}, is_enabled=True, now=NOW)

    assert [line.place for line in view.lines] == ["office/blue"]
    assert (view.in_all, view.ready, view.chunks, view.places) == (2, 2, 2, ("office", "shop"))


def test_the_questions_words_are_marked_and_what_is_left_out_is_told() -> None:
    long = Hit(1, 1, "s", "", "a.md", 2, "", "filler " * 200 + "the Notice period\u202e", 0.2)
    result = found_by("how long is the notice?", [long], 5, 3.0, 0.3)

    (found,) = result.found
    assert ("Notice", True) in found.pieces
    assert found.is_left_out
    assert "\u202e" not in json.dumps(found.pieces, ensure_ascii=False)
    assert sum(len(text) for text, _ in found.pieces) < 600


@pytest.mark.parametrize("given", [{"open": "x", "q": "a" * 999}, {"open": "-1"}, {"open": "9" * 40}])
def test_an_address_that_makes_no_sense_asks_for_everything(given: dict[str, str]) -> None:
    wanted = Wanted.parse(given)

    assert wanted.open_id == 0
    assert len(wanted.text) <= 200


def test_the_drawer_says_what_a_request_was_given() -> None:
    chunks = [{"id": 7, "document": 1, "source": "a.md", "chunk": 2, "score": 0.812}]

    assert _known({"chunks": chunks}) == (("Knowledge", "a.md #2 (0.81)"),)
    assert _known({"chunks": [], "note": "no passage is near enough"}) == (("Knowledge", "no passage is near enough"),)
    assert _known(None) == ()
