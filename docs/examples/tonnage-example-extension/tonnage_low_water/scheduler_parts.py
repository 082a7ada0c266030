# SPDX-License-Identifier: Apache-2.0
"""The part of the extension in a scheduler: it records marks in the transaction that applies reports."""

import math
from collections.abc import Sequence

from oslo_config import cfg
from sqlalchemy import orm

from tonnage.scheduler.agents.report_observer import AppliedReport, ReportObserver
from tonnage.scheduler.extension_parts import SchedulerContext, SchedulerParts
from tonnage_low_water.tables import LowWaterMark


class LowWaterObserver(ReportObserver):
    """Records the free capacity of pools that is lower than their marks by at least ``least_change`` GiB."""

    def __init__(self, least_change: float) -> None:
        self._least_change = least_change

    def written(self, session: orm.Session, reports: Sequence[AppliedReport]) -> None:
        """Write the marks of the reported pools. The rows of their backends are locked, so nobody else writes them."""
        free = {name: stats.free for report in reports for name, stats in report.diff.stats.items()}
        for pool, free_gb in sorted(free.items()):
            mark = session.get(LowWaterMark, pool)
            if not math.isfinite(free_gb):
                continue
            if mark is None:
                session.add(LowWaterMark(pool=pool, free_gb=free_gb))
            elif free_gb <= mark.free_gb - self._least_change:
                mark.free_gb = free_gb


def build(conf: cfg.ConfigOpts, context: SchedulerContext) -> SchedulerParts:
    """Return the objects that the scheduler calls."""
    return SchedulerParts(report_observers=[LowWaterObserver(conf.low_water.least_change_gb)])
