# SPDX-License-Identifier: Apache-2.0
"""``tonnage create`` and ``tonnage delete``: a volume is created or deleted by the REST API."""

import argparse
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from tonnage.cli import output
from tonnage.cli.display import base_commands
from tonnage.cli.rest import connection_arguments
from tonnage.cli.simulation import argument_types
from tonnage.cli.simulation.argument_types import FOUND

if TYPE_CHECKING:
    from tonnage.cli.rest.api_client import ApiClient

#: Seconds for which ``--wait`` waits, and between two looks at the volume.
_WAIT_SECONDS, _PAUSE_SECONDS = 300.0, 0.2

#: The key of the pool of a volume, which only administrators see.
_POOL = "os-vol-host-attr:host"


class _Change(base_commands.Command):
    """A command on one volume."""

    group = "change"
    options = ("tonnage.rpc.options", "tonnage.api.options")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments that all changes have."""
        parser.add_argument(
            "--project",
            type=argument_types.name,
            help="project of the volume (default: the one that credentials are for, or demo)",
        )
        parser.add_argument(
            "--wait", action="store_true", help=f"wait until it is done, at most {_WAIT_SECONDS:g} seconds"
        )
        connection_arguments.add(parser)

    def client(self, parsed_args: argparse.Namespace) -> "ApiClient":
        """Return the client of the API that the arguments or the configuration name."""
        from tonnage.cli.rest.api_client import ApiClient

        url = connection_arguments.api_url(self.conf, parsed_args.url)
        return ApiClient(url, parsed_args.project, parsed_args.os_cloud)


class Create(_Change):
    """Create a volume.

    The line that it prints has the id, the pool, and the reason for the pool, which only administrators see.
    """

    exit_statuses = f"Exit status: 0 if a pool is chosen, {FOUND} if the request is refused, 1 after an error."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("size", type=argument_types.size, metavar="SIZE", help="GiB of the volume")
        parser.add_argument("--name", type=argument_types.name, help="name of the volume")
        parser.add_argument("--type", type=argument_types.name, help="volume type, by name or id")
        super().add_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Create the volume."""
        from tonnage.capacity import errors

        client = self.client(parsed_args)
        body = {"volume": {"size": parsed_args.size, "name": parsed_args.name, "volume_type": parsed_args.type}}
        explanation = _explanation(client, body)
        try:
            volume = client.post("/volumes", body, "volume")
        except errors.Conflict as refusal:
            output.print_error(f"tonnage: {refusal.message}")
            return FOUND
        path = f"/volumes/{volume['id']}"
        if parsed_args.wait:
            volume = _wait(lambda: client.get(path, "volume"), "creating")
            if volume["status"] != "available":
                raise errors.TonnageError(_failure(volume))
        else:
            volume = client.get(path, "volume")
        print(_created(volume, explanation))
        return 0


class Delete(_Change):
    """Delete a volume."""

    exit_statuses = "Exit status: 0 if the deletion is accepted, or with --wait done; 1 after an error."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("volume", type=argument_types.name, metavar="VOLUME", help="id or name of the volume")
        super().add_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Delete the volume."""
        from tonnage.capacity import errors

        client = self.client(parsed_args)
        volume = _find(client, parsed_args.volume)
        path = f"/volumes/{volume['id']}"
        client.delete(path)
        title = f"{volume['id']} {volume['name'] or ''}".rstrip()
        if parsed_args.wait:
            try:
                volume = _wait(lambda: client.get(path, "volume"), "deleting")
            except errors.NotFound:
                print(f"{title} is deleted")
                return 0
            raise errors.TonnageError(_failure(volume))
        print(f"{title} is being deleted")
        return 0


def _explanation(client: "ApiClient", body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the explanation of the decision that a request would get now, empty without the right to see it."""
    from tonnage.capacity import errors

    try:
        explanation: Mapping[str, Any] = client.post("/scheduler-stats/explain", body, "explanation")
    except errors.Unavailable:
        raise
    except errors.TonnageError:
        # The answer to the request itself names its error.
        return {}
    return explanation


def _created(volume: Mapping[str, Any], explanation: Mapping[str, Any]) -> str:
    """Return the line about a new volume: its id, its pool, and the reason if it went where the explanation says."""
    pool = volume.get(_POOL)
    line = " ".join(filter(None, (volume["id"], volume["name"], "is", volume["status"])))
    if pool is None:
        return line
    if explanation.get("pool") != pool:
        return f"{line} in {pool}"
    decision: str = explanation["message"].removeprefix(f"{explanation['request']} goes to ")
    return f"{line} in {decision}"


def _find(client: "ApiClient", name_or_id: str) -> Mapping[str, Any]:
    """Return the volume with an id or, if there is none, with a name.

    Raises :class:`~tonnage.capacity.errors.NotFound`, and :class:`~tonnage.capacity.errors.InvalidInput` for a name
    that several volumes have.
    """
    import urllib.parse

    from tonnage.capacity import errors

    volume: Mapping[str, Any]
    try:
        volume = client.get(f"/volumes/{urllib.parse.quote(name_or_id, safe='')}", "volume")
    except errors.NotFound:
        namesakes = client.get("/volumes/detail", "volumes", name=name_or_id)
        if not namesakes:
            raise errors.NotFound(
                f"volume {name_or_id} could not be found: the project has no volume with this id or name; "
                "'tonnage volumes' lists the volumes of all projects"
            ) from None
        if len(namesakes) > 1:
            ids = ", ".join(sorted(namesake["id"] for namesake in namesakes))
            raise errors.InvalidInput(
                f"{len(namesakes)} volumes have the name {name_or_id}: name one by its id, of {ids}"
            ) from None
        [volume] = namesakes
    return volume


def _wait(read: Callable[[], Mapping[str, Any]], status: str) -> Mapping[str, Any]:
    """Return a volume as soon as it no longer has a status.

    Raises :class:`~tonnage.capacity.errors.Unavailable` after :data:`_WAIT_SECONDS`.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    while (volume := read())["status"] == status:
        if time.monotonic() > deadline:
            _give_up(volume)
        time.sleep(_PAUSE_SECONDS)
    return volume


def _give_up(volume: Mapping[str, Any]) -> NoReturn:
    from tonnage.capacity import errors

    raise errors.Unavailable(
        f"volume {volume['id']} is still {volume['status']} after {_WAIT_SECONDS:g} seconds: "
        f"'tonnage why {volume['id']}' tells on which pool it waits"
    )


def _failure(volume: Mapping[str, Any]) -> str:
    reason = volume.get("status_reason")
    return f"volume {volume['id']} is in status {volume['status']}" + (f": {reason}" if reason else "")
