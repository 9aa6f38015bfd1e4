"""The template and the documentation say what the schema says; and no file, however broken, breaks the reader."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes import defaults
from hermes.configfile import load, parse
from hermes.configfile.walk import every_key
from hermes.errors import ConfigurationInvalid
from hermes.settings import ENVIRONMENT, ROOT, Settings

EXAMPLE = ROOT / "router_config.example.yaml"
GUIDE = ROOT / "docs" / "configuration.md"

SECRET = "SECRET-value"
NAMES = ("ROUTER_PROXY_API_KEY", "PROVIDER_API_KEY", "PROVIDER_API_KEY_2", "OPENAI_API_KEY")
ENV = {name: f"{SECRET}-{name}" for name in NAMES}

TIERS = "models: {simple: &t {model: m, base_url: 'http://a', api_key_env: ''}, complex: *t}\n"
"""The least that a file may hold."""

ROW = re.compile(r"^\| `([^`]+)` \| (.+?) \| (.+?) \| (.*)\|$", re.MULTILINE)
"""A row of a table of keys: path, type, default, meaning."""

KEYS = {path: default for path, default in every_key() if not path.startswith("models.complex.")}
"""Both tiers have the same keys, and are documented once."""


def test_the_template_loads_without_a_warning() -> None:
    policy = load(EXAMPLE, ENV)

    assert policy.warnings == ()
    assert [len(cascade.endpoints) for cascade in policy.cascades.values()] == [3, 2]
    assert policy.routing.teacher is not None


def test_the_first_configuration_of_the_readme_can_be_used_as_it_stands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"cat > router_config.yaml <<'END'\n(.*?)\nEND\n", readme, re.DOTALL)

    policy = parse(text, "router_config.yaml", {"PROVIDER_API_KEY": "a-key"})

    assert policy.warnings == ()
    assert {tier: len(cascade.endpoints) for tier, cascade in policy.cascades.items()} == {"simple": 1, "complex": 1}


def test_the_template_needs_no_more_than_its_first_lines_name() -> None:
    """`cp router_config.example.yaml router_config.yaml && make run` starts with these, or says what is missing."""
    first_lines = EXAMPLE.read_text(encoding="utf-8").partition("\nserver:")[0]
    (needed,) = re.findall(r"needs one variable: (\w+)\.", first_lines)

    policy = load(EXAMPLE, {needed: "a-key"})

    assert all(cascade.endpoints[0].keys for cascade in policy.cascades.values())
    left_out = {name for name in re.findall(r"[A-Z0-9_]+_KEY(?:_\d)?", first_lines) if name != needed}
    assert all(any(name in warning for warning in policy.warnings) for name in left_out)


def test_the_template_s_values_are_the_defaults_where_there_is_one() -> None:
    """An operator who deletes a line gets what the line said."""
    shown = load(EXAMPLE, ENV).document
    bare = parse(
        "models: {simple: &t {model: m, base_url: 'http://a', api_key_env: ''}, complex: *t}", "f", ENV
    ).document

    for section in shown.keys() - {"models", "classifier"}:
        assert shown[section] == bare[section], section
    named = ("model", "base_url")
    assert {**shown["classifier"], **dict.fromkeys(named)} == {**bare["classifier"], **dict.fromkeys(named)}


@pytest.mark.parametrize("path", KEYS)
def test_the_template_shows_every_key(path: str) -> None:
    *_, name = path.split(".")

    assert re.search(rf"\b{re.escape(name)}:", EXAMPLE.read_text(encoding="utf-8")), path


def test_the_guide_has_a_row_for_every_key_and_none_for_another() -> None:
    rows = {row[1] for row in ROW.finditer(_guide_of_keys())}

    # the embedder is a word or a mapping, and has a row as a word too
    assert rows - {"knowledge.embedder"} == set(KEYS)


@pytest.mark.parametrize(("path", "default"), KEYS.items(), ids=KEYS)
def test_the_guide_s_defaults_are_true(path: str, default: Any) -> None:
    told = {row[1]: row[3] for row in ROW.finditer(_guide_of_keys())}[path]

    if told.startswith("`"):
        assert told == f"`{_as_written(default)}`"
    elif told == "built in":
        assert default in (list(defaults.ESCALATION), list(defaults.DE_ESCALATION), defaults.SYSTEM_PROMPT)
    else:
        assert default in (None, ..., "")


@pytest.mark.parametrize("field", fields(Settings), ids=lambda field: field.name)
def test_the_guide_tells_every_setting_of_the_environment(field: Any) -> None:
    row = re.search(rf"^\| `{ENVIRONMENT[field.name]}` \| (.+?) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)

    assert row is not None
    told = row[1]
    assert field.default == "" or told == f"`{_as_written(field.default)}`"


def test_the_guide_s_files_load() -> None:
    """Each YAML example that has both tiers is a file; the others are parts that stand beside them."""
    environ = {**ENV, "KEY_A": SECRET + "a", "KEY_B": SECRET + "b"}
    examples = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)

    for example in examples:
        tier = next((tier for tier in ("simple", "complex") if f"  {tier}:" not in example), None)
        other = f"  {tier}: {{model: m, base_url: 'http://a', api_key_env: ''}}\n"
        whole = example if tier is None else example + other if "models:" in example else TIERS + example
        assert parse(whole, "guide", environ).cascades

    assert len(examples) == 4


def _guide_of_keys() -> str:
    return GUIDE.read_text(encoding="utf-8").partition("## Keys")[2].partition("## Environment")[0]


def _as_written(value: Any) -> str:
    """A default as an operator would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return "[" + ", ".join(_as_written(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_as_written(item)}" for key, item in value.items()) + "}"
    return '""' if value == "" else str(value)


