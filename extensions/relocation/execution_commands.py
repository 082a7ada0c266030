# SPDX-License-Identifier: Apache-2.0
"""``tonnage cinder plan apply`` and ``run``: Cinder carries out the plans of a cloud."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Part
from tonnage.cli.simulation.argument_types import FOUND
from tonnage.extensions.moves import goal_arguments, plan_commands, plan_execution_commands
from tonnage.extensions.relocation import cloud_connection, relocation_commands

if TYPE_CHECKING:
    from tonnage.extensions.relocation.relocation import Relocation

_ENDED = (
    f"Exit status: 0 if the plan has reached its goal, or with --start is meant to, {FOUND} if not, 1 after an error, "
    "2 for wrong usage."
)


class CloudPlanApply(base_commands.ShowOne):
    """Let Cinder carry out a plan of moves for a cloud.

    The command makes the plan, orders the moves and waits until the plan has ended. If it is interrupted, the moves
    under way go on in Cinder, and "cinder plan run" carries the plan on.
    """

    group = "change"
    options = relocation_commands.OPTIONS
    columns = plan_execution_commands.APPLIED_COLUMNS
    can_repeat = False
    exit_statuses = _ENDED

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        goal_arguments.add(parser)
        relocation_commands.add_choices(parser)
        plan_execution_commands.add_limits(parser)
        parser.add_argument(
            "--start", action="store_true", help='record the plan and return: "cinder plan run" carries it out'
        )
        cloud_connection.add(parser)

    def find(self, parsed_args: argparse.Namespace) -> tuple[Any, Sequence[Part]]:
        """Return the plan, and its moves as a part."""
        import uuid

        import msgspec

        from tonnage.extensions.moves import plan_bodies
        from tonnage.extensions.moves.plan_messages import ApplyPlan
        from tonnage.extensions.moves.planning.plan import PlanQuery
        from tonnage.extensions.moves.records import plan_records

        goal = goal_arguments.read(self._parser, parsed_args)
        relocation, project, user = relocation_commands.connect(self, parsed_args)
        relocation.require_own_plans()
        choices = relocation_commands.choices_of(relocation.client, parsed_args)
        order = ApplyPlan(
            plan_id=str(uuid.uuid4()),
            query=PlanQuery(**goal, options=choices.as_options()),
            limits=plan_execution_commands.read_limits(parsed_args),
            project_id=project,
            user_id=user,
        )
        made = relocation.starter().apply(order)
        no_id = plan_execution_commands.id_of_no_plan(parsed_args)
        plan: dict[str, Any] = {"id": no_id, **msgspec.to_builtins(plan_bodies.plan_body(made))}
        self.status = 0 if made.is_reached else FOUND
        if made.moves:
            plan["id"] = order.plan_id
            if not parsed_args.start:
                print(f"Plan {order.plan_id}: {made.amount}; {made.outcome}", file=sys.stderr, flush=True)
                _run(relocation, lambda: _has_ended(relocation, order.plan_id))
            row = relocation.database.read(plan_records.get, order.plan_id)
            plan |= {"state": row.state, "message": row.message}
            if not parsed_args.start:
                self.status = 0 if row.state == plan_execution_commands.FINISHED else FOUND
        rows = [*plan["moves"], *plan["staying"]]
        return plan, [Part("plan", "Moves", plan_commands.COLUMNS, rows, "Nothing is to be moved.")]


class CloudPlanRun(base_commands.Command):
    """Carry on the plans of a cloud until they have ended.

    Any number of processes may do so at the same time: no move is begun twice.
    """

    group = "change"
    options = relocation_commands.OPTIONS
    exit_statuses = "Exit status: 0 when no plan is left, 1 after an error."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("--forever", action="store_true", help="wait for further plans, as a service")
        cloud_connection.add(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Carry plans on."""
        from tonnage.extensions.moves.records import plan_records
        from tonnage.extensions.relocation import plan_choices

        relocation, _, _ = relocation_commands.connect(self, parsed_args)
        relocation.require_own_plans()

        def is_over() -> bool:
            if parsed_args.forever:
                relocation.require_own_plans()
                return False
            return not relocation.database.read(plan_records.open_plans, plan_choices.MOVER)

        _run(relocation, is_over)
        return 0


def _run(relocation: "Relocation", is_over: Callable[[], bool]) -> None:
    """Carry plans out, with a line on standard error for each change of their progress."""
    shown: dict[str, str] = {}

    def is_over_now() -> bool:
        for plan_id, text in _progress(relocation).items():
            if shown.get(plan_id) != text:
                shown[plan_id] = text
                print(f"Plan {plan_id}: {text}", file=sys.stderr, flush=True)
        return is_over()

    relocation.run(is_over_now)


def _progress(relocation: "Relocation") -> Mapping[str, str]:
    """Return the progress of the plans in words."""
    from tonnage.extensions.moves.records import plan_progress, plan_records, tables
    from tonnage.extensions.relocation import plan_choices

    texts = {}
    with relocation.database.reading() as session:
        plans = plan_records.open_plans(session, plan_choices.MOVER)
        for plan, progress in zip(plans, plan_progress.load(session, plans).values(), strict=True):
            moved, moving = progress.of(tables.MOVED), progress.of(tables.MOVING)
            failed = progress.of(tables.STEP_FAILED).moves
            text = f"{plan.state}, {moved.moves} moved ({moved.size_gb} GiB), {moving.moves} moving"
            text += f", {failed} failed" if failed else ""
            texts[plan.id] = f"{text}; {plan.message}" if plan.message else text
    return texts


def _has_ended(relocation: "Relocation", plan_id: str) -> bool:
    """Return whether a plan has ended, and its last move too."""
    from tonnage.extensions.moves.records import plan_records
    from tonnage.extensions.relocation import plan_choices

    return plan_id not in {plan.id for plan in relocation.database.read(plan_records.open_plans, plan_choices.MOVER)}
