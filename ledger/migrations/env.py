# SPDX-License-Identifier: Apache-2.0
"""Alembic's entry point: migrations run on the connection that tonnage.ledger.db.schema passes."""

from alembic import context

from tonnage.ledger import models


def run() -> None:
    """Run the requested migrations."""
    connection = context.config.attributes["connection"]
    if connection is None:
        raise SystemExit("run migrations with 'tonnage-manage db sync'")
    context.configure(
        connection=connection,
        target_metadata=models.Base.metadata,
        # SQLite cannot alter most of a table in place.
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()


run()
