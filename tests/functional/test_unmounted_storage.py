# SPDX-License-Identifier: Apache-2.0
"""A file system that is not mounted: the folder of the volumes is empty, and the volumes are elsewhere.

The path of the volumes leads through a symbolic link, which stands for the mount and changes in one step.
"""

import os
import pathlib
from collections.abc import Iterator

import pytest

from tests.functional.conftest import Deploy
from tests.functional.deployment import Deployment
from tests.servers.base import wait_for

pytestmark = pytest.mark.parametrize(
    "deploy",
    ["standalone", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("postgresql", "mariadb"))],
    indirect=True,
    scope="module",
)


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy({"a": {"filesystem_size_limit_gb": 10}}) as deployment:
        mount(deployment)
        yield deployment.start()


def mount(tonnage: Deployment, *, mounted: bool = True) -> pathlib.Path:
    """Mount or unmount the file system of the volumes; return the folder that is at their place then."""
    target, link = tonnage.folder / ("disk" if mounted else "mount-point"), tonnage.folder / "link"
    target.mkdir(exist_ok=True)
    link.symlink_to(target)
    link.replace(tonnage.path("a").parent)
    return target / "a"


def restart_unmounted(tonnage: Deployment) -> pathlib.Path:
    """Restart the agent without the file system, and wait for its refusal; return the folder in the mount point."""
    name = "agent" if tonnage.distributed else "standalone"
    tonnage.end(name)
    folder = mount(tonnage, mounted=False)
    tonnage.launch(name)
    log = tonnage.processes[name].log
    refusal = f"the ledger counts volumes in {tonnage.pool('a')} "
    wait_for(lambda: refusal in log.read_text(), "the backend is refused")
    wait_for(tonnage.rest.is_healthy, "the API answers")
    assert "mount the file system with the volumes, then the backend joins by itself" in log.read_text()
    return folder


def content(folder: pathlib.Path) -> set[str]:
    return set(os.listdir(folder)) - {".tonnage-pool"}


def test_an_agent_that_starts_without_its_file_system_waits_for_it(tonnage: Deployment) -> None:
    rest = tonnage.rest
    kept, deleted = rest.create(1), rest.create(1)
    for volume_id in (kept, deleted):
        rest.wait_until_available(volume_id)
    mount_point = restart_unmounted(tonnage)
    created = rest.create(1)
    assert rest.request("DELETE", f"volumes/{deleted}").status_code == 202
    assert rest.extend(kept, 2).status_code == 202
    mount(tonnage)
    rest.wait_until_available(created)
    assert rest.wait_until_available(kept)["size"] == 2
    wait_for(lambda: rest.request("GET", f"volumes/{deleted}").status_code == 404, "the volume is deleted")
    tonnage.check_at_rest()
    assert set(tonnage.files("a")) == {kept, created}
    assert content(mount_point) == set(), "nothing was written to the mount point"


def test_a_file_system_that_is_unmounted_under_a_running_agent_is_not_missed(tonnage: Deployment) -> None:
    rest = tonnage.rest
    volume_id = rest.create(1)
    rest.wait_until_available(volume_id)
    mount_point = mount(tonnage, mounted=False)
    failed = rest.create(1)
    wait_for(lambda: rest.volume(failed)["status"] == "error", "the volume cannot be created")
    assert rest.request("DELETE", f"volumes/{volume_id}").status_code == 202
    wait_for(lambda: rest.volume(volume_id)["status"] == "error_deleting", "the deletion fails")
    mount(tonnage)
    rest.delete(volume_id, failed)
    tonnage.check_at_rest()
    assert content(mount_point) == set()


def test_storage_that_is_lost_for_ever_is_given_up_by_one_command(tonnage: Deployment) -> None:
    rest = tonnage.rest
    volume_id = rest.create(1)
    rest.wait_until_available(volume_id)
    mount_point = restart_unmounted(tonnage)
    tonnage.write("UPDATE backends SET last_report_at = NULL")  # it is down
    done = tonnage.run_command("manage", None, "backend", "remove", tonnage.pool("a"), "--volumes-are-lost")
    assert (done.code, volume_id in done.output) == (0, True), done
    wait_for(lambda: tonnage.sql_value("SELECT COUNT(*) FROM pools WHERE present") == 1, "the backend joins by itself")
    rest.wait_until_available(rest.create(1))
    assert ".tonnage-ledger" in content(mount_point)
    assert rest.volume(volume_id)["status"] == "error"
    rest.delete(*(volume["id"] for volume in rest.volumes() if volume["status"] == "error"))
    tonnage.check_at_rest()
