# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage ledger``: consistency check of the ledger, also against the storage, and repair."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from tonnage.cli.display import base_commands, tables
from tonnage.cli.display.table_columns import Column

if TYPE_CHECKING:
    from tonnage.ledger.repair.consistency_check import Checked, Finding

#: Exit status if there is drift, or drift is left. Status 1 means that the check was not possible, 2 a wrong command.
DRIFT = 3
#: Exit status of a check that has found no drift in a ledger that cannot be written.
UNWRITABLE = 1
#: Exit status of a repair that has corrected all drift. It differs from 0 so that monitoring detects the repair.
MENDED = 4

_STATUSES = (
    f"Exit status: 0 if the ledger is right, {DRIFT} if something is wrong or would be left so, {MENDED} if something "
    "was wrong and repair has mended all of it, 1 if nobody could look (configuration, database) or the ledger cannot "
    "be written, 2 for a wrong command line."
)


class Check(base_commands.Command):
    """Hold counters, claims, volumes and listings against each other."""

    exit_statuses = _STATUSES
    options = base_commands.LEDGER

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        scope = parser.add_mutually_exclusive_group()
        scope.add_argument("--pool", metavar="host@backend#pool", help="look at one pool")
        scope.add_argument("--backend", metavar="host@backend", help="look at one backend")
        parser.add_argument(
            "--strict", action="store_true", help="take orphans for drift: all on the storage should be Tonnage's"
        )
        parser.add_argument("--json", action="store_true", help=base_commands.JSON)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Show the findings."""
        from tonnage.cli import ledger_access
        from tonnage.ledger.repair import consistency_check

        ledger = ledger_access.connect(self.conf)
        result = ledger_access.check(ledger, parsed_args.pool, parsed_args.backend)
        wrong = bool(result.drift) or (
            parsed_args.strict and any(finding.cause is consistency_check.Cause.ORPHAN for finding in result.findings)
        )
        if parsed_args.json:
            print(json.dumps({"clean": not wrong, **_as_json(result)}))
        else:
            _show(result)
        is_refused = ledger_access.warn_of_refused_writes(ledger, self.app.NAME)
        return DRIFT if wrong else UNWRITABLE if is_refused else 0


class Repair(base_commands.Command):
    """Make the counters agree with the claims; schedulers may run."""

    exit_statuses = _STATUSES
    options = base_commands.LEDGER

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("--dry-run", action="store_true", help="only show the changes")
        parser.add_argument("--json", action="store_true", help=base_commands.JSON)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Mend the ledger, and show the changes."""
        from tonnage.cli import ledger_access
        from tonnage.ledger.repair import repairs

        dry = parsed_args.dry_run
        done = (repairs.plan if dry else repairs.repair)(ledger_access.connect(self.conf))
        wrong = bool(done.final_check.drift) or (dry and bool(done.changes))
        status = DRIFT if wrong else MENDED if done.changes else 0
        if parsed_args.json:
            changes = [asdict(change) for change in done.changes]
            left = _as_json(done.final_check)
            print(json.dumps({"clean": not wrong, "dry_run": dry, "changes": changes, "left": left}))
            return status
        tables.show(
            ("cause", "where", "subject", "before_gb", "after_gb"),
            [
                (change.cause, change.where, change.subject, change.before_gb, change.after_gb)
                for change in done.changes
            ],
            empty="There is nothing to mend",
        )
        if done.changes:
            print(f"{len(done.changes)} value(s) " + ("would be mended; nothing was changed" if dry else "mended"))
        if done.final_check.drift:
            print("Left, as only a person can decide it:")
            _table(done.final_check.drift)
        return status


class Restored(base_commands.Lister):
    """End all operations that were under way, after an older state of the database was restored.

    Run it before the schedulers start: copies of then may be the only ones by now.
    """

    options = base_commands.LEDGER
    columns: ClassVar[Sequence[Column]] = (
        Column("place", attrgetter("target"), "place"),
        Column("volume", attrgetter("volume_id"), "volume"),
        Column("operation", attrgetter("operation"), "operation"),
    )
    empty = "Nothing was under way at the time of the backup"
    has_json = True
    can_repeat = False

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Sequence[Any]]:
        """End the operations, and return the columns and the operations."""
        from tonnage.cli import ledger_access
        from tonnage.ledger.repair import restore

        return self.columns, restore.interrupt(ledger_access.connect(self.conf), self.conf.service_down_time)


def _show(result: "Checked") -> None:
    drift = result.drift
    if drift:
        _table(drift)
    explained = [finding for finding in result.findings if not finding.drift]
    if explained:
        print("Not wrong, but reasons for differences of figures:")
        _table(explained)
    tables.show(
        ("backend", "reported_s_ago", "listed_s_ago"),
        [(backend.name, _rounded(backend.reported), _rounded(backend.listed)) for backend in result.backends],
    )
    mended = sum(finding.mended for finding in drift)
    if not drift:
        print(f"{result.pools} pool(s) checked: the ledger is right")
    else:
        print(
            f"{result.pools} pool(s) checked: {len(drift)} thing(s) wrong, of which 'tonnage-manage ledger repair' "
            f"mends {mended}"
        )


def _table(findings: "Sequence[Finding]") -> None:
    tables.show(
        ("cause", "where", "subject", "ledger_gb", "found_gb", "mended", "because"),
        [
            (
                finding.cause,
                finding.where,
                finding.subject,
                finding.ledger_gb,
                finding.found_gb,
                finding.mended if finding.drift else None,
                finding.text,
            )
            for finding in findings
        ],
    )


def _as_json(result: "Checked") -> dict[str, Any]:
    return {
        "pools": result.pools,
        "drift": len(result.drift),
        "findings": [
            {
                "cause": finding.cause,
                "where": finding.where,
                "subject": finding.subject,
                "ledger_gb": finding.ledger_gb,
                "found_gb": finding.found_gb,
                "drift": finding.drift,
                "mended": finding.mended,
                "text": finding.text,
            }
            for finding in result.findings
        ],
        "backends": [
            {
                "name": backend.name,
                "reported_s_ago": _rounded(backend.reported),
                "listed_s_ago": _rounded(backend.listed),
            }
            for backend in result.backends
        ],
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
