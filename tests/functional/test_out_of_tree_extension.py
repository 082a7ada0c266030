# SPDX-License-Identifier: Apache-2.0
"""The extension of the author's guide as a separate package: built, installed, enabled and run."""

import json
import pathlib

import pytest

from tests.functional import packages
from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Addresses, Deployment, run_program
from tests.servers.base import wait_for

BACKENDS = {
    "disk": {
        "volume_driver": "memory",
        "memory_pools": "disk",
        "memory_pool_size_gb": 20,
        "memory_provisioning": "thick",
    }
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder for PYTHONPATH with the installed package, whose entry point Tonnage finds."""
    return packages.install("tonnage-example-extension", tmp_path_factory)


def test_the_example_extension_is_short() -> None:
    files = (packages.EXAMPLES / "tonnage-example-extension" / "tonnage_low_water").rglob("*.py")
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) < 250


@on_one_database
def test_the_example_extension_works(deploy: Deploy, site: pathlib.Path) -> None:
    environment = {"PYTHONPATH": str(site)}
    with deploy(
        BACKENDS,
        environment=environment,
        sections={"low_water": {"least_change_gb": 2}},
        enabled_extensions="low_water",
    ) as tonnage:
        pool = tonnage.pool("disk")
        # Its migration; the tables of the core are there.
        assert tonnage.run_command("manage", None, "db", "sync").code == 0
        rest = tonnage.start().rest

        def marks() -> list[dict[str, object]]:
            answer = rest.request("GET", "low-water-marks")
            assert answer.status_code == 200, answer.text
            return answer.json()["low_water_marks"]

        def mark_is(free_gb: float) -> bool:
            return marks() == [{"pool": pool, "free_gb": free_gb}]

        # The observer, its option and the path.
        wait_for(lambda: mark_is(20.0), "the first report has set a mark")
        first = rest.wait_until_available(rest.create(1))
        rest.wait_until_available(rest.create(3))
        wait_for(lambda: mark_is(16.0), "the mark follows a change of more than 2 GiB")
        rest.delete(first["id"])
        wait_for(lambda: rest.request("GET", f"volumes/{first['id']}").status_code == 404, "the volume is gone")
        assert mark_is(16.0)
        # The command.
        listed = run_program(
            "tonnage", "--config-file", tonnage.conf, "low-water", "-f", "json", environment=environment
        )
        assert listed.code == 0, listed.error
        [row] = json.loads(listed.output)
        assert (row["pool"], row["free_bytes"]) == (pool, 16 * 2**30)


def test_a_scheduler_without_the_tables_of_an_extension_does_not_start(site: pathlib.Path) -> None:
    with Deployment(Addresses(), BACKENDS, {"PYTHONPATH": str(site)}, enabled_extensions="low_water") as tonnage:
        ended = tonnage.run_command("standalone")
    assert ended.code == 1
    assert "extension low_water" in ended.error
    assert "run 'tonnage-manage db sync'" in ended.error
