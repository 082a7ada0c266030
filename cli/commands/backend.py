# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage backend``: the states of backends and their removal, also without a running API."""

import argparse
from typing import Any

from oslo_config import cfg

from tonnage.cli.commands import ledger_access, subcommands, tables
from tonnage.ledger.inventory import backends
from tonnage.ledger.repair import backend_removal

#: Maximum length of the reason for disabling a backend, the same as in the ledger and the API.
_MAX_REASON_LENGTH = 255


def register(subparsers: Any) -> None:
    """Add the commands."""
    actions = subcommands.group(subparsers, "backend", "show backends, and disable, drain or enable them")
    parser = subcommands.add(actions, "list", "show all backends")
    parser.add_argument("--json", action="store_true", help=subcommands.JSON)
    parser.set_defaults(run=_list)
    for action, text in (
        ("enable", "place volumes on a backend again"),
        ("disable", "place nothing more on a backend"),
        ("drain", "place nothing more on a backend, and move its volumes away"),
    ):
        parser = subcommands.add(actions, action, text)
        parser.add_argument("backend", metavar="host@backend", help="full name of the backend")
        if action != "enable":
            parser.add_argument("--reason", type=_reason, metavar="TEXT", help="the reason for users of the API")
        parser.set_defaults(run=_set_state)
    parser = subcommands.add(actions, "remove", "forget a backend that never comes back")
    parser.add_argument("backend", metavar="host@backend", help="full name of the backend")
    parser.add_argument(
        "--volumes-are-lost",
        action="store_true",
        required=True,
        help="say that the volumes there are given up: they are put in error",
    )
    parser.set_defaults(run=_remove)


def _reason(text: str) -> str:
    if len(text) > _MAX_REASON_LENGTH:
        raise argparse.ArgumentTypeError(f"it has {len(text)} characters: expected at most {_MAX_REASON_LENGTH}")
    return text


def _list(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    ledger = ledger_access.connect(conf)
    with ledger.reading() as session:
        rows = backends.load_backends(session)
        pools = backends.load_pools(session)
    allocated: dict[int, int] = {}
    for pool in pools:
        allocated[pool.backend_id] = allocated.get(pool.backend_id, 0) + pool.counters.allocated
    tables.show(
        ("name", "state", "reason", "up", "allocated_gb", "silence_s", "availability_zone", "epoch"),
        [
            (
                row.name,
                "draining" if row.draining else "enabled" if row.enabled else "disabled",
                row.disabled_reason,
                row.silence is not None and row.silence <= conf.service_down_time,
                allocated.get(row.id, 0),
                None if row.silence is None else round(row.silence, 1),
                row.availability_zone,
                row.epoch,
            )
            for row in rows
        ],
        as_json=arguments.json,
        empty="No agent has introduced a backend yet",
    )
    return 0


def _set_state(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    action = arguments.action
    ledger_access.connect(conf).run(
        backends.set_state,
        arguments.backend,
        enabled=action == "enable",
        draining=action == "drain",
        reason=None if action == "enable" else arguments.reason,
    )
    state = {"enable": "enabled", "disable": "disabled", "drain": "being drained"}[action]
    print(f"Backend {arguments.backend} is {state}; running schedulers see it within seconds")
    return 0


def _remove(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    removed = ledger_access.connect(conf).run(backend_removal.remove_backend, arguments.backend, conf.service_down_time)
    print(
        f"Backend {arguments.backend} is removed, with {len(removed.pools)} pool(s); "
        f"{len(removed.volumes)} volume(s) are in error"
    )
    for volume_id in removed.volumes:
        print(volume_id)
    return 0
