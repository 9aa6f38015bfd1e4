"""What needs somebody: at most five sentences, each with what it means and the one thing to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from hermes.web.dashboard.marks import share_text
from hermes.web.dashboard.views.circuits import CircuitsView, Row
from hermes.web.dashboard.views.limits import Limit
from hermes.web.dashboard.views.pulse import Traffic

MOST: Final = 5
OF_A_KIND: Final = 2
"""So many circuits or budgets have a sentence of their own; more of them share one."""

FAILING_MINUTES: Final = 15
FAILING_SHARE: Final = 0.05
FAILING_LEAST: Final = 20
"""Requests below which a share says nothing."""

WAITING_ROWS: Final = 500
"""So many rows in the spool are more than the usual delay of a second."""

DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Sentence:
    """One thing that needs somebody."""

    id: str
    kind: str
    """`bad`, `warn` or `idle`."""

    title: str
    text: str
    mark: str = ""
    """Another glyph than the kind's."""

    wait_s: float | None = None
    """Until the next probe."""

    at: float | None = None
    """Since when; seconds since 1970."""

    label: str = ""
    """Of the button; empty: there is nothing to click."""

    href: str = ""
    post: str = ""
    """Where the button posts to, if it acts."""

    fields: Mapping[str, str] = field(default_factory=dict)
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """How usage rows come to the database."""

    waiting: int = 0
    missing: int = 0
    lost: int = 0
    trouble: str = ""
    """What is wrong with the spool or the database, if anything."""


def attention(
    *,
    stopped_by: str,
    circuits: CircuitsView,
    traffic: Traffic | None,
    limits: Sequence[Limit],
    log: Log,
    now: float,
    more: Iterable[Sentence] = (),
) -> tuple[Sentence, ...]:
    """The worst first.

    Args:
        stopped_by: `pin`, the kill switch's file, or empty while the gateway is on.
        more: what pages say.
    """
    found = [*_stopped(stopped_by), *_log(log), *_circuits(circuits), *_failing(traffic), *_budgets(limits, now), *more]
    found.sort(key=lambda sentence: ("bad", "warn", "idle").index(sentence.kind))  # sort keeps the order within a kind
    return tuple(found[:MOST])


def _stopped(by: str) -> Iterable[Sentence]:
    if by == "pin":
        text = "Completions are answered with 503."
        yield Sentence(
            "stopped", "bad", "The gateway is stopped.", text, label="Start", post="/dashboard/start", symbol="power"
        )
    elif by:
        yield Sentence("stopped", "bad", "The gateway is stopped.", f"Remove the file {by} to start it.")


def _log(log: Log) -> Iterable[Sentence]:
    if log.missing or log.lost:
        number = log.missing + log.lost
        title = f"{number:,} usage row{'' if number == 1 else 's'} {'is' if number == 1 else 'are'} missing."
        yield _of_log("missing", "bad", title, "They were written and are not in the log; spending is too low.")
    if log.trouble:
        said = log.trouble.rstrip(".")
        yield _of_log("log", "bad", "The usage log is in trouble.", f"{said[:1].upper()}{said[1:]}.")
    elif log.waiting >= WAITING_ROWS:
        title = f"{log.waiting:,} usage rows wait in the spool."
        yield _of_log("waiting", "warn", title, "Figures here are behind; nothing is lost.")


def _of_log(name: str, kind: str, title: str, text: str) -> Sentence:
    return Sentence(name, kind, title, text, label="Readiness", href="/health/ready")


def _circuits(view: CircuitsView) -> Iterable[Sentence]:
    broken = [row for row in view.rows if row.state != "closed"]
    if len(broken) > OF_A_KIND:
        opened = sum(row.state == "open" for row in broken)
        title = f"{len(broken)} circuits are not closed."
        text = f"{opened} of {len(view.rows)} are open." if opened else "All of them are being probed."
        kind = "bad" if opened else "warn"
        mark = "open" if opened else "half"
        yield Sentence("circuits", kind, title, text, mark, label="Circuits", href="/dashboard/circuits")
        return
    for row in broken:
        yield _circuit(row, view)


