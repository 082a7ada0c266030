# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage orphan``: list and deletion of orphans, volumes on the storage without a claim."""

from typing import Any

from oslo_config import cfg

from tonnage.cli.commands import ledger_access, subcommands, tables
from tonnage.ledger.repair import orphans


def register(subparsers: Any) -> None:
    """Add the commands."""
    actions = subcommands.group(subparsers, "orphan", "show or delete volumes on the storage that no claim names")
    parser = subcommands.add(actions, "list", "show those that the last listings had")
    parser.add_argument("--json", action="store_true", help=subcommands.JSON)
    parser.set_defaults(run=_list)
    parser = subcommands.add(actions, "purge", "have one deleted by its agent")
    parser.add_argument("pool", metavar="host@backend#pool", help="full name of the pool that it is in")
    parser.add_argument("volume", metavar="NAME", help="its name on the storage")
    parser.add_argument("--yes", action="store_true", required=True, help="say that what it holds may go")
    parser.add_argument("--force", action="store_true", help="also if the ledger may be the wrong one for the pool")
    parser.set_defaults(run=_purge)


def _list(conf: cfg.ConfigOpts) -> int:
    with ledger_access.connect(conf).reading() as session:
        rows = orphans.load(session)
    tables.show(
        ("pool", "name", "size_gb", "first_seen"),
        [(row.pool, row.name, row.size_gb, row.seen_at.isoformat(sep=" ", timespec="seconds")) for row in rows],
        as_json=conf.command.json,
        empty="The last listings had no orphans",
    )
    return 0


def _purge(conf: cfg.ConfigOpts) -> int:
    pool, name = conf.command.pool, conf.command.volume
    claim_id = ledger_access.connect(conf).run(orphans.purge, pool, name, force=conf.command.force)
    print(
        f"{name} in {pool} is to be deleted (claim {claim_id}); a scheduler tells the agent within seconds, and the "
        "next listing shows that it is gone"
    )
    return 0
