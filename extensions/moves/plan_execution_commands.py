# SPDX-License-Identifier: Apache-2.0
"""``tonnage plan apply``, ``list``, ``show``, ``pause``, ``resume`` and ``stop``: plans that are carried out."""

import argparse
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from tonnage.capacity import errors
from tonnage.cli import output
from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Column, Part, capacity
from tonnage.cli.rest import connection_arguments
from tonnage.cli.simulation import argument_types
from tonnage.cli.simulation.argument_types import FOUND
from tonnage.extensions.moves import goal_arguments, plan_commands
from tonnage.extensions.moves.records.hours import Hours

if TYPE_CHECKING:
    from tonnage.cli.rest.api_client import ApiClient

_OPTIONS = ("tonnage.rpc.options", "tonnage.api.options")

#: States of plans that have not ended, and the state of those that have reached their goals.
UNFINISHED, FINISHED = ("running", "paused"), "finished"
_WITHOUT_GOAL = ("stopped", "failed")

_POOLS_TITLE = "Pools before and after, as planned"

#: The command that lists the plans.
_LIST = "tonnage plan list"

#: Seconds between two looks of ``--wait`` at a plan.
_PAUSE_SECONDS = 0.5

#: The largest limit.
_LARGEST = 2**31 - 1

#: The limits by their options: the keys of the REST API.
_LIMITS = {
    "per_backend": "moves_per_backend",
    "moves": "moves",
    "in_flight": "in_flight_gb",
    "hours": "hours",
    "failures": "failures",
}


_PLAN_COLUMNS: Sequence[Column] = (
    Column("id", lambda row: row["id"], "id"),
    Column("goal", lambda row: row["goal"], "goal", width=15),
    Column("state", lambda row: row["state"], "state", is_bad=lambda row: row["state"] == "failed"),
    Column("moved", lambda row: row["moved"], "moved", lambda row: f"{row['moved']} of {row['moves']}"),
    Column("moves", lambda row: row["moves"]),
    replace(capacity("moved", lambda row: row["moved_gb"], "moved"), is_long=True),
    replace(capacity("size", lambda row: row["size_gb"], "of"), is_long=True),
    Column("moving", lambda row: row["moving"], "moving", is_long=True),
    Column("failed", lambda row: row["failed"], "failed", is_long=True),
    Column(
        "seconds_left",
        lambda row: row["seconds_left"],
        "time left",
        lambda row: _time_left(row),
        is_long=True,
    ),
    Column("message", lambda row: row["message"], "message", width=60, is_long=True),
    Column("outcome", lambda row: row["outcome"], text=lambda row: _outcome(row)),
    Column("user", lambda row: row["user_id"]),
    Column("mover", lambda row: row["mover"]),
    Column("created_at", lambda row: row["created_at"]),
    Column("ended_at", lambda row: row["ended_at"]),
)


def _time_left(plan: Mapping[str, Any]) -> str:
    """Return the time that is left in words: within the hours of the plan, if it has some."""
    text, hours = plan_commands.duration(plan["seconds_left"]), plan["limits"].get("hours")
    return f"{text} in the hours {hours}" if text and hours else text


def _limits(plan: Mapping[str, Any]) -> str:
    """Return the limits of a plan in words."""
    limits = plan["limits"]
    backend, moves = limits.get("moves_per_backend"), limits.get("moves")
    in_flight = f"{limits['in_flight_gb']} GiB" if limits.get("in_flight_gb") else "any GiB"
    hours = f"in the hours {limits['hours']}" if limits.get("hours") else "at all hours"
    failures = f"until {limits.get('failures')} moves have failed"
    return f"at a time {moves} moves, {backend} of a backend, and {in_flight}; {hours}; {failures}"


_STEP_COLUMNS: Sequence[Column] = (
    Column("number", lambda row: row["number"], "no."),
    Column("generation", lambda row: row["generation"]),
    Column("volume", lambda row: row["volume_id"], "volume"),
    capacity("size", lambda row: row["size_gb"], "size"),
    Column("source", lambda row: row["source"], "from"),
    Column("target", lambda row: row["target"], "to"),
    Column("after", lambda row: row["after"], "after", lambda row: ", ".join(map(str, row["after"]))),
    Column("state", lambda row: row["state"], "state", is_bad=lambda row: row["state"] == "failed"),
    Column("message", lambda row: row["message"], "message", width=60),
    Column("reason", lambda row: row["reason"]),
    Column("started_at", lambda row: row["started_at"]),
    Column("ended_at", lambda row: row["ended_at"]),
)

_STAYING_COLUMNS: Sequence[Column] = (
    Column("volume", lambda row: row["volume_id"], "volume"),
    capacity("size", lambda row: row["size_gb"], "size"),
    Column("pool", lambda row: row["pool"], "stays in"),
    Column("reason", lambda row: row["reason"], "why", width=60),
)


def _level(moment: str, figure: str, heading: str | None) -> Column:
    """Return the column of a figure of a pool, ``before`` or ``after`` the plan."""
    return capacity(f"{moment}_{figure}", lambda row: (row[moment] or {}).get(f"{figure}_gb"), heading)


