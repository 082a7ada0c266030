# SPDX-License-Identifier: Apache-2.0
"""Our strategy in OpenStack Watcher itself, on a stand-in for the API of Cinder."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.unit.extensions.relocation.cloud_api import A, B, C, CloudApi, served

_ROOT = pathlib.Path(__file__).parents[2]

#: The Python into whose environment ``tools/install-openstack.sh watcher`` installs Watcher.
PYTHON = _ROOT / ".watcher" / "bin" / "python"

_CONFIGURATION = """[DEFAULT]
use_stderr = true

[cinder]
auth_type = admin_token
endpoint = {endpoint}
token = secret

[nova]
auth_type = admin_token
endpoint = {endpoint}
token = secret

[watcher_strategies.tonnage_moves]
command = {command}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Watcher for a cloud, without its database and bus."""

    api: CloudApi
    endpoint: str
    folder: pathlib.Path

    def run(self, plan: str, command: str = "") -> tuple[dict[str, Any], str]:
        """Return the output of the run, and its log."""
        tonnage = f"{pathlib.Path(sys.executable).with_name('tonnage')} --config-file {self.folder}/tonnage.conf"
        configuration = self.folder / "watcher.conf"
        configuration.write_text(_CONFIGURATION.format(endpoint=self.endpoint, command=command or tonnage))
        script = pathlib.Path(__file__).with_name("watcher_run.py")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        account = {"OS_AUTH_TYPE": "admin_token", "OS_ENDPOINT": self.endpoint, "OS_TOKEN": "secret"}
        done = subprocess.run(
            [PYTHON, script, configuration, plan],
            env=environment | account | {"HOME": str(self.folder)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.stdout, done.stderr
        printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return printed, done.stderr


@pytest.fixture
def watcher(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watcher]:
    """A cloud of three pools, in which a move ends with the next request."""
    if not PYTHON.exists():
        pytest.skip("Watcher is not installed: tools/install-openstack.sh watcher")
    (tmp_path / "tonnage.conf").write_text("[DEFAULT]\nenabled_extensions = moves, relocation\n")
    api = CloudApi({A: 100, B: 100, C: 50})
    answer = api.answer

    def answer_later(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        api.pass_time(1)
        return answer(method, path, body)

    monkeypatch.setattr(api, "answer", answer_later)
    with served(api) as endpoint:
        yield Watcher(api=api, endpoint=endpoint, folder=tmp_path)


def test_watcher_carries_out_a_plan(watcher: Watcher) -> None:
    first, second = watcher.api.add(A, 10), watcher.api.add(A, 20)
    printed, _ = watcher.run("empty h@a")
    assert [action["succeeded"] for action in printed["actions"]] == [True, True]
    assert [action["input_parameters"] for action in printed["actions"]] == [
        {"migration_type": "migrate", "destination_node": B, "resource_id": second},
        {"migration_type": "migrate", "destination_node": B, "resource_id": first},
    ]
    assert watcher.api.places() == {first: B, second: B}


def test_what_stays_and_what_watcher_cannot_move_is_named(watcher: Watcher) -> None:
    api = watcher.api
    with_snapshot, large, small = api.add(A, 5), api.add(A, 95), api.add(B, 40)
    api.snapshots.append(("snapshot", with_snapshot))
    printed, log = watcher.run("empty h@a")
    # The large volume needs the room of the small one.
    assert [action["input_parameters"]["resource_id"] for action in printed["actions"]] == [small]
    assert api.places() == {with_snapshot: A, large: A, small: C}
    assert f"volume {with_snapshot} (5 GiB) in {A} stays: " in log
    assert f"volume {large} (95 GiB) in {A} is not moved to {B}: it needs the room of other moves" in log
    # Once a report shows the room, the next audit moves it.
    api.pass_time(300)
    printed, _ = watcher.run("empty h@a")
    assert [action["input_parameters"]["resource_id"] for action in printed["actions"]] == [large]


def test_a_type_that_watcher_does_not_move_is_named(watcher: Watcher) -> None:
    # It compares texts, and knows no operators.
    watcher.api.types["gold"] = {"media": "<in> ssd"}
    for figures in watcher.api.pools.values():
        figures["media"] = "ssd"
    volume = watcher.api.add(A, 10, volume_type="gold")
    printed, log = watcher.run("empty h@a")
    assert printed["actions"] == []
    assert f"volume {volume} (10 GiB) in {A} is not moved to {B}: Watcher moves no volume of the type gold" in log


def test_a_plan_that_cannot_be_made_is_an_error_with_the_reason(watcher: Watcher) -> None:
    printed, _ = watcher.run("empty h@z")
    assert "status 1: " in printed["error"]
    assert "backend h@z could not be found" in printed["error"]
    printed, _ = watcher.run("balance", command="/nowhere/tonnage")
    assert printed["error"].startswith("/nowhere/tonnage cinder plan balance -f json: [Errno 2] No such file")
