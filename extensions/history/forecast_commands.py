# SPDX-License-Identifier: Apache-2.0
"""``tonnage forecast``: the time until pools are full, and the refusals to come of volume types."""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tonnage.cli.commands import subcommands
from tonnage.cli.overviews import formats
from tonnage.cli.overviews.formats import Column
from tonnage.cli.simulation import argument_types

if TYPE_CHECKING:
    from oslo_config import cfg

    from tonnage.extensions.history.coming_refusals import StoredRefusals
    from tonnage.extensions.history.last_forecasts import MadeForecast

#: Exit status if something was found within the days that were asked for.
FOUND = 3

#: Days of a forecast, as in growth_paths, which imports numpy.
HORIZON = 90

_NONE = "There is no forecast: the first one is made on the day after the first sample of the history"


def _days(name: str) -> Callable[[Any], float | None]:
    def value(row: "MadeForecast") -> float | None:
        time_to_full = row.forecast.time_to_full
        days = math.inf if time_to_full is None else getattr(time_to_full, name)
        return round(days, 1) if math.isfinite(days) else None

    return value


def _hit_rate(row: "MadeForecast") -> str:
    return "" if row.hit_rate is None else f"{100 * row.hit_rate:.0f} % of {row.checked}"


_COLUMNS: Sequence[Column] = (
    Column("pool", lambda row: row.pool, "pool"),
    Column("backend", lambda row: row.backend),
    Column("bound", lambda row: row.forecast.bound, "bound"),
    Column("forecast", lambda row: row.forecast.text(), "forecast"),
    Column("p10_days", _days("p10")),
    Column("p50_days", _days("p50")),
    Column("p90_days", _days("p90")),
    Column("known_days", lambda row: row.forecast.known_days),
    Column("hit_rate", lambda row: None if row.hit_rate is None else round(row.hit_rate, 3), "hit rate", _hit_rate),
    Column("checked", lambda row: row.checked),
    Column("made_on", lambda row: row.made_on),
)


def _requests(row: "StoredRefusals") -> str | None:
    """Return the requests up to the refusal as JSON, which ``tonnage what-if --file`` reads; None without a refusal."""
    volumes = [{"size": size, "volume_type": type_id or None} for type_id, size in row.of.requests]
    return json.dumps([{"volume": volume} for volume in volumes]) if volumes else None


_REFUSALS: Sequence[Column] = (
    Column("volume_type", lambda row: row.volume_type, "type"),
    Column("forecast", lambda row: row.of.text(), "forecast"),
    Column("refused_runs", lambda row: row.of.refused),
    Column("runs", lambda row: row.of.runs),
    Column("filter", lambda row: row.of.filter),
    Column("message", lambda row: row.of.message),
    Column("requests", _requests),
    Column("known_days", lambda row: row.of.known_days),
    Column("made_at", lambda row: row.made_at, "made at"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    subcommands.describe(
        parser,
        "Each forecast is a range of days: with a probability of 80 % the pool is full on one of them. 'physical' is "
        "the limit of the used space, 'promised' that of the provisioned capacity of thin volumes. The hit rate is the "
        "share of the earlier forecasts that were right about the growth of their first two weeks. The soonest comes "
        "first.",
        f"Exit status: 0 if nothing is found, {FOUND} if --within finds a pool or --refusals a refusal, "
        "1 after an error, such as --within without a forecast.",
    )
    parser.add_argument("--backend", metavar="HOST@BACKEND", help="only the pools of this backend")
    parser.add_argument(
        "--within",
        type=argument_types.count(HORIZON),
        metavar="DAYS",
        help=f"only pools that are more likely full than not within so many days, at most {HORIZON}",
    )
    parser.add_argument(
        "--refusals",
        action="store_true",
        help="show instead which volume types will be refused: each hour a scheduler decides the requests of recorded "
        "days on a copy of the pools, in 20 runs of 14 days",
    )
    formats.add_options(parser, (*_COLUMNS, *_REFUSALS))
    parser.set_defaults(run=_show)


def _show(conf: "cfg.ConfigOpts", arguments: argparse.Namespace) -> int:
    if arguments.refusals:
        if arguments.within is not None or arguments.backend is not None:
            from tonnage.cli import setup

            raise setup.UsageError("--refusals is about all pools and 14 days: leave out --within and --backend")
        return _show_refusals(conf, arguments)
    from tonnage.capacity import errors
    from tonnage.cli.commands import ledger_access
    from tonnage.extensions.history import last_forecasts
    from tonnage.ledger.inventory import names

    with ledger_access.connect(conf).reading() as session:
        if arguments.backend is not None:
            names.require_backend(session, arguments.backend)
        made = last_forecasts.latest(session, backend=arguments.backend, hits=True)
    if arguments.within is None:
        formats.show(arguments, _COLUMNS, sorted(made, key=last_forecasts.soonest), _NONE)
        return 0
    if all(row.forecast.time_to_full is None for row in made):
        raise errors.NotFound(
            _NONE if not made else f"no pool has a forecast yet ({made[0].pool}: {made[0].forecast.text()})"
        )
    days = arguments.within
    matches = [row for row in made if row.forecast.time_to_full and row.forecast.time_to_full.within(days)]
    empty = f"No pool is expected to be full within {days} days"
    formats.show(arguments, _COLUMNS, sorted(matches, key=last_forecasts.soonest), empty)
    return FOUND if matches else 0


def _show_refusals(conf: "cfg.ConfigOpts", arguments: argparse.Namespace) -> int:
    from tonnage.cli.commands import ledger_access
    from tonnage.extensions.history import coming_refusals

    with ledger_access.connect(conf).reading() as session:
        rows = coming_refusals.latest(session)
    empty = "There is no forecast of refusals: a scheduler makes one each hour from the history of volume types"
    formats.show(arguments, _REFUSALS, rows, empty)
    return FOUND if any(row.of.refused for row in rows) else 0
