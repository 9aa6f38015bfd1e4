"""One run of `surrogate fit`: collects traffic, fits, and puts the new version in force where it may be.

Everything about files and the database that the fit itself does not want to know.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hermes.errors import HermesError
from hermes.learning.candidates import Track
from hermes.learning.fitting import Fitted, Options, fit
from hermes.learning.gate import NotBetter
from hermes.learning.recent import ENOUGH_SINCE, counts_from, stepped_back_at
from hermes.learning.traffic import MOST_ROWS, Traffic, TrafficUnusable, collected, from_traces, merged
from hermes.policy import Policy, SurrogatePolicy
from hermes.routing.audit import judge_name
from hermes.routing.surrogate import TfidfSurrogate
from hermes.routing.surrogates import load_surrogate, starter
from hermes.routing.trust import Trust
from hermes.routing.versions import Versions
from hermes.settings import ROOT, Settings
from hermes.storage.db import Database, migrate
from hermes.storage.labels import LabelRepository, Taught

PREVIEWS = "logging.store_prompts is {kept}: what comes now cannot be learned from; set it to full."


@dataclass(frozen=True, slots=True)
class Place:
    """Where things are."""

    settings: Settings
    policy: Policy | None
    """None: the demo's."""

    @property
    def surrogate(self) -> SurrogatePolicy:
        """What the configuration says of the surrogate."""
        return self.policy.routing.surrogate if self.policy is not None else SurrogatePolicy()

    @property
    def versions(self) -> Versions:
        """The folder of fitted surrogates."""
        return Versions(Path(self.surrogate.path).expanduser())

    @property
    def remark(self) -> str | None:
        """What keeps today's traffic from being learned from."""
        kept = self.policy.logging.store_prompts if self.policy is not None else "preview"
        return None if kept == "full" else PREVIEWS.format(kept=kept)


@dataclass(frozen=True, slots=True)
class Done:
    """A version in force."""

    version: str
    before: str | None
    """The one that was; None: the starter."""

    fitted: Fitted
    dropped: tuple[str, ...] = ()
    remark: str | None = None


@contextmanager
def opened(url: str) -> Iterator[Database]:
    """A database, brought up to date first.

    Raises:
        StartRefused: it cannot be used.
    """
    migrate(url, ROOT / "migrations")
    database = Database.open(url)
    try:
        yield database
    finally:
        database.close()


def traffic_of(place: Place, source: str | None = None, since: str = "", most: int = MOST_ROWS) -> Traffic:
    """The rows of a folder of traces or of a database; of both that the environment names where nothing is given.

    Args:
        since: what is older does not count; as `created_at`.

    Raises:
        TrafficUnusable: the texts are previews, or there is no such place.
    """
    if source is None:
        traces, url = from_traces(Path(place.settings.trace_log_dir), most), place.settings.database_url
        return _doubted(place, url, collected(merged(traces, _taught(url, most)), most, since))
    if "://" in source:
        return _doubted(place, source, collected(_taught(source, most), most, since))
    path = Path(source)
    if path.is_dir():
        return collected(from_traces(path, most), most, since)
    if path.is_file():
        url = f"sqlite:///{path}"
        return _doubted(place, url, collected(_taught(url, most), most, since))
    raise TrafficUnusable(f"{source} is neither a folder of traces nor a database.")


def live_surrogate(place: Place) -> tuple[TfidfSurrogate, str]:
    """The surrogate that decides at the moment, held to what audits say of it, and when these made it step back."""
    choice = load_surrogate(SurrogatePolicy(path=place.surrogate.path))
    live = choice.surrogate or starter()
    if not _exists(place.settings.database_url):
        return live, ""
    with opened(place.settings.database_url) as database:
        labels = LabelRepository(database)
        Trust(labels.audits).look(live, place.surrogate.target)
        return live, stepped_back_at(live, labels.audits(live.version), place.surrogate.target)


def run(place: Place, options: Options, track: Track, source: str | None = None, clock: float | None = None) -> Done:
    """Fits, and puts the new version in force.

    Raises:
        HermesError: nothing was replaced; the text says why.
    """
    versions = place.versions
    with versions.alone():
        try:
            live, changed_at = live_surrogate(place)
            traffic, waits = recent_traffic(place, source, live, changed_at)
            fitted = _fitted(traffic, live, options, track, waits)
        except TrafficUnusable as unusable:
            raise HermesError(f"{unusable.message} {place.remark}" if place.remark else unusable.message) from None
        moment = datetime.fromtimestamp(time.time() if clock is None else clock, UTC)
        name = f"{moment:%Y%m%dT%H%M%SZ}-{traffic.sha256[:6]}"
        before = versions.current()
        version = versions.add(name, fitted.write, fitted.check)
        versions.put_in_force(version)
        return Done(version, before, fitted, tuple(versions.drop_oldest()), place.remark)


def recent_traffic(place: Place, source: str | None, live: TfidfSurrogate, changed_at: str) -> tuple[Traffic, str]:
    """The traffic that counts, and what to say where it is not yet only that since the surrogate stepped back."""
    since = counts_from(live)
    if changed_at <= since:
        return traffic_of(place, source, since), ""
    recent = traffic_of(place, source, changed_at)
    if len(recent.rows) >= ENOUGH_SINCE:
        return recent, ""
    return traffic_of(place, source, since), (
        f" The surrogate in force stepped back at {changed_at}, and {len(recent.rows)} texts have come since: from "
        f"{ENOUGH_SINCE} on these alone are learned from."
    )


def _fitted(traffic: Traffic, live: TfidfSurrogate, options: Options, track: Track, waits: str) -> Fitted:
    try:
        return fit(traffic, live, options, track)
    except NotBetter as refused:
        raise NotBetter(f"{refused.message}{waits}") from None


def _taught(url: str, most: int) -> list[Taught]:
    if not _exists(url):
        return []
    with opened(url) as database:
        return LabelRepository(database).taught(most)


def _doubted(place: Place, url: str, traffic: Traffic) -> Traffic:
    """The traffic, with how often the teacher that is asked at the moment has said something else the second time."""
    teacher = place.policy.routing.teacher if place.policy is not None else None
    if teacher is None or not _exists(url):
        return traffic
    with opened(url) as database:
        again = LabelRepository(database).audits(judge_name(teacher))
    return replace(traffic, asked_again=len(again), changed=sum(not one.agrees for one in again))


def _exists(url: str) -> bool:
    """Whether a database is there; asking must not make one."""
    path = url.removeprefix("sqlite:///")
    return path == url or Path(path).is_file()
