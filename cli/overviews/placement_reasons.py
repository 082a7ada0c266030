# SPDX-License-Identifier: Apache-2.0
"""``tonnage why``: the decisions on one volume, and the decision that the same request would get now."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tonnage.cli.commands import subcommands
from tonnage.cli.overviews import formats, refusals, volumes
from tonnage.cli.overviews.formats import Column, Part, capacity
from tonnage.cli.simulation import argument_types, simulation_arguments

if TYPE_CHECKING:
    from oslo_config import cfg

    from tonnage.capacity.explanation import Explanation, PoolVerdict
    from tonnage.ledger.catalog.volume_decisions import VolumeDecisions


_NO_REQUEST = "not asked, because the ledger does not have this request; 'tonnage explain' asks"
_UNANSWERED = "unknown, for the reason on standard error"


class _Row(NamedTuple):
    """The decisions on a volume, and the explanation of the same request now; None if no scheduler was asked."""

    found: "VolumeDecisions"
    now: "Explanation | None"


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
        others = [f"{each.filter}: {each.rejection.message}" for each in self.of.also]
        return "; ".join([f"{self.of.filter}: {self.of.rejection.message}", *others])


COLUMNS: Sequence[Column] = (
    Column("volume_id", lambda row: row.found.id),
    Column("name", lambda row: row.found.name),
    Column("project_id", lambda row: row.found.project_id),
    Column("status", lambda row: row.found.status),
    capacity("size", lambda row: row.found.size_gb),
    Column("volume_type", lambda row: row.found.volume_type),
    Column("pool", lambda row: row.found.pool),
    Column("reason", lambda row: row.found.reason, width=90),
    Column("provisioning", lambda row: row.found.provisioning),
    Column("request_id", lambda row: row.found.request_id),
    Column("requested_zone", lambda row: row.found.requested_zone),
    Column("scheduler_hints", lambda row: row.found.hints, text=lambda row: formats.json_text(row.found.hints)),
    Column("attempted_pools", lambda row: list(row.found.attempted_pools), text=lambda row: _list(row.found)),
    Column("status_reason", lambda row: row.found.status_reason, width=90),
    Column("created_at", lambda row: row.found.created_at),
    Column("pool_now", lambda row: None if row.now is None else row.now.pool),
    Column("decision_now", lambda row: None if row.now is None else row.now.message, width=90),
)

_POOLS: Sequence[Column] = (
    Column("pool", lambda row: row.of.pool, "pool"),
    Column("verdict", lambda row: row.word, "verdict"),
    capacity("headroom", lambda row: row.headroom_gb, "headroom"),
    Column("is_thin", lambda row: row.of.thin),
    Column("total_weight", lambda row: row.of.total_weight, "weight"),
    Column("code", lambda row: None if row.of.rejection is None else row.of.rejection.code),
    Column("because", lambda row: row.because, "because", width=70),
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
        found = volume_decisions.find(session, arguments.volume)
    now, unknown = _ask_again(conf, arguments, found)
    verdicts = [] if now is None else [_Verdict(each, each.pool == now.pool) for each in now.verdicts]
    most = arguments.rows or None
    parts = (
        Part("claims", "Claims", volumes.CLAIMS, found.claims, "none", most),
        Part("refusals", "Refusals", refusals.COLUMNS, found.refusals, "none recorded", most),
        Part("pools", "The same request now", _POOLS, sorted(verdicts, key=_rank), unknown or "none", most),
    )
    formats.show_one(arguments, COLUMNS, _Row(found, now), parts)
    if unknown == _UNANSWERED:
        return 1
    return 0


def _ask_again(
    conf: "cfg.ConfigOpts", arguments: argparse.Namespace, found: "VolumeDecisions"
) -> "tuple[Explanation | None, str]":
    """Return the explanation of the same request now; without one None, and the reason.

    An error is on standard error.
    """
    from tonnage.capacity import errors
    from tonnage.cli.simulation import scheduler_query

    if arguments.offline:
        return None, "not asked (--offline)"
    if found.request_body is None:
        return None, _NO_REQUEST
    target = scheduler_query.QueryTarget(url=arguments.url, cloud=arguments.os_cloud)
    try:
        [outlook] = scheduler_query.query(conf, {"requests": [dict(found.request_body)], "detail": True}, target)
    except errors.TonnageError as error:
        print(f"tonnage: how the request would be decided now is unknown: {error.message}", file=sys.stderr)
        return None, _UNANSWERED
    return outlook.volumes[0], ""


def _rank(verdict: _Verdict) -> tuple[object, ...]:
    """Return a sort key: the chosen pool, the candidates by weight, the refused pools by headroom."""
    headroom = verdict.headroom_gb or 0.0
    weight = verdict.of.total_weight or 0.0
    return ("chosen", "candidate", "refused").index(verdict.word), -weight, -headroom, verdict.of.pool


def _list(found: "VolumeDecisions") -> str:
    return ", ".join(found.attempted_pools)
