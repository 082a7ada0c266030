# SPDX-License-Identifier: Apache-2.0
"""Strategies of property tests: pools after reports and claims."""

import math

from hypothesis import settings
from hypothesis import strategies as st

from tonnage.capacity import units
from tonnage.capacity.pools.pool_table import Pool

#: Machines that run tests are busy: examples are limited in number, not in time.
PROPERTY = settings(deadline=None)


def capacities(largest: float = units.MAX_CAPACITY_GB) -> st.SearchStrategy[float]:
    """Capacities with two decimals, mostly small enough to meet each other."""
    whole = int(largest) * 100
    return st.one_of(st.integers(0, min(whole, 50_00)), st.integers(0, whole)).map(lambda hundredths: hundredths / 100)


OPEN = st.sampled_from([math.nan, math.inf])
PERCENTAGES = st.one_of(st.just(0.0), st.integers(0, 100).map(float))
RATIOS = st.one_of(
    st.sampled_from([0.0, 0.5, 0.99, 1.0, 1.1, 2.0, 20.0]),
    st.integers(0, 1000_00).map(lambda hundredths: hundredths / 100),
)
SIZES = st.one_of(st.integers(1, 100), st.integers(1, units.MAX_SIZE_GB))


@st.composite
def pools(draw: st.DrawFn, known: bool = False, largest: float = units.MAX_CAPACITY_GB) -> Pool:
    """A pool with figures that a valid report can have, and claims; ``known`` leaves out unknown and infinite ones."""
    total = draw(capacities(largest))
    free = min(total, draw(capacities(largest)))
    provisioned = draw(capacities(largest))
    if not known:
        total = draw(st.one_of(st.just(total), OPEN))
        free = draw(st.one_of(st.just(free), OPEN))
        provisioned = draw(st.one_of(st.just(provisioned), st.just(math.nan)))
    allocated = draw(st.integers(0, 1000).map(float))
    in_flight = draw(st.integers(0, 100).map(float))
    return Pool(
        name="host@backend#pool",
        total=total,
        free=free,
        provisioned=provisioned,
        allocated=allocated,
        in_flight=in_flight,
        in_flight_physical=draw(st.integers(0, int(in_flight)).map(float)),
        storage_room=draw(st.one_of(st.just(math.inf), st.integers(-10, 1000).map(float))),
        reserved_percentage=draw(PERCENTAGES),
        ratio=draw(RATIOS),
        thin=draw(st.booleans()),
        thick=draw(st.booleans()),
    )
