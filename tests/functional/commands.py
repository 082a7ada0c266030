# SPDX-License-Identifier: Apache-2.0
"""Every documented command of ``openstack``, ``cinder`` and openstacksdk, for any deployment and authentication."""

import subprocess
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from tests.functional.clients import Clients
from tests.servers.base import wait_for

_QUIET = "--quiet-command"
_BACKEND = ("volume", "backend")

#: The first microversion with groups. The commands do not send it by default.
_GROUPS = ("--os-volume-api-version", "3.13")


@dataclass(frozen=True, slots=True)
class Cloud:
    """The clients of a Tonnage and the names of its pools.

    ``storage`` is openstacksdk's block storage proxy, ``project`` the id of the account's project. ``openstack`` looks
    projects up in an Identity service before it shows quotas; ``has_identity`` tells whether there is one.
    """

    clients: Clients
    storage: Any
    project: str
    pool: str
    other_pool: str
    has_identity: bool

    @property
    def backend(self) -> str:
        """The backend of the pool."""
        return self.pool.partition("#")[0]

    @property
    def host(self) -> str:
        """The host of the scheduler."""
        return self.pool.partition("@")[0]

    def wait_until_available(self, volume_id: str, size: int) -> None:
        """Wait until a volume is available and has this size in GiB."""
        wait_for(
            lambda: (found := self.storage.get_volume(volume_id)).status == "available" and found.size == size,
            f"volume {volume_id} has {size} GiB",
        )

    def wait_until_gone(self, volume_id: str) -> None:
        """Wait until a volume is deleted."""
        wait_for(lambda: self.storage.find_volume(volume_id) is None, f"volume {volume_id} is deleted")


def new_name() -> str:
    """Return a unique name."""
    return f"n-{uuid.uuid4().hex[:12]}"


def pools(cloud: Cloud) -> None:
    """Show the pools."""
    capabilities_of = {
        row["Name"]: row["Capabilities"] for row in cloud.clients.openstack(*_BACKEND, "pool", "list", "--long")
    }
    assert {cloud.pool, cloud.other_pool} <= capabilities_of.keys()
    assert capabilities_of[cloud.pool]["backend_state"] == "up"
    filtered = cloud.clients.cinder_text("get-pools", "--detail", "--filters", f"name={cloud.pool}")
    assert cloud.pool in filtered
    assert "max_over_subscription_ratio" in filtered
    assert cloud.other_pool not in filtered
    assert {cloud.pool, cloud.other_pool} <= {pool.name for pool in cloud.storage.backend_pools()}


def capabilities(cloud: Cloud) -> None:
    """Show the capabilities of a backend."""
    shown = cloud.clients.openstack(*_BACKEND, "capability", "show", cloud.backend)
    assert {"thin_provisioning_support", "provisioning:type"} <= {row["Key"] for row in shown}
    text = cloud.clients.cinder_text("get-capabilities", cloud.backend)
    assert f"OS::Storage::Capabilities::{cloud.backend}" in text
    assert "thin_provisioning_support" in text
    found = cloud.storage.get_capabilities(cloud.backend)
    assert found.properties["thin_provisioning_support"]["enum"] == [True]


def limits_and_quotas(cloud: Cloud) -> None:
    """Show and change limits and quotas."""
    cinder, project = cloud.clients.cinder, cloud.project
    kind = cloud.storage.create_type(name=new_name())
    assert "maxTotalVolumes" in cinder("absolute-limits")
    assert cinder("quota-update", project, "--volumes", "7", "--gigabytes", "70")["gigabytes"] == "70"
    of_type = cinder("quota-update", project, "--gigabytes", "50", "--volume-type", kind.name)
    assert of_type[f"gigabytes_{kind.name}"] == "50"
    assert cinder("quota-show", project)["volumes"] == "7"
    assert "70" in cloud.clients.cinder_text("quota-usage", project)
    assert cinder("quota-class-update", "default", "--backups", "4")["backups"] == "4"
    assert cinder("quota-class-show", "default")["backups"] == "4"
    assert cinder("quota-defaults", project)["backups"] == "4"
    cloud.clients.cinder_text("quota-delete", project)
    assert cinder("quota-show", project)["volumes"] == "-1"
    if cloud.has_identity:
        _quotas_by_openstack(cloud, kind.name)

    assert cloud.storage.get_limits().absolute.max_total_volumes == -1
    assert cloud.storage.update_quota_set(project, volumes=9, **{f"volumes_{kind.name}": 2}).volumes == 9
    assert cloud.storage.get_quota_set(project, usage=True).volumes == 9
    assert cloud.storage.get_quota_set_defaults(project).volumes == -1
    cloud.storage.revert_quota_set(project)
    assert cloud.storage.get_quota_set(project).volumes == -1
    assert cloud.storage.update_quota_class_set("default", backups=10).backups == 10
    assert cloud.storage.get_quota_class_set("default").backups == 10
    cloud.storage.delete_type(kind)


