# SPDX-License-Identifier: Apache-2.0
"""Operations of a Cinder with two backends, and the comparison of ledger, rows and files after them."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cinder.sites import Site
from tests.servers import Cinder
from tests.servers.base import wait_for

FIRST, SECOND = "real@b1#a", "real@b2#a"

#: The microversion of the API for groups.
GROUPS = "3.20"


@contextlib.contextmanager
def emptied(site: Site) -> Iterator[None]:
    """Check afterwards that ledger, rows and files agree, and again without any volume."""
    yield
    cinder = site.cinder
    for name in cinder.shape.backends:
        cinder.control(name)
    agree(site)
    for volume_id in cinder.volumes():
        action(cinder, volume_id, "os-force_delete", {})
    wait_for(lambda: not cinder.volumes(), "all volumes are gone")
    agree(site)


def agree(site: Site) -> None:
    """Wait until the ledger agrees with the rows and the files, and nothing is in flight."""
    found: dict[str, Any] = {}

    def equal() -> bool:
        rows = dict.fromkeys((FIRST, SECOND), 0)
        for volume in site.cinder.volumes().values():
            if volume["os-vol-host-attr:host"]:
                rows[volume["os-vol-host-attr:host"]] += volume["size"]
        found["rows"] = rows
        found["files"] = {FIRST: site.stored("b1", "a"), SECOND: site.stored("b2", "a")}
        found["ledger"] = {pool: site.figures(pool) for pool in rows}
        wanted = {pool: (size, 0) for pool, size in rows.items()}
        return bool(rows == found["files"] and found["ledger"] == wanted)

    try:
        wait_for(equal, "ledger, rows and files agree", 60)
    except TimeoutError:
        pytest.fail(f"{found}, {site.rows('SELECT * FROM claims')}")


def action(cinder: Cinder, volume_id: str, name: str, values: dict[str, Any], version: str = "3.48") -> None:
    """Send an action on a volume."""
    cinder.request("POST", f"/volumes/{volume_id}/action", {name: values}, version)


def on(cinder: Cinder, backend: str) -> str:
    """Return the name of a volume type for a backend, which is created once."""
    name = f"type-{backend}"
    known = {each["name"] for each in cinder.request("GET", "/types")["volume_types"]}
    if name not in known:
        specs = {"volume_backend_name": backend}
        cinder.request("POST", "/types", {"volume_type": {"name": name, "extra_specs": specs}})
    return name


def placed(site: Site, size: int, **fields: Any) -> str:
    """Create a volume, and return its id when it is available."""
    volume_id = site.cinder.create(size, **fields)
    [volume] = site.cinder.settled([volume_id]).values()
    assert volume["status"] == "available", site.why(volume_id)
    return volume_id


def status(cinder: Cinder, volume_id: str) -> str:
    """Return the status of a volume."""
    return str(cinder.volumes()[volume_id]["status"])


def group(cinder: Cinder, kind: str) -> str:
    """Create a group for volumes of a type, and return its id."""
    types = {each["name"]: each["id"] for each in cinder.request("GET", "/types")["volume_types"]}
    known = {each["name"]: each["id"] for each in cinder.request("GET", "/group_types", None, GROUPS)["group_types"]}
    if "group" not in known:
        body = {"group_type": {"name": "group"}}
        known["group"] = cinder.request("POST", "/group_types", body, GROUPS)["group_type"]["id"]
    body = {"group": {"name": "g", "group_type": known["group"], "volume_types": [types[kind]]}}
    return when_available(cinder, "group", cinder.request("POST", "/groups", body, GROUPS)["group"]["id"])


def member(cinder: Cinder, group_id: str, size: int) -> str:
    """Request a volume in a group, and return its id."""
    [kind] = cinder.request("GET", f"/groups/{group_id}", None, GROUPS)["group"]["volume_types"]
    body = {"volume": {"size": size, "group_id": group_id, "volume_type": kind}}
    return str(cinder.request("POST", "/volumes", body, GROUPS)["volume"]["id"])


def group_snapshot(cinder: Cinder, group_id: str) -> str:
    """Create a snapshot of a group, and return its id."""
    body = {"group_snapshot": {"group_id": group_id, "name": "s"}}
    made = cinder.request("POST", "/group_snapshots", body, GROUPS)["group_snapshot"]["id"]
    return when_available(cinder, "group_snapshot", made)


def group_from(cinder: Cinder, source: dict[str, str]) -> str:
    """Create a group from another one or from a snapshot, and return its id."""
    return when_available(cinder, "group", request_group_from(cinder, source))


def request_group_from(cinder: Cinder, source: dict[str, str]) -> str:
    """Request a group from another one or from a snapshot, and return its id."""
    body = {"create-from-src": {"name": "copy", **source}}
    return str(cinder.request("POST", "/groups/action", body, GROUPS)["group"]["id"])


def groups(cinder: Cinder) -> set[str]:
    """Return the ids of all groups."""
    return {each["id"] for each in cinder.request("GET", "/groups", None, GROUPS)["groups"]}


def action_on_group(cinder: Cinder, group_id: str, name: str, values: dict[str, Any]) -> None:
    """Send an action on a group."""
    cinder.request("POST", f"/groups/{group_id}/action", {name: values}, GROUPS)


def remove_group(cinder: Cinder, group_id: str) -> None:
    """Delete a group with its volumes, and wait until it is gone."""
    action_on_group(cinder, group_id, "delete", {"delete-volumes": True})
    wait_for(lambda: group_id not in groups(cinder), "the group is gone")


def remove_group_snapshot(cinder: Cinder, snapshot_id: str) -> None:
    """Delete the snapshot of a group, and wait until it is gone."""
    cinder.request("DELETE", f"/group_snapshots/{snapshot_id}", None, GROUPS)
    snapshots = "/group_snapshots"
    wait_for(lambda: not cinder.request("GET", snapshots, None, GROUPS)["group_snapshots"], "the snapshot is gone")


def when_available(cinder: Cinder, kind: str, one: str) -> str:
    """Wait until a group or a snapshot of one is made, and return its id."""

    def ended() -> str:
        found = str(cinder.request("GET", f"/{kind}s/{one}", None, GROUPS)[kind]["status"])
        return "" if found == "creating" else found

    assert wait_for(ended, f"the {kind} is made") == "available"
    return one
