# SPDX-License-Identifier: Apache-2.0
"""All of Tonnage on LVM: thick volumes in a group of this machine, thin volumes in a virtual machine.

LVM on this machine keeps the metadata of the group without the kernel's devices, which is enough for a ledger.
"""

import json
import pathlib
import signal
from collections.abc import Iterator

import pytest

from tests.functional.deployment import Addresses, Deployment
from tests.servers import lvm_guest
from tests.servers.base import wait_for
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
    wait_for(lambda: tonnage.sql_value(moving) == tonnage.sql_value(flying) == 0, "all operations have ended")
    tonnage.check_counters()


def _in_ledger(tonnage: Deployment) -> dict[str, int]:
    return dict(tonnage.sql("SELECT id, size_gb FROM volumes WHERE status = 'available'"))


def _in_group(group: lvm_host.HostGroup) -> dict[str, int]:
    told = group.run(
        *("lvs", "--reportformat", "json", "--units", "g", "--nosuffix", "--options", "lv_name,lv_size", group.name)
    )
    return {row["lv_name"]: int(float(row["lv_size"])) for row in json.loads(told)["report"][0]["lv"]}


def test_accepted_volumes_survive_a_kill_during_creates_and_extends(
    tonnage: Deployment, host_group: lvm_host.HostGroup
) -> None:
    first = [tonnage.rest.create(1) for _ in range(4)]
    for volume in first:
        tonnage.rest.wait_until_available(volume)
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
    wait_for(
        lambda: tonnage.rest.pools()[pool]["provisioned_capacity_gb"] == allocated, "the report includes all volumes"
    )
    assert tonnage.rest.pools()[pool]["total_capacity_gb"] == 39.99
    tonnage.rest.delete(*held)
    assert _in_group(host_group) == {}


def test_changes_by_others_are_reported_and_found(tonnage: Deployment, host_group: lvm_host.HostGroup) -> None:
    kept, gone = tonnage.rest.create(1), tonnage.rest.create(2)
    for volume in (kept, gone):
        tonnage.rest.wait_until_available(volume)
    _at_rest(tonnage)
    host_group.run("lvremove", "--yes", f"{host_group.name}/{gone}")
    host_group.run("lvcreate", "--yes", "--name", "by-hand", "--size", "30g", host_group.name)
    pool = tonnage.pool("thick")
    wait_for(lambda: tonnage.rest.pools()[pool]["provisioned_capacity_gb"] == 31, "the report includes the changes")
    assert tonnage.rest.pools()[pool]["free_capacity_gb"] == 8.99
    assert "headroom 8.00 GiB" in tonnage.rest.refusal(9)["message"]

    def causes() -> str:
        return tonnage.run_command("manage", None, "ledger", "check").output

    wait_for(lambda: gone in causes() and "by-hand" in causes(), "the check of the ledger finds both")
    tonnage.rest.delete(kept, gone)
    host_group.run("lvremove", "--yes", f"{host_group.name}/by-hand")


#: A wrapper of LVM's commands. If the trap file exists, an extension ends when LVM has written its metadata: the kernel
#: does not get the new size, and the agent is killed.
_TRAP = """\
#!/bin/sh
case "$*" in *lvextend*)
    if [ -e {trap} ]; then
        rm {trap}
        {helper} "$@" --driverloaded n
        kill -9 $PPID
    fi
esac
exec {helper} "$@"
"""


@pytest.mark.heavy
def test_thin_volumes_survive_kills_foreign_changes_and_a_full_pool(
    lvm: lvm_guest.LvmGuest, tmp_path: pathlib.Path
) -> None:
    """This runs in the virtual machine, as test_use_cases.py does."""
    lvm.run("vgcreate", "agent", "/dev/vdd")
    lvm.run("lvcreate", "--type", "thin-pool", "--size", "512m", "--name", "agent-pool", "agent")
    lvm.run("lvchange", "--errorwhenfull", "y", "agent/agent-pool")
    trap, script = tmp_path / "trap", tmp_path / "lvm"
    script.write_text(_TRAP.format(trap=trap, helper=lvm.helper()))
    script.chmod(0o755)
    thin = {
        "volume_driver": "lvm",
        "volume_group": "agent",
        "lvm_root_helper": script,
        "max_over_subscription_ratio": 20,
    }
    try:
        with Deployment(Addresses(), {"thin": thin}, listing_interval=2) as tonnage:
            tonnage.start()
            pool = tonnage.pool("thin")
            assert tonnage.rest.headroom(pool, "thin") == 10
            grown, lost, written = (tonnage.rest.create(1) for _ in range(3))
            for volume in (grown, lost, written):
                tonnage.rest.wait_until_available(volume)

            trap.touch()
            assert tonnage.rest.extend(grown, 2).status_code == 202
            assert tonnage.processes["standalone"].wait() == -signal.SIGKILL
            assert lvm.run("blockdev", "--getsize64", f"/dev/agent/{grown}").out == f"{1 << 30}\n", "not in the middle"
            tonnage.kill()
            tonnage.start()
            assert tonnage.rest.wait_until_available(grown)["size"] == 2
            assert lvm.run("blockdev", "--getsize64", f"/dev/agent/{grown}").out == f"{2 << 30}\n"
            _at_rest(tonnage)
            assert tonnage.run_command("manage", None, "ledger", "check").code == 0

            lvm.run("lvremove", "--yes", f"agent/{lost}")
            lvm.run("lvextend", "--size", "3g", f"agent/{grown}")
            lvm.run("lvcreate", "--name", "by-hand", "--virtualsize", "1g", "--thinpool", "agent-pool", "agent")
            full = lvm.run(*("dd", "if=/dev/zero", f"of=/dev/agent/{written}", "bs=1M", "oflag=direct"), check=False)
            assert full.code != 0

            def reported() -> bool:
                shown = tonnage.rest.pools()[pool]
                return (shown["free_capacity_gb"], shown["provisioned_capacity_gb"]) == (0, 5)

            wait_for(reported, "the report includes the changes")
            assert "free 0" in tonnage.rest.refusal(1)["message"]
            expected = {grown: "size", lost: "lost", "by-hand": "orphan"}

            def causes() -> dict[str, str]:
                checked = tonnage.run_command("manage", None, "ledger", "check", "--json")
                return {finding["subject"]: finding["cause"] for finding in json.loads(checked.output)["findings"]}

            wait_for(lambda: expected.items() <= causes().items(), "the check of the ledger finds the causes")
            tonnage.rest.delete(grown, lost, written)
            wait_for(
                lambda: tonnage.rest.pools()[pool]["free_capacity_gb"] == 0.5, "the report shows the space as free"
            )
    finally:
        lvm.run("vgremove", "--yes", "agent")