def _circuit(row: Row, view: CircuitsView) -> Sentence:
    text = " ".join(_carried(row, view))
    since = next((change.at for change in view.changes if change.endpoint == row.id), None)
    act = Sentence(
        f"circuit-{row.anchor}",
        "bad",
        f"{row.model} is open.",
        text if row.retry_in_s > 0 else f"{text} The next request probes it.".strip(),
        "open",
        row.retry_in_s if row.retry_in_s > 0 else None,
        since,
        label="Reset",
        post="/dashboard/reset",
        fields={"endpoint": row.id},
        symbol="reset",
    )
    if row.state == "open":
        return act
    told = f"{text} One success closes it.".strip()
    return replace(act, kind="warn", title=f"{row.model} is being probed.", text=told, mark="half", wait_s=None)


def _carried(row: Row, view: CircuitsView) -> Iterable[str]:
    """Who has taken over, tier by tier."""
    for chain in view.chains:
        if not any(tier == chain.tier for tier, _ in row.uses):
            continue
        place = chain.carrier
        tier = chain.tier.capitalize()
        if place is None:
            yield f"{tier} traffic has nobody left."
        elif chain.links[place].model != row.model:
            yield f"{tier} traffic is on {chain.links[place].model}."


def _failing(traffic: Traffic | None) -> Iterable[Sentence]:
    share = traffic.failed_share(FAILING_MINUTES) if traffic is not None else None
    if traffic is None or share is None or share < FAILING_SHARE or traffic.requests(FAILING_MINUTES) < FAILING_LEAST:
        return
    title = f"{share_text(share)} of requests have failed."
    text = f"Of {traffic.requests(FAILING_MINUTES):,} in the last {FAILING_MINUTES} minutes."
    href = "/dashboard/usage?status=error"
    yield Sentence("failing", "bad", title, text, label="Show them", href=href)


def _budgets(limits: Sequence[Limit], now: float) -> Iterable[Sentence]:
    near = sorted((limit for limit in limits if limit.is_near), key=lambda limit: -limit.used_percent)
    shown = near if len(near) <= OF_A_KIND else near[: OF_A_KIND - 1]
    for limit in shown:
        kind = "bad" if limit.is_over and limit.budget.action == "block" else "warn"
        title = f"{limit.label} has used {limit.used_percent:.0f}% of {limit.amount(limit.limit)}."
        href = f"/dashboard/budgets?{urlencode({'edit': limit.name})}#limits"
        yield Sentence(f"budget-{limit.name}", kind, title, effect_text(limit, now), label="Change budget", href=href)
    if len(near) > len(shown):
        title = f"{len(near) - len(shown)} more budgets are near their limits."
        yield Sentence("budgets", "warn", title, "", label="Budgets", href="/dashboard/budgets#limits")


EFFECTS: Final = {
    "block": ("its requests are refused", "it is blocked"),
    "downgrade": ("the simple tier answers", "it goes to the simple tier"),
    "warn": ("nothing is refused", "it is reached"),
}


def effect_text(limit: Limit, now: float) -> str:
    """What a budget does now, or will at this rate."""
    current, coming = EFFECTS[limit.budget.action]
    if limit.is_over:
        return f"Until {when_text(limit.resets_at, now)} {current}."
    if limit.reached_at is not None:
        return f"At this rate {coming} at {when_text(limit.reached_at, now)}."
    return f"At this rate it lasts until it resets at {when_text(limit.resets_at, now)}."


def when_text(at: float, now: float) -> str:
    """A moment as people need it: the time where it is near, else the day too.

    >>> when_text(12 * 3600 + 720, 0.0), when_text(3 * DAY_S, 0.0)
    ('12:12 UTC', '00:00 UTC on 4 Jan')
    """
    moment = datetime.fromtimestamp(at, UTC)
    text = f"{moment:%H:%M} UTC"
    return text if at - now < DAY_S else f"{text} on {moment.day} {moment:%b}"
