# SPDX-License-Identifier: Apache-2.0
"""``tonnage cinder``: the record of the shadow beside Cinder's schedulers."""

import argparse
import datetime
import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Column, Part, capacity

#: Exit status if there was an over-commitment, a wrong decision or drift in the period.
FOUND = 3

#: Most days of the period: a hundred years.
_MOST_DAYS = 36525


def _milliseconds(key: str, of: str) -> Column:
    def value(row: Any) -> float | None:
        seconds = getattr(row, of)
        return None if seconds is None else round(seconds * 1000, 2)

    return Column(key, value, key.replace("_", " "))


_TOTALS: Sequence[Column] = (
    Column("verdict", lambda row: row.verdict, "verdict"),
    Column("decisions", lambda row: row.decisions, "decisions"),
    _milliseconds("cinder_mean_ms", "cinder_mean"),
    _milliseconds("cinder_most_ms", "cinder_most"),
    _milliseconds("tonnage_mean_ms", "tonnage_mean"),
    _milliseconds("tonnage_most_ms", "tonnage_most"),
)

_DECISIONS: Sequence[Column] = (
    Column("decided_at", itemgetter("decided_at"), "at"),
    Column("verb", itemgetter("verb"), "verb"),
    Column("volume_id", itemgetter("volume_id"), "volume"),
    capacity("size", itemgetter("size_gb"), "size"),
    Column("pool", itemgetter("pool"), "cinder's pool"),
    Column("tonnage_pool", itemgetter("tonnage_pool"), "tonnage's pool"),
    Column("request_id", itemgetter("request_id")),
    Column("reason", itemgetter("reason"), "reason", width=70),
)

_FINDINGS: Sequence[Column] = (
    Column("subject", itemgetter("subject"), "where"),
    Column("code", itemgetter("code"), "finding"),
    Column("text", itemgetter("text"), "because", width=80),
    Column("found_at", itemgetter("found_at"), "since"),
    Column("seen_at", itemgetter("seen_at"), "last seen"),
    Column("ended_at", itemgetter("ended_at"), "ended"),
    Column("numbers", itemgetter("numbers")),
    Column("volumes", itemgetter("volumes")),
)

_PERIODS: Sequence[Column] = (
    Column("found_at", itemgetter("found_at"), "from"),
    Column("seen_at", itemgetter("seen_at"), "until"),
)

_UNJUDGED: Sequence[Column] = (
    Column("verb", lambda row: row.verb, "verb"),
    Column("requests", lambda row: row.requests, "requests"),
    Column("reason", lambda row: row.reason, "because", width=80),
)

_SUMMARY: Sequence[Column] = (
    Column("since", itemgetter("since")),
    Column("decisions", itemgetter("decisions")),
    Column("over_commitments_number", itemgetter("over_commitments_number"), None),
    capacity("over_committed", itemgetter("over_committed_gb")),
)


def _days(text: str) -> float:
    days = float(text) if text.replace(".", "", 1).isdecimal() else math.nan
    if not 0 <= days <= _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of days from 0 to {_MOST_DAYS}")
    return days


_DOUBTFUL = "Requests that Cinder placed by figures that may lack volumes"

_TITLES = {
    "wrong_refusal": "Requests that Cinder refused though there was room",
    "wrong_placement": "Requests that Cinder placed and Tonnage refuses",
    "other_pool": "Requests that Cinder placed in a pool that Tonnage refuses",
}


class Cinder(base_commands.ShowOne):
    """Show how Cinder's schedulers decide.

    tonnage-cinder-shadow makes the record, in the database of its configuration file: name that file.
    """

    group = "look"
    exit_statuses = (
        f"Exit status: 0 if nothing was found, {FOUND} if there was an over-commitment, a wrong decision or drift in "
        "the period, also if it has ended, 1 after an error, 2 for a usage error."
    )
    options = base_commands.LEDGER
    columns = _SUMMARY

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("--days", type=_days, default=14.0, metavar="N", help="of the last N days (default: 14)")
        parser.add_argument(
            "--rows", type=int, default=20, metavar="N", help="most rows of a list, 0: all (default: 20)"
        )

    def find(self, parsed_args: argparse.Namespace) -> tuple[dict[str, Any], Sequence[Part]]:
        """Return the sums of the period, and the lists."""
        from tonnage.capacity import errors
        from tonnage.cli import ledger_access
        from tonnage.extensions.cinder.watch.findings import Category
        from tonnage.extensions.cinder.watch.shadow_record import ShadowRecord
        from tonnage.extensions.cinder.watch.verdicts import Verdict

        record = ShadowRecord(ledger_access.connect(self.conf))
        if record.is_empty():
            raise errors.NotFound(
                "there is no record of Cinder's schedulers in this database: tonnage-cinder-shadow begins it when it "
                "starts; name its configuration with --config-file"
            )
        since = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - datetime.timedelta(days=parsed_args.days)
        totals = record.totals(since)
        most = parsed_args.rows if parsed_args.rows > 0 else None
        findings = {category: record.findings(category, since) for category in Category}
        decided = {
            verdict: record.decisions([verdict.value], since)
            for verdict in (Verdict.WRONG_REFUSAL, Verdict.WRONG_PLACEMENT, Verdict.OTHER_POOL)
        }
        doubtful = record.decisions([Verdict.DOUBTFUL.value], since)
        over = findings[Category.OVER_COMMITMENT]
        summary = {
            "since": since,
            "decisions": sum(total.decisions for total in totals),
            "over_commitments_number": len(over),
            "over_committed_gb": sum(finding["numbers"]["held"] - finding["numbers"]["limit"] for finding in over),
        }
        parts = [
            Part("totals", "Decisions of Cinder by verdict", _TOTALS, totals, "none"),
            Part("over_commitments", "Over-commitments that Cinder made", _FINDINGS, over, "none", most),
            *(
                Part(f"{verdict.value}s", _TITLES[verdict.value], _DECISIONS, rows, "none", most)
                for verdict, rows in decided.items()
            ),
            Part("doubtful", _DOUBTFUL, _DECISIONS, doubtful, "none", most),
            Part(
                "drift", "Drift of allocated_capacity_gb", _FINDINGS, findings[Category.ALLOCATED_DRIFT], "none", most
            ),
            Part(
                "quota_drift",
                "Drift of the counters of quotas",
                _FINDINGS,
                findings[Category.QUOTA_DRIFT],
                "none",
                most,
            ),
            Part("stale_reports", "Stale reports", _FINDINGS, findings[Category.STALE_REPORT], "none", most),
            Part("wrong_reports", "Wrong reports", _FINDINGS, findings[Category.WRONG_REPORT], "none", most),
            Part("not_judged", "Requests that are not judged", _UNJUDGED, record.unjudged(since), "none", most),
            Part("gaps", "Gaps in the watch", _FINDINGS, findings[Category.GAP], "none", most),
            Part("periods", "Periods of the watch", _PERIODS, record.periods(since), "none", most),
        ]
        drifts = findings[Category.ALLOCATED_DRIFT] + findings[Category.QUOTA_DRIFT]
        is_wrong = over or drifts or any(decided.values())
        self.status = FOUND if is_wrong else 0
        return summary, parts
