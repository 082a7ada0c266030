# SPDX-License-Identifier: Apache-2.0
"""All of Tonnage on LVM: thick volumes in a group of this machine, thin ones in a virtual machine.

This machine's LVM keeps what is written down in the group, without a kernel that shows it: enough for a ledger.
"""

import json
from collections.abc import Iterator

import pytest

from tests.functional.deployment import Addresses
from tests.functional.deployment import Deployment
from tests.functional.deployment import until
from tests.servers import lvm_guest
from tests.unit.drivers import lvm_host


@pytest.fixture(scope="module")
def host_group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lvm_host.HostGroup]:
    with lvm_host.volume_group(tmp_path_factory.mktemp("lvm"), 40) as group:
        yield group


@pytest.fixture(scope="module")
def tonnage(host_group: lvm_host.HostGroup) -> Iterator[Deployment]:
    thick = {
        "volume_driver": "lvm",
        "volume_group": host_group.name,
        "lvm_type": "default",
        "lvm_root_helper": host_group.helper,
        "volume_clear": "none",
    }
    with Deployment(Addresses(), {"thick": thick}, listing_interval=2) as deployment:
        yield deployment.start()


def _at_rest(tonnage: Deployment) -> None:
    moving = "SELECT COUNT(*) FROM volumes WHERE status NOT IN ('available', 'error')"
    flying = "SELECT COUNT(*) FROM claims WHERE NOT contained OR state = 'pending'"
    until(lambda: tonnage.number(moving) == tonnage.number(flying) == 0, "everything comes to rest")
    tonnage.check_counters()


def _in_ledger(tonnage: Deployment) -> dict[str, int]:
    return dict(tonnage.sql("SELECT id, size_gb FROM volumes WHERE status = 'available'"))


def _in_group(group: lvm_host.HostGroup) -> dict[str, int]:
    told = group.run(
        *("lvs", "--reportformat", "json", "--units", "g", "--nosuffix", "--options", "lv_name,lv_size", group.name)
    )
    return {row["lv_name"]: int(float(row["lv_size"])) for row in json.loads(told)["report"][0]["lv"]}


def test_killed_in_the_middle_of_creates_and_extends(tonnage: Deployment, host_group: lvm_host.HostGroup) -> None:
    first = [tonnage.rest.create(1) for _ in range(4)]
    for volume in first:
        tonnage.rest.made(volume)
    for volume in first:
        assert tonnage.rest.extend(volume, 3).status_code == 202
    accepted = [tonnage.rest.create(2) for _ in range(3)]
    tonnage.kill()
    tonnage.start()
    _at_rest(tonnage)
    held = _in_ledger(tonnage)
    assert held.keys() >= {*first, *accepted}
    assert _in_group(host_group) == held
    allocated = sum(held.values())
    pool = tonnage.pool("thick")
    until(lambda: tonnage.rest.pools()[pool]["provisioned_capacity_gb"] == allocated, "it is reported")
    assert tonnage.rest.pools()[pool]["total_capacity_gb"] == 39.99
    tonnage.rest.delete(*held)
    assert _in_group(host_group) == {}


def test_what_happens_behind_its_back_is_seen(tonnage: Deployment, host_group: lvm_host.HostGroup) -> None:
    kept, gone = tonnage.rest.create(1), tonnage.rest.create(2)
    for volume in (kept, gone):
        tonnage.rest.made(volume)
    _at_rest(tonnage)
    host_group.run("lvremove", "--yes", f"{host_group.name}/{gone}")
    host_group.run("lvcreate", "--yes", "--name", "by-hand", "--size", "30g", host_group.name)
    pool = tonnage.pool("thick")
    until(lambda: tonnage.rest.pools()[pool]["provisioned_capacity_gb"] == 31, "the report follows the group")
    assert tonnage.rest.pools()[pool]["free_capacity_gb"] == 8.99
    assert "headroom 8.00 GiB" in tonnage.rest.refusal(9)["message"]

    def causes() -> str:
        return tonnage.attempt("manage", None, "ledger", "check").output

    until(lambda: gone in causes() and "by-hand" in causes(), "the ledger's check names both")
    tonnage.rest.delete(kept, gone)
    host_group.run("lvremove", "--yes", f"{host_group.name}/by-hand")


@pytest.mark.heavy
def test_thin_volumes_in_a_virtual_machine(lvm: lvm_guest.LvmGuest) -> None:
    lvm.run("vgcreate", "agent", "/dev/vdd")
    thin = {
        "volume_driver": "lvm",
        "volume_group": "agent",
        "lvm_root_helper": lvm.helper(),
        "max_over_subscription_ratio": 2,
    }
    try:
        with Deployment(Addresses(), {"thin": thin}) as tonnage:
            tonnage.start()
            assert tonnage.rest.headroom(tonnage.pool("thin"), "thin") == 22
            volume = tonnage.rest.create(10)
            tonnage.rest.made(volume)
            assert tonnage.rest.extend(volume, 20).status_code == 202
            until(lambda: tonnage.rest.volume(volume)["size"] == 20, "it is extended")
            assert tonnage.rest.headroom(tonnage.pool("thin"), "thin") == 2
            assert "cinder" in tonnage.rest.refusal(3)["message"]
            assert lvm.run("blockdev", "--getsize64", f"/dev/agent/{volume}").out == f"{20 << 30}\n"
            tonnage.rest.delete(volume)
    finally:
        lvm.run("vgremove", "--yes", "agent")
