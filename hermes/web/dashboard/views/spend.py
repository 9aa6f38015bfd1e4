"""What was spent: today and where it leads, the month, and day by day with who or what it went to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, cast

from hermes.storage.reports import Point
from hermes.web.dashboard.charts import Chart, Role, Series
from hermes.web.dashboard.marks import left_text, money_text
from hermes.web.dashboard.views.ranges import day_text

By = Literal["user", "function", "model"]

NANO: Final = 1e-9
SHOWN: Final = 5
ROLES: Final[tuple[Role, ...]] = ("c1", "c2", "c3", "c4", "c5")
DAYS: Final = {"7d": 7, "14d": 14, "90d": 90}
USUAL_DAYS: Final = "14d"
LABELLED_DAYS: Final = 14
"""Up to so many bars have their sum above them."""

TICK_DAYS: Final = 22

FAR: Final = 1.6
"""A daily limit beyond so many times the highest bar is told in words instead of squeezing the bars."""

DAY_S: Final = 86_400.0
HOUR_S: Final = 3600.0
HOUR_SHARE: Final = 1 / 24
"""So much of a day must be over before its rate says anything."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for."""

    days: str = USUAL_DAYS
    by: By = "function"

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> Wanted:
        """Reads a query; what makes no sense in it is as if it were not there."""
        days, by = args.get("range", ""), args.get("by", "")
        named = cast("By", by) if by in ("user", "function", "model") else "function"
        return cls(days if days in DAYS else USUAL_DAYS, named)


