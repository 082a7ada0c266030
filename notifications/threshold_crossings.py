# SPDX-License-Identifier: Apache-2.0
"""Which pools hold more than they should, and which certainly do not.

Between the two lies the hysteresis, where a pool stays what it was. It works on columns, one element for each pool, as
every report of thousands of pools comes by here. Source: "Notifications impact" of the OpenStack spec "Over
Subscription in Thin Provisioning".
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tonnage.capacity import arithmetic
from tonnage.notifications.options import Thresholds

Column: TypeAlias = npt.NDArray[np.float64]


class Reason(enum.StrEnum):
    """Why a pool holds more than it should."""

    PHYSICAL = "physical"
    PROVISIONED = "provisioned"


class Columns(Protocol):
    """What is read of pools as they were reported, in GiB. ``total`` and ``free`` are ``nan`` or ``inf`` if unknown."""

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
class Judgement:
    """How pools stand: ``exceeded`` has those that hold too much, by name, with the reasons.

    ``unsettled`` are those that hold neither too much nor, by the hysteresis, little enough; all others are fine.
    """

    exceeded: Mapping[str, tuple[Reason, ...]]
    unsettled: frozenset[str]


def used_percent(pools: Columns) -> Column:
    """Return the share of the total capacity that is in use, in percent; ``nan`` where that is not known."""
    with np.errstate(invalid="ignore", divide="ignore"):
        used: Column = (pools.total - pools.free) / pools.total * 100
    return used


def limit(pools: Columns, calculation: arithmetic.Calculation) -> Column:
    """Return how much may be provisioned: what the ratio permits where thin volumes are, else what there is."""
    # Of the columns it takes those that are here.
    permitted = arithmetic.provisioning_limit(pools, calculation)  # type: ignore[arg-type]
    return np.where(pools.thin, permitted, np.where(np.isfinite(pools.total), pools.total, np.inf))


def judge(
    names: Sequence[str],
    pools: Columns,
    provisioned: Column,
    calculation: arithmetic.Calculation,
    thresholds: Thresholds,
) -> Judgement:
    """Judge pools by what is ``provisioned`` there and what is in use.

    Where something is not known that would have to be, nothing is said against a pool.
    """
    used, permitted = used_percent(pools), limit(pools, calculation)
    lower = permitted * (1 - thresholds.hysteresis / 100)
    # Of figures with two decimals; the tolerance keeps the rounding of fractions from being a crossing.
    slack = arithmetic.TOLERANCE_GB
    full = used > thresholds.percent + slack
    over = provisioned > permitted + slack
    # Comparisons with nan are false, so what is unknown is on the safe side of each.
    near = (used > thresholds.percent - thresholds.hysteresis + slack) | (provisioned > lower + slack)
    exceeded = {
        names[row]: tuple(
            reason for reason, holds in ((Reason.PHYSICAL, full[row]), (Reason.PROVISIONED, over[row])) if holds
        )
        for row in np.flatnonzero(full | over).tolist()
    }
    return Judgement(exceeded, frozenset(names[row] for row in np.flatnonzero(near & ~(full | over)).tolist()))
