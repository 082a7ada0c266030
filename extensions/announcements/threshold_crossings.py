# SPDX-License-Identifier: Apache-2.0
"""Classification of pools into pools that exceed their thresholds and pools that have recovered.

A pool within the hysteresis between the two keeps its previous state. The functions work on columns with one element
for each pool, because every report of thousands of pools is classified. Source: "Notifications impact" of the OpenStack
spec "Over Subscription in Thin Provisioning".
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tonnage.capacity import arithmetic
from tonnage.extensions.announcements.options import Thresholds

Column: TypeAlias = npt.NDArray[np.float64]


class Reason(enum.StrEnum):
    """The threshold that a pool exceeds."""

    PHYSICAL = "physical"
    PROVISIONED = "provisioned"


class PoolColumns(Protocol):
    """Columns of reported pools, in GiB. ``total`` and ``free`` are ``nan`` or ``inf`` if they are unknown."""

    @property
    def total(self) -> Column: ...
    @property
    def free(self) -> Column: ...
    @property
    def reserved_percentage(self) -> Column: ...
    @property
    def ratio(self) -> Column: ...
    @property
    def thin(self) -> npt.NDArray[np.bool_]: ...


@dataclass(frozen=True, slots=True)
class PoolStates:
    """The states of pools, by name.

    ``exceeded`` maps each pool that exceeds a threshold to the reasons. ``in_hysteresis`` has the pools that exceed no
    threshold but have not recovered from one either. All other pools are below the hysteresis.
    """

    exceeded: Mapping[str, tuple[Reason, ...]]
    in_hysteresis: frozenset[str]


def used_percent(pools: PoolColumns) -> Column:
    """Return the used share of the total capacity in percent; ``nan`` if it is unknown."""
    with np.errstate(invalid="ignore", divide="ignore"):
        used: Column = (pools.total - pools.free) / pools.total * 100
    return used


def provisioning_limit(pools: PoolColumns, calculation: arithmetic.Calculation) -> Column:
    """Return the maximum provisioned GiB of each pool."""
    # The function reads no columns other than those of the protocol.
    limit: Column = arithmetic.promise_limit(pools, calculation)  # type: ignore[arg-type,assignment]
    return limit


def classify(
    names: Sequence[str],
    pools: PoolColumns,
    provisioned: Column,
    calculation: arithmetic.Calculation,
    thresholds: Thresholds,
) -> PoolStates:
    """Classify pools by their used and their ``provisioned`` capacity. Unknown figures exceed no threshold."""
    used, permitted = used_percent(pools), provisioning_limit(pools, calculation)
    lower = permitted * (1 - thresholds.hysteresis / 100)
    # Figures have two decimals. The tolerance keeps rounding differences from crossing a threshold.
    slack = arithmetic.TOLERANCE_GB
    full = used > thresholds.percent + slack
    over = provisioned > permitted + slack
    # Comparisons with nan are false, so unknown figures exceed nothing.
    near = (used > thresholds.percent - thresholds.hysteresis + slack) | (provisioned > lower + slack)
    exceeded = {
        names[row]: tuple(
            reason for reason, holds in ((Reason.PHYSICAL, full[row]), (Reason.PROVISIONED, over[row])) if holds
        )
        for row in np.flatnonzero(full | over).tolist()
    }
    return PoolStates(exceeded, frozenset(names[row] for row in np.flatnonzero(near & ~(full | over)).tolist()))
