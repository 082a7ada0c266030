# SPDX-License-Identifier: Apache-2.0
"""The series of plans in the page ``/metrics/ledger``."""

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.api.monitoring.exposition import Page, labels
from tonnage.api.monitoring.ledger_page import PageScope
from tonnage.capacity import units
from tonnage.extensions.moves.records import plan_progress, tables
from tonnage.extensions.moves.records.tables import MovePlanRow

_PLAN_STATES = (*tables.UNFINISHED, tables.STOPPED, tables.FINISHED, tables.FAILED)
_STEP_STATES = (tables.WAITING, tables.MOVING, tables.MOVED, tables.STEP_FAILED, tables.SKIPPED)


class PlanSeries:
    """The numbers of plans and of their moves by state, and the GiB of these moves."""

    def __init__(self, max_pools: int) -> None:
        """Make the series; no pool has any, so ``max_pools`` limits nothing."""

    def add(self, page: Page, session: orm.Session, scope: PageScope) -> None:
        """Add the series if all is shown."""
        if scope.backend is not None:
            return
        plan = MovePlanRow
        plans = dict(session.execute(sa.select(plan.state, sa.func.count()).group_by(plan.state)).all())
        sums = plan_progress.sums(session)
        page.add_gauge(
            "tonnage_move_plans",
            "Plans of moves that are or were carried out.",
            [(labels(state=state), plans.get(state, 0)) for state in _PLAN_STATES],
        )
        page.add_gauge(
            "tonnage_move_plan_moves",
            "Moves of these plans.",
            [(labels(state=state), sums[state].moves) for state in _STEP_STATES],
        )
        page.add_gauge(
            "tonnage_move_plan_bytes",
            "Sizes of the volumes of these moves.",
            [(labels(state=state), sums[state].size_gb * units.GIB) for state in _STEP_STATES],
        )