def _quotas_by_openstack(cloud: Cloud, kind: str) -> None:
    run, project = cloud.clients.cloud, cloud.project
    run("quota", "set", "--volumes", "8", "--gigabytes", "80", project, shows=False)
    run("quota", "set", "--gigabytes", "40", "--volume-type", kind, project, shows=False)
    shown = {row["Resource"]: row["Limit"] for row in run("quota", "show", "--volume", project)}
    assert (shown["volumes"], shown["gigabytes"], shown[f"gigabytes_{kind}"]) == (8, 80, 40)
    usage = {row["Resource"]: row for row in run("quota", "show", "--volume", "--usage", project)}
    assert (usage["gigabytes"]["Limit"], usage["gigabytes"]["Reserved"]) == (80, 0)
    run("quota", "show", "--volume", "--default", project)
    limits = {row["Name"]: row["Value"] for row in run("limits", "show", "--absolute", "--project", project)}
    assert limits["max_total_volume_gigabytes"] == 80
    run("quota", "set", "--class", "--backups", "5", "default", shows=False)
    run("quota", "delete", "--volume", project, shows=False)
    shown = {row["Resource"]: row["Limit"] for row in run("quota", "show", "--volume", project)}
    assert (shown["volumes"], shown["backups"]) == (-1, 5)


def volumes_by_openstack(cloud: Cloud) -> None:
    """Create, change and delete types and volumes with ``openstack``."""
    run, name = cloud.clients.openstack, new_name()
    kind = run("volume", "type", "create", name, "--property", "thin_provisioning_support=<is> True")
    assert kind["properties"] == {"thin_provisioning_support": "<is> True"}
    run("volume", "type", "set", "--property", "provisioning:type=thin", name, _QUIET)
    assert name in [row["Name"] for row in run("volume", "type", "list")]
    volume = run("volume", "create", "--size", "2", "--type", name, name)
    cloud.wait_until_available(volume["id"], 2)
    run("volume", "set", "--size", "3", name, _QUIET)
    cloud.wait_until_available(volume["id"], 3)
    assert name in [row["Name"] for row in run("volume", "list")]
    assert [row["Size"] for row in run("volume", "list", "--all-projects") if row["ID"] == volume["id"]] == [3]
    run("volume", "delete", name, _QUIET)
    cloud.wait_until_gone(volume["id"])
    run("volume", "type", "delete", name, _QUIET)


def volumes_by_cinder(cloud: Cloud) -> None:
    """Create, change and delete types and volumes with ``cinder``."""
    run, name = cloud.clients.cinder_text, new_name()
    run("type-create", name)
    run("type-key", name, "set", "thin_provisioning_support=<is> True")
    assert name in run("type-list")
    volume = cloud.clients.cinder("create", "1", "--name", name, "--volume-type", name)
    cloud.wait_until_available(volume["id"], 1)
    run("extend", name, "2")
    cloud.wait_until_available(volume["id"], 2)
    assert cloud.clients.cinder("show", name)["size"] == "2"
    assert name in run("list", "--all-tenants")
    run("delete", name)
    cloud.wait_until_gone(volume["id"])
    run("type-delete", name)


