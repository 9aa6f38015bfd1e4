"""A breaker opens after failures in a row, lets one probe through, and believes what that probe says."""

from __future__ import annotations

import pytest

from hermes.policy import BreakerPolicy
from hermes.state.store import MemoryStore
from hermes.types import Endpoint
from hermes.upstream.breaker import Breakers, Permit

POLICY = BreakerPolicy(failure_threshold=3, recovery_timeout_s=30.0, window_s=60.0)
ENDPOINT = Endpoint("m@host/v1", "m", "https://host/v1", "https://host/v1", timeout_s=10.0)


class Bench:
    """Breakers with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.ahead = 0.0
        """How far the wall clock was put forward."""

        self.changes: list[tuple[str, str, int]] = []
        self.breakers = Breakers(MemoryStore(lambda: self.now), self._changed, lambda: self.now + self.ahead)

    def _changed(self, endpoint: Endpoint, old: str, new: str, failures: int) -> None:
        self.changes.append((old, new, failures))

    def permit(self) -> Permit:
        permit = self.breakers.permit(ENDPOINT, POLICY, 10.0)
        assert permit is not None
        return permit

    @property
    def is_shut(self) -> bool:
        return self.breakers.permit(ENDPOINT, POLICY, 10.0) is None

    @property
    def state(self) -> str:
        return self.breakers.circuit(ENDPOINT, POLICY).state

    def fail(self, times: int) -> None:
        for _ in range(times):
            self.permit().failed()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_it_opens_at_the_threshold_and_says_when_it_may_be_tried_again(bench: Bench) -> None:
    bench.fail(2)
    assert bench.state == "closed"

    bench.fail(1)

    circuit = bench.breakers.circuit(ENDPOINT, POLICY)
    assert (circuit.state, circuit.failures, circuit.retry_in_s) == ("open", 3, 30.0)
    assert circuit.shown()["opened_at"] == "1970-01-01T00:16:40.000Z"
    assert bench.is_shut
    assert bench.changes == [("closed", "open", 3)]


def test_what_is_shown_as_ready_is_ready(bench: Bench) -> None:
    bench.fail(3)
    bench.now += 29.97  # to the nearest tenth, nothing would be left

    assert bench.breakers.circuit(ENDPOINT, POLICY).shown()["retry_in_sec"] == 0.1
    assert bench.is_shut


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_it_is_tried_in_time_whatever_the_wall_clock_does(bench: Bench, step_s: float) -> None:
    bench.fail(3)
    bench.now += 10

    bench.ahead = step_s

    assert bench.is_shut
    assert 0 < bench.breakers.circuit(ENDPOINT, POLICY).retry_in_s <= 30
    bench.now += 20
    assert bench.breakers.circuit(ENDPOINT, POLICY).retry_in_s == 0
    bench.permit().succeeded()
    assert bench.state == "closed"


def test_a_success_between_failures_begins_the_count_anew(bench: Bench) -> None:
    bench.fail(2)
    bench.permit().succeeded()
    bench.fail(2)

    assert bench.state == "closed"


def test_failures_outside_the_window_are_forgotten(bench: Bench) -> None:
    bench.fail(2)
    bench.now += 61
    bench.fail(2)

    assert bench.state == "closed"


def test_it_is_always_the_last_window_that_counts(bench: Bench) -> None:
    for pause_s in (0, 50, 11, 1):
        bench.now += pause_s
        bench.fail(1)

    assert bench.state == "open"  # the last three lie within twelve seconds


def test_exactly_one_probe_passes_and_its_success_closes(bench: Bench) -> None:
    bench.fail(3)
    bench.now += 30

    probe = bench.permit()
    assert bench.is_shut
    assert bench.state == "half_open"
    probe.succeeded()

    assert bench.state == "closed"
    assert bench.changes[1:] == [("open", "half_open", 3), ("half_open", "closed", 0)]


def test_a_failed_probe_opens_for_the_whole_time_again(bench: Bench) -> None:
    bench.fail(3)
    bench.now += 30
    bench.permit().failed()

    bench.now += 29
    assert bench.is_shut
    bench.now += 1
    bench.permit()


def test_a_probe_that_ends_undecided_lets_the_next_one_through(bench: Bench) -> None:
    bench.fail(3)
    bench.now += 30

    with bench.permit():
        pass

    bench.permit().succeeded()
    assert bench.state == "closed"


def test_a_probe_that_never_reports_back_does_not_shut_the_endpoint_for_ever(bench: Bench) -> None:
    bench.fail(3)
    bench.now += 30
    bench.permit()

    bench.now += 16

    bench.permit()


def test_a_probing_stream_lets_others_in_at_its_first_content_but_its_break_shuts_again(bench: Bench) -> None:
    bench.fail(3)
    bench.now += 30
    probe = bench.permit()

    probe.promising()
    assert bench.state == "closed"
    bench.permit()
    probe.failed()

    assert bench.state == "open"


def test_what_is_settled_once_stays_so(bench: Bench) -> None:
    permit = bench.permit()
    permit.failed()
    permit.failed()
    permit.succeeded()

    assert bench.breakers.circuit(ENDPOINT, POLICY).failures == 1


def test_a_reset_closes_and_forgets(bench: Bench) -> None:
    bench.fail(3)

    bench.breakers.reset(ENDPOINT, POLICY)

    assert bench.state == "closed"
    assert bench.breakers.circuit(ENDPOINT, POLICY).failures == 0
    assert bench.changes[-1] == ("open", "closed", 0)
