"""With several workers, whichever is scraped answers for all of them.

prometheus-client decides when it is imported whether it counts in files, so each worker here is a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hermes.observe.workerfiles import VARIABLE, WorkerFiles

BEGIN = """
import os, sys
from hermes.observe.metrics import Metrics
from hermes.types import UsageRecord
metrics = Metrics("1.2.3", os.environ["PROMETHEUS_MULTIPROC_DIR"])
metrics.learn(["small"], levels=2)
"""
COUNT = """
metrics.request("simple", stream=True)
metrics.classifier(0.1)
metrics.answered(UsageRecord("r", "t", "/", model="small", tier="simple", prompt_tokens=10, duration_ms=1500.0))
"""
WATCH = """
metrics.watch(circuits_open=lambda: 1, sessions_active=lambda: 2, spool_depth=lambda: 3, state_up=lambda: {state_up})
metrics.publish()
"""
SAY = """
sys.stdout.buffer.write(metrics.exposition())
"""


@pytest.fixture
def files(tmp_path: Path) -> WorkerFiles:
    return WorkerFiles(str(tmp_path / "metrics"))


def worker(files: WorkerFiles, *script: str) -> dict[str, float]:
    """Runs a worker to its end; every sample that it said by its name and its label values."""
    done = subprocess.run(
        [sys.executable, "-c", "".join([BEGIN, *script])],
        env={**os.environ, VARIABLE: str(files.folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return {
        " ".join([sample.name, *(value for _, value in sorted(sample.labels.items()))]): sample.value
        for family in text_string_to_metric_families(done.stdout)
        for sample in family.samples
    }


def test_counts_add_up_over_workers_also_those_that_have_ended(files: WorkerFiles) -> None:
    worker(files, COUNT)
    worker(files, COUNT, COUNT)

    found = worker(files, COUNT, SAY)

    assert found["hermes_router_requests_total simple"] == 4
    assert found["hermes_router_requests_total complex"] == 0
    assert found["hermes_router_stream_requests_total"] == 4
    assert found["hermes_tokens_total prompt small"] == 40
    assert found["hermes_usage_rows_total ok"] == 4
    assert found["hermes_request_duration_seconds_count simple"] == 4
    assert found["hermes_request_duration_seconds_sum simple"] == pytest.approx(6.0)
    assert found["hermes_request_duration_seconds_bucket 1.0 simple"] == 0
    assert found["hermes_request_duration_seconds_bucket 2.5 simple"] == 4
    assert found["hermes_request_duration_seconds_bucket +Inf simple"] == 4


def test_the_mean_is_that_of_all_workers(files: WorkerFiles) -> None:
    assert worker(files, SAY)["hermes_router_classifier_latency_ms_avg"] == 0
    worker(files, "metrics.classifier(0.1); metrics.classifier(0.1)")

    found = worker(files, "metrics.classifier(0.4)", SAY)

    assert found["hermes_router_classifier_latency_ms_avg"] == pytest.approx(200)
    assert found["hermes_router_classifier_calls_total"] == 3


def test_what_the_shared_state_says_is_not_added_up_but_what_workers_know_is(files: WorkerFiles) -> None:
    worker(files, WATCH.format(state_up=0))

    found = worker(files, WATCH.format(state_up=1), SAY)

    assert found["hermes_router_circuits_open"] == 1
    assert found["hermes_router_sessions_active"] == 2
    assert found["hermes_build_info 1.2.3"] == 1
    assert found["hermes_spool_depth"] == 6
    assert found["hermes_state_up"] == 0


def test_a_worker_that_has_ended_counts_no_more_in_what_is_now(files: WorkerFiles) -> None:
    worker(files, WATCH.format(state_up=0))
    (pid,) = {int(path.stem.rpartition("_")[2]) for path in files.folder.glob("gauge_live*.db")}

    files.forget(pid)

    found = worker(files, WATCH.format(state_up=1), SAY)
    assert (found["hermes_spool_depth"], found["hermes_state_up"]) == (3, 1)


def test_the_series_are_the_same_as_those_of_a_single_worker(files: WorkerFiles) -> None:
    single = [sys.executable, "-c", BEGIN.replace('os.environ["PROMETHEUS_MULTIPROC_DIR"]', "None") + SAY]
    environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
    alone = subprocess.run(single, env=environ, capture_output=True, text=True, check=True, timeout=30).stdout

    text = subprocess.run(
        [sys.executable, "-c", BEGIN + SAY],
        env={**environ, VARIABLE: str(files.folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout

    assert sorted(text.splitlines()) == sorted(alone.splitlines())