def volumes_by_sdk(cloud: Cloud) -> None:
    """Create, change and delete types and volumes with openstacksdk."""
    storage, name = cloud.storage, new_name()
    kind = storage.create_type(name=name)
    storage.update_type_extra_specs(kind, thin_provisioning_support="<is> True")
    assert kind.id in {each.id for each in storage.types()}
    volume = storage.create_volume(size=1, name=name, volume_type=name)
    cloud.wait_until_available(volume.id, 1)
    storage.extend_volume(volume, 2)
    cloud.wait_until_available(volume.id, 2)
    assert [each.id for each in storage.volumes(all_projects=True, name=name)] == [volume.id]
    storage.delete_volume(volume)
    cloud.wait_until_gone(volume.id)
    storage.delete_type(kind)


def services(cloud: Cloud) -> None:
    """Show, disable and enable schedulers and backends."""
    run, binaries = cloud.clients.cinder_text, {"cinder-volume", "cinder-scheduler"}
    assert {row["Binary"] for row in cloud.clients.openstack("volume", "service", "list")} == binaries
    change = ("volume", "service", "set", cloud.backend, "cinder-volume")
    cloud.clients.openstack(*change, "--disable", "--disable-reason", "new disks", _QUIET)
    assert "new disks" in run("service-list", "--binary", "tonnage-agent")
    cloud.clients.openstack(*change, "--enable", _QUIET)
    run("service-disable", cloud.host, "tonnage-scheduler", "--reason", "slow")
    [found] = cloud.storage.services(binary="tonnage-scheduler")
    assert (found.status, found.disabled_reason) == ("disabled", "slow")
    run("service-enable", cloud.host, "tonnage-scheduler")
    assert {each.status for each in cloud.storage.services()} == {"enabled"}


def groups(cloud: Cloud) -> None:
    """Create and delete groups with both commands."""
    run, cinder, name = cloud.clients.openstack, cloud.clients.cinder_text, new_name()
    kind = cloud.storage.create_type(name=name)
    run(*_GROUPS, "volume", "group", "type", "create", name)
    assert name in cinder(*_GROUPS, "group-type-list")
    make = ("volume", "group", "create", "--volume-group-type", name, "--volume-type", name)
    made = run(*_GROUPS, *make, "--name", name)
    assert name in cinder(*_GROUPS, "group-list")
    volume = cloud.clients.cinder(
        *_GROUPS, "create", "1", "--volume-type", name, "--group-id", made["ID"], "--name", name
    )
    cloud.wait_until_available(volume["id"], 1)
    cinder(*_GROUPS, "group-delete", made["ID"], "--delete-volumes")
    cloud.wait_until_gone(volume["id"])
    wait_for(lambda: name not in cinder(*_GROUPS, "group-list"), "the group is gone")
    run(*_GROUPS, "volume", "group", "type", "delete", name, _QUIET)
    cloud.storage.delete_type(kind)


def decisions(cloud: Cloud) -> None:
    """Show the decisions on a volume, and the refusals."""
    run, name = cloud.clients.openstack, new_name()
    volume = run("volume", "create", "--size", "1", name)
    cloud.wait_until_available(volume["id"], 1)
    why = run("volume", "why", name)
    assert why["volume_id"] == volume["id"]
    assert why["size_bytes"] == 2**30
    assert why["reason"].startswith("placed here by request req-")
    assert {verdict["verdict"] for verdict in why["pools"]} >= {"chosen"}
    with pytest.raises(subprocess.CalledProcessError):
        run("volume", "create", "--size", "70000", new_name())
    [refusal, *_] = run("volume", "refusal", "list", "--code", "no_capacity", "--long", "--limit", "5")
    assert refusal["message"].startswith("No pool for 70000 GiB")
    assert refusal["largest_size_bytes"] % 2**30 == 0
    assert run("volume", "why", refusal["request_id"])["reason"] == refusal["message"]
    assert "no_capacity" in {row["code"] for row in run("volume", "refusal", "list", "--summary")}
    run("volume", "delete", name, _QUIET)
    cloud.wait_until_gone(volume["id"])


#: All commands.
ALL = (
    pools,
    capabilities,
    limits_and_quotas,
    volumes_by_openstack,
    volumes_by_cinder,
    volumes_by_sdk,
    services,
    groups,
    decisions,
)
