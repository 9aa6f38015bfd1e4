"""The YAML of the configuration page means what the document says, and a comparison shows what stands above."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from hermes.web.dashboard.views.yamltext import Line, compared, lines_of

SCALARS = st.none() | st.booleans() | st.integers(-9999, 9999) | st.floats(-1e6, 1e6) | st.text(max_size=30)
WORDS = st.sampled_from(
    ["on", "No", "~", "502", "1e3", ".5", "a: b", "- x", "#", "x #y", "{a}", "a,b", "\u202etxt", "a\nb"]
)
VALUES = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=4),
    max_leaves=12,
)


def given_only(value: Any) -> Any:
    """A document without what is not given, as the page leaves it out."""
    if isinstance(value, dict):
        return {key: given_only(item) for key, item in value.items() if item not in (None, {})}
    return [given_only(item) for item in value] if isinstance(value, list) else value


def read(lines: tuple[Line, ...]) -> Any:
    return YAML(typ="safe", pure=True).load("\n".join(line.text for line in lines) + "\n") or {}


@given(st.dictionaries(st.text(min_size=1, max_size=8), VALUES, max_size=4))
def test_what_is_written_is_yaml_that_means_the_same(document: dict[str, Any]) -> None:
    flat = {key: item for key, item in document.items() if not _is_nested_oddly(item)}

    assert read(lines_of(flat)) == given_only(flat)


def _is_nested_oddly(value: Any) -> bool:
    """Lists in lists, and mappings in lists that hold nothing that is given: no configuration has them."""
    if isinstance(value, dict):
        return any(_is_nested_oddly(item) for item in value.values()) or (bool(value) and not given_only(value))
    if isinstance(value, list):
        return any(
            isinstance(item, list) or (isinstance(item, dict) and (not given_only(item) or _is_nested_oddly(item)))
            for item in value
        )
    return False


def texts(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    marks = {"": " ", "add": "+", "del": "-"}
    return [f"{marks[one.kind]}{one.text}" for one in compared(lines_of(old), lines_of(new))]


def test_what_differs_stands_under_its_sections() -> None:
    old = {"circuit_breaker": {"failure_threshold": 5, "window_sec": 60}, "classifier": {"surrogate": {"target": 0.9}}}
    new = {"circuit_breaker": {"failure_threshold": 3, "window_sec": 60}, "classifier": {"surrogate": {"target": 0.95}}}

    assert texts(old, new) == [
        " circuit_breaker:",
        "-  failure_threshold: 5",
        "+  failure_threshold: 3",
        " classifier:",
        "   surrogate:",
        "-    target: 0.9",
        "+    target: 0.95",
    ]


def test_a_value_of_an_endpoint_stands_under_its_model() -> None:
    def document(price: float) -> dict[str, Any]:
        entries = [{"model": "small", "price": {"input": 1}}, {"model": "large", "price": {"input": price}}]
        return {"models": {"complex": {"endpoints": entries}}}

    assert texts(document(2), document(3)) == [
        " models:",
        "   complex:",
        "     endpoints:",
        "       - model: large",
        "         price:",
        "-          input: 2",
        "+          input: 3",
    ]


def test_an_entry_that_goes_stands_there_whole() -> None:
    one, two = {"model": "small", "timeout": 120}, {"model": "spare", "timeout": 120}

    whole = [" endpoints:", "-  - model: spare", "-    timeout: 120"]
    assert texts({"endpoints": [one, two]}, {"endpoints": [one]}) == whole
    assert texts({"endpoints": [two, one]}, {"endpoints": [one]}) == whole


@pytest.mark.parametrize("same", [{}, {"a": 1}, {"a": {"b": [1, 2]}}])
def test_where_nothing_differs_nothing_is_shown(same: dict[str, Any]) -> None:
    assert texts(same, dict(same)) == []


def test_characters_that_turn_a_line_around_are_escapes() -> None:
    (line,) = lines_of({"name": "a\u202eb\x00"})

    assert line.text == 'name: "a\\u202eb\\u0000"'
