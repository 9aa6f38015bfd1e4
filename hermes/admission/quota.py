"""May this run, as far as limits and budgets say? Everything that is asked for is granted by the store at once, or
nothing is.

A request's claims on rates, slots and budgets go to the store together. Where it refuses one, that one says what to do:
turn to another slot, fill a counter, rise to the next bar; then all are asked for again. Or it refuses the request.

What was granted is a hold. It is settled once, whatever becomes of the request: with what was used, or with nothing.
Budgets that came into force meanwhile hear of what was used, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType

from hermes.admission.budgets import Budgets, Share, spent_of
from hermes.admission.claims import ENDLESS, Part, Patience
from hermes.admission.estimate import Estimate
from hermes.admission.limits import Limits, headers
from hermes.directory import Directory, Spent
from hermes.errors import BudgetExceeded, HermesError
from hermes.policy import BudgetsPolicy, Policy
from hermes.state.store import StateStore
from hermes.types import Principal, Usage

Headers = tuple[tuple[str, str], ...]


class Hold:
    """What a request has been granted, until it is settled."""

    __slots__ = ("_count", "_parts", "_store", "downgrade", "headers")

    def __init__(
        self,
        store: StateStore,
        parts: Sequence[Part],
        headers: Headers = (),
        *,
        downgrade: bool = False,
        count: Callable[[Spent], None] = lambda _: None,
    ) -> None:
        """
        Args:
            count: counts what was used on budgets on which nothing is set aside.
        """
        self.headers = headers
        """`x-ratelimit-…`, for the answer."""

        self.downgrade = downgrade
        """A budget that is used up allows the simple tier only."""

        self._store = store
        self._parts = parts
        self._count = count

    def tell(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """The end of a `with` block or of an ExitStack: a failure's answer says what is left, as every answer does."""
        if isinstance(error, HermesError):
            error.headers = (*error.headers, *self.headers)

    def settle(self, usage: Usage | None, cost_nanousd: int | None) -> None:
        """Gives back what was not used; a second call changes nothing.

        Args:
            usage: None: nothing was used.
            cost_nanousd: None: unknown, which costs a budget nothing.
        """
        parts, self._parts = self._parts, ()
        count, self._count = self._count, _do_nothing
        for part in parts:
            part.settle(self._store, usage, cost_nanousd)
        if usage is not None:
            count(spent_of(usage, cost_nanousd))


class Quota:
    """Grants holds."""

    def __init__(
        self,
        store: StateStore,
        limits: Limits,
        budgets: Budgets,
        in_force: Callable[[], tuple[Directory, BudgetsPolicy]],
    ) -> None:
        """
        Args:
            in_force: what says at a request's end which budgets there are.
        """
        self._store = store
        self._limits = limits
        self._budgets = budgets
        self._in_force = in_force

    def reserve(
        self,
        principal: Principal,
        directory: Directory,
        policy: Policy,
        estimate: Estimate,
        function_name: str | None = None,
        patience: Patience = ENDLESS,
    ) -> Hold:
        """Sets aside what a request may use. Without limits and budgets it takes a microsecond.

        Args:
            patience: how long a counter that is being filled may be waited for.

        Raises:
            RateLimited: a limit of the caller's is reached.
            BudgetExceeded: a budget that blocks is used up; of several, the one that is so for longest.
            BooksUnreadable: what was spent cannot be told, and the operator lets nobody pass then.
            DeadlineExceeded: a counter was not filled within the request's time.
        """
        began_s, shares = self._budgets.clock(), list[Share]()

        def count(spent: Spent) -> None:
            now, budgets = self._in_force()
            if now.budgets and (now is not directory or budgets is not policy.budgets):
                known = [share.key for share in shares]
                self._budgets.count(principal, function_name, now, budgets, began_s, known, spent)

        is_limited = self._limits.concern(principal, policy.limits)
        if not is_limited and not directory.budgets:
            return Hold(self._store, (), count=count)
        windows = self._limits.windows(principal, policy.limits, estimate) if is_limited else []
        try:
            shares = self._budgets.shares(principal, function_name, directory, policy.budgets, estimate, patience)
            slots = self._limits.slots(principal, policy.limits, _longest_s(policy)) if is_limited else []
            parts: list[Part] = [*windows, *slots, *shares]
            if not parts:
                return Hold(self._store, (), count=count)
            self._grant(parts)
        except HermesError as refusal:
            refusal.headers = headers(windows, self._store)
            raise
        return Hold(self._store, parts, headers(windows, self._store), downgrade=_downgrades(shares), count=count)

    def _grant(self, parts: Sequence[Part]) -> None:
        used_up: dict[Part, BudgetExceeded] = {}
        while True:
            asked = [(part, position, claim) for part in parts for position, claim in enumerate(part.claims)]
            refused = self._store.reserve([claim for _, _, claim in asked])
            if refused is None:
                break
            part, position, _ = asked[refused]
            try:
                part.refused(position)
            except BudgetExceeded as exceeded:
                is_last = part in used_up or part is parts[-1]
                used_up[part] = exceeded
                if is_last:
                    raise _longest(used_up.values()) from None
                # Others behind it may be used up for longer. With this one at the end nothing is granted meanwhile.
                parts = [*(other for other in parts if other is not part), part]
            except HermesError:
                if used_up:
                    raise _longest(used_up.values()) from None
                raise
        for part in parts:
            part.granted()


def _longest(used_up: Iterable[BudgetExceeded]) -> BudgetExceeded:
    """The one that the caller must wait for; of equals the widest."""
    return max(used_up, key=lambda exceeded: exceeded.retry_after_s or 0.0)


def _do_nothing(_: Spent) -> None:
    """Stands where everything is counted."""


def _downgrades(shares: Sequence[Share]) -> bool:
    return any(share.downgrades for share in shares)


def _longest_s(policy: Policy) -> float:
    """How long a request may take; one that asks for more time with a header has so much for each attempt only."""
    return max(
        timeout_s
        for cascade in policy.cascades.values()
        for timeout_s in (cascade.timeout_s, *(endpoint.timeout_s for endpoint in cascade.endpoints))
    )
