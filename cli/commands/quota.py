# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage quota``: check of the usage counters against the volumes, and repair.

If usage is also counted from another service, its records of the volumes are checked as well.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tonnage.cli.commands.ledger import DRIFT, MENDED
from tonnage.cli.display import base_commands, tables

if TYPE_CHECKING:
    from tonnage.quotas.usage_audit import Finding


class _Quota(base_commands.Command):
    """A command that compares the counters with the volumes. With ``mends`` it corrects them."""

    exit_statuses = (
        f"Exit status: 0 if no counter is below the sum of the volumes, {DRIFT} if one is, {MENDED} if one was and "
        "sync has mended it, 1 if nobody could look (configuration, database, Placement), 2 for a wrong command line. "
        "Where usage is counted from OpenStack Placement, an allocation that it has lost is like a counter that is "
        "below."
    )
    options = (*base_commands.LEDGER, "tonnage.quotas.options")
    mends: ClassVar[bool]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("--project", metavar="ID", help="look at one project")
        parser.add_argument("--json", action="store_true", help=base_commands.JSON)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Show the findings."""
        from tonnage.cli import ledger_access
        from tonnage.ledger.catalog import volume_types
        from tonnage.quotas import usage_audit, usage_sources

        ledger = ledger_access.connect(self.conf)
        settings = usage_sources.quota_settings(self.conf, ledger)
        usage = (usage_audit.sync if self.mends else usage_audit.check)(
            ledger, parsed_args.project, placed_only=settings.placed_only
        )
        records = settings.external_usage.check_records(parsed_args.project, mend=self.mends)
        has_drift = bool(usage.drift) or (records is not None and records.has_drift)
        with ledger.reading() as session:
            names = volume_types.names(session)
        if parsed_args.json:
            findings = [_as_json(finding, names) for finding in usage.findings]
            shown = {"clean": not has_drift, "projects": usage.projects, "findings": findings}
            print(json.dumps(shown if records is None else shown | records.as_data()))
        else:
            outcome = "mended" if self.mends else "wrong; 'tonnage-manage quota sync' mends them"
            _table(usage.drift, names)
            if ahead := [finding for finding in usage.findings if not finding.drift]:
                print("Not wrong, and counted anew before anybody is turned away:")
                _table(ahead, names)
            counters = f"{len(usage.drift)} counter(s) {outcome}"
            verdict = counters if usage.drift else "no counter is below the sum of the volumes"
            print(f"{usage.projects} project(s) with counters checked: {verdict}")
            if records is not None:
                if differences := records.differences_as_data():
                    tables.show(tuple(differences[0]), [tuple(difference.values()) for difference in differences])
                print(records.summary(outcome))
        if not has_drift:
            return 0
        return MENDED if self.mends and not (records is not None and records.has_failed) else DRIFT


class Check(_Quota):
    """Hold the counters of usage against the volumes."""

    mends = False


class Sync(_Quota):
    """Set the counters of usage to the sums of the volumes; schedulers may run."""

    mends = True


def _table(findings: "Sequence[Finding]", names: Mapping[str, str]) -> None:
    if findings:
        rows = [tuple(_as_json(finding, names).values()) for finding in findings]
        tables.show(tuple(_as_json(findings[0], names)), rows)


def _as_json(finding: "Finding", names: Mapping[str, str]) -> dict[str, Any]:
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
