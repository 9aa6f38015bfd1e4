"""What a page module is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flask import Response

from hermes.instance import Hermes
from hermes.web.dashboard.access import Operator
from hermes.web.dashboard.door import Door
from hermes.web.dashboard.figures import Figures
from hermes.web.dashboard.frame import Frame
from hermes.web.dashboard.limits import Limits
from hermes.web.lasting import CSV, Exports, Piece
from hermes.web.usage_api import disposition


@dataclass(frozen=True, slots=True)
class Site:
    """The dashboard's parts."""

    hermes: Hermes
    door: Door
    frame: Frame
    figures: Figures
    limits: Limits
    exports: Exports

    def actor(self) -> str:
        """Who acts, as audit rows have it."""
        operator: Operator | None = self.door.operator()
        assert operator is not None, "the door lets nobody else in"
        return operator.actor

    def export(self, name: str, make: Callable[[], Iterable[Piece]], content_type: str = CSV) -> Response:
        """A file for the browser that asks; see `Exports.answer`.

        Args:
            name: the file's.
        """
        response = self.exports.answer(make, self.door.watch(), content_type)
        response.headers["Content-Disposition"] = disposition(name)
        return response
