# SPDX-License-Identifier: Apache-2.0
"""When the figures of pools include a volume that has been provisioned.

Until then the claim for the volume is kept. So the space is promised once, and counted twice for a while.

Figures that somebody writes include the volume after three writes: the first one, and a report that was being collected
at that moment, may not. Figures with the same expiry are of the same report.

Figures from ``CSIStorageCapacity`` objects have rules of their own, because external-provisioner writes no figure that
has not changed. Either of them is enough:

* Two writes. external-provisioner looks at the object, asks the plug-in, and replaces the version of the object at
  which it looked; the API server refuses this if there is another version by now. So the question for the second write
  came after the first write, which came after the volume. The writes are counted from the version that the API server
  has when the volume is first seen, because the ledger may have an older one. A new object starts again.
* Time. external-provisioner asks when it starts and every minute, so its figures include the volume when it has worked
  without a break for the settling time. The ledger renews the expiry of the figures while it works, a few seconds apart
  if there are claims; a longer step is a break. The settling time is longer than the interval between two questions,
  the time of a question and its write, and the time for which a broken watch goes unnoticed, together.

In doubt neither rule applies, and the volume is counted twice.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from tonnage.extensions.kubernetes.capacity.pool_columns import PoolKey
from tonnage.extensions.kubernetes.fit.capacity_claims import FiguresVersion

#: Number of writes of the figures after a volume was seen, and of the object that figures come from.
_REQUIRED_WRITES = 3
_REQUIRED_OBJECT_WRITES = 2

#: The longest step of the expiry with which a provisioner counts as having worked meanwhile.
_LONGEST_STEP = datetime.timedelta(seconds=30)


@dataclass(slots=True)
class VolumeSettlement:
    """The figures of each pool that matters to a volume, since the volume was first seen.

    ``object_versions`` are the versions of ``CSIStorageCapacity`` objects at that time, read from the API server and
    not from a cache; an object without one could not be read. ``settling`` is the time for which a provisioner has to
    work, ``lifetime`` the time from its last sign of life to the expiry of its figures.
    """

    settling: datetime.timedelta
    lifetime: datetime.timedelta
    object_versions: Mapping[str, int] = field(default_factory=dict)
    _figures: Mapping[PoolKey, FiguresVersion] = field(default_factory=dict)
    _writes: dict[PoolKey, int] = field(default_factory=dict)
    _working_since: dict[PoolKey, datetime.datetime] = field(default_factory=dict)

    def update(self, figures: Mapping[PoolKey, FiguresVersion], at: datetime.datetime) -> None:
        """Take the usable figures of the pools at a time. A pool that has been without figures starts again."""
        writes, working_since = {}, {}
        for pool, version in figures.items():
            previous = self._figures.get(pool)
            if previous is None or previous.object_name != version.object_name:
                writes[pool], working_since[pool] = 0, at
                continue
            writes[pool] = self._writes[pool] + self._is_counted(version, previous)
            working_since[pool] = self._working_since[pool] if _is_unbroken(version, previous) else at
        self._figures, self._writes, self._working_since = figures, writes, working_since

    @property
    def is_included(self) -> bool:
        """Return whether the figures of every pool include the volume."""
        return bool(self._figures) and all(map(self._includes, self._figures))

    def _includes(self, pool: PoolKey) -> bool:
        version = self._figures[pool]
        if version.object_name is None:
            return self._writes[pool] >= _REQUIRED_WRITES
        if self._writes[pool] >= _REQUIRED_OBJECT_WRITES:
            return True
        if version.expires_at is None:
            return False
        return version.expires_at - self.lifetime - self._working_since[pool] >= self.settling

    def _is_counted(self, version: FiguresVersion, previous: FiguresVersion) -> bool:
        """Return whether figures are a later write than the previous ones, and later than the volume."""
        if not version.is_later_report_than(previous):
            return False
        if version.object_name is None or version.object_version is None:
            return True
        first_version = self.object_versions.get(version.object_name)
        return first_version is not None and version.object_version > first_version


def _is_unbroken(version: FiguresVersion, previous: FiguresVersion) -> bool:
    """Return whether the provisioner has worked between two looks at its figures."""
    if version.expires_at is None or previous.expires_at is None:
        return False
    return version.expires_at - previous.expires_at <= _LONGEST_STEP
