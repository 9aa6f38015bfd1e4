"""The sessions page: which conversation has which tier, for how long still, and how it came to that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes.storage.turns import Turn

PAGE_ROWS: Final = 50
MOST_ROWS: Final = 500
SORTS: Final = ("age", "left", "user", "tier")


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session that counts."""

    key: str
    tier: str
    user_id: str
    model: str
    age_s: float
    left_s: float
    left_percent: float
    turns: tuple[Turn, ...]

    @property
    def tiers(self) -> str:
        """The tier of each turn, `s` or `c`, oldest first."""
        known = "".join(turn.tier[0] for turn in self.turns if turn.tier)
        return known or self.tier[0]

    @property
    def function_name(self) -> str:
        """Of the last turn."""
        return next((turn.function_name for turn in reversed(self.turns) if turn.function_name), "")

    @property
    def cost_usd(self) -> float:
        """Of all turns that are known."""
        return sum(turn.cost_usd for turn in self.turns)

    @property
    def has_changed(self) -> bool:
        """Whether its tier has changed on the way."""
        return len(set(self.tiers)) > 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for."""

    text: str = ""
    tier: str = ""
    sort: str = "age"
    rows: int = PAGE_ROWS
    open_key: str = ""

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> Wanted:
        """Reads a query; what makes no sense in it is as if it were not there."""
        rows = args.get("rows", "")
        tier, sort = args.get("tier", ""), args.get("sort", "age")
        return cls(
            args.get("q", "").strip()[:200],
            tier if tier in ("simple", "complex") else "",
            sort if sort in SORTS else "age",
            min(MOST_ROWS, int(rows)) if rows.isascii() and rows.isdecimal() and 0 < len(rows) < 6 else PAGE_ROWS,
            args.get("open", "")[:64],
        )

    def query(self, **changes: Any) -> dict[str, Any]:
        """The query that asks for this, with some of it changed; what is as usual is left out."""
        values = {"q": self.text, "tier": self.tier, "sort": self.sort, "rows": self.rows, "open": self.open_key}
        usual = {"q": "", "tier": "", "sort": "age", "rows": PAGE_ROWS, "open": ""}
        return {name: value for name, value in {**values, **changes}.items() if value != usual.get(name, "")}


@dataclass(frozen=True, slots=True)
class SessionsView:
    """The whole page."""

    rows: tuple[SessionRow, ...]
    wanted: Wanted
    found: int
    """How many fit the filters."""

    total: int
    by_tier: Mapping[str, int]
    timeout_s: float
    trouble: str = ""
    """Why turns are not shown, if so."""

    @property
    def has_more(self) -> bool:
        """Whether there are more than are shown."""
        return self.found > len(self.rows) and self.wanted.rows < MOST_ROWS


def sessions_view(
    sessions: Mapping[str, Mapping[str, Any]],
    wanted: Wanted,
    timeout_s: float,
    turns_of: Callable[[Sequence[str]], Mapping[str, tuple[Turn, ...]]],
) -> SessionsView:
    """
    Args:
        sessions: by key, as `Sessions.all` shows them, the youngest first.
        turns_of: the last turns of some sessions; may raise, and the page then goes without.
    """
    fitting = [(key, session) for key, session in sessions.items() if _fits(key, session, wanted)]
    fitting.sort(key=lambda item: _order(item[1], wanted.sort))
    chosen = fitting[: wanted.rows]
    trouble = ""
    try:
        turns = turns_of([key for key, _ in chosen])
    except Exception as error:  # noqa: BLE001  (whatever the database does, the sessions themselves can be shown)
        turns, trouble = {}, f"The usage log cannot be read at the moment ({type(error).__name__}): no turns are shown."
    rows = tuple(_row(key, session, timeout_s, turns.get(key, ())) for key, session in chosen)
    by_tier = {tier: sum(session["tier"] == tier for session in sessions.values()) for tier in ("simple", "complex")}
    return SessionsView(rows, wanted, len(fitting), len(sessions), by_tier, timeout_s, trouble)


def _fits(key: str, session: Mapping[str, Any], wanted: Wanted) -> bool:
    if wanted.tier and session["tier"] != wanted.tier:
        return False
    text = wanted.text.lower()
    return not text or any(
        text in str(value).lower() for value in (key, session["user_id"] or "", session["model"] or "")
    )


def _order(session: Mapping[str, Any], sort: str) -> Any:
    if sort == "left":
        return session["remaining_sec"]
    if sort == "user":
        return (session["user_id"] is None, session["user_id"] or "")
    return session["tier"] if sort == "tier" else session["age_sec"]


def _row(key: str, session: Mapping[str, Any], timeout_s: float, turns: tuple[Turn, ...]) -> SessionRow:
    left_s = float(session["remaining_sec"])
    return SessionRow(
        key,
        str(session["tier"]),
        session["user_id"] or "",
        session["model"] or "",
        float(session["age_sec"]),
        left_s,
        left_s / timeout_s * 100 if timeout_s else 0.0,
        turns,
    )
