"""The one place that constructs. Everything real is chosen and joined here; no other module knows how it is made."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import gevent

from hermes import __version__, configfile
from hermes.accounting.drain import Drain
from hermes.accounting.exchange import Exchange
from hermes.accounting.ledger import Ledger
from hermes.accounting.prices import PriceBook
from hermes.accounting.receipt import receipt
from hermes.accounting.spool import Spool
from hermes.admission.auth import Authenticator
from hermes.admission.books import FILLED_NOUNS, MOVING_S, SEALS, Books
from hermes.admission.budgets import Budgets
from hermes.admission.crowd import Crowd
from hermes.admission.editor import DirectoryEditor
from hermes.admission.keys import SECRET_FILE, KeyDigest, server_secret
from hermes.admission.limits import Limits
from hermes.admission.quota import Quota
from hermes.admission.switch import KillSwitch
from hermes.comparing import Comparing, comparing
from hermes.configfile.changes import changes
from hermes.configfile.reloading import fit_for_reload
from hermes.demo import DemoServer, demo_config, start_demo
from hermes.directory import Budget, DirectoryBox
from hermes.errors import BooksUnreadable, ConfigurationInvalid, DatabaseUnavailable, NotFound
from hermes.gateway import Call, Gateway
from hermes.knowing import Knowing
from hermes.knowledge.ground import Grounder
from hermes.knowledge.library import Library
from hermes.knowledge.shelf import Shelf
from hermes.knowledge.vectors import Embedder, LocalModel, RemoteModel
from hermes.learning.live import REPORT_HOURS, Learning
from hermes.metadata import name_of
from hermes.observe import logs
from hermes.observe.events import Events
from hermes.observe.metrics import Metrics
from hermes.observe.notes import OperatorNotes
from hermes.observe.redact import Redactor
from hermes.observe.trace import TraceLog, utc_ms
from hermes.observe.workerfiles import VARIABLE
from hermes.operations import Operations
from hermes.policy import Policy, PolicyBox, ServerPolicy, TeacherPolicy
from hermes.routing.audit import Auditor
from hermes.routing.persona import Persona
from hermes.routing.router import Router
from hermes.routing.sampling import LEAST_A_DAY
from hermes.routing.sessions import Sessions
from hermes.routing.surrogates import Surrogates
from hermes.routing.teacher import Teacher
from hermes.settings import ROOT, Settings, remarks
from hermes.state.announcement import Announcement
from hermes.state.opening import open_store
from hermes.state.resilient import ResilientStore
from hermes.state.store import StateStore
from hermes.storage import export
from hermes.storage.backfill import Backfill
from hermes.storage.classified import ClassifiedRepository
from hermes.storage.daysums import DaySums
from hermes.storage.db import Database, migrate
from hermes.storage.directory import DirectoryRepository
from hermes.storage.hints import HintRepository
from hermes.storage.knowledge import KnowledgeRepository
from hermes.storage.labels import LabelRepository
from hermes.storage.live import LiveDirectory
from hermes.storage.reports import Reports
from hermes.storage.repositories import UsageFilter, UsageRepository
from hermes.storage.residency import ResidencyRecords
from hermes.storage.retention import Retention
from hermes.storage.spending import Spending
from hermes.storage.trail import Trail
from hermes.types import ANYONE, Allowance, UsageRecord
from hermes.upstream.alone import Alone
from hermes.upstream.ask import Asker
from hermes.upstream.breaker import Breakers
from hermes.upstream.call import Caller
from hermes.upstream.cascade import Upstreams
from hermes.upstream.changes import CircuitChanges
from hermes.upstream.keyring import Keyring
from hermes.upstream.lifeline import HangupWatch
from hermes.upstream.transport import Transport

log = logging.getLogger("hermes-router")

MIGRATIONS = ROOT / "migrations"
FLUSH_WAIT_S = 1.0
READINESS_WAIT_S = 1.0
DEGRADED = "degraded: "
"""How readiness begins to tell of what is amiss, but keeps nobody from being served."""

DATABASE_AWAY = f"{DEGRADED}the database cannot be used, usage rows wait in the spool and nothing can be changed"
STATE_AWAY = f"{DEGRADED}the shared state is away, this worker goes on with its own"
BUDGETS_SHOWN_MAX = 50
"""How many budgets, the first ones, have a metric."""

RETENTION_TURN = "turn:retention"
RETENTION_EVERY_S = 3600.0
SHADOW_WAIT_S = 2.0
"""How long, at the end, targets are waited for that have been called."""

RELOADED = "news:reloaded"
"""The key under which workers tell each other of a reload."""


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
    asker: Asker
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
        read = _off_the_loop(lambda: read_policy(self.settings, self.demo))
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
        return {
            "database": self._database_state(),
            "state": "ok" if self._is_state_up() else STATE_AWAY,
            "spool": "ok" if self.spool.trouble is None else f"{DEGRADED}{self.spool.trouble}",
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
        self.asker.close()
        self.traces.close()
        self.database.close()
        if self.demo is not None:
            self.demo.stop()

    def _is_state_up(self) -> bool:
        return not (isinstance(self.store, ResilientStore) and self.store.is_away)

    def _load(self) -> Policy:
        read = _off_the_loop(lambda: _with_surrogate(read_policy(self.settings, self.demo), self.surrogates))
        fit = fit_for_reload(read, self.policies.current(), self.bound)
        try:
            policy = self.persona.applied(fit)
        except DatabaseUnavailable:
            policy = fit  # `renew_profile` finds the hint as soon as the database is back
        self.policies.swap(policy)
        self.loaded_at = time.time()
        log.info("Configuration loaded from %s", policy.source)
        _warn(policy, self.settings)
        return policy

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


def build(settings: Settings) -> Hermes:
    """Makes a Hermes that is ready to serve.

    Raises:
        StartRefused, ConfigurationInvalid: it cannot be; the text says why.
    """
    redactor = Redactor({settings.state_password()})
    logs.configure(settings.log_level, settings.log_format, redactor)
    demo = start_demo() if settings.wants_demo() else None
    # The state comes before the configuration, so that this worker misses no reload while it starts.
    store = open_store(settings.state_url, settings.workers, rebuilt=FILLED_NOUNS, seals=SEALS)
    reloaded = Announcement(store, RELOADED)
    surrogates = Surrogates()
    policy = _with_surrogate(read_policy(settings, demo), surrogates)
    own_secrets = {settings.secret, settings.state_password()}
    redactor.learn(policy.secrets | own_secrets)

    # What happens is told to three: traces, metrics, log lines.
    metrics = Metrics(__version__, os.environ.get(VARIABLE))
    traces = TraceLog(
        Path(settings.trace_log_dir),
        settings.trace_log_max_bytes,
        settings.trace_log_backups,
        settings.trace_log_enabled,
        redactor.clean,
    )
    events = Events(traces.emit, metrics)
    notes = OperatorNotes(events.emit, metrics, redactor)

    # What is kept: rows in the spool and then in the database.
    database = _migrated(settings.database_url)
    usage = UsageRepository(database)
    backfill = Backfill(database)
    hints = HintRepository(database)
    spool = _checked(Spool(settings.spool_path(), on_lost=metrics.spool_lost))
    drain = Drain(spool, usage.insert, metrics.moved)
    ledger, prices = Ledger(spool, drain, usage.stored_of), PriceBook()
    crowd = Crowd(lambda: ledger.in_flight, metrics.turned_away)

    # What operators change while it runs.
    directory = DirectoryRepository(database)
    directories = DirectoryBox(directory.load())
    live = LiveDirectory(directories, directory.version, directory.load)
    switch = KillSwitch(directories, Path(settings.off_file))
    digest = KeyDigest(server_secret(settings.secret, settings.data_folder()))
    auth = Authenticator(digest, look_again=live.newest)

    # Who may ask for how much.
    spending = Spending(database, lambda: drain.flush(FLUSH_WAIT_S), is_summed=backfill.is_complete)
    books = Books(
        store,
        spending,
        is_store_away=lambda: isinstance(store, ResilientStore) and store.is_away,
        was_counted=drain.was_moved,
        moving_s=MOVING_S if settings.shares_state() else 0.0,
    )
    budgets = Budgets(books, store, prices)

    # Who decides, and who answers.
    transport = Transport(settings.connect_timeout_s)
    asker = Asker(settings.connect_timeout_s)
    sessions = Sessions(store)
    circuit_changes = CircuitChanges(store, notes.circuit_changed)
    breakers = Breakers(store, circuit_changes.changed)
    keyring = Keyring(store)
    upstreams = Upstreams(Caller(transport, notes), breakers, keyring, notes, failed=circuit_changes.failed)
    learning = Learning(surrogates, LabelRepository(database), ClassifiedRepository(database), redactor.clean)
    router = _router(sessions, Teacher(_teacher_call(asker)), learning, events, crowd, settings.workers)

    persona = Persona(_teacher_call(asker), hints.recall, hints.remember)
    policies = PolicyBox(persona.applied(policy))
    editor = DirectoryEditor(directory, digest, lambda: policies.current().gateway.roles, live.refresh)
    trail = Trail(directory.note)
    knowing = _knowing(database, asker, policies.current)
    for follow in (
        lambda new: redactor.learn(new.secrets | own_secrets),
        router.prepare,
        lambda new: prices.prepare(new.endpoints().values()),
        lambda new: _learn_labels(metrics, new),
    ):
        policies.on_swap(follow)

    # Is a target better than the pinned model?
    compared = comparing(
        database,
        store,
        Alone(Caller(transport, notes), keyring),
        prices,
        metrics,
        redactor.clean,
        live.refresh,
        crowd.is_crowded,
        switch.is_stopped,
    )
    gateway = Gateway(
        policies, directories, auth, switch, Quota(store, Limits(), budgets), router, sessions, upstreams,
        Knowing(knowing.grounder, knowing.local_model), compared.shadow,
        _exchanges(prices, ledger, metrics, redactor), events.emit, metrics, redactor,
    )  # fmt: skip
    metrics.watch(
        circuits_open=lambda: _open_circuits(breakers, policies.current()),
        sessions_active=lambda: sessions.count(policies.current().routing.session_timeout_s),
        spool_depth=spool.depth,
        spool_held=lambda: spool.held_in_memory,
        in_flight=lambda: ledger.in_flight,
        ledger_gap=lambda: ledger.gap,
        state_up=lambda: not (isinstance(store, ResilientStore) and store.is_away),
        shadow_queue=compared.shadow.depth,
    )
    _warn(policy, settings)
    return Hermes(
        settings=settings,
        store=store,
        reloaded=reloaded,
        policies=policies,
        directories=directories,
        directory=directory,
        live=live,
        editor=editor,
        trail=trail,
        auth=auth,
        switch=switch,
        budgets=budgets,
        gateway=gateway,
        sessions=sessions,
        breakers=breakers,
        changes=circuit_changes,
        keyring=keyring,
        operations=Operations(policies.current, breakers, sessions, trail.note),
        digest=digest,
        hangups=HangupWatch(),
        crowd=crowd,
        metrics=metrics,
        database=database,
        usage=usage,
        reports=Reports(database),
        residency=ResidencyRecords(database),
        backfill=backfill,
        day_sums=DaySums(database, backfill.is_complete),
        retention=Retention(database, backfill),
        prices=prices,
        spool=spool,
        drain=drain,
        ledger=ledger,
        traces=traces,
        transport=transport,
        asker=asker,
        persona=persona,
        surrogates=surrogates,
        learning=learning,
        shelf=knowing.shelf,
        library=knowing.library,
        comparing=compared,
        demo=demo,
        bound=None if settings.bind else policy.server,
    )


def read_policy(settings: Settings, demo: DemoServer | None) -> Policy:
    """The policy of the configuration file; the demo's, where the demo was asked for or there is no file yet.

    Raises:
        ConfigurationInvalid: with every problem.
    """
    path = settings.config_path()
    if demo is not None and (settings.demo or not path.exists()):
        return configfile.parse(demo_config(demo.base_url), "demo", os.environ)
    return configfile.load(path, os.environ)


def _warn(policy: Policy, settings: Settings) -> None:
    for warning in (*policy.warnings, *remarks(os.environ)):
        log.warning("%s", warning)
    if not settings.secret and settings.sqlite_path() is None:
        secret_file = settings.data_folder() / SECRET_FILE
        log.warning("API keys are checked with the file %s: on several machines set HERMES_SECRET alike", secret_file)


def _with_surrogate(policy: Policy, surrogates: Surrogates) -> Policy:
    """The policy, its surrogate loaded; what is wrong with that one joins the warnings.

    Blocks: 0.1 s for a surrogate that is new.
    """
    warning = surrogates.prepare(policy.routing.surrogate)
    return replace(policy, warnings=(*policy.warnings, warning)) if warning else policy


def _off_the_loop(read: Callable[[], Policy]) -> Policy:
    """Parses in a native thread: a large file takes longer than streams should wait. It takes no lock there."""

    def outcome() -> Policy | ConfigurationInvalid:
        try:
            return read()
        except (
            ConfigurationInvalid
        ) as invalid:  # travels as a value: gevent prints what leaves a thread as an exception
            return invalid

    found: Policy | ConfigurationInvalid = gevent.get_hub().threadpool.apply(outcome)
    if isinstance(found, ConfigurationInvalid):
        raise found
    return found


def _exchanges(prices: PriceBook, ledger: Ledger, metrics: Metrics, redactor: Redactor) -> Callable[[Call], Exchange]:
    """A function that begins the account of one request."""

    def write(record: UsageRecord) -> None:
        if record.error_message is not None:
            record.error_message = redactor.clean(record.error_message)
        if record.prompt_preview is not None:
            record.prompt_preview = redactor.clean(record.prompt_preview)
        ledger.append(record)
        metrics.answered(record)
        if record.status in ("error", "interrupted"):
            metrics.error()

    def begin(call: Call) -> Exchange:
        record = UsageRecord(
            call.request_id, utc_ms(time.time()), call.route, user_id=name_of({"user": call.said.user}, "user")
        )
        ledger.begin()
        metrics.begun()
        return Exchange(record, write=write, prices=prices, began=call.began)

    return begin


class _Knowing(NamedTuple):
    """The parts of knowledge."""

    shelf: Shelf
    library: Library
    grounder: Grounder
    local_model: LocalModel


def _knowing(database: Database, asker: Asker, policy: Callable[[], Policy]) -> _Knowing:
    repository = KnowledgeRepository(database)
    shelf = Shelf(repository)
    local_model = LocalModel()

    def embedder_of(policy: Policy, allowance: Allowance = ANYONE) -> Embedder:
        return RemoteModel(policy.embedder, asker.embed, allowance) if policy.embedder is not None else local_model

    library = Library(repository, shelf, lambda: embedder_of(policy()))
    return _Knowing(shelf, library, Grounder(shelf, embedder_of), local_model)


def _checked(spool: Spool) -> Spool:
    """The spool, if rows can be kept there."""
    spool.check()
    return spool


def _migrated(url: str) -> Database:
    """The database, its tables as they should be."""
    migrate(url, MIGRATIONS)
    return Database.open(url)


def _router(
    sessions: Sessions, teacher: Teacher, learning: Learning, events: Events, crowd: Crowd, workers: int
) -> Router:
    auditor = Auditor(teacher, learning.keep, least_a_day=LEAST_A_DAY / workers, is_crowded=crowd.is_crowded)
    return Router(sessions, teacher, learning.surrogates.of, events.emit, auditor=auditor)


def _teacher_call(asker: Asker) -> Callable[[TeacherPolicy, str, Allowance], str]:
    def ask(policy: TeacherPolicy, prompt: str, allowance: Allowance) -> str:
        return asker.ask(policy.endpoint, prompt, allowance)

    return ask


def _learn_labels(metrics: Metrics, policy: Policy) -> None:
    longest = max(len(cascade.endpoints) for cascade in policy.cascades.values())
    metrics.learn([endpoint.model for endpoint in policy.endpoints().values()], longest - 1)


def _open_circuits(breakers: Breakers, policy: Policy) -> int:
    return breakers.open_count(policy.endpoints().values(), policy.breaker)
