"""The one place that constructs. Everything real is chosen and joined here; no other module knows how it is made."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hermes import __version__
from hermes.accounting.drain import Drain
from hermes.accounting.exchange import Exchange
from hermes.accounting.ledger import Ledger
from hermes.accounting.prices import PriceBook
from hermes.accounting.spool import Spool
from hermes.admission.auth import Authenticator
from hermes.admission.books import FILLED_NOUNS, MOVING_S, SEALS, Books
from hermes.admission.budgets import Budgets
from hermes.admission.changes import BudgetChanges
from hermes.admission.crowd import Crowd
from hermes.admission.editor import DirectoryEditor
from hermes.admission.keys import KeyDigest, server_secret
from hermes.admission.limits import Limits
from hermes.admission.quota import Quota
from hermes.admission.switch import KillSwitch
from hermes.comparing import comparing
from hermes.demo import start_demo
from hermes.directory import DirectoryBox
from hermes.gateway import Call, Gateway
from hermes.instance import FLUSH_WAIT_S, Hermes
from hermes.knowing import Knowing
from hermes.knowledge.ground import Grounder
from hermes.knowledge.library import Library
from hermes.knowledge.shelf import Shelf
from hermes.knowledge.vectors import Embedder, LocalModel, RemoteModel
from hermes.learning.live import Learning
from hermes.loading import read_policy, warn, with_surrogate
from hermes.metadata import name_of
from hermes.observe import logs
from hermes.observe.events import Events
from hermes.observe.metrics import Metrics
from hermes.observe.notes import OperatorNotes
from hermes.observe.redact import Redactor
from hermes.observe.trace import TraceLog, utc_ms
from hermes.observe.workerfiles import VARIABLE
from hermes.operations import Operations
from hermes.policy import Policy, PolicyBox, TeacherPolicy
from hermes.routing.audit import Auditor
from hermes.routing.persona import Persona
from hermes.routing.router import Router
from hermes.routing.sampling import LEAST_A_DAY
from hermes.routing.sessions import Sessions
from hermes.routing.surrogates import Surrogates
from hermes.routing.teacher import Teacher
from hermes.settings import ROOT, Settings
from hermes.state.announcement import Announcement
from hermes.state.opening import open_store
from hermes.state.resilient import ResilientStore
from hermes.state.store import StateStore
from hermes.storage.backfill import Backfill
from hermes.storage.classified import ClassifiedRepository
from hermes.storage.daysums import DaySums
from hermes.storage.db import Database, migrate
from hermes.storage.directory import DirectoryRepository
from hermes.storage.ended import EndedSessions
from hermes.storage.hints import HintRepository
from hermes.storage.knowledge import KnowledgeRepository
from hermes.storage.labels import LabelRepository
from hermes.storage.live import LiveDirectory
from hermes.storage.reports import Reports
from hermes.storage.repositories import UsageRepository
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

MIGRATIONS = ROOT / "migrations"
RELOADED = "news:reloaded"
"""The key under which workers tell each other of a reload."""


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
    policy = with_surrogate(read_policy(settings, demo), surrogates)
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
    asker = Asker(transport)
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
        policies, directories, auth, switch, _quota(store, budgets, directories, policies, drain), router,
        sessions, upstreams,
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
    warn(policy, settings)
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
        ended=EndedSessions(directory.end_session, live.refresh),
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
        persona=persona,
        surrogates=surrogates,
        learning=learning,
        shelf=knowing.shelf,
        library=knowing.library,
        comparing=compared,
        demo=demo,
        bound=None if settings.bind else policy.server,
    )


def _quota(store: StateStore, budgets: Budgets, directories: DirectoryBox, policies: PolicyBox, drain: Drain) -> Quota:
    """What grants requests what they may use, and follows the changes of budgets."""
    changes = BudgetChanges(budgets.books, lambda: drain.flush(FLUSH_WAIT_S))
    directories.on_swap(changes.directory_is)
    policies.on_swap(lambda new: changes.timezone_is(new.budgets.timezone))
    return Quota(store, Limits(), budgets, lambda: (directories.current(), policies.current().budgets))


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