# --- no file breaks the reader ----------------------------------------------------------------------------------------

WORDS = ("BROKEN", "EMPTY", "OPENAI_API_KEY", "env:BROKEN", "http://u:p@h/", "local", "simple", "eu")
LINES = [line for line in EXAMPLE.read_text(encoding="utf-8").split("\n") if line and not line.startswith("#")]
PIECES = st.one_of(
    st.sampled_from([*"{}[]:,|>#\"'\t", ": ", "- ", "&a ", "*a", "!t ", "? ", "<<: *a"]),
    st.sampled_from(["null", "~", "true", "-1", "0", ".inf", "1e400", "9" * 400, "''", "[key]", *WORDS]),
    st.sampled_from(LINES),
    st.text(max_size=8),
)
EDIT = st.tuples(st.integers(0, len(LINES) - 1), st.integers(0, 80), st.integers(0, 12), PIECES)
HOSTILE = {**ENV, "BROKEN": f"{SECRET}\r\nX", "EMPTY": " "}


def _must_be_read_or_refused(text: str) -> None:
    told = _told(text)
    assert SECRET not in told
    assert "pydantic" not in told
    assert "nput should" not in told
    assert "\r" not in told


def _told(text: str) -> str:
    """All that an operator is told about a file."""
    try:
        policy = parse(text, "f.yaml", HOSTILE)
    except ConfigurationInvalid as refused:
        return str(refused)
    return json.dumps(dict(policy.document)) + "".join(policy.warnings)


@given(st.lists(EDIT, min_size=1, max_size=6))
def test_a_template_that_was_edited_badly_is_read_or_refused(edits: list[tuple[int, int, int, str]]) -> None:
    lines = list(LINES)
    for number, column, cut, piece in edits:
        line = lines[number]
        lines[number] = line[:column] + piece + line[column + cut :]

    _must_be_read_or_refused("\n".join(lines))


KEY_WORDS = sorted({path.rpartition(".")[2] for path in KEYS})
NUMBERS = st.one_of(st.booleans(), st.integers(-(10**20), 10**20), st.floats(allow_nan=False))
VALUES = st.recursive(
    st.one_of(st.none(), NUMBERS, st.sampled_from(["", *WORDS]), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(KEY_WORDS), st.text(max_size=4)), inner, max_size=3),
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([path for path, _ in every_key()]), VALUES, min_size=1, max_size=8))
def test_any_value_at_any_key_is_read_or_refused(placed: dict[str, Any]) -> None:
    whole: dict[str, Any] = json.loads(json.dumps(dict(load(EXAMPLE, ENV).document)))
    for path, value in placed.items():
        _place(whole, path.split("."), value)

    _must_be_read_or_refused(json.dumps(whole))


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    _must_be_read_or_refused(text)


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_by_load(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)

    with pytest.raises(ConfigurationInvalid):
        load(path, ENV)


def _place(whole: Any, path: list[str], value: Any) -> None:
    """Sets the value at a dotted path, of lists in the first item."""
    name, _, is_list = path[0].partition("[")
    if not isinstance(whole, dict):
        return
    if len(path) == 1:
        whole[name] = value
        return
    inner = whole.setdefault(name, [{}] if is_list else {})
    if is_list and isinstance(inner, list):
        inner = inner[0] if inner else {}
    _place(inner, path[1:], value)
