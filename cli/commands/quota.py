# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage quota``: check of the usage counters against the volumes, and repair.

If usage is counted from OpenStack Placement, its allocations are compared with the written ones as well.
"""

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg

from tonnage.cli.commands import ledger_access, subcommands, tables
from tonnage.cli.commands.ledger import DRIFT, MENDED
from tonnage.extensions.placement import allocation_check, factory
from tonnage.extensions.placement import options as placement_options
from tonnage.extensions.placement.client import PlacementClient
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.db.database import Database
from tonnage.quotas import usage_audit

_STATUSES = (
    f"Exit status: 0 if no counter is below the sum of the volumes, {DRIFT} if one is, {MENDED} if one was and sync "
    "has mended it, 1 if nobody could look (configuration, database, Placement), 2 for a wrong command line. Where "
    "usage is counted from OpenStack Placement, an allocation that it has lost is like a counter that is below."
)


def register(subparsers: Any) -> None:
    """Add the commands."""
    actions = subcommands.group(subparsers, "quota", "see whether usage is counted right, and mend it")
    for name, text, run in (
        ("check", "hold the counters of usage against the volumes", _check),
        ("sync", "set the counters of usage to the sums of the volumes; schedulers may run", _sync),
    ):
        parser = subcommands.add(actions, name, text, epilog=_STATUSES)
        parser.add_argument("--project", metavar="ID", help="look at one project")
        parser.add_argument("--json", action="store_true", help=subcommands.JSON)
        parser.set_defaults(run=run)


def _check(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    ledger, placement = ledger_access.connect(conf), _placement(conf)
    usage = usage_audit.check(ledger, arguments.project, placed_only=placement is not None)
    allocations = None if placement is None else allocation_check.check(ledger, placement, arguments.project)
    _show(ledger, usage, allocations, as_json=arguments.json, outcome="wrong; 'tonnage-manage quota sync' mends them")
    return DRIFT if _drift(usage, allocations) else 0


def _sync(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    ledger, placement = ledger_access.connect(conf), _placement(conf)
    usage = usage_audit.sync(ledger, arguments.project, placed_only=placement is not None)
    allocations = None if placement is None else allocation_check.sync(ledger, placement, arguments.project)
    _show(ledger, usage, allocations, as_json=arguments.json, outcome="mended")
    if not _drift(usage, allocations):
        return 0
    return DRIFT if allocations is not None and allocations.refused else MENDED


def _placement(conf: cfg.ConfigOpts) -> PlacementClient | None:
    """Return a client of Placement if usage is counted from it, otherwise None."""
    return placement_options.required(conf) if factory.is_enabled(conf) else None


def _drift(usage: usage_audit.Checked, allocations: allocation_check.AllocationCheck | None) -> bool:
    return bool(usage.drift or (allocations is not None and allocations.drift))


def _show(
    ledger: Database,
    usage: usage_audit.Checked,
    allocations: allocation_check.AllocationCheck | None,
    *,
    as_json: bool,
    outcome: str,
) -> None:
    with ledger.reading() as session:
        names = volume_types.names(session)
    if as_json:
        findings = [_as_json(finding, names) for finding in usage.findings]
        shown = {"clean": not _drift(usage, allocations), "projects": usage.projects, "findings": findings}
        if allocations is not None:
            shown["allocations"] = [dataclasses.asdict(difference) for difference in allocations.differences]
            shown["untold"] = allocations.pending
            shown["refused"] = allocations.refused
        print(json.dumps(shown))
        return
    _table(usage.drift, names)
    if ahead := [finding for finding in usage.findings if not finding.drift]:
        print("Not wrong, and counted anew before anybody is turned away:")
        _table(ahead, names)
    verdict = (
        f"{len(usage.drift)} counter(s) {outcome}" if usage.drift else "no counter is below the sum of the volumes"
    )
    print(f"{usage.projects} project(s) with counters checked: {verdict}")
    if allocations is not None:
        _show_allocations(allocations, outcome)


def _show_allocations(allocations: allocation_check.AllocationCheck, outcome: str) -> None:
    if allocations.differences:
        rows = [tuple(dataclasses.asdict(difference).values()) for difference in allocations.differences]
        tables.show(tuple(dataclasses.asdict(allocations.differences[0])), rows, as_json=False, empty="")
    if allocations.refused:
        outcome = f"lost; it refused {allocations.refused} of the repeated allocations, the log says why"
    verdict = (
        f"{len(allocations.drift)} allocation(s) {outcome}" if allocations.drift else "it holds all that it was told"
    )
    untold = f"; it has still to be told of {allocations.pending} volume(s)" if allocations.pending else ""
    print(f"OpenStack Placement: {verdict}{untold}")


def _table(findings: Sequence[usage_audit.Finding], names: Mapping[str, str]) -> None:
    if findings:
        rows = [tuple(_as_json(finding, names).values()) for finding in findings]
        tables.show(tuple(_as_json(findings[0], names)), rows, as_json=False, empty="")


def _as_json(finding: usage_audit.Finding, names: Mapping[str, str]) -> dict[str, Any]:
    type_id = finding.scope.volume_type_id
    return {
        "cause": finding.cause,
        "project": finding.scope.project_id,
        "user": finding.scope.user_id or None,
        "volume_type": names.get(type_id, type_id) or None,
        "resource": finding.resource,
        "counter": finding.counter,
        "found": finding.usage,
    }
