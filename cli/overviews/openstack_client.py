# SPDX-License-Identifier: Apache-2.0
"""Commands of OpenStackClient for administrators: ``openstack volume why`` and ``openstack volume refusal list``.

They ask the REST API, with the account that ``openstack`` uses. The keys are the same as those of the command
``tonnage``: snake_case, and sizes in bytes.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openstack import exceptions
from osc_lib.command import command

_GIB = 2**30

#: The columns of refusals in a table, and the further ones.
_SHORT = ("refused_at", "verb", "code", "message")
_LONG = ("request", "filter", "pool", "largest_size_bytes", "project_id", "volume_id", "request_id")
_COUNTED = ("day", "verb", "filter", "code", "refusals", "last_at")


def get(client: Any, path: str, **query: Any) -> Any:
    """Return the answer of the REST API to a query."""
    parameters = {key: value for key, value in query.items() if value is not None}
    response = client.app.client_manager.sdk_connection.volume.get(path, params=parameters)
    exceptions.raise_from_response(response)
    return response.json()


def _bytes(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object of the REST API with its sizes in bytes."""
    return {
        f"{key.removesuffix('_gb')}_bytes" if key.endswith("_gb") else key: (
            round(value * _GIB) if key.endswith("_gb") and value is not None else value
        )
        for key, value in row.items()
    }


class ListRefusals(command.Lister):
    """List the refused requests for volumes, the newest first, with the reason of the nearest pool."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("--pool", metavar="<pool>", help="only those whose nearest pool it was")
        parser.add_argument("--code", metavar="<code>", help="only those with this reason, such as no_capacity")
        parser.add_argument("--project", metavar="<project-id>", help="only those of this project")
        parser.add_argument("--limit", type=int, metavar="<number>", help="most refusals (default: 100)")
        parser.add_argument("--long", action="store_true", help="show all columns")
        parser.add_argument("--summary", action="store_true", help="count them for each day (UTC) and reason")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterator[tuple[Any, ...]]]:
        """Return the columns and the rows."""
        query = {
            "pool": parsed_args.pool,
            "code": parsed_args.code,
            "project_id": parsed_args.project,
            "limit": parsed_args.limit,
            "summary": "true" if parsed_args.summary else None,
        }
        reply = get(self, "/scheduler-stats/refusals", **query)
        columns = _COUNTED if parsed_args.summary else (*_SHORT, *_LONG) if parsed_args.long else _SHORT
        rows = [_bytes(row) for row in reply["refusal_counts" if parsed_args.summary else "refusals"]]
        return columns, (tuple(row[column] for column in columns) for row in rows)


class ShowWhy(command.ShowOne):
    """Show why a volume is where it is, or was refused, and how the same request would be decided now."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("volume", metavar="<volume>", help="id or name of a volume, or the id of a request")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the fields and their values."""
        why = _bytes(get(self, "/scheduler-stats/why", volume=parsed_args.volume)["why"])
        explanation, unexplained = why.pop("explanation"), why.pop("unexplained")
        now = explanation or {}
        why["claims"] = [_bytes(claim) for claim in why["claims"]]
        why["refusals"] = [_bytes(refusal) for refusal in why["refusals"]]
        why["pool_now"], why["decision_now"] = now.get("pool"), now.get("message", unexplained)
        why["pools"] = [_verdict(verdict, now["pool"]) for verdict in now.get("verdicts", ())]
        return tuple(why), tuple(why.values())


def _verdict(verdict: Mapping[str, Any], chosen: str | None) -> dict[str, Any]:
    """Return the verdict on a pool in the form of ``tonnage why``."""
    headroom, rejection = verdict["headroom"], verdict["rejection"]
    reasons = [] if rejection is None else [{"filter": verdict["filter"], "rejection": rejection}, *verdict["also"]]
    refused = verdict["filter"] is not None
    return {
        "pool": verdict["pool"],
        "verdict": "refused" if refused else "chosen" if verdict["pool"] == chosen else "candidate",
        "headroom_bytes": round(headroom * _GIB) if isinstance(headroom, int | float) else None,
        "is_thin": verdict["thin"],
        "total_weight": verdict["total_weight"],
        "code": None if rejection is None else rejection["code"],
        "because": "; ".join(f"{reason['filter']}: {reason['rejection']['message']}" for reason in reasons) or None,
    }
