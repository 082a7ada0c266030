# SPDX-License-Identifier: Apache-2.0
"""Operations of a CSI plug-in whose answers are lost: their outcome is unknown until the call is repeated."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from tests.functional.conftest import Deploy
from tests.functional.deployment import GIB, Deployment
from tests.servers.base import wait_for
from tests.servers.csi_plugin import CsiPlugin, Settings
from tonnage.agent.backoff import BackOff

CREATE = "CreateVolume"
#: Seconds of an operation of the plug-in.
TIMEOUT = 1
CODES = [grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED]

one_process = pytest.mark.parametrize("deploy", ["standalone"], indirect=True, scope="module")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CsiPlugin]:
    with CsiPlugin(tmp_path_factory.mktemp("csi"), Settings(sizes={"": 50 * GIB})) as plugin:
        yield plugin


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy, plugin: CsiPlugin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment with the plug-in, and with a smaller backend for volumes without a class."""
    array: dict[str, Any] = {
        "volume_driver": "csi",
        "csi_endpoint": plugin.endpoint,
        "csi_state_file": tmp_path_factory.mktemp("agent") / "state.db",
        "csi_storage_classes": "fast",
        "csi_timeout": TIMEOUT,
    }
    with deploy(
        {"array": array, "spare": {"filesystem_size_limit_gb": 10, "max_over_subscription_ratio": 1}}
    ) as deployment:
        deployment.start()
        deployment.rest.create_type("fast", storage_class="fast")
        yield deployment


@pytest.fixture
def array(tonnage: Deployment, plugin: CsiPlugin) -> Iterator[str]:
    """The plug-in's pool. At the end of the test nothing is left in any pool."""
    yield f"{tonnage.host}@array#fast"
    plugin.settings.lost_answers.clear()
    for gate in plugin.settings.gates.values():
        gate.set()
    plugin.settings.gates.clear()
    tonnage.rest.delete(*[volume["id"] for volume in tonnage.rest.volumes()])
    assert plugin.storage.all() == []


def lose_answers(plugin: CsiPlugin, failure: grpc.StatusCode | None) -> None:
    """Lose the answers of the plug-in to creates: it answers with a code or, for None, it does not answer."""
    if failure is None:
        plugin.settings.gates[CREATE] = threading.Event()
    else:
        plugin.settings.lost_answers[CREATE] = failure


def find_answers(plugin: CsiPlugin) -> None:
    """Let the plug-in answer again, also the calls that wait."""
    plugin.settings.lost_answers.clear()
    for gate in plugin.settings.gates.values():
        gate.set()


def create_unresolved(tonnage: Deployment, array: str, kind: str | None) -> str:
    """Return the id of a volume whose creation has an unknown outcome."""
    volume_id = tonnage.rest.create(2, kind)
    wait_for(lambda: tonnage.rest.volume(volume_id)["status"] == "error", "the outcome is unknown")
    volume = tonnage.rest.volume(volume_id)
    assert volume["os-vol-host-attr:host"] == array
    assert "its outcome is not known yet" in volume["status_reason"]
    return volume_id


def wait_until_deleted(tonnage: Deployment, volume_id: str) -> None:
    wait_for(lambda: volume_id not in {volume["id"] for volume in tonnage.rest.volumes()}, "the volume is deleted")


