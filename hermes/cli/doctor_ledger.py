"""What `doctor` says of the ledger: whether every request has left its row.

A running server counts both sides and is asked. Without one, the usage log is compared with its sums, which are added
up in the transactions that store the rows: they differ where somebody has removed rows by hand, or where an older
Hermes has stored some beside a newer one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import requests

from hermes.cli.findings import Finding
from hermes.cli.start import Start
from hermes.errors import StartRefused
from hermes.settings import ROOT
from hermes.upstream.cold import new_session

COMPARED_HOURS: Final = 23
"""Fewer than a day, the shortest time that rows are kept."""

LEDGER: Final = "ledger"


def examine(start: Start, environ: Mapping[str, str], timeout_s: float) -> Finding:
    """The finding."""
    key = environ.get(start.admin_key_env, "").strip() if start.admin_key_env else ""
    figures = _asked(start, key, timeout_s) if key else None
    return _compared(start) if figures is None else judged(figures, start)


def judged(figures: Mapping[str, float], start: Start) -> Finding:
    """What a server's metrics mean."""
    missing = int(figures.get("hermes_ledger_gap", 0))
    finished = int(figures.get('hermes_ledger_rows_total{state="appended"}', 0))
    rejected = int(figures.get('hermes_ledger_rows_total{state="rejected"}', 0))
    spool = start.settings.spool_path()
    if missing:
        return Finding(
            LEDGER,
            "fail",
            f"missing: {_rows(missing)} of {finished} since the start, neither in the database nor in the spool",
            f"the server's log says since when; see who empties {spool}, and whether its disk is full or failing",
        )
    if rejected:
        fix = f"they stand in {spool / 'unreadable.jsonl'}, each with the reason"
        return Finding(LEDGER, "warn", f"the database has refused {_rows(rejected)} since the start", fix)
    waiting = int(figures.get("hermes_spool_depth", 0))
    where = f", {_rows(waiting)} on the way to the database" if waiting else ""
    return Finding(LEDGER, "ok", f"each of {finished} requests since the server's start has its usage row{where}")


def figures_of(exposition: str) -> dict[str, float]:
    """The series of a Prometheus exposition that belong to the ledger.

    >>> figures_of('# HELP x\\nhermes_ledger_gap 1.0\\nother{a="b c"} 2.0\\n')
    {'hermes_ledger_gap': 1.0}
    """
    lines = [line for line in exposition.splitlines() if line.startswith(("hermes_ledger_", "hermes_spool_"))]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def _asked(start: Start, key: str, timeout_s: float) -> dict[str, float] | None:
    """What the running server counts; None where none answers or it does not know the key."""
    if start.bind.startswith(("unix:", "/", "fd://")):
        return None
    try:
        with new_session() as session:
            headers = {"Authorization": f"Bearer {key}"}
            answer = session.get(f"{start.url}/metrics", headers=headers, timeout=timeout_s, allow_redirects=False)
            found = figures_of(answer.text) if answer.status_code == requests.codes.ok else {}
    except (requests.RequestException, ValueError):
        return None
    return found if "hermes_ledger_gap" in found else None


def _compared(start: Start) -> Finding:
    # Loads the database's library, which takes a tenth of a second.
    from hermes.storage.look import compare, readable

    since = datetime.fromtimestamp(time.time(), UTC) - timedelta(hours=COMPARED_HOURS)
    try:
        readable(start.settings.database_url, ROOT / "migrations")
        found = compare(start.settings.database_url, f"{since:%Y-%m-%dT%H}")
    except StartRefused as refused:
        return Finding(LEDGER, "skip", f"no server tells of it, nor the database: {refused}")
    if not found.is_summed:
        return Finding(
            LEDGER, "skip", "rows from before an upgrade are not in the sums yet; a running server adds them"
        )
    if found.rows != found.summed:
        return Finding(
            LEDGER,
            "warn",
            f"of the last {COMPARED_HOURS} hours the usage log has {_rows(found.rows)}, its sums have {found.summed}",
            "were rows removed by hand, or did an older Hermes run beside a newer one? Reports go by the sums",
        )
    return Finding(LEDGER, "ok", f"the usage log and its sums agree: {_rows(found.rows)} in {COMPARED_HOURS} hours")


def _rows(number: int) -> str:
    return f"{number} usage row" if number == 1 else f"{number} usage rows"
