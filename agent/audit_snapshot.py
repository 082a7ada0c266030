# SPDX-License-Identifier: Apache-2.0
"""A listing of all volumes with figures of the same moment, so that schedulers can compare the two.

The storage may change at any moment without notice. Where the driver supports it, listing and figures come from one
snapshot. Otherwise the driver lists, reports and lists again: a volume with the same size in both listings was there
during the report, and if both listings are equal, no other volume was, unless it came and went between them.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tonnage.capacity import plugin_errors
from tonnage.capacity.reports import audit_rules, backend_stats
from tonnage.drivers.base import Driver, StoredVolume
from tonnage.rpc.messages import AuditSnapshot

_Sizes: TypeAlias = Mapping[str, float]


def take(driver: Driver, is_quiet: Callable[[], bool]) -> tuple[Sequence[StoredVolume], list[AuditSnapshot]]:
    """Return all volumes, and an audit snapshot of each pool that the driver reports; none if it cannot report.

    ``is_quiet`` returns, after the driver has finished, whether no operation ran meanwhile. Raises the driver's
    exception if it cannot list.
    """
    with driver.one_look() as is_one_look:
        volumes = driver.list_volumes()
        try:
            pools = [dict(pool) for pool in backend_stats.pools_of(driver.report())]
        except plugin_errors.CAUGHT:  # the next report logs it
            return volumes, []
    before = _by_pool(volumes)
    if not is_one_look:
        volumes = driver.list_volumes()
    after = _by_pool(volumes)
    is_same = is_one_look or is_quiet()
    snapshots = []
    for pool in pools:
        name = audit_rules.reported_name(pool)
        first, last = before.get(name, {}), after.get(name, {})
        # A volume with another size now may have had a smaller one in between.
        least = sum(size for volume_id, size in first.items() if last.get(volume_id) == size)
        snapshots.append(
            AuditSnapshot(
                figures=audit_rules.comparable_figures(pool),
                least_gb=least,
                all_gb=least if is_same and first == last else None,
            )
        )
    return volumes, snapshots


def _by_pool(volumes: Sequence[StoredVolume]) -> Mapping[str, _Sizes]:
    """Return the sizes in GiB of volumes, by pool name and volume id."""
    sizes: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for volume in volumes:
        sizes[volume.pool][volume.id] = volume.size_gb
    return sizes