_POOL_COLUMNS: Sequence[Column] = (
    Column("pool", lambda row: row["pool"], "pool"),
    *(
        _level(moment, figure, heading)
        for moment in ("before", "after")
        for figure, heading in (
            ("promised", f"promised {moment}"),
            ("promise_limit", None),
            ("used", f"used {moment}"),
            ("physical_limit", None),
        )
    ),
)

APPLIED_COLUMNS: Sequence[Column] = (
    Column("id", lambda row: row["id"], "id"),
    Column("goal", lambda row: row["goal"], "goal"),
    Column("outcome", lambda row: row["outcome"], "outcome"),
    Column("moves", lambda row: len(row["moves"]), "moves"),
    capacity("moved", lambda row: row["moved_gb"], "size"),
    Column("seconds", lambda row: row.get("seconds"), "time", lambda row: plan_commands.duration(row.get("seconds"))),
    Column("state", lambda row: row.get("state"), "state"),
    Column("message", lambda row: row.get("message"), "message"),
)


def _outcome(plan: Mapping[str, Any]) -> str:
    """Return the outcome of a plan in words; an outcome that is not reached is said to be planned."""
    outcome = plan["outcome"] or ""
    return f"planned: {outcome}" if outcome and plan["state"] in _WITHOUT_GOAL else outcome


def _none_stays(plan: Mapping[str, Any]) -> str:
    """Return the words for no volume that stays, by the state of the plan."""
    if plan.get("state") in _WITHOUT_GOAL:
        return "The plan named none."
    return "No volume stays." if plan["is_reached"] else "The plan names none."


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the limits of a plan to a parser."""
    number = argument_types.count(_LARGEST)
    parser.add_argument("--per-backend", type=number, metavar="N", help="most moves at a time of a backend")
    parser.add_argument("--moves", type=number, metavar="N", help="most moves at a time")
    parser.add_argument(
        "--in-flight", type=_in_flight, metavar="GIB", help="most GiB that are copied at a time; 0: any"
    )
    parser.add_argument("--hours", type=_hours, metavar="22-06", help="hours of the day in which moves begin")
    parser.add_argument("--failures", type=number, metavar="N", help="give the plan up when N moves have failed")


def _in_flight(text: str) -> int:
    """Parse the GiB that are copied at a time."""
    return 0 if text == "0" else argument_types.count(_LARGEST)(text)


def _hours(text: str) -> str:
    """Parse hours of the day."""
    try:
        Hours.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def read_limits(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the limits that a command line names."""
    return {name: value for option, name in _LIMITS.items() if (value := getattr(parsed_args, option)) is not None}


