"""What was spent, read from the sums for the upper half of the budgets page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Any, Final

from hermes.admission.periods import period_bounds
from hermes.directory import Period as PeriodName
from hermes.storage.consumption import spent_by_day, spent_nanousd
from hermes.storage.reports import Point
from hermes.web.dashboard.attempted import attempted
from hermes.web.dashboard.pages.overview import saved
from hermes.web.dashboard.site import Site
from hermes.web.dashboard.views.kept import Kept
from hermes.web.dashboard.views.spend import (
    DAYS,
    NANO,
    SHOWN,
    Period,
    SpendView,
    Wanted,
    ahead,
    daily,
    days_until,
    lines_of,
    spend_chart,
)

KEPT_S: Final = 15.0
MODELS: Final = 100
MOST_CSV_NAMES: Final = 1000
DAY: Final = timedelta(days=1)
RECENT: Final = timedelta(days=7)


class Spend:
    """The figures, kept for all who look; there are nine ways to look at them."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._kept: dict[Wanted, Kept[SpendView]] = {}

    def values(self, wanted: Wanted) -> dict[str, Any]:
        """What the template needs."""
        kept = self._kept.setdefault(wanted, Kept(lambda: self._read(wanted), KEPT_S))
        view, trouble = attempted(kept.get)
        return {"spend": view, "spend_trouble": trouble, "wanted": wanted}

    def rows(self, wanted: Wanted) -> Iterator[list[tuple[str, str, int, int, str]]]:
        """Day, name, requests, tokens and USD, for a file, day by day; those who spent most, at most a thousand."""
        reports, now = self._site.hermes.reports, datetime.now(UTC)
        start = now - timedelta(days=DAYS[wanted.days] - 1)
        names = {name for name, _ in reports.top(start, now, wanted.by, MOST_CSV_NAMES)}
        for back in range(DAYS[wanted.days] - 1, -1, -1):
            day = _day(now - back * DAY)
            points = reports.series(day, day + DAY, "day", wanted.by)
            yield [_row(point) for point in points if point.name in names]

    def _read(self, wanted: Wanted) -> SpendView:
        hermes, now = self._site.hermes, datetime.now(UTC)
        reports = hermes.reports
        today, month = self._period("day", now), self._period("month", now)
        start = now - timedelta(days=DAYS[wanted.days] - 1)
        points, most = self._most(wanted, _day(start), now)
        spent = daily(days_until(now, DAYS[wanted.days]), points, spent_by_day(hermes.database, start, now), most)
        rest = spent_nanousd(hermes.database, now - DAY, today.end - DAY) * NANO
        coming = ahead(today, rest, now)
        chart, label, note = spend_chart(spent, coming.middle if coming else None, today.limit)
        course = accumulate(point.sums.nanousd * NANO for point in reports.series(today.start, now, "hour"))
        return SpendView(
            wanted,
            today,
            coming,
            month,
            saved(self._site, today.start, now),
            tuple(course),
            chart,
            label,
            note,
            lines_of(spent, (now - _day(now)) / DAY),
            self._unpriced(max(start, now - RECENT), now),
            now,
            hermes.policies.current().budgets.timezone,
        )

    def _most(self, wanted: Wanted, start: datetime, now: datetime) -> tuple[list[Point], list[str]]:
        """Spending day by day, and who comes to most. Of models there are few: their course tells both in one read."""
        reports = self._site.hermes.reports
        if wanted.by != "model":
            most = [name for name, sums in reports.top(start, now, wanted.by, SHOWN) if sums.nanousd]
            return reports.series(start, now, "day", wanted.by, most), most
        points = reports.series(start, now, "day", "model")
        sums: Counter[str] = Counter()
        for point in points:
            sums[point.name] += point.sums.nanousd
        return points, [name for name, nanousd in sums.most_common(SHOWN) if nanousd]

    def _period(self, name: PeriodName, now: datetime) -> Period:
        hermes = self._site.hermes
        start, end = period_bounds(name, hermes.policies.current().budgets.timezone, now.timestamp())
        budgets = hermes.directories.current().budgets
        limits = [b.limit * NANO for b in budgets if (b.scope, b.period, b.unit) == ("global", name, "usd")]
        spent = spent_nanousd(hermes.database, start, now) * NANO
        return Period(spent, limits[0] if limits else None, start, end)

    def _unpriced(self, start: datetime, now: datetime) -> tuple[str, ...]:
        """Models that have answered without a known price, and those of the configuration that will."""
        hermes = self._site.hermes
        used = hermes.reports.top(start, now, "model", MODELS, "total_tokens")
        known = [name for name, sums in used if sums.unpriced and name]
        coming = [
            one.model for one in hermes.policies.current().endpoints().values() if hermes.prices.price(one) is None
        ]
        return tuple(dict.fromkeys([*known, *coming]))


def _row(point: Point) -> tuple[str, str, int, int, str]:
    usd = f"{Decimal(point.sums.nanousd).scaleb(-9):f}"
    return point.at, point.name, point.sums.requests, point.sums.total_tokens, usd


def _day(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
