"""Configuration: what runs, what the file says, what would change, who has loaded what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes.configfile.changes import leaves
from hermes.defaults import SYSTEM_PROMPT
from hermes.errors import Problem
from hermes.policy import Policy
from hermes.web.dashboard.views.effects import Effect, effects
from hermes.web.dashboard.views.record import Done, done, seconds_of
from hermes.web.dashboard.views.yamltext import Compared, Line, compared, lines_of, scalar

FIRST: Final = ("models", "classifier", "circuit_breaker")
KEY_NAMES: Final = ("api_key_env", "api_key_envs")
SLACK_S: Final = 10.0
"""A load is on record a moment after it, and another worker follows soon."""


@dataclass(frozen=True, slots=True)
class Look:
    """The configuration file, as it was looked at."""

    path: str
    version: str
    """Another one where the file is another; empty where there is none."""

    modified_at: float | None
    policy: Policy | None
    """None: it cannot be used."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    is_demo: bool = False
    """There is no file to be read: the demo's own configuration runs."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A line of the running configuration, and what is said beside it."""

    line: Line
    hint: str


@dataclass(frozen=True, slots=True)
class ConfigView:
    """The whole page."""

    look: Look
    state: str
    """`same`, `changed`, `invalid` or `demo`."""

    number: int | None
    """Of the load that runs; None: the start has read it, or the record cannot be read."""

    next_number: int | None
    loaded_at: float
    loaded_by: str
    differences: tuple[Compared, ...]
    effects: tuple[Effect, ...]
    warnings: tuple[str, ...]
    """Of what runs."""

    running: tuple[Shown, ...]
    table: tuple[tuple[str, str], ...]
    loads: tuple[tuple[int, Done], ...]
    trouble: str
    now: float

    @property
    def changed_lines(self) -> int:
        """How many lines differ."""
        counts = [sum(one.kind == kind for one in self.differences) for kind in ("add", "del")]
        return max(counts)


def config_view(
    running: Policy,
    look: Look,
    pins: Mapping[str, str],
    loads: tuple[int, Sequence[Mapping[str, Any]]] | None,
    names: Mapping[str, str],
    loaded_at: float,
    hint_of: Callable[[str], str],
    now: float,
) -> ConfigView:
    """
    Args:
        pins: those in force.
        loads: how many there were, and the last of them; None: the record cannot be read.
        names: of API keys, by their ids.
        loaded_at: when this process has put its configuration in force.
        hint_of: what is said of an environment variable.
    """
    shown = arranged(running.document)
    own = lines_of(shown)
    file = look.policy
    total, entries = loads if loads is not None else (0, ())
    is_last = bool(entries) and seconds_of(entries[0]["at"]) >= loaded_at - SLACK_S
    told = done(entries, names)
    return ConfigView(
        look=look,
        state=_state(running, look),
        number=total if is_last else None,
        next_number=None if loads is None else total + 1,
        loaded_at=loaded_at,
        loaded_by=told[0].who if is_last else "",
        differences=() if file is None else compared(own, lines_of(arranged(file.document))),
        effects=() if file is None else effects(running, file, pins),
        warnings=running.warnings,
        running=tuple(Shown(line, hint_of(_env(line))) for line in own),
        table=tuple((path, _plain(value)) for path, value in leaves(shown)),
        loads=tuple((total - place, one) for place, one in enumerate(told)),
        trouble="" if loads is not None else "The database does not answer: past loads cannot be shown.",
        now=now,
    )


def arranged(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document as people read it: the models first, and nothing that is not given or is as it is built in.

    >>> arranged({"server": {"port": 1}, "models": {"simple": {"region": None, "model": "a"}}, "persona": {"soul": ""}})
    {'models': {'simple': {'model': 'a'}}, 'server': {'port': 1}}
    """
    first = [name for name in FIRST if name in document]
    ordered = {name: document[name] for name in (*first, *(name for name in document if name not in first))}
    given: dict[str, Any] = _given(ordered)
    if given.get("classifier", {}).get("system_prompt") == SYSTEM_PROMPT:
        del given["classifier"]["system_prompt"]
    return given


def _given(value: Any) -> Any:
    if isinstance(value, Mapping):
        items = {key: _given(item) for key, item in value.items()}
        return {key: item for key, item in items.items() if item not in (None, {}, "")}
    return [_given(item) for item in value] if isinstance(value, list) else value


def _state(running: Policy, look: Look) -> str:
    if look.policy is None:
        return "invalid"
    if _is_same(running, look.policy):
        return "demo" if look.is_demo else "same"
    return "changed"


def _is_same(one: Policy, other: Policy) -> bool:
    """Secrets count too, though nobody sees them."""
    return (one.document, one.cascades, one.auth) == (other.document, other.cascades, other.auth)


def _env(line: Line) -> str:
    """The environment variables that a line names, or nothing."""
    return line.value if line.path.endswith(KEY_NAMES) else ""


def _plain(value: Any) -> str:
    return (", ".join(map(scalar, value)) or "none") if isinstance(value, list) else scalar(value)
