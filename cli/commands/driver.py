# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage driver``: audit of drivers' reports against the definitions of the fields."""

import argparse
import json

from tonnage.cli.display import base_commands, tables

#: Exit status if there are findings, the same as for drift in the ledger.
FOUND = 3


class Audit(base_commands.Command):
    """Show the definitions of reported figures that drivers break, by their last reports and the volumes there are."""

    exit_statuses = (
        f"Exit status: 0 if nothing was found, {FOUND} if something was, 1 if nobody could look (configuration, "
        "database), 2 for a wrong command line."
    )
    options = base_commands.LEDGER

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("--backend", metavar="host@backend", help="look at one backend")
        parser.add_argument("--json", action="store_true", help=base_commands.JSON)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Show the findings."""
        from tonnage.capacity.pools.pool import pool_name
        from tonnage.cli import ledger_access
        from tonnage.ledger.inventory import audit_findings, backends, names

        backend = parsed_args.backend
        with ledger_access.connect(self.conf).reading() as session:
            if backend is not None:
                names.require_backend(session, backend)
            rows = [row for row in backends.load_backends(session) if backend in (None, row.name)]
            findings = [finding for finding in audit_findings.load(session, backend) if finding.evidence.once is None]
        columns = ("pool", "breach", "since", "because")
        finding_rows = [
            (
                pool_name(finding.backend, finding.pool),
                finding.breach,
                f"{finding.seen_at:%Y-%m-%d %H:%M:%S}",
                finding.evidence.text,
            )
            for finding in findings
        ]
        ages = [(row.name, None if row.silence is None else round(row.silence, 1)) for row in rows]
        if parsed_args.json:
            answer = {
                "clean": not findings,
                "findings": [dict(zip(columns, row, strict=True)) for row in finding_rows],
                "backends": [{"name": name, "reported_s_ago": age} for name, age in ages],
            }
            print(json.dumps(answer))
            return FOUND if findings else 0
        if finding_rows:
            tables.show(columns, finding_rows)
        tables.show(("backend", "reported_s_ago"), ages, empty="No agent has introduced a backend yet")
        if not findings:
            print(f"{len(rows)} backend(s) audited: their reports keep to the definitions")
        else:
            print(
                f"{len(rows)} backend(s) audited: {len(findings)} definition(s) broken; "
                "see 'What drivers report' in the docs"
            )
        return FOUND if findings else 0
