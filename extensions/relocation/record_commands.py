# SPDX-License-Identifier: Apache-2.0
"""``tonnage cinder plan list``, ``show``, ``pause``, ``resume`` and ``stop``: the records of plans for a cloud."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tonnage.cli.display import base_commands
from tonnage.extensions.moves import plan_execution_commands

if TYPE_CHECKING:
    from tonnage.ledger.db.database import Database


def _database(command: base_commands.Command) -> "Database":
    from tonnage import enabled_extensions
    from tonnage.cli import ledger_access

    enabled_extensions.require(command.conf, "moves")
    return ledger_access.connect(command.conf)


class _Records(base_commands.Command):
    """A command on the records of plans, in the database of its configuration."""

    options: ClassVar[Sequence[str]] = base_commands.LEDGER
    list_command: ClassVar[str] = "tonnage cinder plan list"

    def add_connection(self, parser: argparse.ArgumentParser) -> None:
        """Add no argument: the database is that of the configuration."""


class CloudPlanList(_Records, plan_execution_commands.PlanList):
    """List the plans for a cloud."""

    def plans(self, parsed_args: argparse.Namespace) -> Iterable[Any]:
        """Return the plans as the REST API would show them, the newest first."""
        import msgspec

        from tonnage.extensions.moves import plan_bodies
        from tonnage.extensions.moves.records import plan_progress, plan_records
        from tonnage.extensions.relocation import plan_choices
        from tonnage.ledger.db.paging import Page

        filters = {"mover": plan_choices.MOVER}
        if parsed_args.state:
            filters["state"] = parsed_args.state
        with _database(self).reading(snapshot=True) as session:
            plans = plan_records.page(session, filters, Page(limit=parsed_args.limit))
            progress = plan_progress.load(session, plans)
        return [msgspec.to_builtins(plan_bodies.applied_plan_body(plan, progress[plan.id])) for plan in plans]


class CloudPlanShow(_Records, plan_execution_commands.PlanShow):
    """Show a plan for a cloud, its progress and its moves.

    Volumes that stay are listed with the reasons.
    """

    def plan(self, parsed_args: argparse.Namespace) -> Mapping[str, Any]:
        """Return the plan as the REST API would show it."""
        import msgspec

        from tonnage.extensions.moves import plan_bodies

        with _database(self).reading(snapshot=True) as session:
            plan: Mapping[str, Any] = msgspec.to_builtins(plan_bodies.single_plan_body(session, parsed_args.plan))
        return plan


class _RecordAction(_Records, plan_execution_commands.PlanAction):
    """An action on the record of a plan; the process that carries it out reads it at the next look."""

    def act(self, parsed_args: argparse.Namespace) -> None:
        """Change the record."""
        from tonnage.extensions.moves.records import plan_records

        actions = {"pause": plan_records.pause, "resume": plan_records.resume, "stop": plan_records.stop}
        _database(self).run(actions[self.action], parsed_args.plan)


class CloudPlanPause(_RecordAction):
    """Start no further move of a plan for a cloud."""

    action, done = "pause", "is paused"


class CloudPlanResume(_RecordAction):
    """Go on with a paused plan for a cloud."""

    action, done = "resume", "runs"


class CloudPlanStop(_RecordAction):
    """End a plan for a cloud.

    The moves under way end as usual.
    """

    action, done = "stop", "is stopped"
