# SPDX-License-Identifier: Apache-2.0
"""Names that differ in case or in a space, and texts in any script: through reports, REST and the ledger's check."""

import json
import pathlib
import textwrap
from typing import Any

import pytest

from tests.functional.conftest import Deploy
from tests.functional.deployment import Addresses, Deployment
from tests.servers import ledger_schema
from tests.servers.base import wait_for
from tests.servers.mariadb import MariaDB
from tests.servers.rabbitmq import RabbitMQ

BACKEND = "names"
#: The pools of the backend; the first one has its name.
POOLS = [BACKEND, "p", "p ", "P", "\N{CYRILLIC CAPITAL LETTER ZHE}", "\N{GRINNING FACE}"]
#: The beginning of the errors of the storage.
FAILURE = "\N{CYRILLIC SMALL LETTER EN}\N{CYRILLIC SMALL LETTER IE}\N{CYRILLIC SMALL LETTER TE} \N{GRINNING FACE}"
#: The size of volumes that the storage does not make.
FAILING_SIZE = 7
DRIVER = f"""
    import json
    import os

    from tonnage.capacity import errors
    from tonnage.drivers.memory import driver


    class NamesDriver(driver.MemoryDriver):
        def __init__(self, backend, conf):
            super().__init__(backend, conf)
            [pool] = self._pools.values()
            self._pools = {{name: driver.replace(pool, key=name) for name in json.loads(os.environ["POOLS"])}}

        def create(self, volume):
            if volume.size_gb == {FAILING_SIZE}:
                raise errors.DriverError({FAILURE!a}, clean=True)
            super().create(volume)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder for PYTHONPATH with an installed driver."""
    site = tmp_path_factory.mktemp("site")
    (site / "names_driver.py").write_text(textwrap.dedent(DRIVER))
    metadata = site / "names_driver-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: names-driver\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[tonnage.drivers]\nnames = names_driver:NamesDriver\n")
    return site


def answered(tonnage: Deployment, method: str, project: str, path: str, body: Any = None, status: int = 200) -> Any:
    """Send a request for a project, whose name is encoded as in a URL, and return the body of the answer."""
    answer = tonnage.rest.request(method, f"../{project}/{path}", body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.heavy
def test_all_names_are_exact_on_every_database(deploy: Deploy, site: pathlib.Path) -> None:
    options = {"volume_driver": "names", "memory_pools": BACKEND, "memory_pool_size_gb": 40}
    environment = {"PYTHONPATH": str(site), "POOLS": json.dumps(POOLS)}
    with deploy({BACKEND: options}, environment=environment, listing_interval=1, quota_volumes=50) as tonnage:
        backend, rest = f"{tonnage.host}@{BACKEND}", tonnage.start().rest
        wait_for(lambda: set(rest.pools()) == {f"{backend}#{name}" for name in POOLS}, "all pools have reported")

        names = ["volume", "Volume", "\N{CYRILLIC SMALL LETTER ZHE}", "\N{GRINNING FACE}"]
        volumes = {}
        for project, name in [("iso", name) for name in names] + [("iso%20", "volume")]:
            body = {"volume": {"size": 1, "name": name}}
            volume = answered(tonnage, "POST", project, "volumes", body, 202)["volume"]
            volumes[project, name] = volume["id"]
        for (project, name), volume_id in volumes.items():
            listed = answered(tonnage, "GET", project, f"volumes?name={name}")["volumes"]
            assert [volume["id"] for volume in listed] == [volume_id]
        assert len(answered(tonnage, "GET", "iso%20", "volumes")["volumes"]) == 1
        assert answered(tonnage, "GET", "iso", "volumes/summary")["volume-summary"]["total_count"] == len(names)
        usage = tonnage.sql("SELECT project_id, SUM(volumes) FROM quota_usages WHERE volumes > 0 GROUP BY project_id")
        assert sorted((project, int(count)) for project, count in usage) == [("iso", 4), ("iso ", 1)]

        failing = answered(tonnage, "POST", "iso", "volumes", {"volume": {"size": FAILING_SIZE}}, 202)["volume"]["id"]

        def settled() -> list[dict[str, Any]]:
            """Return the volumes of the first project, if nothing is under way."""
            listed = answered(tonnage, "GET", "iso", "volumes/detail")["volumes"]
            return [] if any(volume["status"] == "creating" for volume in listed) else list(listed)

        volumes_by_id = {volume["id"]: volume for volume in wait_for(settled, "all operations have ended")}
        assert {id for id, volume in volumes_by_id.items() if volume["status"] != "available"} == {failing}
        assert FAILURE in volumes_by_id[failing]["status_reason"]
        [text] = tonnage.sql("SELECT text FROM messages")
        assert FAILURE in text[0]

        wait_for(lambda: tonnage.sql_value("SELECT COUNT(*) FROM claims WHERE NOT contained") == 0, "all are reported")
        ended = tonnage.run_command("manage", tonnage.conf, "ledger", "check", "--strict")
        assert ended.code == 0, ended.output + ended.error
        checks = json.loads(tonnage.run_command("status", tonnage.conf, "upgrade", "check", "--json").output)["checks"]
        assert [check["result"] for check in checks if check["check"] == "Text columns of the database"] == [0]


@pytest.mark.heavy
def test_tables_that_refuse_texts_stop_nothing_else(
    mariadb_server: MariaDB, rabbitmq_server: RabbitMQ, site: pathlib.Path
) -> None:
    backends = {BACKEND: {"volume_driver": "names", "memory_pools": BACKEND, "memory_pool_size_gb": 40}}
    environment = {"PYTHONPATH": str(site), "POOLS": json.dumps([BACKEND])}
    with mariadb_server.database() as url, rabbitmq_server.virtual_host() as bus:
        ledger_schema.create_mariadb_with(url, "CHARACTER SET latin1").dispose()
        with Deployment(Addresses(url, bus), backends, environment=environment) as tonnage:
            rest = tonnage.start().rest
            assert "has latin1 latin1_swedish_ci and must have utf8mb4 utf8mb4_nopad_bin" in tonnage.logs()
            volume = rest.wait_until_available(rest.create(1))["id"]
            name = {"name": "\N{CYRILLIC SMALL LETTER ZHE}"}
            for method, path, body in (
                ("POST", "volumes", {"volume": {"size": 1, **name}}),
                ("PUT", f"volumes/{volume}", {"volume": name}),
                ("POST", "types", {"volume_type": name}),
            ):
                answer = rest.request(method, path, body)
                assert (answer.status_code, "name is" in answer.text) == (400, True), answer.text

            failing = rest.create(FAILING_SIZE)
            wait_for(lambda: rest.volume(failing)["status"] == "error", "the volume is in error")
            escaped = FAILURE.encode("ascii", "backslashreplace").decode()
            assert escaped in rest.volume(failing)["status_reason"]
            assert rest.is_healthy()
