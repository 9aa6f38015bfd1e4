"""What a page module is given."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.instance import Hermes
from hermes.web.dashboard.access import Operator
from hermes.web.dashboard.door import Door
from hermes.web.dashboard.figures import Figures
from hermes.web.dashboard.frame import Frame
from hermes.web.dashboard.limits import Limits


@dataclass(frozen=True, slots=True)
class Site:
    """The dashboard's parts."""

    hermes: Hermes
    door: Door
    frame: Frame
    figures: Figures
    limits: Limits

    def actor(self) -> str:
        """Who acts, as audit rows have it."""
        operator: Operator | None = self.door.operator()
        assert operator is not None, "the door lets nobody else in"
        return operator.actor
