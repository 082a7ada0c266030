# SPDX-License-Identifier: Apache-2.0
"""The observers of reports: they add statements to the transaction that applies reports, and act after its commit."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import orm

from tonnage.extension import Hook
from tonnage.ledger.inventory.reports import Applied
from tonnage.scheduler.cache.report_diff import ReportDiff


class AppliedReport(NamedTuple):
    """A report, compared with the one before it, and its result in the ledger."""

    diff: ReportDiff
    result: Applied


class ReportObserver(Hook):
    """An observer of reports. The decision thread calls the methods; each has a default that does nothing."""

    def received(self, diffs: Sequence[ReportDiff]) -> None:
        """Prepare for reports of different backends, before the transaction that applies them begins."""

    def written(self, session: orm.Session, reports: Sequence[AppliedReport]) -> None:
        """Add statements to the transaction, after the reports were applied in it; those that came late are left out.

        The rows of the backends and pools are locked. Further rows are locked after them, in the one order of locks of
        docs/ledger.rst. It does not commit. The transaction may be rolled back and run again, with another call. An
        exception rolls it back, and the reports are not applied.
        """

    def applied(self, diffs: Sequence[ReportDiff]) -> None:
        """Act after the commit. The reports are in the cache."""
