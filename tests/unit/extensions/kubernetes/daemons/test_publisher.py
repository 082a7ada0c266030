# SPDX-License-Identifier: Apache-2.0
"""``tonnage-publisher`` as a process: its rounds without a cluster, and options that keep it from starting."""

import pathlib

import pytest

from tests.functional.deployment import run_process, run_program
from tests.servers import ledger_schema
from tests.servers.base import wait_for
from tonnage.capacity import type_conversion
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.ledger.db import database


def write(folder: pathlib.Path, *lines: str) -> pathlib.Path:
    """Write a configuration with an empty ledger and these lines of ``[kubernetes]``."""
    engine = database.create_engine(f"sqlite:///{folder}/ledger.sqlite")
    ledger_schema.create(engine)
    engine.dispose()
    conf = folder / "tonnage.conf"
    conf.write_text("\n".join(["[database]", f"connection = sqlite:///{folder}/ledger.sqlite", "[kubernetes]", *lines]))
    return conf


def test_each_round_is_told_to_probes(tmp_path: pathlib.Path) -> None:
    state = tmp_path / "state"
    conf = write(tmp_path, f"publisher_state_file = {state}", "publisher_interval = 0.1")
    with run_process("publisher", conf):
        wait_for(lambda: state.exists() and state.read_text() == "ok\n", "a round has ended")
        state.unlink()
        wait_for(state.exists, "the next round has ended")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("publisher_namespace = storage",), "option [kubernetes] kubeconfig is not set, and this is no pod"),
        (("publisher_interval = 0",), "[kubernetes] publisher_interval = 0"),
    ],
)
def test_an_unusable_option_ends_it_with_one_line(tmp_path: pathlib.Path, lines: tuple[str, ...], message: str) -> None:
    ended = run_program("tonnage-publisher", "--config-file", write(tmp_path, *lines))
    assert ended.code == 1
    [line] = ended.error.splitlines()
    assert line.startswith("tonnage-publisher: ")
    assert message in line


def test_a_state_file_that_cannot_be_written_ends_it(tmp_path: pathlib.Path) -> None:
    conf = write(tmp_path, f"publisher_state_file = {tmp_path}/nowhere/state")
    ended = run_program("tonnage-publisher", "--config-file", conf)
    assert ended.code == 1
    assert f"option [kubernetes] publisher_state_file = {tmp_path}/nowhere/state: No such file" in ended.error
    assert "Traceback" not in ended.error


def test_a_claim_starts_the_next_round(tmp_path: pathlib.Path) -> None:
    """The objects are less the claims, so they are written soon after a claim."""
    state = tmp_path / "state"
    options = ("publisher_interval = 3600", "publisher_subtracts_claims = true")
    conf = write(tmp_path, f"publisher_state_file = {state}", *options)
    ledger = database.Database(database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite"))
    storage = [{"storageClassName": "fast", "pools": [{"name": "p", "nodeList": ["n1"], "capacity": "10Gi"}]}]
    change = {"spec": {"capacityTracking": True}, "status": {"storage": storage}}
    patch = type_conversion.convert(change, DriverPatch, lambda target, value: target.parse(value))
    ledger.run(driver_rows.patch, "disk.example.com", patch)
    with run_process("publisher", conf):
        wait_for(lambda: state.exists() and state.read_text() == "ok\n", "a round has ended")
        state.unlink()
        volumes, nodes = [Volume("data", "disk.example.com", "fast", 2**30)], Nodes([Node("n1", {})])
        NodeQueries(ledger).claim(volumes, nodes, "u1", 600.0, pod="default/redis")
        wait_for(state.exists, "the next round has ended")
    ledger.close()
