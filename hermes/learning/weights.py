"""How much each row counts, where some stand for many requests and others for themselves.

What the surrogate has decided is known from a sample only, so an audited row stands for all those that were not
audited; what the teacher has decided stands for itself. Where both mix, such weights are what makes the rows a picture
of the traffic, and nothing may be left out. But when a stretch of time was seen as a whole (the surrogate had stepped
back, say), it says more of the traffic than one that was sampled, and a few heavy rows of the latter must not
outweigh it. So each stretch of time is scaled by what it is worth: as independent measurements of one thing are
weighted by their precision.

Source: Kish 1965, the effective number of weighted observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STRETCHES: Final = 10
LEAST_ROWS: Final = 50
"""Of a stretch of time; fewer are no picture of the traffic."""


def balanced(weights: Sequence[float]) -> Floats:
    """The weights of rows that stand in the order of time, scaled so that the heaviest stretches do not drown out the
    precise ones. Equal weights stay equal.

    >>> balanced([20.0] * 4).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    found = np.asarray(weights, np.float64)
    number = max(1, min(STRETCHES, len(found) // LEAST_ROWS))
    parts = [part * (part.sum() / (part**2).sum()) for part in np.array_split(found, number) if len(part)]
    return np.concatenate(parts) if parts else found
