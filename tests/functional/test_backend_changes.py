# SPDX-License-Identifier: Apache-2.0
"""SIGHUP to the process that runs the backends: they are added, removed and changed while the others continue."""

import pathlib
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Deployment, Process, render
from tests.servers.base import wait_for

EXAMPLE = pathlib.Path(__file__).parents[2] / "docs" / "examples" / "tonnage-example-plugins"
BACKENDS: dict[str, dict[str, Any]] = {
    "kept": {"filesystem_size_limit_gb": 4},
    "old": {
        "volume_driver": "memory",
        "memory_pool_size_gb": 40,
        "memory_latency": 2,
        "memory_pools": "old",
        "memory_state_file": "$state_path/old",
    },
}
READ = "The configuration has been read again"
REFUSED = "The configuration stays as it was: "


@pytest.fixture
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS, max_over_subscription_ratio=1) as deployment:
        yield deployment.start()


def agent(tonnage: Deployment) -> Process:
    return tonnage.processes["agent" if tonnage.distributed else "standalone"]


def write(tonnage: Deployment, enabled: str, **sections: dict[str, Any]) -> None:
    """Enable these backends, and append sections to the agent's configuration file."""
    file = agent(tonnage).conf
    lines = [
        f"enabled_backends = {enabled}" if line.startswith("enabled_backends") else line
        for line in file.read_text().splitlines()
    ]
    fresh = file.with_suffix(".fresh")
    fresh.write_text("\n".join(lines) + "\n\n" + render(sections))
    fresh.replace(file)


def reload(tonnage: Deployment, answer: str = READ) -> str:
    """Send SIGHUP, wait for the answer in the log, and return the log from the signal on."""
    process = agent(tonnage)
    before = process.log.stat().st_size
    process.send(signal.SIGHUP)

    def logged() -> str:
        return process.log.read_bytes()[before:].decode()

    wait_for(lambda: answer in logged(), f"the log has {answer!r}")
    return logged()


def epochs(tonnage: Deployment) -> dict[str, int]:
    found = tonnage.sql("SELECT name, epoch FROM backends WHERE report_seq > 0")
    return {name.partition("@")[2]: epoch for name, epoch in found}


def wait_for_pools(tonnage: Deployment, *backends: str) -> None:
    wait_for(lambda: tonnage.rest.pools().keys() == {tonnage.pool(name) for name in backends}, f"pools of {backends}")


@on_one_database
def test_backends_are_added_and_removed_while_another_one_works(tonnage: Deployment) -> None:
    rest, log = tonnage.rest, agent(tonnage).log
    inside, under_way = rest.create(10), rest.create(10)
    rest.wait_until_available(inside)
    kept, processes = epochs(tonnage)["kept"], {process.pid for process in agent(tonnage).tree()}
    growing = rest.create(10)
    write(tonnage, "kept, fresh", fresh={"volume_driver": "memory", "memory_pools": "fresh", "memory_pool_size_gb": 20})
    reload(tonnage)
    wait_for_pools(tonnage, "kept", "fresh")
    for volume_id in (under_way, growing):
        assert rest.wait_until_available(volume_id)["os-vol-host-attr:host"] == tonnage.pool("old")
    wait_for(lambda: f"Backend {tonnage.host}@old has stopped" in log.read_text(), "the backend has stopped")
    assert "has ended its operations; its volumes stay in the ledger" in log.read_text()
    assert rest.wait_until_available(rest.create(5))["os-vol-host-attr:host"] == tonnage.pool("fresh")
    assert rest.volume(inside)["status"] == "available"
    # Claims of the removed backend are contained in its last report.
    of_old = f"SELECT id FROM backends WHERE name = '{tonnage.host}@old'"
    assert tonnage.sql(f"SELECT contained FROM claims WHERE backend_id IN ({of_old})") == [(True,)] * 3
    of_old = f"SELECT notice, allocated_capacity_gb FROM backends WHERE name = '{tonnage.host}@old'"
    wait_for(lambda: tonnage.sql(of_old) == [("withdrawn", 30)], "the ledger knows why the backend does not report")
    assert epochs(tonnage)["kept"] == kept
    if tonnage.distributed:
        assert len(processes & {process.pid for process in agent(tonnage).tree()}) == 2

    write(tonnage, "kept, old, fresh")
    reload(tonnage)
    wait_for_pools(tonnage, "kept", "old", "fresh")
    assert (epochs(tonnage)["kept"], epochs(tonnage)["old"]) == (kept, 2)


