# SPDX-License-Identifier: Apache-2.0
"""``tonnage why``: the decisions on one volume, and the decision that the same request would get now."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Column, Part, capacity, json_text
from tonnage.cli.overviews import refused_requests, volumes
from tonnage.cli.rest import connection_arguments
from tonnage.cli.simulation import argument_types, explanations

if TYPE_CHECKING:
    from oslo_config import cfg

    from tonnage.capacity.explanation import Explanation
    from tonnage.ledger.catalog.volume_decisions import VolumeDecisions


_NO_REQUEST = "not asked, because the ledger does not have this request; 'tonnage explain' asks"
_NOT_REFUSED = "not asked: of Cinder's requests the ledger has only those whose pools a scheduler refused"
_NO_BUS = "not asked: transport_url is not set for this command; set it to that of cinder.conf"
_UNANSWERED = "unknown, for the reason on standard error"


class _Row(NamedTuple):
    """The decisions on a volume, and the explanation of the same request now; None if no scheduler was asked."""

    decisions: "VolumeDecisions"
    now: "Explanation | None"


class _Answer(NamedTuple):
    """The answer of a scheduler: an explanation, and the number of pools that it leaves out; or why there is none."""

    explanation: "Explanation | None" = None
    left_out: int = 0
    unknown: str = ""


COLUMNS: Sequence[Column] = (
    Column("volume_id", lambda row: row.decisions.id),
    Column("name", lambda row: row.decisions.name),
    Column("project_id", lambda row: row.decisions.project_id),
    Column("status", lambda row: row.decisions.status),
    capacity("size", lambda row: row.decisions.size_gb),
    Column("volume_type", lambda row: row.decisions.volume_type),
    Column("pool", lambda row: row.decisions.pool),
    Column("reason", lambda row: row.decisions.reason, width=90),
    Column("waits_for", lambda row: row.decisions.waits_for, width=90),
    Column("drain", lambda row: row.decisions.drain, width=90),
    Column("provisioning", lambda row: row.decisions.provisioning),
    Column("request_id", lambda row: row.decisions.request_id),
    Column("requested_zone", lambda row: row.decisions.requested_zone),
    Column("scheduler_hints", lambda row: row.decisions.hints, text=lambda row: json_text(row.decisions.hints)),
    Column("attempted_pools", lambda row: list(row.decisions.attempted_pools), text=lambda row: _list(row.decisions)),
    Column("status_reason", lambda row: row.decisions.status_reason, width=90),
    Column("created_at", lambda row: row.decisions.created_at),
    Column("pool_now", lambda row: None if row.now is None else row.now.pool),
    Column("decision_now", lambda row: None if row.now is None else row.now.message, width=90),
)

#: The columns with a scheduler's answer.
_NOW = frozenset({"pool_now", "decision_now"})


def _ask_again(conf: "cfg.ConfigOpts", parsed_args: argparse.Namespace, decisions: "VolumeDecisions") -> _Answer:
    """Return the explanation of the same request now. An error is on standard error."""
    from tonnage.capacity import errors
    from tonnage.rpc import cinder_explanations

    body = decisions.request_body
    if parsed_args.offline:
        return _Answer(unknown="not asked (--offline)")
    if parsed_args.columns and _NOW.isdisjoint(parsed_args.columns):
        return _Answer(unknown="not asked: no chosen column has the answer")
    if body is None:
        return _Answer(unknown=_NOT_REFUSED if decisions.of_cinder else _NO_REQUEST)
    try:
        if (cinder_body := body.get("cinder")) is None:
            # With the libraries of the API, which the environment of a Cinder has not.
            from tonnage.cli.simulation import scheduler_query

            target = scheduler_query.QueryTarget(url=parsed_args.url, cloud=parsed_args.os_cloud)
            [outlook] = scheduler_query.query(conf, {"requests": [dict(body)], "detail": True}, target)
            return _Answer(outlook.volumes[0])
        if not connection_arguments.names_bus(conf):
            return _Answer(unknown=_NO_BUS)
        # A table needs no more pools than it shows; a program may want all.
        most = (parsed_args.rows or None) if parsed_args.formatter == "table" else None
        partial = cinder_explanations.ask(conf, cinder_body["request"], cinder_body["exchange"], most)
    except errors.TonnageError as error:
        return _unanswered(error.message)
    return _Answer(partial.explanation, partial.pools - len(partial.explanation.verdicts))


def _ask_api(url: str, parsed_args: argparse.Namespace) -> tuple[Any, _Answer]:
    """Return the decisions on a volume and the explanation of the same request now, both of the REST API."""
    from tonnage.capacity import type_conversion
    from tonnage.capacity.explanation import Explanation
    from tonnage.cli.rest import ledger_rows
    from tonnage.cli.rest.api_client import ApiClient

    client = ApiClient(url, cloud=parsed_args.os_cloud)
    why = client.get("/scheduler-stats/why", "why", volume=parsed_args.volume)
    volume_id = why.pop("volume_id")
    claims = [ledger_rows.as_row({**claim, "volume_id": volume_id}) for claim in why.pop("claims")]
    refusals = [ledger_rows.as_row(refusal) for refusal in why.pop("refusals")]
    explanation, unexplained = why.pop("explanation"), why.pop("unexplained")
    decisions = ledger_rows.as_row(
        {**why, "id": volume_id, "hints": why["scheduler_hints"], "claims": claims, "refusals": refusals}
    )
    if explanation is not None:
        return decisions, _Answer(type_conversion.convert(explanations.with_nan(explanation), Explanation))
    if unexplained is None:
        return decisions, _Answer(unknown=_NO_REQUEST)
    return decisions, _unanswered(unexplained)


def _unanswered(reason: str) -> _Answer:
    """Print the reason why no scheduler has answered on standard error, and return the lack of an answer."""
    print(f"tonnage: how the request would be decided now is unknown: {reason}", file=sys.stderr)
    return _Answer(unknown=_UNANSWERED)


def _list(decisions: "VolumeDecisions") -> str:
    return ", ".join(decisions.attempted_pools)


class Why(base_commands.ShowOne):
    """Tell why a volume is where it is.

    It shows the request, the claims and the refusals that the ledger has, and how a scheduler would decide the same
    request now, pool by pool. Nothing is placed.
    """

    group = "ask"
    exit_statuses = (
        "Exit status: 0 if the answer is complete, 1 after an error, also if no scheduler says how it decides now."
    )
    options = (*base_commands.SCHEDULER, *base_commands.LEDGER)
    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("volume", metavar="VOLUME", help="id or name of a volume, or the id of a request")
        connection_arguments.add(parser)
        parser.add_argument("--offline", action="store_true", help="ask no scheduler")
        parser.add_argument(
            "--rows",
            type=argument_types.number_or_all,
            default=20,
            metavar="N",
            help="most rows of each table, 0: all (default: 20)",
        )

    def find(self, parsed_args: argparse.Namespace) -> tuple[_Row, Sequence[Part]]:
        """Return the decisions on the volume, with the claims, the refusals and the pools."""
        from tonnage.cli import ledger_access
        from tonnage.ledger.catalog import volume_decisions

        url = connection_arguments.ledger_url(self.conf, parsed_args.url)
        if url is None:
            with ledger_access.connect(self.conf).reading() as session:
                decisions = volume_decisions.find(session, parsed_args.volume, self.conf.service_down_time)
            answer = _ask_again(self.conf, parsed_args, decisions)
        else:
            decisions, answer = _ask_api(url, parsed_args)
        self.status = 1 if answer.unknown == _UNANSWERED else 0
        now = answer.explanation
        verdicts = [] if now is None else explanations.rows(now)
        most = parsed_args.rows or None
        claims = decisions.claims
        parts = (
            Part("claims", "Claims", volumes.with_waits(volumes.CLAIMS, claims), claims, "none", most),
            Part("refusals", "Refusals", refused_requests.COLUMNS, decisions.refusals, "none recorded", most),
            Part(
                "pools",
                "The same request now",
                explanations.columns(verdicts[:most]),
                verdicts,
                answer.unknown or "none",
                most,
                answer.left_out,
                () if now is None else explanations.notes(now, verdicts[:most]),
            ),
        )
        return _Row(decisions, now), parts
