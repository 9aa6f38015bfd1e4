"""What every page may need, kept for all open pages of this process together: traffic, the strip, the sessions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hermes.admission.periods import period_bounds
from hermes.directory import Budget
from hermes.instance import Hermes
from hermes.storage import pulse as log_pulse
from hermes.web.dashboard.views.attention import Sentence
from hermes.web.dashboard.views.kept import Kept
from hermes.web.dashboard.views.pulse import Pulse, Traffic
from hermes.web.dashboard.views.strip import Count, Strip, strip_of

log = logging.getLogger("hermes-router.web")

TRAFFIC_S: Final = 4.0
STRIP_S: Final = 2.0
SESSIONS_S: Final = 2.0
CIRCUITS_S: Final = 1.0
NANO: Final = 1e-9

Counter = Callable[[], Count | None]
"""What stands beside a page's entry in the navigation; None: nothing."""

Teller = Callable[[], Iterable[Sentence]]


class Figures:
    """Kept values; each is made anew only while somebody looks."""

    def __init__(self, hermes: Hermes, clock: Callable[[], float] = time.time) -> None:
        self._hermes = hermes
        self._clock = clock
        self._pulse = Pulse(lambda after, since: log_pulse.added(hermes.database, after, since), clock)
        self._traffic = Kept(self._read_traffic, TRAFFIC_S)
        self._strip = Kept(self._make_strip, STRIP_S)
        self._sessions = Kept(self._read_sessions, SESSIONS_S)
        self._states = Kept(self._read_states, CIRCUITS_S)
        self._counters: dict[str, Counter] = {}
        self._tellers: list[Teller] = []

    def count(self, name: str, counter: Counter) -> None:
        """Lets a page put a count beside its entry in the navigation; it is asked for with each strip, so be cheap."""
        self._counters[name] = counter

    def tell(self, teller: Teller) -> None:
        """Lets a page say on the overview what of it needs somebody; asked every few seconds while one is open."""
        self._tellers.append(teller)

    def told(self) -> list[Sentence]:
        """What pages say needs somebody."""
        return [sentence for teller in self._tellers for sentence in teller()]

    def traffic(self) -> Traffic | None:
        """The last hour; None where the log cannot be read."""
        found = self._traffic.get()
        return None if found is None else found[0]

    def spent_today_usd(self) -> float | None:
        """What was spent since midnight; None where the log cannot be read."""
        found = self._traffic.get()
        return None if found is None else found[1]

    def strip(self) -> Strip:
        """The strip's figures."""
        return self._strip.get()

    def sessions(self) -> Mapping[str, Mapping[str, Any]]:
        """Every session that counts, by key, the youngest first."""
        return self._sessions.get()

    def forget(self) -> None:
        """Something was changed: nobody shall see it as it was."""
        for kept in (self._strip, self._sessions, self._states):
            kept.forget()

    def _read_traffic(self) -> tuple[Traffic, float] | None:
        zone = self._hermes.policies.current().budgets.timezone
        midnight, _ = period_bounds("day", zone, self._clock())
        try:
            return self._pulse.traffic(midnight)
        except Exception as error:  # noqa: BLE001  (an edge: pages go on without what the database does not say)
            log.warning("The dashboard cannot read the usage log: %s", error)
            return None

    def _read_states(self) -> list[str]:
        policy = self._hermes.policies.current()
        breakers = self._hermes.breakers
        return [str(breakers.circuit(endpoint, policy.breaker).state) for endpoint in policy.endpoints().values()]

    def _read_sessions(self) -> Mapping[str, Mapping[str, Any]]:
        return self._hermes.sessions.all(self._hermes.policies.current().routing.session_timeout_s)

    def _make_strip(self) -> Strip:
        budgets = self._hermes.directories.current().budgets
        timeout_s = self._hermes.policies.current().routing.session_timeout_s
        counts = {name: count for name, counter in self._counters.items() if (count := counter()) is not None}
        return strip_of(
            is_on=not self._hermes.switch.is_stopped(),
            states=self._states.get(),
            sessions=self._hermes.sessions.count(timeout_s),
            traffic=self._traffic.get(),
            limit_usd=daily_limit_usd(budgets),
            more_counts=counts,
        )


def daily_limit_usd(budgets: tuple[Budget, ...]) -> float | None:
    """The budget of all together for a day, in USD; None without one."""
    limits = [b.limit * NANO for b in budgets if (b.scope, b.period, b.unit) == ("global", "day", "usd")]
    return limits[0] if limits else None
