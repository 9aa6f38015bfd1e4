"""The way down a tier's endpoints until one answers.

One concern a function, and each calls only the next: `first_answer` goes from endpoint to endpoint, `_visit` asks one
endpoint again where that is allowed, `_with_each_key` goes through its keys, `_call` makes one upstream call
(`call.py`). What a failure means is decided in `outcome.py`.

A call is made only while fewer than `MAX_CALLS` were made, and a repetition only if that still leaves one call for each
endpoint further down, so that many 503s at the first one cannot use up the others' turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hermes.errors import CircuitsOpen, DeadlineExceeded, ResidencyBlocked, UpstreamFailed
from hermes.types import ANSWERED, Allowance, Attempt, Bill, Endpoint, ProviderKey
from hermes.upstream.answer import Answer, Ask, CallFailed
from hermes.upstream.breaker import Breakers, Permit
from hermes.upstream.call import Caller
from hermes.upstream.keyring import DEFAULT_REST_S, Keyring
from hermes.upstream.notes import Notes
from hermes.upstream.outcome import COUNTS_AS_FAILURE, Kind

MAX_CALLS = 10
LEAST_TIME_S = 0.01
DEFAULT_RETRY_AFTER_S = 5.0


class Upstreams:
    """Asks the endpoints of a tier."""

    def __init__(
        self,
        caller: Caller,
        breakers: Breakers,
        keyring: Keyring,
        notes: Notes,
        clock: Callable[[], float] = time.monotonic,
        failed: Callable[[Endpoint, str], None] = lambda endpoint, message: None,
    ) -> None:
        """
        Args:
            failed: is told of each failure that a breaker counts, in words that may be shown.
        """
        self._caller = caller
        self._breakers = breakers
        self._keyring = keyring
        self._notes = notes
        self._clock = clock
        self._failed = failed
        self._without_options: set[str] = set()
        """Endpoints that have refused `stream_options`."""

    def first_answer(self, ask: Ask) -> Answer:
        """The first answer that an endpoint gives; a caller's own mistake (400, 413, 422) is an answer too.

        Raises:
            UpstreamFailed, CircuitsOpen, DeadlineExceeded: with every attempt.
            ResidencyBlocked: no endpoint may see the request.
            ClientGone: the caller has hung up.
        """
        return _Descent(self, ask).first_answer()


class _Descent:
    """One request's way down; lives as long as that request has no answer."""

    def __init__(self, upstreams: Upstreams, ask: Ask) -> None:
        self._up = upstreams
        self._ask = ask
        self._attempts: list[Attempt] = []
        self._calls = 0
        self._too_long: Answer | None = None
        """The first *context length exceeded*, in case nobody with a larger window is asked after it."""

        self._calls_until_too_long = 0
        self._outgrown = 0
        """The largest window that has proved too small."""

    def first_answer(self) -> Answer:
        endpoints = self._ask.cascade.endpoints
        open_circuits = 0
        for level, endpoint in enumerate(endpoints):
            reason = self._reason_to_skip(level, endpoint)
            if reason:
                self._record(endpoint, None, reason, called=False)
                continue
            permit = self._up._breakers.permit(endpoint, self._ask.policy.breaker, self._left())
            if permit is None:
                open_circuits += 1
                self._record(endpoint, None, "skipped: its circuit is open", called=False)
                continue
            answer = self._try(level, endpoint, permit, len(endpoints) - level - 1)
            if answer is not None:
                return answer
        if self._too_long is not None and self._calls == self._calls_until_too_long:
            return self._too_long
        if not any(map(self._ask.allowance.permits, endpoints)):
            raise nobody_may_see_it(self._ask.allowance)
        raise self._failure(open_circuits)

    def _try(self, level: int, endpoint: Endpoint, permit: Permit, others: int) -> Answer | None:
        """One endpoint's answer, or None; tells its breaker how it went."""
        try:
            answer = self._visit(level, endpoint, permit, others)
        except CallFailed as failed:
            if failed.kind in COUNTS_AS_FAILURE:
                permit.failed()
                self._up._failed(endpoint, failed.message)
            permit.undecided()
            self._note_failed(failed, level, endpoint)
            return self._after(failed, level, endpoint, permit)
        except BaseException:  # the caller has left, or the time is over: that says nothing about the endpoint
            permit.undecided()
            raise
        if answer.stream is None:
            permit.succeeded()
        else:
            permit.promising()
        return answer

    def _after(self, failed: CallFailed, level: int, endpoint: Endpoint, permit: Permit) -> Answer | None:
        """The caller's own mistake as an answer; None where the next endpoint is to be asked."""
        if failed.kind not in (Kind.CALLERS, Kind.TOO_LONG):
            return None
        answer = Answer(endpoint, level, permit, status=failed.status or 400, body=failed.body)
        if failed.kind is Kind.CALLERS:
            return answer
        self._outgrown = max(self._outgrown, endpoint.context_window or 0)
        self._too_long = self._too_long or answer
        self._calls_until_too_long = self._calls
        return None

    # -- one endpoint -------------------------------------------------------------------------------------

    def _visit(self, level: int, endpoint: Endpoint, permit: Permit, others: int) -> Answer:
        """Asks one endpoint, and asks it again where that is allowed."""
        retry, busy, unsent = self._ask.policy.retry, 0, 0
        while True:
            try:
                return self._with_each_key(level, endpoint, permit)
            except CallFailed as failed:
                if failed.kind is Kind.BUSY and not self._ask.request.stream and busy < len(retry.backoff_503_s):
                    wait_s = min(
                        retry.backoff_503_s[busy], failed.wait_s if failed.wait_s is not None else float("inf")
                    )
                    busy += 1
                elif failed.kind is Kind.NOT_SENT and unsent + 1 < retry.transport_attempts:
                    wait_s = retry.transport_backoff_s
                    unsent += 1
                else:
                    raise
                if self._calls + others >= MAX_CALLS or wait_s >= self._left():
                    raise
                self._note(endpoint, failed, f"it is asked again in {wait_s:g} s")
            self._ask.lifeline.sleep(wait_s)

    def _with_each_key(self, level: int, endpoint: Endpoint, permit: Permit) -> Answer:
        """Asks with one key after the other while they are limited, each once."""
        keys = self._up._keyring.usable(endpoint)
        for index, key in enumerate(keys):
            try:
                return self._with_options(level, endpoint, permit, key)
            except CallFailed as failed:
                if failed.kind is not Kind.LIMITED:
                    raise
                rest_s = failed.wait_s if failed.wait_s is not None else DEFAULT_REST_S
                self._up._keyring.rest(endpoint, key, rest_s)
                self._up._notes.limited(endpoint, key, self._ask.cascade.tier, rest_s)
                if index + 1 == len(keys) or self._calls >= MAX_CALLS:
                    raise
                self._note(endpoint, failed, "it is asked with its next key")
                self._up._notes.key_rotated(endpoint, self._ask.cascade.tier, failed.message)
        raise CallFailed(Kind.MISCONFIGURED, None, "skipped: no key is usable")

    def _with_options(self, level: int, endpoint: Endpoint, permit: Permit, key: ProviderKey | None) -> Answer:
        """Asks for usage in a stream, and once more without where the endpoint refuses that."""
        refuses = self._up._without_options
        try:
            return self._call(level, endpoint, permit, key, ask_usage=endpoint.id not in refuses)
        except CallFailed as failed:
            if failed.kind is not Kind.OPTIONS_REFUSED:
                raise
            if endpoint.id in refuses or self._calls >= MAX_CALLS:
                raise CallFailed(Kind.CALLERS, failed.status, failed.message, body=failed.body) from None
            self._note(endpoint, failed, "it is asked again without stream_options")
        answer = self._call(level, endpoint, permit, key, ask_usage=False)
        refuses.add(endpoint.id)
        return answer

    # -- one call -----------------------------------------------------------------------------------------

    def _call(
        self, level: int, endpoint: Endpoint, permit: Permit, key: ProviderKey | None, *, ask_usage: bool
    ) -> Answer:
        """One upstream call, timed and recorded however it ends."""
        self._ask.lifeline.check()
        if self._left() < LEAST_TIME_S:
            raise self._over()
        self._calls += 1
        self._ask.turn_to(endpoint, level)
        began = self._up._clock()
        status: int | None = None
        message = "the caller hung up"
        bill: Bill | None = None  # for whoever leaves, or whatever ends the waiting, once the request is sent

        def sent() -> None:
            nonlocal bill
            bill = Bill()

        try:
            answer = self._up._caller.answer(self._ask, level, endpoint, permit, key, ask_usage=ask_usage, sent=sent)
            status, message, bill = answer.status, ANSWERED, None
        except CallFailed as failed:
            status, message, bill = failed.status, failed.message, failed.bill()
            raise
        finally:
            self._record(endpoint, status, message, duration_ms=(self._up._clock() - began) * 1000, bill=bill)
        return answer

    # -- bookkeeping --------------------------------------------------------------------------------------

    def _reason_to_skip(self, level: int, endpoint: Endpoint) -> str:
        """Why the endpoint is not even asked; empty where nothing speaks against it."""
        ask = self._ask
        if ask.allowance.places and (place := ask.allowance.forbidden_by(endpoint)) is not None:
            return f"skipped: residency rule {place.rule} does not allow its region"
        if level == 0 and ask.skip_primary and len(ask.cascade.endpoints) > 1:
            return "skipped: the session's last streams broke here"
        if endpoint.capabilities is not None and (lacking := ask.request.needs() - endpoint.capabilities):
            return f"skipped: it lacks {', '.join(sorted(lacking))}"
        window = endpoint.context_window
        if window is not None and (ask.prompt_tokens() > window or window <= self._outgrown):
            return f"skipped: the prompt does not fit its window of {window:,} tokens"
        if not endpoint.keys and endpoint.needs_key:
            return "skipped: its key is not set"
        if not self._up._keyring.usable(endpoint):
            return "skipped: its keys rest after a 429"
        return "skipped: the call limit is reached" if self._calls >= MAX_CALLS else ""

    def _record(
        self,
        endpoint: Endpoint,
        status: int | None,
        message: str,
        *,
        called: bool = True,
        duration_ms: float = 0.0,
        bill: Bill | None = None,
    ) -> None:
        took_ms, region = round(duration_ms, 3), endpoint.region
        attempt = Attempt(endpoint.id, endpoint.model, status, message, called, took_ms, region, bill)
        self._attempts.append(attempt)
        self._ask.record(attempt)

    def _note_failed(self, failed: CallFailed, level: int, endpoint: Endpoint) -> None:
        """Tells the operator of an endpoint that is given up, and who is next."""
        further = self._ask.cascade.endpoints[level + 1 :]
        if failed.kind is Kind.CALLERS:
            self._up._notes.refused_the_caller(endpoint, failed.message)
        elif self._left() < LEAST_TIME_S:
            self._note(endpoint, failed, "the request's time is over")
        else:
            self._note(endpoint, failed, f"{further[0].id} is next" if further else "no other endpoint is left")

    def _note(self, endpoint: Endpoint, failed: CallFailed, then: str) -> None:
        self._up._notes.attempt_failed(endpoint, failed.status, failed.message, then)

    def _left(self) -> float:
        return self._ask.deadline - self._up._clock()

    def _over(self) -> DeadlineExceeded:
        return DeadlineExceeded(
            "The time for this request is over; no model has answered in time.",
            self._attempts,
            retry_after_s=self._retry_after_s(),
        )

    def _failure(self, open_circuits: int) -> UpstreamFailed:
        """The error for a cascade that gave no answer."""
        if self._left() < LEAST_TIME_S and self._calls:
            return self._over()
        wait_s = self._retry_after_s()
        if open_circuits and not self._calls:
            return CircuitsOpen(
                "No model can be asked right now: the circuits of this tier are open after repeated failures.",
                self._attempts,
                retry_after_s=wait_s,
            )
        return UpstreamFailed(
            "No model of this tier could answer; error.attempts says what each one did.",
            self._attempts,
            retry_after_s=wait_s,
        )

    def _retry_after_s(self) -> float:
        """When trying again may help: as soon as one endpoint's circuit or key comes back."""
        waits: list[float] = []
        for endpoint in filter(self._ask.allowance.permits, self._ask.cascade.endpoints):
            circuit = self._up._breakers.circuit(endpoint, self._ask.policy.breaker)
            rest_s = self._up._keyring.shortest_rest_s(endpoint) if not self._up._keyring.usable(endpoint) else None
            waits.append(max(circuit.retry_in_s, rest_s or 0.0))
        return max(1.0, min(waits, default=0.0) or DEFAULT_RETRY_AFTER_S)


def nobody_may_see_it(allowance: Allowance) -> ResidencyBlocked:
    """What a caller is told whose request may go to no endpoint."""
    rules = " and ".join(str(rule) for rule in sorted({place.rule for place in allowance.places}))
    return ResidencyBlocked(
        f"No model that may see this request's data can answer it (residency rule {rules}); nothing was sent."
    )
