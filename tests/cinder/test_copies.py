# SPDX-License-Identifier: Apache-2.0
"""Volumes that Cinder copies: by a host, from images, into its cache of images, and from backups."""

import os
from collections.abc import Iterator

import pytest

from tests.cinder import operations, sites
from tests.cinder.operations import FIRST, SECOND, action, on, placed
from tests.cinder.sites import Site
from tests.servers import MariaDB, RabbitMQ, Shape
from tests.servers.base import wait_for
from tests.servers.cinder import PROJECT
from tests.servers.glance import Glance

#: The project of the volumes in the cache of images.
_INTERNAL = "22222222222222222222222222222222"

#: Copies are made as root; for another account Cinder would need sudo.
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="Cinder copies volumes as root")


@pytest.fixture(scope="module")
def glance() -> Iterator[Glance]:
    with Glance() as server:
        yield server


@pytest.fixture(scope="module")
def whole_site(
    mariadb_server: MariaDB, rabbitmq_server: RabbitMQ, glance: Glance, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Two backends with a pool of 100 GiB each, a cache of images, and a service for backups."""
    more = {
        "glance_api_servers": glance.url,
        "cinder_internal_tenant_project_id": _INTERNAL,
        "cinder_internal_tenant_user_id": "cinder",
        "backup_driver": "cinder.backup.drivers.posix.PosixBackupDriver",
        "backup_posix_path": str(tmp_path_factory.mktemp("backups")),
        "backup_compression_algorithm": "none",
    }
    shape = Shape(
        backends=["b1", "b2"],
        pools=["a"],
        schedulers=2,
        more=more,
        more_of_backends={"image_volume_cache_enabled": "True"},
    )
    with sites.with_ledger(mariadb_server, rabbitmq_server, shape) as found:
        found.cinder.start_backup_service()
        yield found


@pytest.fixture
def site(whole_site: Site) -> Iterator[Site]:
    with operations.emptied(whole_site):
        yield whole_site


def test_a_migration_by_a_host_copies_a_volume(site: Site) -> None:
    volume_id = placed(site, 1)
    source = site.cinder.volumes()[volume_id]["os-vol-host-attr:host"]
    target = FIRST if source == SECOND else SECOND
    action(site.cinder, volume_id, "os-migrate_volume", {"host": target, "force_host_copy": True, "lock_volume": False})

    def ended() -> str:
        state = str(site.cinder.volumes()[volume_id]["os-vol-mig-status-attr:migstat"])
        return state if state in ("success", "error") else ""

    assert wait_for(ended, "the migration has ended") == "success"
    assert site.cinder.volumes()[volume_id]["os-vol-host-attr:host"] == target
    site.settled(source, 0)
    site.settled(target, 1)


def test_volumes_from_an_image_and_its_volume_in_the_cache(site: Site, glance: Glance) -> None:
    image = glance.add(2**20)
    kind = on(site.cinder, "b1")
    placed(site, 3, imageRef=image, volume_type=kind)
    wait_for(lambda: len(site.cinder.volumes()) == 2, "the volume in the cache")
    operations.agree(site)
    placed(site, 4, imageRef=image, volume_type=kind)
    owners = [each["os-vol-tenant-attr:tenant_id"] for each in site.cinder.volumes().values()]
    assert sorted(owners) == [PROJECT, PROJECT, _INTERNAL]
    operations.agree(site)


def test_a_backup_and_volumes_from_it(site: Site) -> None:
    cinder = site.cinder
    volume_id = placed(site, 1, volume_type=on(cinder, "b1"))
    backup = cinder.request("POST", "/backups", {"backup": {"volume_id": volume_id, "name": "b"}})["backup"]["id"]

    def state() -> str:
        found = str(cinder.request("GET", f"/backups/{backup}")["backup"]["status"])
        return found if found in ("available", "error") else ""

    assert wait_for(state, "the backup is made") == "available"
    placed(site, 2, backup_id=backup, volume_type=on(cinder, "b2"))
    assert wait_for(state, "the backup is restored") == "available"
    cinder.request("POST", f"/backups/{backup}/restore", {"restore": {"name": "restored"}})
    wait_for(lambda: len(cinder.settled(list(cinder.volumes()))) == 3, "a third volume is made")
    assert wait_for(state, "the backup is restored") == "available"
    cinder.request("DELETE", f"/backups/{backup}")
    wait_for(lambda: not cinder.request("GET", "/backups")["backups"], "the backup is gone")