@one_process
@pytest.mark.parametrize("kind", ["fast", pytest.param(None, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("failure", [*CODES, None], ids=lambda failure: failure.name if failure else "slow")
def test_a_create_without_an_answer_stays_in_its_pool_until_it_is_resolved(
    tonnage: Deployment, plugin: CsiPlugin, array: str, failure: grpc.StatusCode | None, kind: str | None
) -> None:
    lose_answers(plugin, failure)
    deleted, kept = create_unresolved(tonnage, array, kind), create_unresolved(tonnage, array, kind)
    assert tonnage.sql_value(f"SELECT allocated_capacity_gb FROM pools WHERE name = '{array}'") == 4
    assert tonnage.rest.request("DELETE", f"volumes/{deleted}").status_code == 202
    find_answers(plugin)
    wait_until_deleted(tonnage, deleted)
    wait_for(lambda: tonnage.rest.volume(kept)["status"] == "available", "the volume is found")
    assert tonnage.rest.volume(kept)["status_reason"] is None
    assert len(plugin.storage.all()) == 1
    assert tonnage.files("spare") == {}
    tonnage.check_counters()


@one_process
@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        pytest.param(grpc.StatusCode.INTERNAL, None, id="INTERNAL", marks=pytest.mark.heavy),
        pytest.param(grpc.StatusCode.DEADLINE_EXCEEDED, "fast", id="DEADLINE_EXCEEDED"),
        pytest.param(None, None, id="slow", marks=pytest.mark.heavy),
    ],
)
def test_a_restarted_agent_resolves_creates_without_an_answer(
    tonnage: Deployment, plugin: CsiPlugin, array: str, failure: grpc.StatusCode | None, kind: str | None
) -> None:
    lose_answers(plugin, failure)
    deleted, kept = create_unresolved(tonnage, array, kind), create_unresolved(tonnage, array, kind)
    assert tonnage.rest.request("DELETE", f"volumes/{deleted}").status_code == 202
    tonnage.kill()
    tonnage.start()
    assert tonnage.rest.volume(kept)["os-vol-host-attr:host"] == array
    assert tonnage.sql_value(f"SELECT allocated_capacity_gb FROM pools WHERE name = '{array}'") == 4
    assert len(plugin.storage.all()) == (0 if failure is None else 2)
    find_answers(plugin)
    wait_until_deleted(tonnage, deleted)
    wait_for(lambda: tonnage.rest.volume(kept)["status"] == "available", "the volume is found")
    assert len(plugin.storage.all()) == 1
    assert tonnage.files("spare") == {}


@one_process
def test_an_extend_without_an_answer_ends_when_the_plugin_shows_the_size(
    tonnage: Deployment, plugin: CsiPlugin, array: str
) -> None:
    volume_id = tonnage.rest.create(1, "fast")
    tonnage.rest.wait_until_available(volume_id)
    plugin.settings.lost_answers["ControllerExpandVolume"] = grpc.StatusCode.INTERNAL
    assert tonnage.rest.extend(volume_id, 3).status_code == 202
    wait_for(lambda: tonnage.rest.volume(volume_id)["status"] == "available", "the extend has ended")
    assert tonnage.rest.volume(volume_id)["size"] == 3
    assert [kept.size for kept in plugin.storage.all()] == [3 * GIB]


@one_process
def test_an_extend_without_an_answer_survives_a_restart_at_which_some_lists_fail(
    tonnage: Deployment, plugin: CsiPlugin, array: str
) -> None:
    volume_id = tonnage.rest.create(2, "fast")
    tonnage.rest.wait_until_available(volume_id)
    plugin.settings.lost_answers["ControllerExpandVolume"] = grpc.StatusCode.INTERNAL
    gate = plugin.settings.gates["ControllerExpandVolume"] = threading.Event()
    asked = len(plugin.asked("ControllerExpandVolume"))
    assert tonnage.rest.extend(volume_id, 4).status_code == 202
    wait_for(lambda: len(plugin.asked("ControllerExpandVolume")) > asked, "the plug-in is extending")
    plugin.settings.failing["ListVolumes"] = grpc.StatusCode.INTERNAL
    gate.set()
    wait_for(lambda: tonnage.rest.volume(volume_id)["status"] == "error_extending", "the outcome is unknown")
    tonnage.kill()
    del plugin.settings.failing["ListVolumes"]
    plugin.settings.unreliable["ListVolumes"] = grpc.StatusCode.INTERNAL
    tonnage.start()
    time.sleep(6)
    plugin.settings.unreliable.clear()
    plugin.settings.lost_answers.clear()
    wait_for(lambda: tonnage.rest.volume(volume_id)["status"] == "available", "the extend has ended")
    assert tonnage.rest.volume(volume_id)["size"] == 4
    tonnage.check_counters()


@one_process
def test_a_clone_is_refused_before_it_is_tried(tonnage: Deployment, array: str) -> None:
    source = tonnage.rest.create(1, "fast")
    tonnage.rest.wait_until_available(source)
    answer = tonnage.rest.request("POST", "volumes", {"volume": {"size": 1, "source_volid": source}})
    assert answer.status_code == 409
    assert f"nearest {array} has a driver that cannot clone volumes" in answer.text


@one_process
@pytest.mark.parametrize(
    "code",
    [grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE],
    ids=lambda code: code.name,
)
def test_a_failure_is_logged_once(tonnage: Deployment, plugin: CsiPlugin, array: str, code: grpc.StatusCode) -> None:
    plugin.settings.failing[CREATE] = code
    volume_id = tonnage.rest.create(1, "fast")
    wait_for(lambda: tonnage.rest.volume(volume_id)["status"] == "error", "the create has failed")
    if code is not grpc.StatusCode.UNAVAILABLE:  # the last of its retries may have been too short for an answer
        assert code.name in tonnage.rest.volume(volume_id)["status_reason"]
    asked = len(plugin.asked(CREATE))
    if "its outcome is not known yet" in tonnage.rest.volume(volume_id)["status_reason"]:
        wait_for(lambda: len(plugin.asked(CREATE)) > asked + 5, "the create is repeated")
    plugin.settings.failing.clear()
    answer = "answers Controller/CreateVolume with"
    assert len([line for line in tonnage.logs().splitlines() if volume_id in line and answer in line]) == 1


@pytest.mark.parametrize(
    "deploy", ["standalone", pytest.param("postgresql", marks=pytest.mark.heavy)], indirect=True, scope="module"
)
def test_a_process_that_is_killed_in_mid_create_loses_no_volume(
    tonnage: Deployment, plugin: CsiPlugin, array: str
) -> None:
    killed = "agent" if tonnage.distributed else None
    gate = plugin.settings.gates[CREATE] = threading.Event()
    asked = len(plugin.asked(CREATE))
    volume_id = tonnage.rest.create(2, "fast")
    wait_for(lambda: len(plugin.asked(CREATE)) > asked, "the plug-in makes the volume")
    tonnage.kill(*filter(None, [killed]))
    plugin.settings.lost_answers[CREATE] = grpc.StatusCode.UNKNOWN
    gate.set()
    wait_for(plugin.storage.all, "the plug-in has made the volume")
    tonnage.start(*filter(None, [killed]))
    wait_for(lambda: tonnage.rest.volume(volume_id)["status"] == "error", "the outcome is unknown")
    assert tonnage.rest.volume(volume_id)["os-vol-host-attr:host"] == array
    assert tonnage.rest.request("DELETE", f"volumes/{volume_id}").status_code == 202
    wait_for(lambda: tonnage.rest.volume(volume_id)["status"] == "error_deleting", "its id is not known")
    assert tonnage.sql_value(f"SELECT allocated_capacity_gb FROM pools WHERE name = '{array}'") == 2
    assert len(plugin.storage.all()) == 1
    plugin.settings.lost_answers.clear()
    # A pause of the agent, a call, and time for a machine that stands still.
    wait_for(lambda: not plugin.storage.all(), "the plug-in deletes the volume", BackOff().longest + TIMEOUT + 30)
    wait_until_deleted(tonnage, volume_id)
    assert tonnage.files("spare") == {}
    tonnage.check_counters()
