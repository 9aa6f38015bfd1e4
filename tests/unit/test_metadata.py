"""What is read of a request's metadata is bounded, whoever sends it."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.errors import InvalidRequest
from hermes.metadata import MAX_CLASSES, MAX_NAME_CHARS, MAX_SESSION_CHARS, classes_of, name_of, session_of


@pytest.mark.parametrize(
    ("value", "session"),
    [
        pytest.param("s-1", "s-1", id="a text"),
        pytest.param(7, "7", id="a number"),
        pytest.param("", None, id="an empty text"),
        pytest.param(None, None, id="null"),
        pytest.param("x" * MAX_SESSION_CHARS, "x" * MAX_SESSION_CHARS, id="the longest"),
    ],
)
def test_a_session_is_read(value: Any, session: str | None) -> None:
    assert session_of({"session_id": value}) == session


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("x" * (MAX_SESSION_CHARS + 1), id="too long"),
        pytest.param({"a": 1}, id="an object"),
        pytest.param(["s"], id="a list"),
        pytest.param(True, id="a flag"),
    ],
)
def test_a_session_that_is_none_is_refused_and_never_cut(value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        session_of({"session_id": value})

    assert refused.value.param == "metadata.session_id"


@pytest.mark.parametrize(
    ("metadata", "classes"),
    [
        pytest.param({"data_classes": ["customer", " staff "]}, ("customer", "staff"), id="a list"),
        pytest.param({"dataClasses": ["customer"]}, ("customer",), id="in the other spelling"),
        pytest.param({"data_classes": "customer, staff"}, ("customer", "staff"), id="one text"),
        pytest.param({"data_classes": ["", " "]}, (), id="blanks"),
        pytest.param({"data_classes": None}, (), id="null"),
        pytest.param({"data_classes": None, "dataClasses": ["customer"]}, ("customer",), id="null does not hide them"),
        pytest.param({"data_classes": "a", "dataClasses": ["b", "a"]}, ("a", "b"), id="both spellings"),
        pytest.param({}, (), id="none"),
        pytest.param({"data_classes": ["c"] * MAX_CLASSES}, ("c",) * MAX_CLASSES, id="as many as may be"),
    ],
)
def test_classes_of_data_are_read(metadata: dict[str, Any], classes: tuple[str, ...]) -> None:
    assert classes_of(metadata) == classes


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(["c"] * (MAX_CLASSES + 1), id="too many"),
        pytest.param("c," * 1000, id="too many in one text"),
        pytest.param(["c" * (MAX_NAME_CHARS + 1)], id="too long"),
        pytest.param(["c", 7], id="a number among them"),
        pytest.param({"c": True}, id="an object"),
    ],
)
def test_classes_that_are_none_are_refused_so_that_no_rule_misses_them(value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        classes_of({"data_classes": value})

    assert refused.value.param == "metadata.data_classes"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        pytest.param("x" * 5000, "x" * MAX_NAME_CHARS, id="cut"),
        pytest.param("x" * (MAX_NAME_CHARS - 1) + " y", "x" * (MAX_NAME_CHARS - 1), id="cut behind a blank"),
        pytest.param("ali\0ce", "alice", id="without the NUL that no row can hold"),
        pytest.param(" \0 ", None, id="nothing but NUL"),
    ],
)
def test_a_name_is_the_one_that_its_row_has(value: str, name: str | None) -> None:
    assert name_of({"user_id": value}, "user_id") == name
