# SPDX-License-Identifier: Apache-2.0
"""The daily growth of a capacity in use, from a history with holes and breaks."""

import numpy as np
import numpy.typing as npt

#: A change of the total by more than this share from one day to the next is a break, not growth.
BREAK = 0.01

#: The longest hole, in days, over which the growth is known and spread evenly. A longer hole is a break.
LONGEST_HOLE = 7


def daily_growth(
    used: npt.ArrayLike, total: npt.ArrayLike | None = None, moved: npt.ArrayLike | None = None
) -> npt.NDArray[np.float64]:
    """Return the growth of each day but the first, in GiB, the oldest first; ``nan`` where it is unknown.

    ``used`` is the capacity in use at the end of each day and ``total`` the size of the pool, both ``nan`` in holes.
    ``moved`` is the capacity that migrations brought (negative: took) on each day, which is not growth. All are GiB.
    """
    values = np.asarray(used, dtype=np.float64)
    values = np.where(np.isfinite(values), values, np.nan)
    growth = np.full(max(0, values.size - 1), np.nan)
    days = np.flatnonzero(~np.isnan(values))
    if days.size < 2:
        return growth
    sizes = np.full(values.size, np.nan) if total is None else np.asarray(total, dtype=np.float64)
    net = values if moved is None else values - np.cumsum(np.nan_to_num(np.asarray(moved, dtype=np.float64)))
    spans = np.diff(days)
    rates = np.diff(net[days]) / spans
    with np.errstate(invalid="ignore", divide="ignore"):
        broken = np.abs(np.diff(sizes[days])) > BREAK * np.abs(sizes[days][:-1])
    rates[(spans > LONGEST_HOLE) | broken] = np.nan
    growth[days[0] : days[-1]] = np.repeat(rates, spans)
    return growth
