"""Training rows come from the teacher alone, each text once, and whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes.learning.traffic import Row, TrafficUnusable, collected, from_traces, merged
from hermes.storage.labels import Taught


def taught(text: str, tier: str = "simple", at: int = 0, **fields: Any) -> Taught:
    return Taught(f"2026-05-10T12:00:{at:02d}.000Z", text, tier, **fields)


def texts(*said: Taught) -> list[tuple[str, str]]:
    return [(row.text, row.tier) for row in collected(said).rows]


def write(folder: Path, *events: dict[str, Any], name: str = "router-trace-20260510.jsonl") -> None:
    lines = "".join(f"{json.dumps({'ts': '2026-05-10T12:00:00.000Z', **event})}\n" for event in events)
    (folder / name).write_text(lines)


def test_the_newest_come_first() -> None:
    assert texts(taught("a", at=1), taught("b", at=3), taught("c", at=2)) == [
        ("b", "simple"),
        ("c", "simple"),
        ("a", "simple"),
    ]


def test_a_text_counts_once_with_what_was_said_of_it_last() -> None:
    traffic = collected(
        [taught("Fix  it", "simple", 1), taught("fix it ", "complex", 2), taught("FIX IT", "complex", 3)]
    )

    assert [(row.text, row.tier) for row in traffic.rows] == [("FIX IT", "complex")]
    assert (traffic.seen, traffic.repeated, traffic.contradicted) == (3, 2, 1)


def test_only_so_many_of_the_newest_are_kept() -> None:
    said = [taught(f"text {at}", at=at) for at in range(10)]

    assert [row.text for row in collected(said, most=2).rows] == ["text 9", "text 8"]


def test_previews_are_refused_with_what_to_do() -> None:
    said = [taught("word " * 24, at=1), taught("x" * 120, at=2), taught("short", at=3)]

    with pytest.raises(TrafficUnusable, match=r"2 of 3 texts were cut .* logging.store_prompts to full"):
        collected(said)


def test_one_text_that_is_as_long_as_a_preview_is_passed_over() -> None:
    said = [taught("y" * 120, at=1), *(taught(f"text {n}" * 40, at=2) for n in range(9))]

    traffic = collected(said)

    assert (len(traffic.rows), traffic.cut) == (9, 1)


@pytest.mark.parametrize("said", [taught(""), taught(" \n"), taught("what", "medium")])
def test_what_is_no_verdict_on_a_text_is_no_row(said: Taught) -> None:
    assert collected([said]).rows == ()


def test_an_audit_stands_for_all_that_were_not_audited() -> None:
    traffic = collected([taught("a", rate=0.05), taught("b", rate=0.0001, at=1)])

    assert traffic.rows == (
        Row("b", "simple", "2026-05-10T12:00:01.000Z", 100.0),
        Row("a", "simple", "2026-05-10T12:00:00.000Z", 20.0),
    )


def test_traces_tell_what_the_teacher_said_and_nobody_else(tmp_path: Path) -> None:
    event = {"event": "classify", "source": "teacher", "classifier_result": "simple", "user_message_preview": "a"}
    write(
        tmp_path,
        event,
        {**event, "source": "surrogate", "user_message_preview": "b"},
        {**event, "source": "override", "user_message_preview": "c"},
        {**event, "classifier_result": None, "user_message_preview": "d"},
        {**event, "user_message_preview": ""},
        {**event, "user_message_preview": 7},
        {**event, "event": "route"},
        {**event, "user_message_preview": "e" * 300},
    )
    write(tmp_path, {**event, "user_message_preview": "older"}, name="router-trace-20260509.jsonl.1")

    assert [said.text for said in from_traces(tmp_path)] == ["e" * 300, "a", "older"]
    assert [said.text for said in from_traces(tmp_path, most=1)] == ["e" * 300]


def test_a_row_knows_its_conversation(tmp_path: Path) -> None:
    event = {"event": "classify", "source": "teacher", "classifier_result": "simple", "user_message_preview": "a"}
    write(tmp_path, {**event, "session_key": "s1"}, {**event, "user_message_preview": "b", "session_key": None})

    assert [(row.text, row.conversation) for row in collected(from_traces(tmp_path)).rows] == [("b", ""), ("a", "s1")]


def test_what_the_teacher_was_asked_again_tells_more_than_what_came_again() -> None:
    traffic = collected([taught("a", at=1), taught("a", "complex", at=2)])

    assert traffic.doubted == (1, 1)
    assert replace(traffic, asked_again=5, changed=1).doubted == (6, 2)
    assert replace(traffic, asked_again=50, changed=2).doubted == (50, 2)


def test_no_folder_means_no_traces(tmp_path: Path) -> None:
    assert from_traces(tmp_path / "none") == []


def test_a_verdict_that_stands_in_a_trace_and_in_a_row_is_one() -> None:
    traces, rows = [taught("a", at=1), taught("b", at=1)], [taught("a", at=2)]

    assert [(said.text, said.created_at[-7:]) for said in merged(traces, rows)] == [("a", "02.000Z"), ("b", "01.000Z")]
    assert collected(merged(traces, rows)).repeated == 0


def test_the_same_rows_have_the_same_hash_and_others_another() -> None:
    one, other = collected([taught("a"), taught("b", at=1)]), collected([taught("a"), taught("b", "complex", at=1)])

    assert one.sha256 == collected([taught("b", at=1), taught("a")]).sha256 != other.sha256
