# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.world import StoragePool, World
from tonnage.rpc.messages import (
    CreateGroup,
    CreateVolume,
    DeleteVolume,
    ExtendVolume,
    ManageVolume,
    MigrationPolicy,
    RetypeVolume,
)
from tonnage.scheduler.requests import quota_demands


def volume(project: str) -> CreateVolume:
    return CreateVolume(request_id="r", volume_id="v", size_gb=1, project_id=project)


def test_the_projects_whose_quota_a_request_uses() -> None:
    world = World({"p0": StoragePool(100, 2.0, thin=True, thick=False)}).started()
    volume_id = world.made(1)
    retype = RetypeVolume(request_id="r", volume_id=volume_id, volume_type="x", migration_policy=MigrationPolicy.NEVER)
    manage = ManageVolume(request_id="r", volume_id="v", pool="h@b#p", reference="x", project_id="m")
    for messages, expected in (
        ([volume("a"), None], {"a"}),
        ([CreateGroup(request_id="r", volumes=[volume("b"), volume("c")])], {"b", "c"}),
        ([manage], {"m"}),
        ([ExtendVolume(request_id="r", volume_id=volume_id, new_size_gb=2)], {"demo"}),
        ([retype], {"demo"}),
        ([ExtendVolume(request_id="r", volume_id="gone", new_size_gb=2)], set()),
        ([DeleteVolume(request_id="r", volume_id=volume_id)], set()),
    ):
        assert quota_demands.projects_of(world.database, messages) == expected
