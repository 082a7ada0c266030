# SPDX-License-Identifier: Apache-2.0
"""The command of the extension."""

import argparse
from collections.abc import Sequence
from typing import Any

from tonnage.cli.display import base_commands, table_columns
from tonnage.cli.display.table_columns import Column

_COLUMNS = (
    Column("pool", lambda mark: mark.pool, "pool"),
    table_columns.capacity("free", lambda mark: mark.free_gb, "lowest free"),
    Column("reported_at", lambda mark: mark.reported_at, "reported at"),
)


class LowWater(base_commands.Lister):
    """Show the lowest free capacity that each pool has reported."""

    options = base_commands.LEDGER
    columns = _COLUMNS
    empty = "No pool has reported its free capacity"

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Sequence[Any]]:
        """Return the columns and the rows."""
        # Imported here: the help of a command does not wait for SQLAlchemy.
        from tonnage.cli import ledger_access
        from tonnage_low_water import tables

        with ledger_access.connect(self.conf).reading() as session:
            return _COLUMNS, tables.marks(session)
