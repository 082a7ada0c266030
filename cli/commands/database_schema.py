# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage db sync``, ``check`` and ``version``: the schema of the ledger's database."""

import argparse

from tonnage.cli.display import base_commands

#: Exit status of ``db check`` for an outdated schema. Status 1 means that the check was not possible.
_NOT_AT_HEAD = 3


class Sync(base_commands.Command):
    """Bring the database to this release's schema.

    Fails if the ledger cannot be written, also if there is nothing to change.
    """

    options = base_commands.LEDGER

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Make or change the tables."""
        from tonnage import enabled_extensions
        from tonnage.ledger.db import database, schema

        ledger, extensions = database.connect(self.conf, create=True), enabled_extensions.enabled(self.conf)
        before = schema.current(ledger.engine)
        schema.sync(ledger.engine, extensions)
        for branch in schema.branches(ledger.engine, extensions):
            former = before.get(branch.name)
            change = f" ({'they were' if branch.name else 'it was'} at {former or 'none'})"
            print(_sentence(branch.text) + ("" if former == branch.revision else change))
        # Without a migration nothing has been written so far.
        ledger.require_writable()
        return 0


class Check(base_commands.Command):
    """Tell whether the database has this release's schema."""

    exit_statuses = (
        f"Exit status: 0 if it has, or that of a later release, {_NOT_AT_HEAD} if it has to be brought up to date, 1 "
        "if nobody could look (configuration, database), 2 for a wrong command line."
    )
    options = base_commands.LEDGER

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Compare the revisions."""
        from tonnage import enabled_extensions
        from tonnage.ledger.db import database, schema, sqlite_file

        try:
            branches = schema.branches(database.connect(self.conf).engine, enabled_extensions.enabled(self.conf))
        except sqlite_file.NoDatabase as error:
            print(_sentence(error.message))
            return _NOT_AT_HEAD
        for branch in branches:
            is_at_head = branch.revision == branch.head
            rest = ", as this release needs it" if is_at_head else f"; this release is made for {branch.head}"
            print(_sentence(branch.text) + rest)
        return _NOT_AT_HEAD if any(branch.is_behind for branch in branches) else 0


class Version(base_commands.Command):
    """Show the revision that the database is at."""

    options = base_commands.LEDGER

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the revisions, a line for each."""
        from tonnage.ledger.db import database, schema

        print("\n".join(schema.current(database.connect(self.conf).engine).values()) or "none")
        return 0


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
