"""What operators do to the directory, by the admin API, the command line and the dashboard alike.

Each change is checked, stored with its audit row, and in force in this process when the call returns; the other
processes see it within a second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from hermes.admission.budget_form import parse_budget, parse_budget_name
from hermes.admission.keys import new_key, parse_new_key, shown_part
from hermes.admission.pins import check_key, parse_reason, parse_value
from hermes.directory import Budget, BudgetScope, NewKey, Period
from hermes.errors import NotFound

Line = dict[str, Any]


class Repository(Protocol):
    """Where the directory is kept; `hermes.storage.directory` says what each of these does."""

    def create_key(self, new: NewKey, digest: str, prefix: str, actor: str) -> Line: ...

    def revoke_key(self, key_id: str, actor: str) -> Line: ...

    def get_pin(self, key: str) -> Line | None: ...

    def set_pin(self, key: str, value: str, actor: str, reason: str = "") -> Line: ...

    def delete_pin(self, key: str, actor: str) -> None: ...

    def put_budget(self, budget: Budget, actor: str) -> None: ...

    def delete_budget(self, scope: BudgetScope, scope_id: str, period: Period, actor: str) -> None: ...


class DirectoryEditor:
    """Changes the directory. Every method raises `InvalidRequest`, naming the field, for what cannot be."""

    def __init__(
        self,
        repository: Repository,
        digest: Callable[[str], str],
        roles: Callable[[], Collection[str] | None],
        changed: Callable[[], None],
    ) -> None:
        """
        Args:
            digest: makes a key's digest.
            roles: those of the configuration in force; None where it cannot be read, which lets every role pass.
            changed: is called after each change, to put it in force.
        """
        self._repository = repository
        self._digest = digest
        self._roles = roles
        self._changed = changed

    def create_key(self, body: object, actor: str) -> Line:
        """Makes an API key of `{name, scopes, roles?, expires_at?, limits?}`.

        Returns:
            Its line with the key itself under `key`: the only time that anybody sees it.
        """
        new = parse_new_key(body, self._roles())
        key = new_key()
        line = self._repository.create_key(new, self._digest(key), shown_part(key), actor)
        self._changed()
        return {"key": key, **line}

    def revoke_key(self, key_id: str, actor: str) -> Line:
        """Revokes a key for ever; its line. Raises `NotFound` where there is none."""
        line = self._repository.revoke_key(key_id, actor)
        self._changed()
        return line

    def pin(self, key: str) -> Line:
        """A pin's line. Raises `NotFound` where it is not set."""
        check_key(key, None)
        line = self._repository.get_pin(key)
        if line is None:
            raise NotFound(f"The pin {key} is not set.")
        return line

    def set_pin(self, key: str, body: object, actor: str) -> Line:
        """Sets a pin to the value of `{"value": "…", "reason"?: "…"}`; its line."""
        check_key(key, self._roles())
        line = self._repository.set_pin(key, parse_value(key, body), actor, parse_reason(body))
        self._changed()
        return line

    def delete_pin(self, key: str, actor: str) -> None:
        """Takes a pin away. Raises `NotFound` where it is not set."""
        check_key(key, None)
        self._repository.delete_pin(key, actor)
        self._changed()

    def put_budget(self, body: object, actor: str) -> Budget:
        """Sets the budget of a scope, id and period."""
        budget = parse_budget(body)
        self._repository.put_budget(budget, actor)
        self._changed()
        return budget

    def delete_budget(self, name: object, actor: str) -> None:
        """Takes the budget of `{scope, id, period}` away. Raises `NotFound` where there is none."""
        self._repository.delete_budget(*parse_budget_name(name), actor)
        self._changed()
