# SPDX-License-Identifier: Apache-2.0
"""Test support: a driver whose reports are audited against the volumes that it created."""

import dataclasses
import random
import uuid
from collections.abc import Callable
from typing import Any

from tonnage.capacity import errors
from tonnage.capacity.reports.audit_rules import Auditor, Breach, Volumes
from tonnage.capacity.request import Provisioning
from tonnage.drivers.base import Driver, Volume

Report = list[dict[str, Any]]
Lie = Callable[[Report], object]


class Ledger:
    """Runs operations of a driver, records its volumes, and audits its reports, as a scheduler does."""

    def __init__(self, driver: Driver, lie: Lie | None = None) -> None:
        """``lie`` falsifies the reports of the driver."""
        self._driver = driver
        self._lie = lie
        self._auditor = Auditor(driver.supports_auto_ratio)
        self._ours: dict[str, Volume] = {}
        self._moved = 0.0
        driver.check()

    @property
    def names(self) -> list[str]:
        """The ids of the recorded volumes that existed at the last audit."""
        return list(self._ours)

    def act(self, draw: random.Random) -> None:
        """Create, extend or delete a volume, if it fits."""
        (pool, *_) = self._driver.report()
        mine = draw.choice(list(self._ours.values())) if self._ours and draw.random() < 0.6 else None
        try:
            if mine is None:
                kinds = [kind for kind in Provisioning if pool[f"{kind}_provisioning_support"]]
                volume = Volume(
                    id=str(uuid.UUID(int=draw.getrandbits(128))),
                    pool=pool["pool_name"],
                    size_gb=draw.randint(1, 2),
                    provisioning=draw.choice(kinds),
                )
                self._driver.create(volume)
                self._keep(volume)
            elif draw.random() < 0.5:
                self._driver.extend(mine, mine.size_gb + 1)
                self._keep(dataclasses.replace(mine, size_gb=mine.size_gb + 1))
            else:
                self._driver.delete(mine)
                self._moved -= self._ours.pop(mine.id).size_gb
        except errors.CapacityExceeded:
            pass
        except errors.NotFound:  # the volume was deleted by another caller
            del self._ours[mine.id]

    def look(self) -> set[Breach]:
        """Query a list and a report, and return the breaches in the report."""
        listed = self._driver.list_volumes()
        report: Report = [dict(pool) for pool in self._driver.report()]
        if self._lie is not None:
            self._lie(report)
        volumes = {
            pool["pool_name"]: Volumes(
                all_gb=sum(volume.size_gb for volume in listed if volume.pool == pool["pool_name"]),
                moved_gb=self._moved,
            )
            for pool in report
        }
        self._moved = 0.0
        there = {volume.id for volume in listed}
        self._ours = {id: volume for id, volume in self._ours.items() if id in there}
        return {finding.breach for finding in self._auditor.look(report, volumes)}

    def _keep(self, volume: Volume) -> None:
        before = self._ours.get(volume.id)
        self._moved += volume.size_gb - (before.size_gb if before else 0)
        self._ours[volume.id] = volume
