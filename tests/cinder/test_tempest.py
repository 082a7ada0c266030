# SPDX-License-Identifier: Apache-2.0
"""Tempest's tests of volumes, a Cinder, and Keystone: they end as with Cinder's own scheduler and quota driver."""

import collections
import http.server
import itertools
import os
import pathlib
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from tests import suites
from tests.cinder import quota_site, sites
from tests.servers import Cinder, MariaDB, RabbitMQ, Shape
from tests.servers.glance import Glance
from tests.servers.keystone import Keystone
from tests.tempest import workspace
from tests.tempest.workspace import Workspace
from tonnage.extensions.cinder.scheduler import ledger_options

#: The tests that run.
SELECTED = os.environ.get("TONNAGE_TEMPEST", r"^(tempest\.api\.volume|cinder_tempest_plugin\.(api|scenario))")

#: A busy machine needs more than twenty minutes for each run.
pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3600)]

_LEFT_OUT = pathlib.Path(__file__).with_name("tempest_left_out.txt")

_BACKENDS = ("one", "two")

#: The defaults, as operators run it; other tests have shorter intervals.
_INTERVALS = {each.name: str(each.default) for each in ledger_options.OPTIONS if each.name.endswith("_interval")}


class _NoNetwork(http.server.BaseHTTPRequestHandler):
    """Answers Tempest, which deletes the security groups of its projects, that there is none."""

    def do_GET(self) -> None:
        body = b'{"security_groups": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def network(keystone_server: Keystone) -> Iterator[None]:
    """Serve a network service without networks: some classes of tests ask whether there is one."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _NoNetwork) as server:
        keystone_server.make_endpoint(f"http://127.0.0.1:{server.server_port}", "network", "none")
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        yield
        server.shutdown()


@pytest.fixture(scope="module")
def glance(keystone_server: Keystone) -> Iterator[Glance]:
    if not Glance.installed():
        suites.cannot_run("Tempest", f"Glance is not installed: {Glance.packages}")
    with Glance(keystone_server) as server:
        yield server


@pytest.fixture(scope="module")
def shape(keystone_server: Keystone, glance: Glance, tmp_path_factory: pytest.TempPathFactory) -> Shape:
    """Return the shape of a Cinder whose users are Keystone's, and whose images are Glance's."""
    project = keystone_server.make_project("operators")
    keystone_server.make_user("operator", project, "admin")
    # Tempest changes the quotas of its projects, and expects those of Cinder elsewhere.
    quotas = {"quota_volumes": "10", "quota_gigabytes": "1000"}
    backups = {
        "backup_driver": "cinder.backup.drivers.posix.PosixBackupDriver",
        "backup_posix_path": str(tmp_path_factory.mktemp("backups")),
        "backup_file_size": str(2**25),
        "backup_compression_algorithm": "zstd",
    }
    return Shape(
        backends=_BACKENDS,
        pools=["a", "b"],
        total_gb=1000,
        more={"auth_strategy": "keystone", "glance_api_servers": glance.url, **quotas, **backups},
        sections={"keystone_authtoken": keystone_server.options},
        project=project,
        token=keystone_server.login("operator", {"project": {"id": project}}),
        eventlet=True,
    )


@pytest.fixture(scope="module")
def image(glance: Glance, shape: Shape) -> str:
    return glance.add(2**20, shape.token)


def outcomes(keystone: Keystone, cinder: Cinder, image: str, folder: pathlib.Path) -> Mapping[str, str]:
    """Return the outcome of each test by its name."""
    keystone.make_endpoint(cinder.url.rpartition("/")[0])
    cinder.start_backup_service()
    absent = ("horizon", "nova", "swift")
    sections = {
        "DEFAULT": {"log_file": folder / "requests.log"},
        **workspace.sections_of_users(keystone, create_isolated_networks=False),
        "compute": {"image_ref": image, "image_ref_alt": image},
        "oslo_concurrency": {"lock_path": folder},
        "service_available": {"cinder": True, "glance": True, "neutron": True, **dict.fromkeys(absent, False)},
        "volume": {
            "backend_names": ",".join(_BACKENDS),
            "disk_format": "raw",
            "manage_snapshot_ref": "source-name,%s",
            "manage_volume_ref": "source-name,%s",
            "max_microversion": "latest",
            "min_microversion": "3.0",
            "storage_protocol": "file",
            "vendor_name": "Open Source",
        },
        "volume-feature-enabled": {
            "backup": True,
            "clone": True,
            "concurrency_tests": True,
            "enable_volume_image_dep_tests": True,
            "manage_snapshot": True,
            "manage_volume": True,
            "multi_backend": True,
            "snapshot": True,
            "volume_revert": True,
        },
    }
    running = Workspace(folder, sections)
    found = _outcomes(running, SELECTED)
    # A busy machine makes tests fail, so their classes run again.
    failed = {_class(name) for name, outcome in found.items() if outcome == "failure"}
    if not failed:
        return found
    again = _outcomes(running, "|".join(rf"^{re.escape(each)}\b" for each in sorted(failed)))
    return {**{name: outcome for name, outcome in found.items() if _class(name) not in failed}, **again}


def _outcomes(running: Workspace, selected: str) -> dict[str, str]:
    began = time.monotonic()
    results = running.run(selected, processes=2, left_out=_LEFT_OUT)
    seconds = running.seconds()
    print(f"{len(seconds)} tests in {time.monotonic() - began:.0f} s, the longest of them:")
    for name, duration in itertools.islice(seconds.items(), 20):
        print(f"{duration:8.1f} s {name}")
    print(running.failures())
    return {name: outcome for outcome, names in results.items() for name in names}


def _class(name: str) -> str:
    """Return the class of a test, or of the steps before and after its tests, which have its name in parentheses."""
    return name.partition("(")[2].rstrip(")") or name.partition("[")[0].rpartition(".")[0]


@pytest.fixture(scope="module")
def of_stock(
    mariadb_server: MariaDB,
    rabbitmq_server: RabbitMQ,
    keystone_server: Keystone,
    network: None,
    shape: Shape,
    image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, str]:
    """Return the outcomes with Cinder's own scheduler."""
    if not workspace.installed():
        suites.cannot_run("Tempest", "Tempest is not installed; run tools/install-tempest.sh")
    with sites.stock(mariadb_server, rabbitmq_server, shape) as cinder:
        return outcomes(keystone_server, cinder, image, tmp_path_factory.mktemp("stock"))


