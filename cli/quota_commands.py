# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage quota``: do the counters of usage agree with the volumes, and setting them right."""

import json
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from tonnage.cli import ledger_access
from tonnage.cli import tables
from tonnage.cli.ledger_commands import DRIFT
from tonnage.cli.ledger_commands import MENDED
from tonnage.ledger import volume_types
from tonnage.ledger.database import Database
from tonnage.quotas import audit

_STATUSES = (
    f"Exit status: 0 if no counter is below what the volumes say, {DRIFT} if one is, {MENDED} if one was and sync has "
    "mended it, 1 if nobody could look (configuration, database), 2 for a wrong command line."
)


def register(subparsers: Any) -> None:
    """Add the commands."""
    actions = subparsers.add_parser("quota", help="whether usage is counted right").add_subparsers(
        dest="action", required=True
    )
    for name, text, run in (
        ("check", "hold the counters of usage against the volumes", _check),
        ("sync", "set the counters of usage to what the volumes say; schedulers may run", _sync),
    ):
        parser = actions.add_parser(name, help=text, description=text, epilog=_STATUSES)
        parser.add_argument("--project", metavar="ID", help="of one project")
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
        parser.set_defaults(run=run)


def _check(conf: cfg.ConfigOpts) -> int:
    ledger = ledger_access.connect(conf)
    found = audit.check(ledger, conf.command.project)
    _show(conf, ledger, found, "wrong; 'tonnage-manage quota sync' mends them")
    return DRIFT if found.drift else 0


def _sync(conf: cfg.ConfigOpts) -> int:
    ledger = ledger_access.connect(conf)
    found = audit.sync(ledger, conf.command.project)
    _show(conf, ledger, found, "mended")
    return MENDED if found.drift else 0


def _show(conf: cfg.ConfigOpts, ledger: Database, found: audit.Audit, what: str) -> None:
    with ledger.reading() as session:
        names = volume_types.names(session)
    if conf.command.json:
        findings = [_as_json(finding, names) for finding in found.findings]
        print(json.dumps({"clean": not found.drift, "projects": found.projects, "findings": findings}))
        return
    _table(found.drift, names)
    if ahead := [one for one in found.findings if not one.drift]:
        print("Not wrong, and counted anew before anybody is turned away:")
        _table(ahead, names)
    verdict = f"{len(found.drift)} counter(s) {what}" if found.drift else "no counter is below what the volumes say"
    print(f"{found.projects} project(s) with counters checked: {verdict}")


def _table(findings: Sequence[audit.Finding], names: Mapping[str, str]) -> None:
    if findings:
        rows = [tuple(_as_json(finding, names).values()) for finding in findings]
        tables.show(tuple(_as_json(findings[0], names)), rows, as_json=False, empty="")


def _as_json(finding: audit.Finding, names: Mapping[str, str]) -> dict[str, Any]:
    kind = finding.scope.volume_type_id
    return {
        "cause": finding.cause,
        "project": finding.scope.project_id,
        "user": finding.scope.user_id or None,
        "volume_type": names.get(kind, kind) or None,
        "resource": finding.resource,
        "counter": finding.counter,
        "found": finding.found,
    }
