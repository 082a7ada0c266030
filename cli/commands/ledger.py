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
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--pool", metavar="host@backend#pool", help="look at one pool")
    place.add_argument("--backend", metavar="host@backend", help="look at one backend")
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
    found = consistency_check.check(ledger_access.connect(conf), pool=arguments.pool, backend=arguments.backend)
    wrong = bool(found.drift) or (
        arguments.strict and any(one.cause is consistency_check.Cause.ORPHAN for one in found.findings)
    )
    if arguments.json:
        print(json.dumps({"clean": not wrong, **_as_json(found)}))
    else:
        _show(found)
    return DRIFT if wrong else 0


def _repair(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    dry = arguments.dry_run
    done = (repairs.plan if dry else repairs.repair)(ledger_access.connect(conf))
    wrong = bool(done.left.drift) or (dry and bool(done.changes))
    status = DRIFT if wrong else MENDED if done.changes else 0
    if arguments.json:
        changes = [asdict(change) for change in done.changes]
        print(json.dumps({"clean": not wrong, "dry_run": dry, "changes": changes, "left": _as_json(done.left)}))
        return status
    tables.show(
        ("cause", "where", "subject", "before_gb", "after_gb"),
        [(one.cause, one.where, one.subject, one.before_gb, one.after_gb) for one in done.changes],
        as_json=False,
        empty="There is nothing to mend",
    )
    if done.changes:
        print(f"{len(done.changes)} value(s) " + ("would be mended; nothing was changed" if dry else "mended"))
    if done.left.drift:
        print("Left, as only a person can decide it:")
        _table(done.left.drift)
    return status


def _restored(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    interrupted = restore.interrupt(ledger_access.connect(conf), conf.service_down_time)
    tables.show(
        ("place", "volume", "operation"),
        [(one.place, one.volume_id, one.operation) for one in interrupted],
        as_json=arguments.json,
        empty="Nothing was under way at the time of the backup",
    )
    return 0


def _show(found: consistency_check.Checked) -> None:
    drift = found.drift
    if drift:
        _table(drift)
    explained = [one for one in found.findings if not one.drift]
    if explained:
        print("Not wrong, but reasons for differences of figures:")
        _table(explained)
    tables.show(
        ("backend", "reported_s_ago", "listed_s_ago"),
        [(one.name, _rounded(one.reported), _rounded(one.listed)) for one in found.backends],
        as_json=False,
        empty="No agent has introduced a backend yet",
    )
    mended = sum(one.mended for one in drift)
    if not drift:
        print(f"{found.pools} pool(s) checked: the ledger is right")
    else:
        print(
            f"{found.pools} pool(s) checked: {len(drift)} thing(s) wrong, of which 'tonnage-manage ledger repair' "
            f"mends {mended}"
        )


def _table(findings: Sequence[consistency_check.Finding]) -> None:
    tables.show(
        ("cause", "where", "subject", "ledger_gb", "found_gb", "mended", "because"),
        [
            (
                one.cause,
                one.where,
                one.subject,
                one.ledger_gb,
                one.found_gb,
                one.mended if one.drift else None,
                one.text,
            )
            for one in findings
        ],
        as_json=False,
        empty="",
    )


def _as_json(found: consistency_check.Checked) -> dict[str, Any]:
    return {
        "pools": found.pools,
        "drift": len(found.drift),
        "findings": [
            {
                "cause": one.cause,
                "where": one.where,
                "subject": one.subject,
                "ledger_gb": one.ledger_gb,
                "found_gb": one.found_gb,
                "drift": one.drift,
                "mended": one.mended,
                "text": one.text,
            }
            for one in found.findings
        ],
        "backends": [
            {"name": one.name, "reported_s_ago": _rounded(one.reported), "listed_s_ago": _rounded(one.listed)}
            for one in found.backends
        ],
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