def test_tempest_passes_with_cinders_own_scheduler(of_stock: Mapping[str, str]) -> None:
    assert set(of_stock.values()) == {"success", "skip"}, of_stock


def test_tempest_ends_as_with_cinders_own_scheduler(
    mariadb_server: MariaDB,
    rabbitmq_server: RabbitMQ,
    keystone_server: Keystone,
    shape: Shape,
    image: str,
    of_stock: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with sites.with_ledger(mariadb_server, rabbitmq_server, shape, **_INTERVALS) as site:
        found = outcomes(keystone_server, site.cinder, image, tmp_path_factory.mktemp("tonnage"))
    assert found == of_stock
    print(f"{len(found)} outcomes are the same: {collections.Counter(found.values())}")


def test_tempest_ends_as_with_cinders_own_quota_driver(
    mariadb_server: MariaDB,
    rabbitmq_server: RabbitMQ,
    keystone_server: Keystone,
    shape: Shape,
    image: str,
    of_stock: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    counted = replace(shape, more={**shape.more, "quota_driver": quota_site.DRIVER})
    with sites.stock(mariadb_server, rabbitmq_server, counted) as cinder:
        with_driver = outcomes(keystone_server, cinder, image, tmp_path_factory.mktemp("quotas"))
    assert with_driver == of_stock
    print(f"{len(with_driver)} outcomes are the same: {collections.Counter(with_driver.values())}")
