# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage backend``: the states of backends and their removal, also without a running API."""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, ClassVar

from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Column, yes_or_no
from tonnage.cli.rest import connection_arguments

#: Maximum length of the reason for disabling a backend, the same as in the ledger and the API.
_MAX_REASON_LENGTH = 255

#: The exit status of ``backend remove`` for a backend that is not down yet.
_NOT_DOWN = 3

#: Seconds by which ``backend remove --wait`` looks later than the backend is down.
_MARGIN = 0.1

#: The headings of the columns about drains, in a table with a backend that is draining.
_DRAINS = {
    "volumes_left": "volumes left",
    "moving": "moving",
    "cannot_move": "cannot move",
    "drain_reasons": "because",
}


class List(base_commands.Lister):
    """Show all backends."""

    options = base_commands.LEDGER
    columns: ClassVar[Sequence[Column]] = (
        Column("name", attrgetter("name"), "name"),
        Column("state", attrgetter("state"), "state"),
        Column("reason", attrgetter("reason"), "reason"),
        Column("up", attrgetter("up"), "up", lambda row: yes_or_no(row.up)),
        Column("problem", attrgetter("problem"), "problem", width=60),
        Column("allocated_gb", attrgetter("allocated_gb"), "allocated GiB"),
        Column("silence_s", attrgetter("silence_s"), "silence s"),
        Column("availability_zone", attrgetter("availability_zone"), "availability zone"),
        Column("epoch", attrgetter("epoch"), "epoch"),
        Column("volumes_left", attrgetter("volumes_left")),
        Column("moving", attrgetter("moving")),
        Column("cannot_move", attrgetter("cannot_move")),
        Column(
            "drain_reasons", attrgetter("drain_reasons"), text=lambda row: "; ".join(row.drain_reasons or ()), width=60
        ),
    )
    empty = "No agent has introduced a backend yet"
    has_json = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        connection_arguments.add(parser)

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Sequence[Any]]:
        """Return the columns and the backends."""
        from tonnage.cli.rest import ledger_rows

        rows = ledger_rows.read(self.conf, parsed_args, "backends")
        if all(row.volumes_left is None for row in rows):
            return self.columns, rows
        return [replace(column, heading=_DRAINS.get(column.key, column.heading)) for column in self.columns], rows

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the backends, and a warning if their reports cannot be recorded. Return the exit status."""
        from tonnage.cli import ledger_access

        status = super().run(parsed_args)
        if connection_arguments.ledger_url(self.conf, parsed_args.url) is None:
            ledger_access.warn_of_refused_writes(ledger_access.connect(self.conf), self.app.NAME)
        return status


class _Backend(base_commands.Command):
    """A command on one backend."""

    options = base_commands.LEDGER

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name of the backend."""
        parser.add_argument("backend", metavar="host@backend", help="full name of the backend")

    def _set_state(
        self, backend: str, *, state: str, enabled: bool = False, draining: bool = False, reason: str | None = None
    ) -> int:
        from tonnage.cli import ledger_access
        from tonnage.ledger.inventory import backends

        ledger_access.connect(self.conf).run(
            backends.set_state, backend, enabled=enabled, draining=draining, reason=reason
        )
        print(f"Backend {backend} is {state}; running schedulers see it within seconds")
        return 0


class Enable(_Backend):
    """Place volumes on a backend again."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Enable the backend."""
        return self._set_state(parsed_args.backend, state="enabled", enabled=True)


class _WithReason(_Backend):
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name of the backend and the reason."""
        super().add_arguments(parser)
        parser.add_argument("--reason", type=_reason, metavar="TEXT", help="the reason for users of the API")


class Disable(_WithReason):
    """Place nothing more on a backend."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Disable the backend."""
        return self._set_state(parsed_args.backend, state="disabled", reason=parsed_args.reason)


class Drain(_WithReason):
    """Place nothing more on a backend, and move its volumes away."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Drain the backend."""
        return self._set_state(parsed_args.backend, state="being drained", draining=True, reason=parsed_args.reason)


class Remove(base_commands.Command):
    """Forget a backend, or one of its pools, whose storage never comes back.

    Its agent has to be stopped first.
    """

    options = base_commands.LEDGER
    exit_statuses = (
        "Exit status: 0 once it is removed, 1 after an error, 2 for a wrong command line, 3 while the backend is not "
        "down yet."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name of the backend or pool and the confirmation."""
        parser.add_argument(
            "name", metavar="host@backend[#pool]", help="full name of the backend, or of one pool of it"
        )
        parser.add_argument(
            "--volumes-are-lost",
            action="store_true",
            required=True,
            help="say that the volumes there are given up: they are put in error",
        )
        parser.add_argument("--wait", action="store_true", help="wait until the backend is down")

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Remove the backend."""
        from tonnage.cli import ledger_access
        from tonnage.ledger.repair import backend_removal

        ledger = ledger_access.connect(self.conf)
        name = parsed_args.name
        while True:
            try:
                removed = ledger.run(backend_removal.remove_backend, name, self.conf.service_down_time)
                break
            except backend_removal.StillUp as error:
                if not parsed_args.wait:
                    print(f"tonnage-manage: {error.message}; --wait waits for that", file=sys.stderr)
                    return _NOT_DOWN
                print(f"Its backend is down in {error.seconds:.0f} s, unless it reports again", flush=True)
                time.sleep(error.seconds + _MARGIN)
        target = (
            f"Pool {name} is removed"
            if "#" in name
            else f"Backend {name} is removed, with {len(removed.pools)} pool(s)"
        )
        print(f"{target}; {len(removed.volumes)} volume(s) are in error")
        for volume_id in removed.volumes:
            print(volume_id)
        return 0


def _reason(text: str) -> str:
    if len(text) > _MAX_REASON_LENGTH:
        raise argparse.ArgumentTypeError(f"it has {len(text)} characters: expected at most {_MAX_REASON_LENGTH}")
    return text
