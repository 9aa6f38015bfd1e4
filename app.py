"""The WSGI application: `gunicorn -c gunicorn.conf.py app:app`.

Loaded by each worker after it was forked and patched, so that no connection and no thread is older than its process.
"""

import sys

import gevent

from hermes import bootstrap
from hermes.background import Loops
from hermes.errors import ConfigurationInvalid, DatabaseUnavailable, DatabaseUnreachable, StartRefused
from hermes.settings import Settings, origins_of
from hermes.web.application import create_app
from hermes.web.dashboard.frame import compile_templates
from hermes.web.overload import TurnAway
from hermes.web.worker import DATABASE_AWAY, REFUSED

DRAIN_EVERY_S = 0.25
STEP_EVERY_S = 0.4
DIRECTORY_EVERY_S = 0.4
SWITCH_EVERY_S = 0.25
SIGN_OUTS_EVERY_S = 1.0
KEY_USE_EVERY_S = 30.0
PROFILE_EVERY_S = 15.0
STALE_EVERY_S = 5.0
BUDGETS_EVERY_S = 5.0
LEDGER_EVERY_S = 2.0
BACKFILL_EVERY_S = 0.5
DAYS_EVERY_S = 5.0
RETENTION_EVERY_S = 3.0
"""How soon after the start; then one worker does it once an hour."""

SURROGATE_EVERY_S = 1.0
KNOWLEDGE_EVERY_S = 0.4
SHADOW_EVERY_S = 2.0
LOAD_EVERY_S = 0.1
TEMPLATES_AFTER_S = 15.0
"""A second of work that only operators need: whoever has just started a process waits for other things."""

STOP_WAIT_S = 5.0

try:
    hermes = bootstrap.build(Settings.from_env())
except ConfigurationInvalid as invalid:
    print(*invalid.lines(), sep="\n", file=sys.stderr)  # noqa: T201
    sys.exit(REFUSED)
except (DatabaseUnreachable, DatabaseUnavailable) as away:
    print(f"Hermes cannot start: {away}", file=sys.stderr)  # noqa: T201
    sys.exit(DATABASE_AWAY)
except StartRefused as refused:
    print(f"Hermes cannot start: {refused}", file=sys.stderr)  # noqa: T201
    sys.exit(REFUSED)

app = create_app(hermes)
turn_away = TurnAway(hermes.crowd, origins_of(hermes.settings.cors_origins))
gevent.spawn(hermes.crowd.watch)
loops = Loops()
loops.every(DRAIN_EVERY_S, hermes.drain.run_once, "drain")
if hermes.settings.shares_state():
    gevent.spawn(hermes.budgets.books.distrust)  # a worker before this one may have been killed
    loops.every(STEP_EVERY_S, hermes.keep_in_step, "shared state")
loops.every(DIRECTORY_EVERY_S, hermes.live.refresh_if_changed, "directory")
loops.every(SIGN_OUTS_EVERY_S, hermes.ended.store_missing, "sign-outs")
loops.every(SWITCH_EVERY_S, hermes.switch.look, "kill switch")
loops.every(KEY_USE_EVERY_S, hermes.note_key_use, "key use")
loops.every(PROFILE_EVERY_S, hermes.renew_profile, "profile hint")
loops.every(SURROGATE_EVERY_S, hermes.follow_surrogate, "surrogate")
loops.every(KNOWLEDGE_EVERY_S, hermes.follow_knowledge, "knowledge")
loops.every(STALE_EVERY_S, hermes.transport.close_stale, "idle connections")
loops.every(BUDGETS_EVERY_S, hermes.weigh_budgets, "budget use")
loops.every(LEDGER_EVERY_S, hermes.ledger.check, "ledger")
loops.every(BACKFILL_EVERY_S, hermes.backfill.run, "sums of old rows")
loops.every(DAYS_EVERY_S, hermes.day_sums.run, "sums of days")
loops.every(SHADOW_EVERY_S, hermes.tend_shadow, "shadow runs")
loops.every(LOAD_EVERY_S, hermes.comparing.load.look, "load")
loops.every(RETENTION_EVERY_S, hermes.forget_old, "retention")
gevent.spawn_later(TEMPLATES_AFTER_S, compile_templates, app.jinja_env)


def drain() -> None:
    """The process is ending: readiness says so from now on; called by the worker at SIGTERM."""
    hermes.is_draining = True


def close() -> None:
    """Ends the background loops and writes what is still to be written; called by gunicorn's `worker_exit`."""
    loops.stop(STOP_WAIT_S)
    hermes.close()
