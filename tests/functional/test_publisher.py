# SPDX-License-Identifier: Apache-2.0
"""``tonnage-publisher`` as a process."""

import contextlib
import pathlib
import signal
import threading
from collections.abc import Iterator

import pytest

from tests.functional.deployment import Process, render, run_process, run_program
from tests.servers import ledger_schema
from tests.servers.base import wait_for
from tests.servers.kube_api import KubeApi
from tonnage.capacity import type_conversion
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.ledger.db import database

NAME = "disk.example.com"
MADE = "CSIStorageCapacity in namespace storage: 1 made, 0 changed, 0 deleted, 0 failed"


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path}/tonnage.sqlite")
    ledger_schema.create(engine)
    opened = database.Database(engine)
    yield opened
    opened.close()


@pytest.fixture
def cluster() -> Iterator[KubeApi]:
    with KubeApi() as api:
        api.add_class("fast", NAME)
        yield api


def report(ledger: database.Database, capacity: str) -> None:
    """Set the capacity of the driver's only pool."""
    pools = [{"name": "p", "capacity": capacity}]
    raw = {
        "spec": {"capacityTracking": True},
        "status": {"storage": [{"storageClassName": "<fallback>", "pools": pools}]},
    }
    change = type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))
    ledger.run(driver_rows.patch, NAME, change)


@contextlib.contextmanager
def publishing(ledger: database.Database, cluster: KubeApi, folder: pathlib.Path) -> Iterator[Process]:
    """Run a publisher."""
    conf = folder / "tonnage.conf"
    kubernetes = {
        "kubeconfig": cluster.kubeconfig(folder),
        "publisher_interval": 0.1,
        "publisher_namespace": "storage",
        "publisher_state_file": folder / "state",
    }
    conf.write_text(render({"database": {"connection": ledger.engine.url}, "kubernetes": kubernetes}))
    with run_process("publisher", conf) as publisher:
        yield publisher


def sizes(cluster: KubeApi) -> list[str]:
    return [each["capacity"] for each in cluster.capacities.values()]


def test_changes_of_a_drivers_capacity_are_published(
    ledger: database.Database, cluster: KubeApi, tmp_path: pathlib.Path
) -> None:
    report(ledger, "1Gi")
    with publishing(ledger, cluster, tmp_path) as publisher:
        wait_for(lambda: sizes(cluster) == ["1Gi"], "the capacity is published")
        report(ledger, "2Gi")
        wait_for(lambda: sizes(cluster) == ["2Gi"], "the new capacity is published")
        ledger.run(driver_rows.delete, NAME)
        wait_for(lambda: not cluster.capacities, "the published object is deleted")
    assert MADE in publisher.log.read_text(encoding="utf-8")


def test_a_publisher_finishes_its_round_before_it_ends(
    ledger: database.Database, cluster: KubeApi, tmp_path: pathlib.Path
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go_on.wait(60)

    cluster.before_write = hold
    report(ledger, "1Gi")
    with publishing(ledger, cluster, tmp_path) as publisher:
        assert begun.wait(60)
        publisher.send(signal.SIGTERM)
        wait_for(lambda: "exiting of service" in publisher.log.read_text(encoding="utf-8"), "the worker ends")
        go_on.set()
    assert MADE in publisher.log.read_text(encoding="utf-8")


def test_the_state_file_has_the_result_of_the_last_round(
    ledger: database.Database, cluster: KubeApi, tmp_path: pathlib.Path
) -> None:
    def state() -> str:
        return (tmp_path / "state").read_text(encoding="utf-8") if (tmp_path / "state").exists() else ""

    with publishing(ledger, cluster, tmp_path):
        wait_for(lambda: state() == "ok\n", "a round has succeeded")
        cluster.failing["GET"] = 503
        wait_for(lambda: "not exchanged: the API server of Kubernetes refused" in state(), "the reason of the failure")
        cluster.failing.clear()
        wait_for(lambda: state() == "ok\n", "a round has succeeded again")
        # A probe sees that rounds go on by the time of the file.
        before = (tmp_path / "state").stat().st_mtime_ns
        wait_for(lambda: (tmp_path / "state").stat().st_mtime_ns > before, "the file is written again")


def test_a_state_file_that_cannot_be_written_ends_the_publisher(
    ledger: database.Database, cluster: KubeApi, tmp_path: pathlib.Path
) -> None:
    conf = tmp_path / "tonnage.conf"
    path = tmp_path / "missing" / "state"
    conf.write_text(
        render({"database": {"connection": ledger.engine.url}, "kubernetes": {"publisher_state_file": path}})
    )
    result = run_program("tonnage-publisher", "--config-file", conf)
    assert result.code != 0
    assert f"option [kubernetes] publisher_state_file = {path}: No such file or directory; name a file" in result.error