class PlanApply(base_commands.ShowOne):
    """Make a plan of moves, and carry it out.

    The goals are those of "tonnage plan". The schedulers move the volumes in the background: "plan show" tells how far
    they are, "plan stop" ends the plan.
    """

    group = "change"
    options = _OPTIONS
    columns = APPLIED_COLUMNS
    can_repeat = False
    exit_statuses = (
        f"Exit status: 0 if the plan reaches the goal, or with --wait has reached it, {FOUND} if not, 1 after an "
        "error, 2 for wrong usage."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        goal_arguments.add(parser)
        add_limits(parser)
        parser.add_argument("--wait", action="store_true", help="wait until the plan has ended")
        connection_arguments.add(parser)

    def find(self, parsed_args: argparse.Namespace) -> tuple[Any, Sequence[Part]]:
        """Return the plan, and its moves as a part."""
        goal = goal_arguments.read(self._parser, parsed_args)
        limits = read_limits(parsed_args)
        client = plan_commands.client(self, parsed_args)
        plan = plan_commands.make(client, goal, apply=True, limits=limits)
        self.status = 0 if plan["is_reached"] else FOUND
        if plan["id"] is None:
            plan["id"] = id_of_no_plan(parsed_args)
        elif parsed_args.wait:
            amount = f"{len(plan['moves'])} move{'' if len(plan['moves']) == 1 else 's'} of {plan['moved_gb']} GiB"
            output.print_error(f"Plan {plan['id']}: {amount}; {plan['outcome']}")
            try:
                applied = _ended(client, plan["id"])
            except KeyboardInterrupt:
                output.print_error(f"Plan {plan['id']} goes on: 'tonnage plan stop {plan['id']}' ends it")
                raise
            plan |= {"state": applied["state"], "message": applied["message"]}
            self.status = 0 if applied["state"] == FINISHED else FOUND
        return plan, [
            Part("plan", "Moves", plan_commands.COLUMNS, plan["moves"], "Nothing is to be moved."),
            Part("staying", "Volumes that stay", _STAYING_COLUMNS, plan["staying"], _none_stays(plan)),
        ]


def id_of_no_plan(parsed_args: argparse.Namespace) -> str | None:
    """Return the id of a plan without moves, which is not carried out: an empty line in the format for scripts."""
    return "" if parsed_args.formatter == "value" else None


def _ended(client: "ApiClient", plan_id: str) -> Mapping[str, Any]:
    """Return a plan when it has ended. Until then print why it waits, on standard error."""
    shown = None
    while True:
        plan: Mapping[str, Any] = client.get(f"/move-plans/{plan_id}", "move_plan", steps="0")
        if plan["state"] not in UNFINISHED:
            return plan
        if plan["message"] and plan["message"] != shown:
            shown = plan["message"]
            output.print_error(f"Plan {plan_id}: {shown}")
        time.sleep(_PAUSE_SECONDS)


class PlanList(base_commands.Lister):
    """List the plans that are or were carried out."""

    group = "ask"
    options: ClassVar[Sequence[str]] = _OPTIONS
    columns = _PLAN_COLUMNS
    has_long = True
    empty = "No plan was carried out."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        states = (*UNFINISHED, "stopped", FINISHED, "failed")
        parser.add_argument("--state", choices=states, help="only plans in this state")
        parser.add_argument(
            "--limit", type=argument_types.count(1000), metavar="N", default=20, help="only the last N (default: 20)"
        )
        self.add_connection(parser)

    def add_connection(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the connection."""
        connection_arguments.add(parser)

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Iterable[Any]]:
        """Return the columns and the plans."""
        return _PLAN_COLUMNS, self.plans(parsed_args)

    def plans(self, parsed_args: argparse.Namespace) -> Iterable[Any]:
        """Return the plans as the REST API shows them."""
        plans: Iterable[Any] = plan_commands.client(self, parsed_args).get(
            "/move-plans", "move_plans", state=parsed_args.state, limit=str(parsed_args.limit)
        )
        return plans


class PlanShow(base_commands.ShowOne):
    """Show a plan, its moves, the volumes that stay, and the levels of its pools before and after.

    A pool that the plan does not use any more since it was made anew has no levels after it.
    """

    group = "ask"
    options: ClassVar[Sequence[str]] = _OPTIONS
    columns = (*_PLAN_COLUMNS, Column("limits", lambda row: row["limits"], text=_limits))
    list_command: ClassVar[str] = _LIST
    exit_statuses = f"Exit status: 0 unless the plan has ended without its goal, {FOUND} if it has, 1 after an error."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("plan", type=argument_types.name, metavar="PLAN", help="id of the plan")
        self.add_connection(parser)

    def add_connection(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the connection."""
        connection_arguments.add(parser)

    def plan(self, parsed_args: argparse.Namespace) -> Mapping[str, Any]:
        """Return the plan as the REST API shows it."""
        plan: Mapping[str, Any] = plan_commands.client(self, parsed_args).get(
            f"/move-plans/{_path(parsed_args.plan)}", "move_plan"
        )
        return plan

    def find(self, parsed_args: argparse.Namespace) -> tuple[Any, Sequence[Part]]:
        """Return the plan, and its steps, the volumes that stay and its pools as parts."""
        with _naming(self.list_command):
            plan = self.plan(parsed_args)
        self.status = 0 if plan["state"] in (*UNFINISHED, FINISHED) else FOUND
        return plan, [
            Part("steps", "Moves", _STEP_COLUMNS, plan["steps"], "It has no moves."),
            Part("staying", "Volumes that stay", _STAYING_COLUMNS, plan["staying"], _none_stays(plan)),
            Part(
                "pools",
                "Pools before and after, as planned",
                _POOL_COLUMNS,
                plan["pools"],
                "No levels of pools are recorded.",
            ),
        ]


class PlanAction(base_commands.Command):
    """An action on a plan."""

    group = "change"
    options: ClassVar[Sequence[str]] = _OPTIONS
    exit_statuses = "Exit status: 0 if it is done, 1 after an error."
    list_command: ClassVar[str] = _LIST
    action: str
    done: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("plan", type=argument_types.name, metavar="PLAN", help="id of the plan")
        self.add_connection(parser)

    def add_connection(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the connection."""
        connection_arguments.add(parser)

    def act(self, parsed_args: argparse.Namespace) -> None:
        """Send the action."""
        plan_commands.client(self, parsed_args).act(
            f"/move-plans/{_path(parsed_args.plan)}/action", {self.action: None}
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Do the action."""
        with _naming(self.list_command):
            self.act(parsed_args)
        print(f"Plan {parsed_args.plan} {self.done}")
        return 0


class PlanPause(PlanAction):
    """Start no further move of a plan."""

    action, done = "pause", "is paused"


class PlanResume(PlanAction):
    """Go on with a paused plan."""

    action, done = "resume", "runs"


class PlanStop(PlanAction):
    """End a plan once its moves under way have ended."""

    action, done = "stop", "is stopped"


@contextlib.contextmanager
def _naming(list_command: str) -> Iterator[None]:
    """Let the error about a plan that is not there name the command that lists the plans."""
    try:
        yield
    except errors.NotFound as error:
        raise errors.NotFound(f"{error.message}; '{list_command}' lists the plans with their whole ids") from None


def _path(plan_id: str) -> str:
    import urllib.parse

    return urllib.parse.quote(plan_id, safe="")
