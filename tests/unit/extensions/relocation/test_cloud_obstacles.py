# SPDX-License-Identifier: Apache-2.0
"""The reasons why Cinder does not move volumes."""

from typing import Any

import pytest

from tests.unit.extensions.relocation.cloud_api import CLOUD, A, CloudApi
from tonnage.capacity import type_conversion
from tonnage.extensions.relocation import cloud_obstacles
from tonnage.extensions.relocation.cinder_client import Volume
from tonnage.extensions.relocation.plan_choices import Choices

SERVER = {"server_id": "s1", "host_name": "compute1"}


def volume(**fields: Any) -> Volume:
    api = CloudApi({A: 100})
    return type_conversion.convert(api.volumes[api.add(A, 1, **fields)], Volume)


def reason(*, attached: bool = False, has_snapshots: bool = False, **fields: Any) -> str | None:
    return cloud_obstacles.of(volume(**fields), Choices(cloud=CLOUD, attached=attached), has_snapshots=has_snapshots)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"replication_status": "disabled"},
        {"os-vol-mig-status-attr:migstat": "error"},
        {"multiattach": True},
        {"encrypted": True},
        {"status": "in-use", "attachments": [SERVER], "attached": True},
    ],
)
def test_most_volumes_can_be_moved(fields: dict[str, Any]) -> None:
    assert reason(**fields) is None


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"status": "creating"}, "is creating: Cinder moves volumes that are available or in use"),
        ({"status": "maintenance"}, "is being moved or changed by Cinder"),
        ({"os-vol-mig-status-attr:migstat": "migrating"}, "its migration status is migrating"),
        ({"has_snapshots": True}, "has snapshots"),
        ({"group_id": "g1"}, "belongs to group g1"),
        ({"consistencygroup_id": "g2"}, "belongs to group g2"),
        ({"replication_status": "enabled"}, "is replicated, its replication status is enabled"),
        ({"status": "in-use", "attachments": [SERVER]}, "is in use by server s1: detach it, or let Nova copy it"),
        ({"status": "in-use"}, "is attached to a host without a server of Nova"),
        (
            {"status": "in-use", "attachments": [{"server_id": None, "host_name": "backup1"}], "attached": True},
            "is attached to backup1 without a server of Nova",
        ),
        (
            {"status": "in-use", "attachments": [SERVER], "multiattach": True, "attached": True},
            "is a multiattach volume in use",
        ),
        (
            {"status": "in-use", "attachments": [SERVER, {"server_id": "s2"}], "attached": True},
            "is a multiattach volume in use",
        ),
        (
            {"status": "in-use", "attachments": [SERVER], "encrypted": True, "attached": True},
            "is encrypted and in use",
        ),
    ],
)
def test_each_obstacle_is_named(fields: dict[str, Any], text: str) -> None:
    assert text in str(reason(**fields))


def test_the_copy_of_a_volume_that_moves_is_none_of_the_users() -> None:
    assert cloud_obstacles.is_copy(volume(**{"os-vol-mig-status-attr:migstat": "target:v1"}))
    assert cloud_obstacles.is_copy(volume(**{"os-vol-mig-status-attr:migstat": "deleting", "status": "deleting"}))
    assert not cloud_obstacles.is_copy(volume())