@pytest.mark.heavy
@on_one_database
def test_a_backend_restarts_alone_when_its_section_changes(tonnage: Deployment) -> None:
    before = epochs(tonnage)
    text = agent(tonnage).conf.read_text()
    agent(tonnage).conf.write_text(text.replace("filesystem_size_limit_gb = 4", "filesystem_size_limit_gb = 3"))
    logged = reload(tonnage)
    assert f"Backend {tonnage.host}@kept restarts with changed options" in logged
    kept = tonnage.pool("kept")
    wait_for(lambda: tonnage.rest.pools()[kept]["total_capacity_gb"] == 3, "the backend reports its new limit")
    assert epochs(tonnage) == {"kept": before["kept"] + 1, "old": before["old"]}


@on_one_database
def test_a_wrong_section_changes_nothing(tonnage: Deployment) -> None:
    before, text = epochs(tonnage), agent(tonnage).conf.read_text()
    for section, words in (
        ({"volume_driver": "tape"}, ["volume_driver names 'tape', which is not installed", "restart this process"]),
        ({"volume_driver": "memory", "reserved_percentage": 200}, ["reserved_percentage = 200"]),
    ):
        agent(tonnage).conf.write_text(text)
        write(tonnage, "fresh", fresh=section)
        logged = reload(tonnage, REFUSED)
        for word in words:
            assert word in logged
        assert "Traceback" not in logged
    agent(tonnage).conf.write_text(text)
    reload(tonnage)
    assert epochs(tonnage) == before


@pytest.mark.parametrize("deploy", ["standalone", pytest.param("postgresql", marks=pytest.mark.heavy)], indirect=True)
def test_plugins_that_are_installed_after_the_start_are_found(deploy: Deploy, tmp_path: pathlib.Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    with deploy(BACKENDS, environment={"PYTHONPATH": str(site)}, max_over_subscription_ratio=1) as tonnage:
        rest = tonnage.start().rest
        shutil.copytree(EXAMPLE / "tonnage_example", site / "tonnage_example")
        info = site / "tonnage_example_plugins-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tonnage-example-plugins\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            "[tonnage.filters]\nOddFilter = tonnage_example.filters:OddFilter\n"
            "[tonnage.drivers]\nfolder = tonnage_example.drivers:FolderDriver\n"
        )
        for process in tonnage.processes.values():
            conf = process.conf
            conf.write_text(
                conf.read_text().replace(
                    "[DEFAULT]\n", "[DEFAULT]\nscheduler_default_filters = CapacityFilter, OddFilter\n", 1
                )
            )
        folder = {"volume_driver": "folder", "folder_path": tmp_path, "folder_size_gb": 50}
        even = {**folder, "extra_capabilities": '{"even_only": true}', "max_over_subscription_ratio": 1}
        write(tonnage, "kept, even", even=even)
        if tonnage.distributed:
            scheduler = tonnage.processes["scheduler"]
            scheduler.send(signal.SIGHUP)
            wait_for(lambda: READ in scheduler.log.read_text(), "the scheduler has the filter")
        reload(tonnage)
        wait_for_pools(tonnage, "kept", "even")
        assert rest.wait_until_available(rest.create(20))["os-vol-host-attr:host"] == tonnage.pool("even")
        assert "OddFilter refused 1" in rest.refusal(21)["message"]
