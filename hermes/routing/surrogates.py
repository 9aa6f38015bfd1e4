"""Which surrogate decides: the operator's own where there is a sound one, else the one that ships with Hermes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hermes.policy import SurrogatePolicy
from hermes.routing.artifact import ArtifactInvalid, digest, locate, read
from hermes.routing.second import with_second_look
from hermes.routing.surrogate import TfidfSurrogate

STARTER = Path(__file__).resolve().parent / "starter"
"""What ships: fitted by `python -m hermes.learning.fit_starter`."""

STARTER_DECIDES = "the surrogate that ships with Hermes decides"
OLD_DECIDES = "the one that was loaded before goes on"

KEPT_POLICIES = 4
"""Requests in flight may still want the surrogate of the policies before this one."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The surrogate for a policy, and what the operator should know of it."""

    surrogate: TfidfSurrogate | None
    warning: str | None = None
    is_makeshift: bool = False
    """The operator's own is unsound."""


def load_surrogate(policy: SurrogatePolicy, base: Path = Path()) -> Choice:
    """The operator's own surrogate where there is a sound one at `path`, else the starter; none where it is off.

    A relative path begins at `base`. An unsound one is a warning, never an error. What has been loaded before is not
    loaded again, unless its manifest has changed.

    Blocks: 0.1 s the first time, for a directory; then as long as reading the manifest. It takes no lock and writes no
    log line, so it may run in a native thread.
    """
    if not policy.enabled:
        return Choice(None)
    try:
        own = locate(base / Path(policy.path).expanduser()) if policy.path else None
        if own is not None:
            surrogate = _loaded(own, digest(own))
            return Choice(surrogate, surrogate.note)
    except (ArtifactInvalid, OSError) as problem:
        return Choice(starter(), f"classifier.surrogate.path: {problem}; {STARTER_DECIDES}", is_makeshift=True)
    return Choice(starter())


def starter() -> TfidfSurrogate:
    """The surrogate that ships with Hermes.

    Raises:
        ArtifactInvalid: the installation is damaged.
    """
    return _loaded(STARTER, digest(STARTER))


class Surrogates:
    """The surrogate of each policy in force; requests look it up, and only `prepare` and `refresh` read files."""

    def __init__(self, base: Path = Path()) -> None:
        self._base = base
        self._choices: dict[SurrogatePolicy, Choice] = {}

    def prepare(self, policy: SurrogatePolicy) -> str | None:
        """Loads what a policy names, anew where it has changed on disk; returns a warning for the operator.

        An unsound one does not replace a sound one that was loaded before.

        Blocks: see `load_surrogate`.
        """
        choice = load_surrogate(policy, self._base)
        before = self._choices.pop(policy, None)
        if choice.is_makeshift and choice.warning and before is not None and before.surrogate is not None:
            warning = choice.warning
            if before.surrogate is not choice.surrogate:
                warning = warning.replace(STARTER_DECIDES, OLD_DECIDES)
            choice = Choice(before.surrogate, warning, is_makeshift=True)
        if len(self._choices) >= KEPT_POLICIES:
            del self._choices[next(iter(self._choices))]
        self._choices[policy] = choice
        return choice.warning

    def refresh(self, policy: SurrogatePolicy) -> Change | None:
        """Follows what has happened on disk; None: nothing that one would want to know.

        Blocks: 0.1 ms, or as `prepare` where there is something new. May run in a native thread.
        """
        before = self._choices.get(policy)
        warning = self.prepare(policy)
        after = self._choices[policy].surrogate
        was = before.surrogate if before is not None else None
        if after is was and warning == (before.warning if before is not None else None):
            return None
        return Change(after.version if after is not None else None, after is not was, warning)

    def of(self, policy: SurrogatePolicy) -> TfidfSurrogate | None:
        """The surrogate of a policy."""
        choice = self._choices.get(policy)
        if choice is None:
            self.prepare(policy)
            choice = self._choices[policy]
        return choice.surrogate


@dataclass(frozen=True, slots=True)
class Change:
    """What `Surrogates.refresh` has found."""

    version: str | None
    is_other: bool
    """Another surrogate decides now."""

    warning: str | None


@lru_cache(maxsize=3)
def _loaded(directory: Path, manifest_sha256: str) -> TfidfSurrogate:
    """The hash tells a directory from what it was before."""
    return with_second_look(read(directory), f"{directory.name}@{manifest_sha256[:8]}")
