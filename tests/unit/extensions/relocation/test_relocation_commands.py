# SPDX-License-Identifier: Apache-2.0
"""``tonnage cinder plan``."""

import json
import pathlib

import pytest

from tests.unit.cli import command_runs
from tests.unit.extensions.relocation.cloud_api import A, B
from tests.unit.extensions.relocation.conftest import Served
from tonnage.capacity import errors
from tonnage.cli import tonnage

#: openstacksdk warns of a part of itself.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")


def test_a_plan_has_the_moves_and_the_volumes_that_stay(cloud: Served) -> None:
    moved, kept = cloud.api.add(A, 10), cloud.api.add(A, 5)
    cloud.api.snapshots.append(("s1", kept))
    status, output = cloud.run("cinder plan empty h@a -f json")
    rows = json.loads(output)
    assert status == 3
    assert [(row["volume"], row["source"], row["target"]) for row in rows] == [(moved, A, B), (kept, A, None)]
    assert rows[1]["reason"].startswith(f"volume {kept} has snapshots")
    whole = json.loads(cloud.run("cinder plan empty h@a --json")[1])["move_plan"]
    assert [move["volume_id"] for move in whole["moves"]] == [moved]
    assert whole["outcome"] == "1 of 2 volumes with 5 GiB stay in h@a"
    status, output = cloud.run("cinder plan empty h@a --attached --no-lock")
    assert "To carry it out: tonnage cinder plan apply empty h@a --attached --no-lock" in output
    status, output = cloud.run("cinder plan empty h@a")
    assert "To empty h@a: 1 move of 10 GiB; 1 of 2 volumes with 5 GiB stay in h@a." in output
    assert all(method == "GET" for method, _, _ in cloud.api.requests)


def test_a_plan_is_a_script_for_openstack(cloud: Served) -> None:
    volume_id = cloud.api.add(A, 10)
    status, output = cloud.run("cinder plan empty h@a -f commands --no-lock")
    assert status == 0
    assert output.splitlines()[1:] == [
        f"# 1: 10 GiB from {A} to {B}",
        f"openstack volume migrate --host '{B}' {volume_id}",
    ]


def test_volumes_in_use_and_other_types_take_an_option(cloud: Served) -> None:
    used = cloud.api.add(A, 10, status="in-use", attachments=[{"server_id": "s1"}])
    assert cloud.run("cinder plan empty h@a")[0] == 3
    status, output = cloud.run("cinder plan empty h@a --attached -f value -c volume")
    assert (status, output.split()) == (0, [used])
    with pytest.raises(errors.InvalidInput, match="volume type 'gold' could not be found"):
        cloud.run("cinder plan empty h@a --retype gold=silver")


@pytest.mark.parametrize("text", ["gold", "=silver", "gold=", "gold=gold"])
def test_a_retype_names_two_types(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tonnage.program().parse(["cinder", "plan", "empty", "h@a", "--retype", text])
    assert ended.value.code == 2
    assert "expected two volume types as OLD=NEW" in capsys.readouterr().err


def test_it_needs_no_database_but_the_extension_moves(cloud: Served, tmp_path: pathlib.Path) -> None:
    cloud.api.add(A, 10)
    cloud.conf.clear_override("connection", "database")
    assert cloud.run("cinder plan empty h@a")[0] == 0
    cloud.conf.set_override("enabled_extensions", ["relocation"])
    with pytest.raises(errors.ConfigurationError, match="the extension 'moves' is not enabled"):
        command_runs.run(tonnage.program(), ["cinder", "plan", "empty", "h@a"], cloud.conf)
