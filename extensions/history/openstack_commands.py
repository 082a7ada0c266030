# SPDX-License-Identifier: Apache-2.0
"""The command of OpenStackClient ``openstack volume forecast list``, for administrators. It asks the REST API."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from osc_lib.command import command

from tonnage.cli.overviews.openstack_client import get

#: The columns of forecasts of pools, and of the refusals to come of volume types.
_FORECASTS = ("pool", "bound", "forecast", "p10_days", "p50_days", "p90_days", "hit_rate", "checked", "made_on")
_COMING = ("volume_type", "forecast", "message", "refused_runs", "runs", "filter", "known_days", "made_at")


class ListForecasts(command.Lister):
    """List when pools will be full, by their physical and their promised capacity; the soonest comes first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("--refusals", action="store_true", help="list which volume types will be refused instead")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterator[tuple[Any, ...]]]:
        """Return the columns and the rows."""
        if parsed_args.refusals:
            rows = get(self, "/capacity-overview/coming-refusals")["types"]
        else:
            reply = get(self, "/capacity-overview/forecasts")
            rows = reply["forecasts"]
            if reply["count"] > len(rows):
                print(f"The soonest {len(rows)} of {reply['count']} forecasts", file=sys.stderr)
        columns = _COMING if parsed_args.refusals else _FORECASTS
        return columns, (tuple(row["text" if key == "forecast" else key] for key in columns) for row in rows)
