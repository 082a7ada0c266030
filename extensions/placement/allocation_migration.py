# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage db online_data_migrations``: data migrations that run while all services are up."""

import argparse
import sys

from tonnage.cli.display import base_commands, tables

#: Volumes between two progress messages.
_PROGRESS_STEP = 1000

#: Exit statuses, the same as in Nova and Cinder: partial success, failure, and invalid arguments.
_MORE = 1
_FAILED = 2
_BAD_INPUT = 127


class OnlineDataMigrations(base_commands.Command):
    """Write the allocations of volumes that OpenStack Placement has not been told of; schedulers may run."""

    exit_statuses = (
        f"Exit status: 0 if nothing is left to be done, {_MORE} if --max-count was given and something has been done "
        f"(run it again), {_FAILED} if something could not be done, {_BAD_INPUT} for a --max-count below 1."
    )
    options = (*base_commands.LEDGER, "tonnage.quotas.options")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the argument of the command."""
        parser.add_argument("--max-count", metavar="N", type=int, help="volumes to write at most; without, all of them")

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Write the allocations."""
        from tonnage.capacity import errors
        from tonnage.cli import ledger_access
        from tonnage.extensions.placement import factory, options
        from tonnage.extensions.placement.allocation_writer import AllocationWriter, WriteProgress
        from tonnage.extensions.placement.client import PlacementRefused

        max_volumes = parsed_args.max_count
        if max_volumes is not None and max_volumes < 1:
            print("--max-count takes a whole number from 1 on", file=sys.stderr)
            return _BAD_INPUT
        try:
            placement = options.required(self.conf) if factory.is_enabled(self.conf) else options.from_conf(self.conf)
            ledger = ledger_access.connect(self.conf)
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
        tables.show(columns, [("placement_allocations", done.pending, done.done)])
        if placement is None:
            print("The section [placement] names no account, so no allocations are written")
        if problem is not None:
            print(problem, file=sys.stderr)
            return _FAILED
        if max_volumes is not None and done.done:
            return _MORE
        return _FAILED if done.done < done.pending else 0
