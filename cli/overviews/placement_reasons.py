# SPDX-License-Identifier: Apache-2.0
"""``tonnage why``: the decisions on one volume, and the decision that the same request would get now."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tonnage.cli.commands import subcommands
from tonnage.cli.overviews import formats, refused_requests, volumes
from tonnage.cli.overviews.formats import Column, Part, capacity
from tonnage.cli.simulation import argument_types, simulation_arguments

if TYPE_CHECKING:
    from oslo_config import cfg

    from tonnage.capacity.explanation import Explanation, PoolVerdict
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


class _Verdict(NamedTuple):
    """The verdict on one pool."""

    of: "PoolVerdict"
    chosen: bool

    @property
    def word(self) -> str:
        return "refused" if self.of.filter is not None else "chosen" if self.chosen else "candidate"

    @property
    def headroom_gb(self) -> float | None:
        return self.of.headroom if isinstance(self.of.headroom, float | int) else None

    @property
    def because(self) -> str | None:
        if self.of.rejection is None:
            return None
        further_reasons = [f"{refusal.filter}: {refusal.rejection.message}" for refusal in self.of.also]
        return "; ".join([f"{self.of.filter}: {self.of.rejection.message}", *further_reasons])

    @property
    def weights(self) -> dict[str, str]:
        return {weight.weigher: weight.text for weight in self.of.weights}

    @property
    def text(self) -> str:
        return self.because or "; ".join(f"{weigher}: {text}" for weigher, text in self.weights.items())


COLUMNS: Sequence[Column] = (
    Column("volume_id", lambda row: row.decisions.id),
    Column("name", lambda row: row.decisions.name),
    Column("project_id", lambda row: row.decisions.project_id),
    Column("status", lambda row: row.decisions.status),
    capacity("size", lambda row: row.decisions.size_gb),
    Column("volume_type", lambda row: row.decisions.volume_type),
    Column("pool", lambda row: row.decisions.pool),
    Column("reason", lambda row: row.decisions.reason, width=90),
    Column("provisioning", lambda row: row.decisions.provisioning),
    Column("request_id", lambda row: row.decisions.request_id),
    Column("requested_zone", lambda row: row.decisions.requested_zone),
    Column("scheduler_hints", lambda row: row.decisions.hints, text=lambda row: formats.json_text(row.decisions.hints)),
    Column("attempted_pools", lambda row: list(row.decisions.attempted_pools), text=lambda row: _list(row.decisions)),
    Column("status_reason", lambda row: row.decisions.status_reason, width=90),
    Column("created_at", lambda row: row.decisions.created_at),
    Column("pool_now", lambda row: None if row.now is None else row.now.pool),
    Column("decision_now", lambda row: None if row.now is None else row.now.message, width=90),
)

#: The columns with a scheduler's answer.
_NOW = frozenset({"pool_now", "decision_now"})

_POOLS: Sequence[Column] = (
    Column("pool", lambda row: row.of.pool, "pool"),
    Column("verdict", lambda row: row.word, "verdict"),
    capacity("headroom", lambda row: row.headroom_gb, "headroom"),
    Column("is_thin", lambda row: row.of.thin),
    Column("total_weight", lambda row: row.of.total_weight, "weight"),
    Column("code", lambda row: None if row.of.rejection is None else row.of.rejection.code),
    Column("weights", lambda row: row.weights),
    Column("because", lambda row: row.because, "because", lambda row: row.text, width=70),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    subcommands.describe(
        parser,
        "It shows the request, the claims and the refusals that the ledger has, and how a scheduler would decide the "
        "same request now, pool by pool. Nothing is placed.",
        "Exit status: 0 if the answer is complete, 1 after an error, also if no scheduler says how it decides now.",
    )
    parser.add_argument("volume", metavar="VOLUME", help="id or name of a volume, or the id of a request")
    simulation_arguments.add_target(parser)
    parser.add_argument("--offline", action="store_true", help="ask no scheduler")
    parser.add_argument(
        "--rows",
        type=argument_types.number_or_all,
        default=20,
        metavar="N",
        help="most rows of each table, 0: all (default: 20)",
    )
    formats.add_options_of_one(parser, COLUMNS)
    parser.set_defaults(run=_show)


def _show(conf: "cfg.ConfigOpts", arguments: argparse.Namespace) -> int:
    from tonnage.cli.commands import ledger_access
    from tonnage.ledger.catalog import volume_decisions

    with ledger_access.connect(conf).reading() as session:
        decisions = volume_decisions.find(session, arguments.volume)
    answer = _ask_again(conf, arguments, decisions)
    now = answer.explanation
    verdicts = [] if now is None else [_Verdict(verdict, verdict.pool == now.pool) for verdict in now.ranked()]
    most = arguments.rows or None
    empty = answer.unknown or "none"
    parts = (
        Part("claims", "Claims", volumes.CLAIMS, decisions.claims, "none", most),
        Part("refusals", "Refusals", refused_requests.COLUMNS, decisions.refusals, "none recorded", most),
        Part("pools", "The same request now", _POOLS, verdicts, empty, most, answer.left_out),
    )
    formats.show_one(arguments, COLUMNS, _Row(decisions, now), parts)
    if answer.unknown == _UNANSWERED:
        return 1
    return 0


def _ask_again(conf: "cfg.ConfigOpts", arguments: argparse.Namespace, decisions: "VolumeDecisions") -> _Answer:
    """Return the explanation of the same request now. An error is on standard error."""
    from tonnage.capacity import errors
    from tonnage.cli.simulation import scheduler_query
    from tonnage.rpc import cinder_explanations

    body = decisions.request_body
    if arguments.offline:
        return _Answer(unknown="not asked (--offline)")
    if arguments.column and _NOW.isdisjoint(arguments.column):
        return _Answer(unknown="not asked: no chosen column has the answer")
    if body is None:
        return _Answer(unknown=_NOT_REFUSED if decisions.of_cinder else _NO_REQUEST)
    try:
        if (cinder_body := body.get("cinder")) is None:
            target = scheduler_query.QueryTarget(url=arguments.url, cloud=arguments.os_cloud)
            [outlook] = scheduler_query.query(conf, {"requests": [dict(body)], "detail": True}, target)
            return _Answer(outlook.volumes[0])
        if not scheduler_query.names_bus(conf):
            return _Answer(unknown=_NO_BUS)
        # A table needs no more pools than it shows; a program may want all.
        most = (arguments.rows or None) if arguments.format == "table" else None
        partial = cinder_explanations.ask(conf, cinder_body["request"], cinder_body["exchange"], most)
    except errors.TonnageError as error:
        print(f"tonnage: how the request would be decided now is unknown: {error.message}", file=sys.stderr)
        return _Answer(unknown=_UNANSWERED)
    return _Answer(partial.explanation, partial.pools - len(partial.explanation.verdicts))


def _list(decisions: "VolumeDecisions") -> str:
    return ", ".join(decisions.attempted_pools)
