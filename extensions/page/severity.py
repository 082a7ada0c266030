# SPDX-License-Identifier: Apache-2.0
"""The severity of the fullness of pools: the words by which the page colors bars, cells and rows."""

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from tonnage.capacity import arithmetic
from tonnage.capacity.elementwise import Floats

#: The percentages of the two bounds above which a pool is nearly full: those of the alert ``TonnagePoolNearFull``.
NEAR_PHYSICAL = 85.0
NEAR_PROMISED = 90.0

#: The size of the smallest volume, in GiB.
_SMALLEST_GB = 1.0 - arithmetic.TOLERANCE_GB


class Severity(enum.StrEnum):
    """The severities of a bound or a pool, the worst first."""

    #: More is taken than the bound allows.
    OVER = "over"
    #: No volume of 1 GiB fits.
    FULL = "full"
    #: The percentage of the alert is passed.
    NEAR = "near"
    REST = "rest"


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


def of_bound(percent: Floats, excess_gb: Floats, room_gb: Floats, near_percent: float) -> list[Severity | None]:
    """Return the severities of one bound of many pools, None where the percentage is unknown (``nan``).

    ``excess_gb`` is the part above the bound, ``room_gb`` the room below it.
    """
    conditions: list[Any] = [
        np.isnan(percent),
        np.greater(excess_gb, arithmetic.TOLERANCE_GB),
        np.less(room_gb, _SMALLEST_GB),
        np.greater(percent, near_percent),
    ]
    words = np.select(conditions, ["", Severity.OVER, Severity.FULL, Severity.NEAR], Severity.REST)
    return [Severity(word) if word else None for word in words.tolist()]


def worst(severities: Sequence[Severity | None]) -> Severity | None:
    """Return the worst of some severities, None if all are unknown."""
    return min((severity for severity in severities if severity is not None), key=_RANKS.__getitem__, default=None)
