# SPDX-License-Identifier: Apache-2.0
"""``tonnage create`` and ``tonnage delete``."""

import uuid

import pytest

from tests.unit.api.cluster import BACKEND
from tests.unit.cli import command_runs
from tests.unit.cli.conftest import RestApi
from tonnage.capacity import errors
from tonnage.cli import tonnage
from tonnage.cli.changes import volume_commands


def run(line: str, api: RestApi, status: int = 0) -> None:
    """Run a command, which has to end with that exit status."""
    assert command_runs.run(tonnage.program(), [*line.split(), "--url", api.url], None) == status


def test_a_volume_is_created_and_deleted_by_its_name(rest_api: RestApi, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"v-{uuid.uuid4().hex}"
    run(f"create 2 --name {name} --wait", rest_api)
    line = capsys.readouterr().out
    volume_id, _, rest = line.partition(" ")
    volume = rest_api.client.simulate_get(f"/v3/volumes/{volume_id}").json["volume"]
    assert (volume["name"], volume["size"], volume["status"]) == (name, 2, "available")
    assert rest == f"{name} is available in {volume['os-vol-host-attr:host']}, the best of 2 candidates\n"
    run(f"delete {name} --wait", rest_api)
    assert capsys.readouterr().out == f"{volume_id} {name} is deleted\n"
    assert rest_api.client.simulate_get(f"/v3/volumes/{volume_id}").status_code == 404


def test_a_volume_without_a_name_has_an_id_and_the_type_is_obeyed(
    rest_api: RestApi, capsys: pytest.CaptureFixture[str]
) -> None:
    volume_type = {"name": f"t-{uuid.uuid4().hex}", "extra_specs": {"storage_protocol": "block"}}
    rest_api.client.simulate_post("/v3/types", json={"volume_type": volume_type})
    run(f"create 1 --type {volume_type['name']} --project p --wait", rest_api)
    volume_id, _, rest = capsys.readouterr().out.partition(" ")
    assert rest == f"is available in {BACKEND}#thick, the best of 1 candidate\n"
    run(f"delete {volume_id} --project p", rest_api)
    assert capsys.readouterr().out == f"{volume_id} is being deleted\n"


@pytest.mark.parametrize("option", ["--project", "--name", "--type"])
def test_an_empty_name_is_a_usage_error(capsys: pytest.CaptureFixture[str], option: str) -> None:
    """It mostly is that of a variable of the shell that is not set."""
    with pytest.raises(SystemExit, match=r"^2$"):
        command_runs.run(tonnage.program(), ["create", "1", option, ""], None)
    assert f"argument {option}: '': expected a name, which is not empty" in capsys.readouterr().err


def test_a_refusal_has_a_status_of_its_own(rest_api: RestApi, capsys: pytest.CaptureFixture[str]) -> None:
    run("create 99999", rest_api, status=3)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("tonnage: No pool for 99999 GiB: 2 pools; CapacityFilter refused 2, nearest ")
    assert len(shown.err.splitlines()) == 1


def test_unknown_and_equal_names_are_errors_that_list_the_ways_out(rest_api: RestApi) -> None:
    name = f"v-{uuid.uuid4().hex}"
    with pytest.raises(errors.NotFound, match=f"volume {name} could not be found.*'tonnage volumes' lists"):
        run(f"delete {name}", rest_api)
    ids = [rest_api.client.create(1, name=name)["id"] for _ in range(2)]
    with pytest.raises(errors.InvalidInput, match=f"2 volumes have the name {name}.*{', '.join(sorted(ids))}"):
        run(f"delete {name}", rest_api)
    with pytest.raises(errors.NotFound, match="type nothing could not be found"):
        run("create 1 --type nothing", rest_api)


def test_a_volume_that_takes_too_long_is_named_with_the_way_out(
    rest_api: RestApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume_commands, "_WAIT_SECONDS", -1.0)
    volume = {"id": "v", "status": "creating"}
    with pytest.raises(errors.Unavailable, match=r"^volume v is still creating after .*'tonnage why v'"):
        volume_commands._wait(lambda: volume, "creating")


@pytest.mark.parametrize(
    ("pool", "explanation", "line"),
    [
        ("h@b#p", {"pool": "h@b#q", "request": "1 GiB", "message": "1 GiB goes to h@b#q"}, "v is new in h@b#p"),
        ("h@b#p", {}, "v is new in h@b#p"),
        (None, {"pool": "h@b#p", "request": "1 GiB", "message": "1 GiB goes to h@b#p"}, "v is new"),
    ],
    ids=["another pool", "no explanation", "no administrator"],
)
def test_a_reason_is_given_only_for_the_pool_that_it_is_about(
    pool: str | None, explanation: dict[str, str], line: str
) -> None:
    volume = {"id": "v", "name": None, "status": "new", **({} if pool is None else {"os-vol-host-attr:host": pool})}
    assert volume_commands._created(volume, explanation) == line
