# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage db online_data_migrations``: data migrations that run while all services are up."""

import argparse
import sys
from typing import Any

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.cli.commands import ledger_access, subcommands, tables
from tonnage.extensions.placement import factory, options
from tonnage.extensions.placement.allocation_writer import AllocationWriter, WriteProgress
from tonnage.extensions.placement.client import PlacementRefused

#: Volumes between two progress messages.
_PROGRESS_STEP = 1000

#: Exit statuses, the same as in Nova and Cinder: partial success, failure, and invalid arguments.
_MORE = 1
_FAILED = 2
_BAD_INPUT = 127

_STATUSES = (
    f"Exit status: 0 if nothing is left to be done, {_MORE} if --max-count was given and something has been done (run "
    f"it again), {_FAILED} if something could not be done, {_BAD_INPUT} for a --max-count below 1."
)


def register(actions: Any) -> None:
    """Add the command to those of ``db``."""
    text = "write the allocations of volumes that OpenStack Placement has not been told of; schedulers may run"
    parser = subcommands.add(actions, "online_data_migrations", text, epilog=_STATUSES)
    parser.add_argument("--max-count", metavar="N", type=int, help="volumes to write at most; without, all of them")
    parser.set_defaults(run=_run)


def _run(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    max_volumes = arguments.max_count
    if max_volumes is not None and max_volumes < 1:
        print("--max-count takes a whole number from 1 on", file=sys.stderr)
        return _BAD_INPUT
    try:
        placement = options.required(conf) if factory.is_enabled(conf) else options.from_conf(conf)
        ledger = ledger_access.connect(conf)
    except errors.TonnageError as error:
        # Not 1, because scripts repeat the command while its status is 1.
        print(error.message, file=sys.stderr)
        return _FAILED
    if max_volumes is None:
        print("Running batches until complete")
    done, problem = WriteProgress(), None
    try:
        for batch in () if placement is None else AllocationWriter(ledger, placement).write_batches(max_volumes):
            done = done.add(batch)
            if done.done // _PROGRESS_STEP > (done.done - batch.done) // _PROGRESS_STEP:
                print(f"{done.done} volumes written")
    except (errors.Unavailable, PlacementRefused) as error:
        problem = error.message
    columns = ("Migration", "Total Needed", "Completed")
    tables.show(columns, [("placement_allocations", done.pending, done.done)], as_json=False, empty="")
    if placement is None:
        print("The section [placement] names no account, so no allocations are written")
    if problem is not None:
        print(problem, file=sys.stderr)
        return _FAILED
    if max_volumes is not None and done.done:
        return _MORE
    return _FAILED if done.done < done.pending else 0
