"""One worker's Hermes: its parts, and what it does with them beside the requests. `bootstrap` makes it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import gevent

from hermes.accounting.drain import Drain
from hermes.accounting.ledger import Ledger
from hermes.accounting.prices import PriceBook
from hermes.accounting.receipt import receipt
from hermes.accounting.spool import Spool
from hermes.admission.auth import Authenticator
from hermes.admission.budgets import Budgets
from hermes.admission.crowd import Crowd
from hermes.admission.editor import DirectoryEditor
from hermes.admission.keys import KeyDigest
from hermes.admission.switch import KillSwitch
from hermes.comparing import Comparing
from hermes.configfile.changes import changes
from hermes.configfile.reloading import fit_for_reload
from hermes.demo import DemoServer
from hermes.directory import Budget, DirectoryBox
from hermes.errors import BooksUnreadable, ConfigurationInvalid, DatabaseUnavailable, NotFound
from hermes.gateway import Gateway
from hermes.knowledge.library import Library
from hermes.knowledge.shelf import Shelf
from hermes.learning.live import REPORT_HOURS, Learning
from hermes.loading import off_the_loop, read_policy, warn, with_surrogate
from hermes.observe.metrics import Metrics
from hermes.observe.trace import TraceLog
from hermes.operations import Operations
from hermes.policy import Policy, PolicyBox, ServerPolicy
from hermes.routing.persona import Persona
from hermes.routing.sessions import Sessions
from hermes.routing.surrogates import Surrogates
from hermes.settings import Settings
from hermes.state.announcement import Announcement
from hermes.state.resilient import ResilientStore
from hermes.state.store import StateStore
from hermes.storage import export
from hermes.storage.backfill import Backfill
from hermes.storage.daysums import DaySums
from hermes.storage.db import Database
from hermes.storage.directory import DirectoryRepository
from hermes.storage.ended import EndedSessions
from hermes.storage.live import LiveDirectory
from hermes.storage.reports import Reports
from hermes.storage.repositories import UsageFilter, UsageRepository
from hermes.storage.residency import ResidencyRecords
from hermes.storage.retention import Retention
from hermes.storage.trail import Trail
from hermes.upstream.breaker import Breakers
from hermes.upstream.changes import CircuitChanges
from hermes.upstream.keyring import Keyring
from hermes.upstream.lifeline import HangupWatch
from hermes.upstream.transport import Transport

log = logging.getLogger("hermes-router")

FLUSH_WAIT_S = 1.0
READINESS_WAIT_S = 1.0
DEGRADED = "degraded: "
"""How readiness begins to tell of what is amiss, but keeps nobody from being served."""

DATABASE_AWAY = f"{DEGRADED}the database cannot be used, usage rows wait in the spool and nothing can be changed"
ROWS_REFUSED = "the database refuses usage rows, which wait in the spool; the log says why"
STATE_AWAY = f"{DEGRADED}the shared state is away, this worker goes on with its own"
BUDGETS_SHOWN_MAX = 50
"""How many budgets, the first ones, have a metric."""

RETENTION_TURN = "turn:retention"
RETENTION_EVERY_S = 3600.0
SHADOW_WAIT_S = 2.0
"""How long, at the end, targets are waited for that have been called."""


@dataclass(slots=True)
class Hermes:
    """The parts that the web layer, the background loops and the end of the process need."""

    settings: Settings
    store: StateStore
    reloaded: Announcement
    policies: PolicyBox
    directories: DirectoryBox
    directory: DirectoryRepository
    live: LiveDirectory
    editor: DirectoryEditor
    trail: Trail
    ended: EndedSessions
    auth: Authenticator
    switch: KillSwitch
    budgets: Budgets
    gateway: Gateway
    sessions: Sessions
    breakers: Breakers
    changes: CircuitChanges
    keyring: Keyring
    operations: Operations
    digest: KeyDigest
    hangups: HangupWatch
    crowd: Crowd
    metrics: Metrics
    database: Database
    usage: UsageRepository
    reports: Reports
    residency: ResidencyRecords
    backfill: Backfill
    day_sums: DaySums
    retention: Retention
    prices: PriceBook
    spool: Spool
    drain: Drain
    ledger: Ledger
    traces: TraceLog
    transport: Transport
    persona: Persona
    surrogates: Surrogates
    learning: Learning
    shelf: Shelf
    library: Library
    comparing: Comparing
    demo: DemoServer | None
    bound: ServerPolicy | None
    """Where the server listens; None where the environment says so."""

    is_draining: bool = False
    loaded_at: float = field(default_factory=time.time)
    """When the configuration in force was read here, in seconds since 1970."""

    def usage_rows(self, args: Mapping[str, str]) -> list[dict[str, Any]]:
        """Rows of the usage log, those that are still in the spool included."""
        wanted = UsageFilter.parse(args)
        self.drain.flush(FLUSH_WAIT_S)
        return self.usage.find(wanted)

    def usage_pages(self, args: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
        """The same of any length, page by page; only a `limit` or a `page` that is given bounds them.

        Raises:
            InvalidRequest: at once, not with the first page.
        """
        wanted = UsageFilter.parse(args)
        self.drain.flush(FLUSH_WAIT_S)
        is_bounded = any(args.get(name, "").strip() for name in ("limit", "page"))
        return iter([self.usage.find(wanted)]) if is_bounded else export.pages(self.database, wanted)

    def receipt(self, request_id: str) -> dict[str, Any]:
        """All that is known of one request.

        Raises:
            NotFound: there was none of this id, or its row is no longer kept.
        """
        self.drain.flush(FLUSH_WAIT_S)
        row = self.usage.get(request_id)
        if row is None:
            raise NotFound(f"There is no request {request_id[:100]!r} in the usage log.")
        return receipt(row, self.policies.current().cascades, self.prices)

    def classifier_report(self, hours: float = REPORT_HOURS) -> dict[str, Any]:
        """What the router decided in the last hours and how well: the JSON of `GET /classifier/report`."""
        self.drain.flush(FLUSH_WAIT_S)
        return self.learning.report(self.policies.current().routing, hours)

    def follow_surrogate(self) -> None:
        """Takes up a surrogate that was fitted meanwhile, and what audits say of it; for a background loop."""
        self.learning.follow(self.policies.current().routing.surrogate)

    def follow_knowledge(self) -> None:
        """Takes up what others have changed in the documents; for a loop.

        Raises:
            EmbedderFailed: there can be no vectors; the loop tells it once.
        """
        if self.policies.current().knowledge.enabled:
            self.shelf.renew()
            self.library.identity()  # loads the local model before the first request that needs it

    def tend_shadow(self) -> None:
        """Keeps the comparison of models going beside the requests; for a background loop."""
        if not self.is_draining:
            self.comparing.tend(self.policies.current(), self.directories.current().pins)

    def note_key_use(self) -> None:
        """Stores when which API key was used last."""
        self.directory.touch_keys(self.auth.take_last_used())

    def api_keys(self) -> list[dict[str, Any]]:
        """Every API key, with its last use up to now in this process."""
        self.note_key_use()
        return self.directory.list_keys()

    def spent(self, budget: Budget) -> dict[str, Any]:
        """What was used of a budget in its current period, and when that began and ends."""
        return self.budgets.figures(budget, self.policies.current().budgets.timezone)

    def weigh_budgets(self) -> None:
        """Shows as a metric which share of each budget is used; for a loop.

        Where the usage log cannot be read, the last shares stay.
        """
        timezone = self.policies.current().budgets.timezone
        shown = self.directories.current().budgets[:BUDGETS_SHOWN_MAX]
        with suppress(BooksUnreadable):
            self.metrics.budget_use(
                {
                    (budget.scope, budget.id, budget.period, budget.unit): self.budgets.used_share(budget, timezone)
                    for budget in shown
                }
            )

    def reload(self, actor: str) -> Policy:
        """Reads the configuration anew and, if it is good, puts it in force here and soon in every other worker.

        Raises:
            ConfigurationInvalid: it is not; nothing has changed anywhere.
        """
        old = self.policies.current()
        policy = self._load()
        self.reloaded.say()
        self.trail.note(actor, "config.reload", policy.source, *changes(old.document, policy.document))
        if not self._is_state_up():
            log.warning("The other workers will load this configuration when the shared state is back")
        return policy

    def check_configuration(self) -> Policy:
        """What a reload would put in force; changes nothing.

        Raises:
            ConfigurationInvalid: the file cannot be used.
        """
        read = off_the_loop(lambda: read_policy(self.settings, self.demo))
        return fit_for_reload(read, self.policies.current(), self.bound)

    def keep_in_step(self) -> None:
        """What workers that share their state do for each other; for a background loop, twice a second at least."""
        if isinstance(self.store, ResilientStore):
            self.store.tend()
            self.budgets.books.renew()
        self.metrics.publish()
        if not self.reloaded.is_new():
            return
        try:
            self._load()
        except ConfigurationInvalid as invalid:
            for line in invalid.lines():
                log.error("Another worker has loaded a configuration that is not good here: %s", line)

    def renew_profile(self) -> None:
        """Asks the teacher for a new profile hint where the persona files have changed.

        Raises:
            OSError: it gave no reply; the old hint holds.
        """
        before = self.policies.current()
        after = self.persona.applied(before, may_ask=True)
        if after is not before and self.policies.current() is before:
            self.policies.swap(after)

    def forget_old(self) -> None:
        """Removes usage rows and traces that are older than `logging.retention_days`; for a loop.

        Of all workers one does it, once an hour.
        """
        if not self.backfill.is_complete() or not self.store.claim(RETENTION_TURN, RETENTION_EVERY_S):
            return
        days = self.policies.current().logging.retention_days
        rows = self.retention.run(days, may_go_on=lambda: not self.is_draining)
        files = self.traces.drop_before((datetime.now(UTC) - timedelta(days=days)).date())
        if rows or files:
            log.info("Removed, as they are older than %d days: %d usage rows, %d trace files", days, rows, files)

    def readiness(self) -> dict[str, str]:
        """Each thing that serving needs, and `ok`, `degraded: …` or what is wrong with it."""
        policy = self.policies.current()
        endpoints = list(policy.endpoints().values())
        all_open = self.breakers.open_count(endpoints, policy.breaker) == len(endpoints)
        database = self._database_state()
        return {
            "database": database,
            "state": "ok" if self._is_state_up() else STATE_AWAY,
            "spool": self._spool_state(database),
            "endpoints": "every circuit is open" if all_open else "ok",
            "drain": "the process is ending" if self.is_draining else "ok",
        }

    def close(self) -> None:
        """Writes what is still to be written, then closes everything; for the end of the process."""
        self.is_draining = True
        self.comparing.shadow.close(SHADOW_WAIT_S)
        self.drain.flush(FLUSH_WAIT_S * 5)
        with suppress(Exception), gevent.Timeout(FLUSH_WAIT_S, False):  # not worth an error at the very end
            self.note_key_use()
        self.spool.close()
        self.transport.close()
        self.traces.close()
        self.database.close()
        if self.demo is not None:
            self.demo.stop()

    def _is_state_up(self) -> bool:
        return not (isinstance(self.store, ResilientStore) and self.store.is_away)

    def _load(self) -> Policy:
        read = off_the_loop(lambda: with_surrogate(read_policy(self.settings, self.demo), self.surrogates))
        fit = fit_for_reload(read, self.policies.current(), self.bound)
        try:
            policy = self.persona.applied(fit)
        except DatabaseUnavailable:
            policy = fit  # `renew_profile` finds the hint as soon as the database is back
        self.policies.swap(policy)
        self.loaded_at = time.time()
        log.info("Configuration loaded from %s", policy.source)
        warn(policy, self.settings)
        return policy

    def _spool_state(self, database: str) -> str:
        if self.spool.trouble is not None:
            return f"{DEGRADED}{self.spool.trouble}"
        if database == "ok" and self.drain.last_error is not None:  # its text may name what is nobody else's business
            return f"{DEGRADED}{ROWS_REFUSED}"
        return "ok"

    def _database_state(self) -> str:
        try:
            self.database.check()
            with gevent.Timeout(READINESS_WAIT_S, TimeoutError):
                self.usage.ping()
        except (TimeoutError, DatabaseUnavailable):
            return DATABASE_AWAY
        except Exception as error:  # noqa: BLE001  (readiness reports whatever is wrong, it must not fail itself)
            return f"the database cannot be read: {type(error).__name__}"
        return "ok"
