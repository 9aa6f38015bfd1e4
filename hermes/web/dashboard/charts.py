"""Plotly figures as plain values: what is drawn and in which role, never in which colour.

The dashboard's own template gives every role its colour, so that one figure serves both themes (`hermes-plotly.js`).
Plotly's Python classes would check each figure for 20 ms on the event loop, and cost the worker 30 MB and a second at
first; the tests check the figures with them instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson
from markupsafe import Markup

Role = Literal[
    "simple", "complex", "ok", "warn", "bad", "line", "dim", "volume", "a", "b", "c1", "c2", "c3", "c4", "c5", "other"
]
"""What a series is; `hermes-plotly.js` knows the colour of each."""

Number = float | int | None

ESCAPES: Final = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


@dataclass(frozen=True, slots=True)
class Series:
    """One line, area or set of bars."""

    name: str
    values: Sequence[Number]
    role: Role
    kind: Literal["line", "area", "bars", "steps"] = "line"
    unit: str = ""
    """Behind each value in the hover label: `ms`, `%`."""

    digits: int = 0
    stack: str = "one"
    """Areas with the same name stand on each other."""

    axis: Literal["y", "y2"] = "y"
    is_soft: bool = False
    has_dots: bool = False
    """Of a line: values that stand alone are seen too."""

    def trace(self, x: Sequence[Any]) -> dict[str, Any]:
        """What Plotly draws."""
        trace: dict[str, Any] = {
            "name": self.name,
            "x": list(x),
            "y": list(self.values),
            "type": "bar" if self.kind == "bars" else "scatter",
            "meta": {"role": self.role, **({"soft": True} if self.is_soft else {})},
            "hovertemplate": f"%{{y:,.{self.digits}f}}{self.unit}",
        }
        if self.kind == "area":
            trace["stackgroup"] = self.stack
        if self.kind == "steps":
            trace["line"] = {"shape": "hvh"}
        if self.has_dots:
            trace |= {"mode": "lines+markers", "connectgaps": False}
        if self.axis == "y2":
            trace["yaxis"] = "y2"
        return trace


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: series over one x axis."""

    x_name: str
    x: Sequence[Any]
    """Times as `YYYY-MM-DDTHH:MM:SSZ` or `YYYY-MM-DD`, or names."""

    series: Sequence[Series]
    targets: Sequence[tuple[float, str]] = ()
    """Dashed lines across, each with its name."""

    layout: Mapping[str, Any] = field(default_factory=dict)
    """Further parts of Plotly's layout: `yaxis`, `barmode`, `annotations`."""

    def figure(self) -> dict[str, Any]:
        """Traces and layout, as `hermes-plotly.js` takes them."""
        lines = [
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "meta": "target"}
            for y, _ in self.targets
        ]
        shapes = {"shapes": lines} if lines else {}
        return {
            "traces": [one.trace(self.x) for one in self.series],
            "layout": {"barmode": "stack", **shapes, **self.layout},
        }

    def json(self) -> Markup:
        """The figure as JSON that may stand in a script element of data."""
        return Markup(orjson.dumps(self.figure()).decode().translate(ESCAPES))  # noqa: S704  (nothing in it ends one)

    def head(self) -> list[str]:
        """The table's head: the x axis and each series."""
        return [self.x_name, *(f"{one.name} ({one.unit.strip()})" if one.unit else one.name for one in self.series)]

    def rows(self) -> Iterable[list[Any]]:
        """The table's rows."""
        for place, x in enumerate(self.x):
            yield [x, *(_cell(one.values[place], one.digits) for one in self.series)]


def _cell(value: Number, digits: int) -> str | None:
    return None if value is None else f"{value:,.{digits}f}"
