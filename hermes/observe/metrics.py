"""The numbers that Prometheus scrapes.

Label values come from the configuration only (`learn`), whatever else turns up is counted as `other`: a client that
invents model names cannot fill the memory, and the number of series stays what it is. The exposition is rendered here,
in slices with a pause between them, since rendering thousands of series at once would stop the event loop.

With several workers each keeps its counts in files of a common folder (`workerfiles.py`), and the one that is scraped
adds them up. Gauges are of two kinds then: what the shared store tells, any worker can say for all; what a worker knows
of itself (its *own* gauges) it puts into the folder twice a second.

For the event loop only: prometheus-client's locks are not safe in native threads under gevent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar, get_args

import gevent
from prometheus_client import Counter, Gauge, Histogram, Metric, disable_created_metrics
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.samples import Sample

from hermes.types import TIERS, Status, UsageRecord

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
NO_TIER: Final = "none"
"""Of requests that were refused before a tier was chosen."""

OTHER: Final = "other"
FEWEST_LEVELS: Final = 2
TOKEN_KINDS: Final = ("prompt", "completion", "cached", "reasoning")
SHADOW_DROPS: Final = (
    "queue", "load", "money", "residency", "too_large", "unfit", "key", "unanswered", "database", "ending", "stopped",
    "fault",
)  # fmt: skip
SHADOW_OUTCOMES: Final = ("better", "tie", "worse", "unjudged", "error")
LEDGER_STATES: Final = ("appended", "moved", "rejected", "lost")
SLICE: Final = 200
"""Samples rendered between two pauses: about 2 ms."""

DURATION_BUCKETS_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300)
FIRST_TOKEN_BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60)
OVERHEAD_BUCKETS_S: Final = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1)
CLASSIFIER_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 15)

AnyMetric = TypeVar("AnyMetric", bound=MetricWrapperBase)


class Metrics:
    """Counts what happens; one verb for each event."""

    def __init__(self, version: str, folder: str | None = None) -> None:
        """Makes every series that has only known labels.

        Args:
            folder: where several workers keep their counts; it must have been in the environment when prometheus-client
                was imported. None: this is the only worker.
        """
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._folder = folder
        self._all: list[MetricWrapperBase] = []
        self._children: dict[tuple[MetricWrapperBase | str, ...], Any] = {}
        self._own: dict[str, tuple[Gauge, Callable[[], float]]] = {}
        self._models: set[str] = set()
        self._levels = 0
        self._budgets: set[tuple[str, str, str, str]] = set()
        self._classifier_calls = 0
        self._classifier_total_s = 0.0
        self._make_router_metrics()
        self._make_hermes_metrics()
        self._make_gauges()
        self._gauge("hermes_build_info", "The version that runs; always 1.", ["version"]).labels(version).set(1)
        self._create_children()
        self.learn((), FEWEST_LEVELS)

    # -- what is configured -------------------------------------------------------------------------------

    def learn(self, models: Iterable[str], levels: int) -> None:
        """Makes the series of the configured models and fallback levels, so that each is there before it is used."""
        for model in [*models, OTHER]:
            self._models.add(model)
            self._cost_usd.labels(model)
            for kind in TOKEN_KINDS:
                self._tokens.labels(model, kind)
        for level in range(self._levels + 1, levels + 1):
            self._fallback_used.labels(str(level))
        self._levels = max(self._levels, levels)

    def watch(
        self,
        *,
        circuits_open: Callable[[], float] | None = None,
        sessions_active: Callable[[], float] | None = None,
        spool_depth: Callable[[], float] | None = None,
        spool_held: Callable[[], float] | None = None,
        in_flight: Callable[[], float] | None = None,
        ledger_gap: Callable[[], float] | None = None,
        state_up: Callable[[], float] | None = None,
        shadow_queue: Callable[[], float] | None = None,
    ) -> None:
        """Names the functions that are asked at each scrape; each must be quick."""
        shared = ((self._circuits_open, circuits_open), (self._sessions_active, sessions_active))
        own = (
            (self._spool_depth, spool_depth), (self._spool_held, spool_held), (self._in_flight, in_flight),
            (self._ledger_gap, ledger_gap), (self._state_up, state_up), (self._shadow_queue, shadow_queue),
        )  # fmt: skip
        for gauge, function in (*shared, *own):
            if function is not None:
                gauge.set_function(function)
        for gauge, function in own:
            if function is not None:
                self._own[_name(gauge)] = (gauge, function)

    def publish(self) -> None:
        """Shows this worker's own gauges to the others; for a background loop. Nothing to do for a single worker."""
        if self._folder is not None:
            for gauge, function in self._own.values():
                gauge.set(function())

    def budget_use(self, used: Mapping[tuple[str, str, str, str], float]) -> None:
        """Which share of each budget is used, by its scope, id, period and unit; those that are not named are gone."""
        for labels in self._budgets - used.keys():
            self._budget_used.remove(*labels)
        for labels, share in used.items():
            self._budget_used.labels(*labels).set(share)
        self._budgets = set(used)

    # -- what happens -------------------------------------------------------------------------------------

    def begun(self) -> None:
        """A request has begun that must leave a row."""
        self._ledger_requests.inc()

    def turned_away(self, requests: int) -> None:
        """So many requests were refused, as more came than could be done."""
        self._turned_away.inc(requests)

    def moved(self, rows: int, rejected: int) -> None:
        """So many rows were moved from the spool to the database, and so many it can never store."""
        self._child(self._ledger_rows, "moved").inc(rows)
        self._child(self._ledger_rows, "rejected").inc(rejected)

    def request(self, tier: str | None, stream: bool) -> None:
        """A completion request has been taken on; None: it ended before a tier was chosen."""
        self._child(self._requests, _tier(tier)).inc()
        if stream:
            self._stream_requests.inc()

    def classifier(self, latency_s: float) -> None:
        """A classifier has been asked."""
        self._classifier_calls += 1
        self._classifier_total_s += latency_s
        self._classifier_calls_total.inc()
        self._classifier_latency.observe(latency_s)

    def cache_hit(self) -> None:
        """A session knew its tier."""
        self._cache_hits.inc()

    def limited(self, tier: str | None) -> None:
        """A provider has answered 429."""
        self._child(self._limited, _tier(tier)).inc()

    def fallback(self, level: int) -> None:
        """Another endpoint than the first of the cascade has answered; its position."""
        self._child(self._fallback_used, str(level) if 1 <= level <= self._levels else OTHER).inc()

    def error(self) -> None:
        """A request has ended in an error."""
        self._errors.inc()

    def spool_lost(self, rows: int) -> None:
        """Usage rows are lost, which neither the disk nor the database has taken."""
        self._spool_lost.inc(rows)
        self._child(self._ledger_rows, "lost").inc(rows)

    def shadow_dropped(self, reason: str) -> None:
        """A sample for a target was dropped."""
        self._child(self._shadow_drops, reason if reason in SHADOW_DROPS else OTHER).inc()

    def shadow_reply(self, outcome: str) -> None:
        """A target was called: `better`, `tie`, `worse`, `unjudged`, or `error`."""
        self._child(self._shadow_replies, outcome if outcome in SHADOW_OUTCOMES else OTHER).inc()

    def answered(self, record: UsageRecord) -> None:
        """A request is over, and its usage row is complete."""
        self._child(self._usage_rows, record.status).inc()
        self._child(self._ledger_rows, "appended").inc()
        if record.tier is None:  # else it was counted when its tier was chosen
            self.request(None, record.stream)
        tier = _tier(record.tier)
        for histogram, value_ms in (
            (self._duration, record.duration_ms),
            (self._first_token, record.ttft_ms),
            (self._overhead, record.overhead_ms),
        ):
            if value_ms is not None:
                self._child(histogram, tier).observe(value_ms / 1000)
        if record.model is None:
            return
        model = record.model if record.model in self._models else OTHER
        counts = (record.prompt_tokens, record.completion_tokens, record.cached_tokens, record.reasoning_tokens)
        for kind, count in zip(TOKEN_KINDS, counts, strict=True):
            if count:
                self._child(self._tokens, model, kind).inc(count)
        if record.estimated_cost_usd is not None:
            self._child(self._cost_usd, model).inc(float(record.estimated_cost_usd))

    def _child(self, metric: MetricWrapperBase, *labels: str) -> Any:
        """The series of these labels. The library looks it up under a lock, which costs more than the counting."""
        child = self._children.get((metric, *labels))
        if child is None:
            child = self._children[metric, *labels] = metric.labels(*labels)
        return child

    # -- what is scraped ----------------------------------------------------------------------------------

    def exposition(self, pause: Callable[[], object] = lambda: None) -> bytes:
        """Everything as Prometheus text, of the type `CONTENT_TYPE`.

        Calls `pause` every few milliseconds of work; the server gives the event loop to others there.
        """
        lines: list[str] = []
        rendered = 0
        summed = self._summed()
        for metric in self._all:
            family = next(iter(metric.describe()))
            lines.extend(_head(family))
            samples = summed.get(family.name)
            # Not `collect()`, which builds the samples of a whole family before it gives the first.
            prefix, samples = ("", samples) if samples is not None else (family.name, metric._samples())
            for sample in samples:
                lines.append(_line(prefix, sample))
                rendered += 1
                if rendered % SLICE == 0:
                    pause()
        return "".join(lines).encode()

    def _summed(self) -> dict[str, Iterable[Sample]]:
        """The samples of all workers together by their family; none where there is but one worker."""
        if self._folder is None:
            return {}
        self.publish()
        # In a native thread, as it takes a tenth of a second for thousands of series. It takes no lock there.
        families = gevent.get_hub().threadpool.apply(_read_files, (self._folder,))
        samples: dict[str, Iterable[Sample]] = {
            family.name: family.samples for family in families if family.type != "gauge" or family.name in self._own
        }
        latency = {sample.name: sample.value for sample in samples.get(_name(self._classifier_latency), ())}
        total_s, number = (latency.get(f"{_name(self._classifier_latency)}_{part}", 0.0) for part in ("sum", "count"))
        mean = _name(self._classifier_mean)
        samples[mean] = [Sample(mean, {}, 1000 * total_s / max(1, number))]
        return samples

    # -- their making -------------------------------------------------------------------------------------

    def _make_router_metrics(self) -> None:
        """The names that operators of the router scrape already."""
        self._requests = self._counter("hermes_router_requests", "Completion requests taken on.", ["tier"])
        self._classifier_calls_total = self._counter("hermes_router_classifier_calls", "Times a classifier was asked.")
        self._cache_hits = self._counter("hermes_router_cache_hits", "Turns whose session knew the tier.")
        self._limited = self._counter("hermes_router_429", "429 answers of providers.", ["tier"])
        self._fallback_used = self._counter("hermes_router_fallback_used", "Answers of a fallback.", ["level"])
        self._stream_requests = self._counter("hermes_router_stream_requests", "Requests for an event stream.")
        self._errors = self._counter("hermes_router_errors", "Requests that ended in an error.")

    def _make_hermes_metrics(self) -> None:
        self._duration = self._histogram("hermes_request_duration_seconds", "Whole requests.", DURATION_BUCKETS_S)
        self._first_token = self._histogram(
            "hermes_time_to_first_token_seconds", "Until the first event with content.", FIRST_TOKEN_BUCKETS_S
        )
        self._overhead = self._histogram(
            "hermes_overhead_seconds", "Hermes's own share of a request.", OVERHEAD_BUCKETS_S
        )
        self._classifier_latency = self._histogram(
            "hermes_classifier_latency_seconds", "Time spent deciding by a classifier.", CLASSIFIER_BUCKETS_S, ()
        )
        self._tokens = self._counter("hermes_tokens", "Tokens used.", ["model", "kind"])
        self._cost_usd = self._counter("hermes_cost_usd", "Cost in US dollars, of known prices.", ["model"])
        self._usage_rows = self._counter("hermes_usage_rows", "Usage rows written.", ["status"])
        self._spool_lost = self._counter("hermes_spool_lost", "Usage rows that neither the disk nor the database took.")
        self._turned_away = self._counter("hermes_turned_away", "Requests refused as too many came, without a row.")
        self._ledger_requests = self._counter("hermes_ledger_requests", "Requests that must leave a usage row.")
        self._ledger_rows = self._counter(
            "hermes_ledger_rows", "Usage rows: appended to the spool, moved from it, rejected, lost.", ["state"]
        )
        self._shadow_replies = self._counter(
            "hermes_shadow_replies", "Calls of targets, by how they compare with the pinned model.", ["outcome"]
        )
        self._shadow_drops = self._counter(
            "hermes_shadow_dropped", "Samples for targets that were dropped, by reason.", ["reason"]
        )

    def _make_gauges(self) -> None:
        self._classifier_mean = self._gauge("hermes_router_classifier_latency_ms_avg", "Mean time a classifier took.")
        self._classifier_mean.set_function(lambda: 1000 * self._classifier_total_s / max(1, self._classifier_calls))
        self._circuits_open = self._gauge("hermes_router_circuits_open", "Endpoints whose breaker is open.")
        self._sessions_active = self._gauge("hermes_router_sessions_active", "Conversations whose tier is known.")
        self._spool_depth = self._gauge(
            "hermes_spool_depth", "Usage rows that wait for the database, in files or in memory."
        )
        self._spool_held = self._gauge("hermes_spool_held", "Those of them that are in memory, which the disk refused.")
        self._in_flight = self._gauge("hermes_requests_in_flight", "Requests whose usage row is still to come.")
        self._ledger_gap = self._gauge("hermes_ledger_gap", "Usage rows of requests that are over and nowhere; 0.")
        self._budget_used = self._gauge(
            "hermes_budget_used_ratio",
            "Share of a budget that is used in its period; id *: of whoever has used most.",
            ["scope", "id", "period", "unit"],
        )
        self._shadow_queue = self._gauge("hermes_shadow_queue_depth", "Samples that wait for a target's answer.")
        self._state_up = self._gauge(
            "hermes_state_up", "1: the state that workers share is used; 0: a worker goes by its own.", mode="livemin"
        )

    def _create_children(self) -> None:
        """So that a rate can be computed from the first event on, and the number of series is the same all the time."""
        for tier in (*TIERS, NO_TIER):
            for metric in (self._requests, self._limited, self._duration, self._first_token, self._overhead):
                metric.labels(tier)
        for status in get_args(Status):
            self._usage_rows.labels(status)
        for state in LEDGER_STATES:
            self._ledger_rows.labels(state)
        self._fallback_used.labels(OTHER)
        for reason in (*SHADOW_DROPS, OTHER):
            self._shadow_drops.labels(reason)
        for outcome in (*SHADOW_OUTCOMES, OTHER):
            self._shadow_replies.labels(outcome)

    def _counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        return self._kept(Counter(name, text, labels, registry=None))

    def _gauge(
        self,
        name: str,
        text: str,
        labels: Iterable[str] = (),
        mode: Literal["livesum", "livemin"] = "livesum",
    ) -> Gauge:
        return self._kept(Gauge(name, text, labels, registry=None, multiprocess_mode=mode))

    def _histogram(
        self, name: str, text: str, buckets_s: tuple[float, ...], labels: Iterable[str] = ("tier",)
    ) -> Histogram:
        return self._kept(Histogram(name, text, labels, buckets=buckets_s, registry=None))

    def _kept(self, metric: AnyMetric) -> AnyMetric:
        self._all.append(metric)
        return metric


def _read_files(folder: str) -> list[Metric]:
    collector = MultiProcessCollector(None, folder)  # type: ignore[no-untyped-call]
    return list(collector.collect())  # type: ignore[no-untyped-call]


def _name(metric: MetricWrapperBase) -> str:
    return next(iter(metric.describe())).name


def _tier(tier: str | None) -> str:
    return tier if tier in TIERS else NO_TIER


def _head(family: Metric) -> Iterator[str]:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    yield f"# HELP {name} {family.documentation}\n"
    yield f"# TYPE {name} {family.type}\n"


def _line(family: str, sample: Sample) -> str:
    """The line of a sample, whose own name is the suffix alone where a family is given."""
    if not sample.labels:
        return f"{family}{sample.name} {float(sample.value)!r}\n"
    labels = ",".join([f'{name}="{_escaped(value)}"' for name, value in sorted(sample.labels.items())])
    return f"{family}{sample.name}{{{labels}}} {float(sample.value)!r}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