@dataclass(frozen=True, slots=True)
class Period:
    """What was spent in a period that is not over, in USD."""

    spent: float
    limit: float | None
    start: datetime
    end: datetime

    def used(self) -> str:
        """How much of the limit that is, in words; empty without one."""
        return f"{self.spent / self.limit * 100:.0f}% of {money_text(self.limit)}" if self.limit else ""

    def left(self, now: datetime) -> str:
        """How long it goes on."""
        seconds = (self.end - now).total_seconds()
        if seconds >= 2 * DAY_S:
            return f"{seconds / DAY_S:.0f} days"
        return left_text(seconds // HOUR_S * HOUR_S if seconds >= 2 * HOUR_S else seconds // 60 * 60)


@dataclass(frozen=True, slots=True)
class Ahead:
    """Where today leads: the middle of two guesses, and both of them."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """In USD."""
        return (self.low + self.high) / 2


def ahead(today: Period, rest_yesterday: float, now: datetime) -> Ahead | None:
    """What today comes to: at its rate so far, and if the rest of it is as the same hours of yesterday.

    None: nothing is known yet.
    """
    share = (now - today.start) / (today.end - today.start)
    guesses = [today.spent + rest_yesterday] if rest_yesterday else []
    if share >= HOUR_SHARE and today.spent:
        guesses.append(today.spent / share)
    return Ahead(min(guesses), max(guesses)) if guesses else None


@dataclass(frozen=True, slots=True)
class Line:
    """Somebody or something in the list of today."""

    name: str
    role: str
    spent: float
    percent: float
    """Of the first one."""

    ahead: float | None


@dataclass(frozen=True, slots=True)
class SpendView:
    """The upper half of the page."""

    wanted: Wanted
    today: Period
    ahead: Ahead | None
    month: Period
    saved: float | None
    cumulated: tuple[float, ...]
    chart: Chart
    label: str
    note: str
    lines: tuple[Line, ...]
    unpriced: tuple[str, ...]
    now: datetime
    zone: str

    @property
    def month_name(self) -> str:
        """Of the current month."""
        return f"{self.month.start + (self.month.end - self.month.start) / 2:%B}"


@dataclass(frozen=True, slots=True)
class Spender:
    """Who or what spent, day by day, in USD."""

    name: str
    role: Role
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Daily:
    """Spending by day; the last day is today, by UTC."""

    days: Sequence[str]
    spenders: Sequence[Spender]
    """Those that come to most, then all others together."""

    @property
    def sums(self) -> list[float]:
        """Each day's."""
        return [sum(one.values[place] for one in self.spenders) for place in range(len(self.days))]


def days_until(now: datetime, number: int) -> list[str]:
    """The last days up to today, as the sums have days.

    >>> days_until(datetime(2026, 5, 1, 9), 2)
    ['2026-04-30', '2026-05-01']
    """
    return [f"{now - timedelta(days=back):%Y-%m-%d}" for back in range(number - 1, -1, -1)]


def daily(
    days: Sequence[str], points: Iterable[Point], wholes: Iterable[tuple[str, int]], most: Sequence[str]
) -> Daily:
    """
    Args:
        points: of the names that come to most, at least.
        wholes: days with what all together have spent, in nano-USD.
        most: those names, the first first.
    """
    place = {day: number for number, day in enumerate(days)}
    values = {name: [0.0] * len(days) for name in most}
    rest = [0.0] * len(days)
    for day, nanousd in wholes:
        if day in place:
            rest[place[day]] += nanousd * NANO
    for point in points:
        if point.name in values and point.at in place:
            usd = point.sums.nanousd * NANO
            values[point.name][place[point.at]] += usd
            rest[place[point.at]] -= usd
    spenders = [
        Spender(name or "Unknown", role, found) for (name, found), role in zip(values.items(), ROLES, strict=False)
    ]
    if any(usd > NANO for usd in rest):
        spenders.append(Spender("All others", "other", [max(0.0, usd) for usd in rest]))
    return Daily(days, spenders)


def spend_chart(spent: Daily, today_ahead: float | None, limit: float | None) -> tuple[Chart, str, str]:
    """The bars, a sentence for them, and what is to be said beside them."""
    sums = spent.sums
    names = [day_text(datetime.fromisoformat(day)) for day in spent.days[:-1]] + ["today"]
    highest = max([*sums, today_ahead or 0.0])
    series = [Series(one.name, one.values, one.role, "bars", " USD", 2) for one in spent.spenders]
    fits = limit is not None and limit <= highest * FAR
    layout: dict[str, Any] = {
        "xaxis": {"type": "category", "showspikes": False, **_ticks(names)},
        "yaxis": {"tickprefix": "$"},
        "annotations": _sums_above(sums, today_ahead) if len(sums) <= LABELLED_DAYS else [],
        "shapes": [*_forecast_box(sums, today_ahead), *([_line(limit)] if fits and limit is not None else [])],
    }
    label = f"Spend per day: {money_text(min(sums))} to {money_text(max(sums))}, today {money_text(sums[-1])} so far"
    label += f" and {money_text(today_ahead)} forecast." if today_ahead is not None else "."
    note = ""
    if limit is not None:
        note = f"daily budget {money_text(limit)}" + (", dashed" if fits else " is off this scale")
    return Chart("Day", names, series, layout=layout), label, note


def _ticks(names: Sequence[str]) -> dict[str, Any]:
    """So few names that they find room on a phone: the number of each of some days, else a few whole dates."""
    if len(names) <= LABELLED_DAYS:
        texts = [name.partition(" ")[0] for name in names]
        if len(texts) > LABELLED_DAYS // 2:
            texts[-2] = ""  # its place is taken by the longer "today"
        return {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": texts}
    places = list(range(len(names) - 1, -1, -TICK_DAYS))
    return {"tickmode": "array", "tickvals": places, "ticktext": [names[place] for place in places]}


def _sums_above(sums: Sequence[float], today_ahead: float | None) -> list[dict[str, Any]]:
    tops = [*sums[:-1], max(sums[-1], today_ahead or 0.0)]
    common = {"showarrow": False, "yanchor": "bottom", "yshift": 1}
    return [
        {"x": place, "y": top, "text": f"${top:.0f}" if top >= 10 else money_text(top), **common}
        for place, top in enumerate(tops)
        if top
    ]


def _forecast_box(sums: Sequence[float], today_ahead: float | None) -> list[dict[str, Any]]:
    """What today will add, as a dashed box on its bar."""
    if today_ahead is None or today_ahead <= sums[-1]:
        return []
    last = len(sums) - 1
    box = {"type": "rect", "x0": last - 0.39, "x1": last + 0.39, "y0": sums[-1], "y1": today_ahead}
    return [{**box, "line": {"dash": "3px,3px"}}]


def _line(limit: float) -> dict[str, Any]:
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": limit, "y1": limit, "meta": "target"}


def lines_of(spent: Daily, share: float) -> tuple[Line, ...]:
    """Today's list.

    Args:
        share: how much of the day is over.
    """
    highest = max((one.values[-1] for one in spent.spenders), default=0.0)
    return tuple(_today(one, highest, share) for one in spent.spenders)


def _today(one: Spender, highest: float, share: float) -> Line:
    usd = one.values[-1]
    rate = usd / share if share >= HOUR_SHARE else None
    return Line(one.name, one.role, usd, usd / highest * 100 if highest else 0.0, rate)
