# SPDX-License-Identifier: Apache-2.0
"""When the figures of pools include a volume that has been provisioned.

Until then the claim for the volume is kept. So the space is promised once, and counted twice for a while.

Figures that somebody writes include the volume after three writes: the first one, and a report that was being collected
at that moment, may not. Figures with the same expiry are of the same report.

Figures from ``CSIStorageCapacity`` objects have rules of their own, because external-provisioner writes no figure that
has not changed. It looks at the object, asks the plug-in, and replaces the version of the object at which it looked;
the API server refuses this if there is another version by now. So the question for a write came after the write before.
No time tells as much: the questions of a provisioner wait in a queue, its writes for their rate, and a question that
fails is asked again later, or not at all. Either of these is enough:

* Two writes by the provisioner after the volume was seen: the question for the second one came after the first one. The
  writes are counted from the version that the API server has when the volume is seen, because the ledger may have an
  older one. A write that leaves the sizes as they are may be of somebody else.
* One write after the figure in the object was lowered by a byte, which is done after the volume was seen
  (:mod:`tonnage.extensions.kubernetes.cluster.lowered_figures`). This is for figures that do not change any more.

In doubt neither rule applies, and the volume is counted twice.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from tonnage.extensions.kubernetes.capacity.claim_sums import PoolKey
from tonnage.extensions.kubernetes.fit.capacity_claims import FiguresVersion

#: Number of writes of the figures after a volume was seen, and of the object that figures come from.
_REQUIRED_WRITES = 3
_REQUIRED_OBJECT_WRITES = 2

#: How long the figures have to stay as they are until the provisioner is asked, and until it is tried again.
_QUIET_TIME = datetime.timedelta(seconds=10)
_RETRY_TIME = datetime.timedelta(seconds=30)


@dataclass(slots=True)
class VolumeSettlement:
    """The figures of each pool that matters to a volume, since the volume was first seen.

    ``object_versions`` are the versions of ``CSIStorageCapacity`` objects at that time or later, read from the API
    server and not from a cache; an object without one could not be read.
    """

    object_versions: dict[str, int] = field(default_factory=dict)
    _figures: Mapping[PoolKey, FiguresVersion] = field(default_factory=dict)
    _writes: dict[PoolKey, int] = field(default_factory=dict)
    _changed_at: dict[PoolKey, datetime.datetime] = field(default_factory=dict)
    #: The versions with lowered figures, and the last attempt to lower those of each object.
    _asked: dict[str, int] = field(default_factory=dict)
    _tried_at: dict[str, datetime.datetime] = field(default_factory=dict)

    def update(self, figures: Mapping[PoolKey, FiguresVersion], at: datetime.datetime) -> None:
        """Take the usable figures of the pools at a time. A pool that has been without figures starts again."""
        writes, changed_at = {}, {}
        for pool, version in figures.items():
            previous = self._figures.get(pool)
            if previous is None or previous.object_name != version.object_name:
                writes[pool], changed_at[pool] = 0, at
                continue
            writes[pool] = self._writes[pool] + self._is_counted(version, previous)
            changed_at[pool] = self._changed_at[pool] if version.object_version == previous.object_version else at
        self._figures, self._writes, self._changed_at = figures, writes, changed_at

    def objects_without_version(self) -> set[str]:
        """Return the names of the objects whose versions could not be read."""
        names = {version.object_name for version in self._figures.values() if version.object_name is not None}
        return names - self.object_versions.keys()

    def objects_to_ask(self, at: datetime.datetime) -> list[str]:
        """Return the objects whose figures have stayed as they are for some time, and do not include the volume."""
        names = []
        for pool, version in self._figures.items():
            name = version.object_name
            if name is None or name in self._asked or self._includes(pool):
                continue
            tried_at = self._tried_at.get(name)
            if at - self._changed_at[pool] >= _QUIET_TIME and (tried_at is None or at - tried_at >= _RETRY_TIME):
                names.append(name)
        return names

    def ask(self, name: str, version: int | None, at: datetime.datetime) -> None:
        """Record that the figure of an object is lowered since a version; None if it could not be lowered."""
        self._tried_at[name] = at
        if version is not None:
            self._asked[name] = version

    @property
    def is_included(self) -> bool:
        """Return whether the figures of every pool include the volume."""
        return bool(self._figures) and all(map(self._includes, self._figures))

    def _includes(self, pool: PoolKey) -> bool:
        version = self._figures[pool]
        if version.object_name is None or version.object_version is None:
            return self._writes[pool] >= _REQUIRED_WRITES
        asked = self._asked.get(version.object_name)
        # Readers see a lowered figure as the version before.
        is_answered = asked is not None and version.object_version > asked
        return is_answered or self._writes[pool] >= _REQUIRED_OBJECT_WRITES

    def _is_counted(self, version: FiguresVersion, previous: FiguresVersion) -> bool:
        """Return whether figures are a later write than the previous ones, and later than the volume."""
        if not version.is_later_report_than(previous):
            return False
        if version.object_name is None or version.object_version is None:
            return True
        first_version = self.object_versions.get(version.object_name)
        return first_version is not None and version.object_version > first_version
