# SPDX-License-Identifier: Apache-2.0
"""From bytes to what reports carry: GiB with two decimals, rounded so that never more is promised than is there."""

from tonnage.capacity.units import GIB


def hundredths_below(size: int) -> float:
    """Return bytes as GiB, rounded down to two decimals: for total and free capacities."""
    return (size * 100 // GIB) / 100


def hundredths_above(size: int) -> float:
    """Return bytes as GiB, rounded up to two decimals: for provisioned capacities."""
    return -(-size * 100 // GIB) / 100
