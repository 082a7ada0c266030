# SPDX-License-Identifier: Apache-2.0
"""``tonnage forecast``: the time until pools are full."""

import argparse
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tonnage.cli.commands import subcommands
from tonnage.cli.overviews import formats
from tonnage.cli.overviews.formats import Column

if TYPE_CHECKING:
    from oslo_config import cfg

    from tonnage.ledger.history.last_forecasts import MadeForecast

#: Exit status if something was found within the days that were asked for.
FOUND = 3


def _days(name: str) -> Callable[[Any], float | None]:
    def value(row: "MadeForecast") -> float | None:
        found = row.forecast.time_to_full
        days = math.inf if found is None else getattr(found, name)
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    subcommands.describe(
        parser,
        "The range has the day with a probability of 80 %. 'physical' is the limit of the used space, 'promised' that "
        "of the provisioned capacity of thin volumes. The hit rate is the share of the earlier forecasts whose range "
        "had the growth of the two weeks after them. The soonest comes first.",
        f"Exit status: 0, or {FOUND} if --within is given and a pool is found.",
    )
    parser.add_argument("--backend", metavar="HOST@BACKEND", help="only the pools of this backend")
    parser.add_argument(
        "--within", type=_number, metavar="DAYS", help="only pools that are rather full than not within so many days"
    )
    formats.add_options(parser, _COLUMNS)
    parser.set_defaults(run=_show)


def _number(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 90:
        raise argparse.ArgumentTypeError(f"{text} is not a number of days from 0 to 90")
    return value


def _show(conf: "cfg.ConfigOpts", arguments: argparse.Namespace) -> int:
    from tonnage.cli.commands import ledger_access
    from tonnage.ledger.history import last_forecasts

    with ledger_access.connect(conf).reading() as session:
        found = last_forecasts.latest(session, backend=arguments.backend, hits=True)
    if arguments.within is not None:
        days = arguments.within
        found = [row for row in found if row.forecast.time_to_full and row.forecast.time_to_full.within(days)]
        empty = f"No pool is expected to be full within {days:g} days"
    else:
        empty = "There is no forecast: the first one is made on the day after the first sample of the history"
    formats.show(arguments, _COLUMNS, sorted(found, key=_soonest), empty)
    return FOUND if arguments.within is not None and found else 0


def _soonest(row: "MadeForecast") -> tuple[float, float, float]:
    found = row.forecast.time_to_full
    return (math.inf,) * 3 if found is None else (found.p50, found.p10, found.p90)
