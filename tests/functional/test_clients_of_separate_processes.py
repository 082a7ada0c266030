# SPDX-License-Identifier: Apache-2.0
"""Every command of the clients once, against processes of their own over RabbitMQ, without Keystone."""

import pathlib
import uuid
from collections.abc import Iterator

import pytest

from tests.functional.conftest import Deploy
from tests.functional.deployment import Deployment
from tests.functional.deployment import until
from tests.functional.test_api_clients import Clients

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.parametrize("deploy", ["postgresql", "mariadb"], indirect=True, scope="module"),
]
BACKENDS = {"one": {"filesystem_size_limit_gb": 20}, "two": {"filesystem_size_limit_gb": 20}}
QUIET = "--quiet-command"


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS) as deployment:
        yield deployment.start()


@pytest.fixture
def clients(tonnage: Deployment, tmp_path: pathlib.Path) -> Iterator[Clients]:
    with Clients(tonnage.rest.root, tmp_path) as both:
        yield both


def test_openstack(tonnage: Deployment, clients: Clients) -> None:
    run, name = clients.openstack, f"n-{uuid.uuid4().hex[:12]}"
    assert len(run("volume", "backend", "pool", "list", "--long")) == 2
    assert {row["Binary"] for row in run("volume", "service", "list")} == {"tonnage-agent", "tonnage-scheduler"}
    kind = run("volume", "type", "create", name, "--property", "thin_provisioning_support=<is> True")
    run("volume", "type", "set", "--property", "provisioning:type=thin", name, QUIET)
    assert name in [row["Name"] for row in run("volume", "type", "list")]
    volume = run("volume", "create", "--size", "2", "--type", name, name)
    assert tonnage.rest.made(volume["id"])["status"] == "available"
    run("volume", "set", "--size", "3", name, QUIET)
    until(lambda: run("volume", "show", name)["size"] == 3, "it has grown")
    assert [row["Size"] for row in run("volume", "list", "--all-projects") if row["ID"] == volume["id"]] == [3]
    run("volume", "delete", name, QUIET)
    until(lambda: name not in [row["Name"] for row in run("volume", "list")], "it is gone")
    run("volume", "type", "delete", kind["id"], QUIET)


def test_cinder(tonnage: Deployment, clients: Clients) -> None:
    run, name = clients.cinder_text, f"n-{uuid.uuid4().hex[:12]}"
    pool = tonnage.pool("one")
    assert pool in run("get-pools", "--detail", "--filters", f"name={pool}")
    assert "maxTotalVolumes" in run("absolute-limits")
    assert clients.cinder("quota-update", "demo", "--volumes", "7", "--gigabytes", "70")["gigabytes"] == "70"
    assert clients.cinder("quota-show", "demo")["volumes"] == "7"
    assert "70" in run("quota-usage", "demo")
    assert "gigabytes" in clients.cinder("quota-defaults", "demo")
    run("quota-delete", "demo")
    assert clients.cinder("quota-class-update", "default", "--backups", "4")["backups"] == "4"
    run("type-create", name)
    run("type-key", name, "set", "thin_provisioning_support=<is> True")
    volume = clients.cinder("create", "1", "--name", name, "--volume-type", name)
    assert tonnage.rest.made(volume["id"])["status"] == "available"
    run("extend", name, "2")
    until(lambda: clients.cinder("show", name)["size"] == "2", "it has grown")
    group_type = clients.cinder("--os-volume-api-version", "3.13", "group-type-create", name)
    assert name in clients.cinder_text("--os-volume-api-version", "3.13", "group-type-list"), group_type
    run("--os-volume-api-version", "3.13", "group-create", "--name", name, name, name)
    assert name in run("--os-volume-api-version", "3.13", "group-list")
    run("service-list")
    run("service-disable", tonnage.host, "tonnage-scheduler", "--reason", "slow")
    assert "slow" in run("service-list", "--binary", "tonnage-scheduler")
    run("service-enable", tonnage.host, "tonnage-scheduler")
    run("delete", name)
    until(lambda: name not in run("list"), "it is gone")
