# SPDX-License-Identifier: Apache-2.0
"""``tonnage forecast``: the time until pools are full, and the refusals to come of volume types."""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Column
from tonnage.cli.simulation import argument_types

if TYPE_CHECKING:
    from tonnage.extensions.history.coming_refusals import StoredRefusals
    from tonnage.extensions.history.last_forecasts import MadeForecast

#: Exit status if something was found within the days that were asked for.
FOUND = 3

#: Days of a forecast, as in growth_paths, which imports numpy.
HORIZON = 90

_NONE = "There is no forecast: the first one is made on the day after the first sample of the history"


def _days(index: int) -> Callable[[Any], float | None]:
    def value(row: "MadeForecast") -> float | None:
        days = row.forecast.days[index]
        return round(days, 1) if math.isfinite(days) else None

    return value


def _hit_rate(row: "MadeForecast") -> str:
    return "" if row.hit_rate is None else f"{100 * row.hit_rate:.0f} % of {row.checked}"


_COLUMNS: Sequence[Column] = (
    Column("pool", lambda row: row.pool, "pool"),
    Column("backend", lambda row: row.backend),
    Column("bound", lambda row: row.forecast.bound, "bound"),
    Column("forecast", lambda row: row.forecast.text(), "forecast"),
    Column("p10_days", _days(0)),
    Column("p50_days", _days(1)),
    Column("p90_days", _days(2)),
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


class Forecast(base_commands.Lister):
    """Show when pools will be full.

    Each forecast is a range of days: with a probability of 80 % the pool is full on one of them. 'physical' is the
    limit of the used space, 'promised' that of the provisioned capacity of thin volumes. The hit rate is the share of
    the earlier forecasts that were right about the growth of their first two weeks. The soonest comes first.
    """

    group = "history"
    exit_statuses = (
        f"Exit status: 0 if nothing is found, {FOUND} if --within finds a pool or --refusals a refusal, "
        "1 after an error, such as --within without a forecast."
    )
    options = base_commands.LEDGER
    columns = (*_COLUMNS, *_REFUSALS)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
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
            help="show instead which volume types will be refused: each hour a scheduler decides the requests of "
            "recorded days on a copy of the pools, in 20 runs of 14 days",
        )

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Sequence[Any]]:
        """Return the columns and the forecasts."""
        if parsed_args.refusals:
            if parsed_args.within is not None or parsed_args.backend is not None:
                from tonnage.cli import setup

                raise setup.UsageError("--refusals is about all pools and 14 days: leave out --within and --backend")
            return _REFUSALS, self._refusals()
        from tonnage.capacity import errors
        from tonnage.cli import ledger_access
        from tonnage.extensions.history import last_forecasts
        from tonnage.ledger.inventory import names

        with ledger_access.connect(self.conf).reading() as session:
            if parsed_args.backend is not None:
                names.require_backend(session, parsed_args.backend)
            made = last_forecasts.latest(session, backend=parsed_args.backend, hits=True)
        self.empty = _NONE
        days = parsed_args.within
        if days is not None:
            if all(row.forecast.time_to_full is None and not row.forecast.is_full for row in made):
                raise errors.NotFound(
                    _NONE if not made else f"no pool has a forecast yet ({made[0].pool}: {made[0].forecast.text()})"
                )
            made = [row for row in made if row.forecast.days[1] <= days]
            self.empty = f"No pool is expected to be full within {days} days"
            self.status = FOUND if made else 0
        return _COLUMNS, sorted(made, key=last_forecasts.soonest)

    def _refusals(self) -> Sequence["StoredRefusals"]:
        from tonnage.cli import ledger_access
        from tonnage.extensions.history import coming_refusals

        with ledger_access.connect(self.conf).reading() as session:
            rows = coming_refusals.latest(session)
        self.empty = (
            "There is no forecast of refusals: a scheduler makes one each hour from the history of volume types"
        )
        self.status = FOUND if any(row.of.refused for row in rows) else 0
        return rows
