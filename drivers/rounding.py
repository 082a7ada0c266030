# SPDX-License-Identifier: Apache-2.0
"""Conversion of bytes to the unit of reports: GiB with two decimals, rounded so that figures never promise too much."""

from tonnage.capacity.units import GIB


def gib_rounded_down(size: int) -> float:
    """Return bytes as GiB, rounded down to two decimals: for total and free capacities."""
    return (size * 100 // GIB) / 100


def gib_rounded_up(size: int) -> float:
    """Return bytes as GiB, rounded up to two decimals: for provisioned capacities."""
    return -(-size * 100 // GIB) / 100
