# SPDX-License-Identifier: Apache-2.0
"""``tonnage plan``: plans of moves, which move nothing."""

import argparse
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tonnage.cli import output
from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Column, capacity
from tonnage.cli.rest import connection_arguments
from tonnage.cli.simulation.argument_types import FOUND
from tonnage.extensions.moves import goal_arguments
from tonnage.extensions.moves.goals.goal import PHYSICAL, PROMISED

if TYPE_CHECKING:
    from tonnage.cli.rest.api_client import ApiClient


def _level(pool: str, bound: str) -> Column:
    used = "promised_gb" if bound == PROMISED else "used_gb"
    limit = "promise_limit_gb" if bound == PROMISED else "physical_limit_gb"

    def share(row: Mapping[str, Any]) -> float | None:
        level = row.get(f"{pool}_level")
        if level is None or level[used] is None or not level[limit]:
            return None
        return round(100 * float(level[used]) / float(level[limit]), 1)

    def text(row: Mapping[str, Any]) -> str:
        percent = share(row)
        return "" if percent is None else f"{percent:.1f} %"

    heading = f"{pool} {bound}" if pool == "target" else None
    return Column(f"{pool}_{bound}_percent", share, heading, text)


COLUMNS: Sequence[Column] = (
    Column("number", lambda row: row.get("number"), "no."),
    Column("volume", lambda row: row["volume_id"], "volume"),
    capacity("size", lambda row: row["size_gb"], "size"),
    Column("source", lambda row: row.get("source") or row.get("pool"), "from"),
    Column("target", lambda row: row.get("target"), "to", lambda row: row.get("target") or "stays"),
    Column("after", lambda row: row.get("after"), "after", lambda row: ", ".join(map(str, row.get("after") or ()))),
    *(_level(pool, bound) for pool in ("source", "target") for bound in (PHYSICAL, PROMISED)),
    Column("reason", lambda row: row["reason"], "why", width=60),
)


def duration(seconds: float | None) -> str:
    """Return a time in words, or an empty text for None."""
    if seconds is None:
        return ""
    minutes = round(seconds / 60)
    if not minutes:
        return f"{math.ceil(seconds)} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def client(command: base_commands.Command, parsed_args: argparse.Namespace) -> "ApiClient":
    """Return the client of the API that the arguments or the configuration of a command name."""
    from tonnage.cli.rest.api_client import ApiClient

    url = connection_arguments.api_url(command.conf, parsed_args.url)
    return ApiClient(url, cloud=parsed_args.os_cloud, extension="moves")


def make(api: "ApiClient", goal: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the plan of the API for a goal, in which pools may have short names. ``more`` are further fields.

    Raises the errors of :func:`~tonnage.extensions.moves.goal_arguments.with_full_names` and of the client.
    """
    body = {**goal, "arguments": goal_arguments.with_full_names(api, goal), **more}
    plan: dict[str, Any] = api.post("/move-plans", {"move_plan": body}, "move_plan")
    return plan


class Plan(base_commands.Lister):
    """Plan moves of volumes for a goal.

    The goals are: empty POOL or empty BACKEND, which moves all volumes away; relieve POOL --below PERCENT; balance
    [POOL ...], so that no pool promises far more than their mean; and fit SIZE, which makes room for a request that
    would be refused now. Nothing is moved; "plan apply" does that. Volumes that stay are listed with the reason. With
    --json the whole plan is printed, as the REST API has it. In another format for programs the outcome of a plan
    without moves is a line on standard error.
    """

    group = "ask"
    exit_statuses = f"Exit status: 0 if the plan reaches the goal, {FOUND} if not, 1 after an error, 2 for wrong usage."
    options: ClassVar[Sequence[str]] = ("tonnage.rpc.options", "tonnage.api.options")
    columns = COLUMNS
    has_json = True
    _plan: Mapping[str, Any]

    def __init__(self, *arguments: Any, **named_arguments: Any) -> None:
        super().__init__(*arguments, **named_arguments)
        self._footer = ""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        goal_arguments.add(parser)
        connection_arguments.add(parser)

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Sequence[Any]]:
        """Return the columns, the moves in their order, and the volumes that stay."""
        self._plan = plan = self.make(parsed_args)
        self.status = 0 if plan["is_reached"] else FOUND
        count = len(plan["moves"])
        moves = f"{count} move{'' if count == 1 else 's'} of {plan['moved_gb']} GiB"
        time = f" in about {duration(seconds)}" if (seconds := plan.get("seconds")) is not None else ""
        self.empty = self._footer = f"To {plan['goal']}: {moves}{time}; {plan['outcome']}."
        if count:
            self._footer += f"\nTo carry it out: {shlex.join(self.order(parsed_args))}"
        return COLUMNS, [*plan["moves"], *plan["staying"]]

    def make(self, parsed_args: argparse.Namespace) -> Mapping[str, Any]:
        """Return the plan as the REST API shows it."""
        goal = goal_arguments.read(self._parser, parsed_args, self.subcommands)
        return make(client(self, parsed_args), goal)

    def order(self, parsed_args: argparse.Namespace) -> list[str]:
        """Return the words of the command that carries the plan out."""
        connection = [] if parsed_args.url is None else ["--url", parsed_args.url]
        cloud = [] if parsed_args.os_cloud is None else ["--os-cloud", parsed_args.os_cloud]
        return ["tonnage", "plan", "apply", *goal_arguments.words(parsed_args), *connection, *cloud]

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any) -> int:
        """Print the moves, or the whole plan, and the outcome of a plan without moves."""
        if parsed_args.json:
            print(json.dumps({"move_plan": self._plan}, default=str), file=self.app.stdout)
            return 0
        if parsed_args.formatter != "table" and not self._plan["moves"]:
            output.print_error(self._footer)
        return super().produce_output(parsed_args, column_names, data)

    def footer(self) -> str:
        """Return the goal, the sums and the outcome in words."""
        return self._footer
