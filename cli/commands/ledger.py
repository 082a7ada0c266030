# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage ledger``: consistency check of the ledger, also against the storage, and repair."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from oslo_config import cfg

from tonnage.cli.commands import ledger_access, subcommands, tables
from tonnage.ledger.repair import consistency_check, repairs, restore

#: Exit status if there is drift, or drift is left. Status 1 means that the check was not possible, 2 a wrong command.
DRIFT = 3
#: Exit status of a repair that has corrected all drift. It differs from 0 so that monitoring detects the repair.
MENDED = 4

_STATUSES = (
    f"Exit status: 0 if the ledger is right, {DRIFT} if something is wrong or would be left so, {MENDED} if something "
    "was wrong and repair has mended all of it, 1 if nobody could look (configuration, database), 2 for a wrong "
    "command line."
)


def register(subparsers: Any) -> None:
    """Add the commands."""
    actions = subcommands.group(subparsers, "ledger", "see whether the ledger is right, and mend it")
    text = "hold counters, claims, volumes and listings against each other"
    parser = subcommands.add(actions, "check", text, epilog=_STATUSES)
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--pool", metavar="host@backend#pool", help="look at one pool")
    scope.add_argument("--backend", metavar="host@backend", help="look at one backend")
    parser.add_argument(
        "--strict", action="store_true", help="take orphans for drift: all on the storage should be Tonnage's"
    )
    parser.add_argument("--json", action="store_true", help=subcommands.JSON)
    parser.set_defaults(run=_check)
    text = "make the counters agree with the claims; schedulers may run"
    parser = subcommands.add(actions, "repair", text, epilog=_STATUSES)
    parser.add_argument("--dry-run", action="store_true", help="only show the changes")
    parser.add_argument("--json", action="store_true", help=subcommands.JSON)
    parser.set_defaults(run=_repair)
    text = "end all operations that were under way, after an older state of the database was restored"
    parser = subcommands.add(
        actions, "restored", text, "Run it before the schedulers start: copies of then may be the only ones by now."
    )
    parser.add_argument("--json", action="store_true", help=subcommands.JSON)
    parser.set_defaults(run=_restored)


def _check(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    result = consistency_check.check(ledger_access.connect(conf), pool=arguments.pool, backend=arguments.backend)
    wrong = bool(result.drift) or (
        arguments.strict and any(finding.cause is consistency_check.Cause.ORPHAN for finding in result.findings)
    )
    if arguments.json:
        print(json.dumps({"clean": not wrong, **_as_json(result)}))
    else:
        _show(result)
    return DRIFT if wrong else 0


def _repair(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    dry = arguments.dry_run
    done = (repairs.plan if dry else repairs.repair)(ledger_access.connect(conf))
    wrong = bool(done.final_check.drift) or (dry and bool(done.changes))
    status = DRIFT if wrong else MENDED if done.changes else 0
    if arguments.json:
        changes = [asdict(change) for change in done.changes]
        print(json.dumps({"clean": not wrong, "dry_run": dry, "changes": changes, "left": _as_json(done.final_check)}))
        return status
    tables.show(
        ("cause", "where", "subject", "before_gb", "after_gb"),
        [(change.cause, change.where, change.subject, change.before_gb, change.after_gb) for change in done.changes],
        as_json=False,
        empty="There is nothing to mend",
    )
    if done.changes:
        print(f"{len(done.changes)} value(s) " + ("would be mended; nothing was changed" if dry else "mended"))
    if done.final_check.drift:
        print("Left, as only a person can decide it:")
        _table(done.final_check.drift)
    return status


def _restored(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    interrupted = restore.interrupt(ledger_access.connect(conf), conf.service_down_time)
    tables.show(
        ("place", "volume", "operation"),
        [(row.target, row.volume_id, row.operation) for row in interrupted],
        as_json=arguments.json,
        empty="Nothing was under way at the time of the backup",
    )
    return 0


def _show(result: consistency_check.Checked) -> None:
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
        as_json=False,
        empty="No agent has introduced a backend yet",
    )
    mended = sum(finding.mended for finding in drift)
    if not drift:
        print(f"{result.pools} pool(s) checked: the ledger is right")
    else:
        print(
            f"{result.pools} pool(s) checked: {len(drift)} thing(s) wrong, of which 'tonnage-manage ledger repair' "
            f"mends {mended}"
        )


def _table(findings: Sequence[consistency_check.Finding]) -> None:
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
        as_json=False,
        empty="",
    )


def _as_json(result: consistency_check.Checked) -> dict[str, Any]:
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
