# SPDX-License-Identifier: Apache-2.0
"""A list of all volumes with the figures that belong to it, so that the one can be held against the other.

Others change the storage at any moment, and nobody tells. Where the driver can, list and figures come from one look at
it. Else it lists, reports and lists again: what both lists show in the same size was there when it reported, and if
they are the same, nothing else was, unless it came and went between the two.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tonnage.capacity import plugin_errors
from tonnage.capacity.reports import audit_rules
from tonnage.drivers.base import Driver, StoredVolume
from tonnage.rpc.messages import Tally

_Sizes: TypeAlias = Mapping[str, float]


def tallied(driver: Driver, is_quiet: Callable[[], bool]) -> tuple[Sequence[StoredVolume], list[Tally]]:
    """Return all volumes, and a tally of each pool that the driver reports; none if it cannot report.

    ``is_quiet`` tells afterwards whether no operation was under way. Raises what the driver raises that cannot list.
    """
    with driver.one_look() as is_one_look:
        volumes = driver.list_volumes()
        try:
            pools = [dict(pool) for pool in driver.report()]
        except plugin_errors.CAUGHT:  # who reports says so
            return volumes, []
    before = _by_pool(volumes)
    if not is_one_look:
        volumes = driver.list_volumes()
    after = _by_pool(volumes)
    is_same = is_one_look or is_quiet()
    tallies = []
    for pool in pools:
        name = audit_rules.reported_name(pool)
        first, last = before.get(name, {}), after.get(name, {})
        # What has another size now may have had a smaller one in between.
        least = sum(size for volume_id, size in first.items() if last.get(volume_id) == size)
        tallies.append(
            Tally(
                figures=audit_rules.comparable_figures(pool),
                least_gb=least,
                all_gb=least if is_same and first == last else None,
            )
        )
    return volumes, tallies


def _by_pool(volumes: Sequence[StoredVolume]) -> Mapping[str, _Sizes]:
    """Return the sizes of volumes by their names."""
    found: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for volume in volumes:
        found[volume.pool][volume.id] = volume.size_gb
    return found
