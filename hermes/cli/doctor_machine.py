"""What `doctor` looks at on this machine: keys, database, state, folders, disks. Makes nothing that stays."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from hermes.accounting.backlog import Backlog, backlog
from hermes.cli.findings import Finding, Level
from hermes.cli.start import Start
from hermes.errors import StartRefused
from hermes.observe.redact import Redactor
from hermes.settings import ROOT

SHORT_KEY_CHARS: Final = 16
LONG_WAIT_S: Final = 60.0
"""A server whose database works moves rows every second."""

DISK_FAIL_BYTES: Final = 100 * 2**20
DISK_WARN_BYTES: Final = 2**30
PROBE_BYTES: Final = 4096
PROBE_KEY: Final = "doctor:probe"


def examine(start: Start, environ: Mapping[str, str]) -> list[Finding]:
    """Everything on this machine."""
    findings = [_admin_key(start, environ)]
    if start.policy is not None:
        findings.append(_provider_keys(start))
    findings += [_database(start), _state(start), _switch(start), _spool(start), _traces(start)]
    findings += _learning(start)
    return [*findings, *_disks(_folders(start))]


def _admin_key(start: Start, environ: Mapping[str, str]) -> Finding:
    name = start.admin_key_env
    key = environ.get(name, "").strip() if name else ""
    advice = f"set {name or 'auth.api_key_env'} to a long random text: `openssl rand -base64 24` makes one"
    if not key:
        return Finding(
            "admin key",
            "warn",
            f"{name or 'none'} is not set: every admin route answers 401, but for `serve`, which makes a key each time",
            advice,
        )
    if len(key) < SHORT_KEY_CHARS:
        return Finding("admin key", "warn", f"the one in {name} is short enough to be guessed", advice)
    return Finding("admin key", "ok", f"in {name}")


def _provider_keys(start: Start) -> Finding:
    assert start.policy is not None
    endpoints = start.policy.endpoints().values()
    without = [endpoint.id for endpoint in endpoints if endpoint.needs_key and not endpoint.keys]
    if without:
        return Finding(
            "provider keys",
            "warn",
            f"none for {', '.join(without)}, which is skipped therefore",
            'set the variable that the configuration names, or say api_key_env: "" where no key is needed',
        )
    names = dict.fromkeys(key.env for endpoint in endpoints for key in endpoint.keys)
    return Finding("provider keys", "ok", f"in {', '.join(names)}" if names else "no endpoint needs one")


def _database(start: Start) -> Finding:
    # Only this command and those that read rows need the database's library, which takes a tenth of a second to load.
    from hermes.storage.look import look_at

    url = start.settings.database_url
    path = start.settings.sqlite_path()
    name = str(path) if path is not None else Redactor().clean(url)
    if path is not None and not path.exists():
        fault = _write_fault(path.parent)
        if fault:
            return Finding("database", "fail", f"{name} cannot be made: {fault}", _right_of(path.parent))
        return Finding("database", "ok", f"{name} is not there yet; the first start makes it")
    try:
        seen = look_at(url, ROOT / "migrations")
    except StartRefused as refused:
        return Finding("database", "fail", str(refused), "see HERMES_DATABASE_URL")
    if seen.unknown:
        fix = "install that version again, or restore a backup from before the upgrade"
        return Finding("database", "fail", f"{name} was written by a newer Hermes ({', '.join(seen.unknown)})", fix)
    if seen.fault:
        fix = "give this user the right to write, or end the process that holds it"
        return Finding("database", "fail", f"{name} cannot be written to: {seen.fault}", fix)
    if seen.pending:
        fix = "back it up, then start the server, which does that by itself"
        return Finding("database", "warn", f"{name} lacks {', '.join(seen.pending)}", fix)
    return Finding("database", "ok", f"{name} can be read and written, its tables are up to date")


def _state(start: Start) -> Finding:
    settings = start.settings
    if not settings.shares_state():
        return Finding("state", "ok", f"{settings.state_url}, in the memory of the one worker")
    # redis-py takes a fifth of a second to load, and only this kind of state needs it.
    from hermes.state.redis_store import RedisStore
    from hermes.state.shared import StoreAway

    place = urlsplit(settings.state_url)
    name = f"{place.scheme}://{place.hostname}:{place.port or 6379}"
    began = time.monotonic()
    try:
        store = RedisStore(settings.state_url)
        store.put(PROBE_KEY, "1", ttl_s=1.0)  # a script that writes, as the server's own do
        store.delete(PROBE_KEY)
        store.close()
    except (StartRefused, StoreAway) as refused:
        fix = "start Redis, or see HERMES_STATE_URL; until then every worker keeps a state of its own"
        return Finding("state", "fail", f"{name} cannot be used: {refused}", fix)
    return Finding("state", "ok", f"{name} takes writes, in {(time.monotonic() - began) * 1000:.0f} ms")


def _switch(start: Start) -> Finding:
    file = Path(start.settings.off_file)
    if file.exists():
        return Finding("switch", "warn", f"{file} is there, so every completion is refused", "remove it to serve again")
    return Finding("switch", "ok", f"no {file} is there, which would refuse completions")


def _spool(start: Start) -> Finding:
    folder = start.settings.spool_path()
    fault = _write_fault(folder)
    if fault:
        return Finding("spool", "fail", f"{folder}: {fault}: usage rows would be lost", _right_of(folder))
    try:
        waiting = backlog(folder)
    except OSError as error:
        return Finding("spool", "fail", f"{folder} cannot be read: {error.strerror}", _right_of(folder))
    if waiting.set_aside:
        return Finding(
            "spool",
            "warn",
            f"{_waiting(waiting)}; {waiting.set_aside} could never be stored",
            f"look at {folder / 'unreadable.jsonl'}, and put it away when that is done",
        )
    if waiting.oldest_s is not None and waiting.oldest_s > LONG_WAIT_S:
        fix = "a running server moves them as soon as its database works; its log says what is in the way"
        return Finding("spool", "warn", f"{_waiting(waiting)}, for {waiting.oldest_s / 60:.0f} min now", fix)
    return Finding("spool", "ok", f"{folder} can be written to; {_waiting(waiting)}")


def _waiting(waiting: Backlog) -> str:
    if not waiting.rows:
        return "nothing waits"
    return f"{waiting.rows} row{'s wait' if waiting.rows > 1 else ' waits'} for the database"


def _traces(start: Start) -> Finding:
    if not start.settings.trace_log_enabled:
        return Finding("traces", "ok", "switched off by TRACE_LOG_ENABLED")
    folder = Path(start.settings.trace_log_dir)
    fault = _write_fault(folder)
    if fault:
        return Finding("traces", "fail", f"{folder}: {fault}", _right_of(folder))
    return Finding("traces", "ok", f"{folder} can be written to")


def _folders(start: Start) -> Iterator[tuple[str, Path]]:
    """What is written to, by its name."""
    path = start.settings.sqlite_path()
    if path is not None:
        yield "database", path.parent
    yield "spool", start.settings.spool_path()
    if start.settings.trace_log_enabled:
        yield "traces", Path(start.settings.trace_log_dir)


def _learning(start: Start) -> list[Finding]:
    """Whether what the teacher says can be learned from; nothing where there is no teacher."""
    if start.policy is None or start.policy.routing.teacher is None:
        return []
    kept = start.policy.logging.store_prompts
    if kept == "full":
        return [Finding("learning", "ok", "the teacher's verdicts are kept with their texts")]
    fix = "set logging.store_prompts to full, if texts may be stored, and let `surrogate fit` learn from them"
    return [Finding("learning", "warn", f"logging.store_prompts is {kept}, so no surrogate can be fitted", fix)]


def _disks(folders: Iterator[tuple[str, Path]]) -> list[Finding]:
    """One finding for each file system."""
    names: dict[int, list[str]] = {}
    places: dict[int, Path] = {}
    for name, folder in folders:
        place = _existing(folder)
        device = place.stat().st_dev
        places.setdefault(device, place)
        names.setdefault(device, []).append(name)
    return [_disk(place, names[device]) for device, place in places.items()]


def _disk(place: Path, names: list[str]) -> Finding:
    free = shutil.disk_usage(place).free
    level: Level = "fail" if free < DISK_FAIL_BYTES else "warn" if free < DISK_WARN_BYTES else "ok"
    fix = "" if level == "ok" else "make room; logging.retention_days and TRACE_LOG_BACKUPS say what is kept"
    return Finding("disk", level, f"{free / 2**30:,.1f} GiB free for {', '.join(names)}", fix)


def _write_fault(folder: Path) -> str:
    """Why nothing can be written to the folder (where it is missing: made there), or nothing."""
    place = _existing(folder)
    if not place.is_dir():
        return f"{place} is no folder"
    try:
        # Without a name where the system can do that; else it lives for a moment.
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return f"{place} cannot be written to ({error.strerror})"
    return ""


def _right_of(folder: Path) -> str:
    return f"give the user that runs Hermes the right to write to {_existing(folder)}, or make room there"


def _existing(path: Path) -> Path:
    """The path, or the nearest one above it that is there."""
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())
