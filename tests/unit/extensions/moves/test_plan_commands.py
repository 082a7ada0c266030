# SPDX-License-Identifier: Apache-2.0
"""``tonnage plan`` and its goals."""

import json
import re
import shlex
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.api.cluster import BACKEND, configuration
from tests.unit.cli import command_runs
from tests.unit.cli.conftest import RestApi
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http.server import ApiServer
from tonnage.capacity import errors
from tonnage.cli import tonnage
from tonnage.extensions.moves import plan_commands

CONF: Any = SimpleNamespace(enabled_extensions=["moves"])


def run(line: str, api: RestApi, status: int = 0) -> None:
    """Run a command, which has to end with that exit status."""
    assert command_runs.run(tonnage.program(), [*line.split(), "--url", api.url], CONF) == status


def test_a_plan_that_is_not_reached_has_the_volumes_that_stay_and_a_status(
    rest_api: RestApi, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"plan empty {BACKEND}#thick", rest_api, status=3)
    output = capsys.readouterr().out
    assert f"{rest_api.volume_id} |" in output
    assert "stays" in output
    assert "CapabilitiesFilter refused 1" in " ".join(output.replace("|", " ").split())
    last = output.splitlines()[-1]
    assert last == f"To empty {BACKEND}#thick: 0 moves of 0 GiB; 1 of 1 volumes with 2 GiB stay in {BACKEND}#thick."


def test_moves_are_rows_with_stable_keys(rest_api: RestApi, capsys: pytest.CaptureFixture[str]) -> None:
    volume = rest_api.client.wait_until_settled(rest_api.client.create(3)["id"])
    run(f"plan empty {BACKEND}#thin -f json", rest_api)
    [row] = json.loads(capsys.readouterr().out)
    assert (row["number"], row["volume"], row["size_bytes"]) == (1, volume["id"], 3 * 2**30)
    assert (row["source"], row["target"], row["after"]) == (f"{BACKEND}#thin", f"{BACKEND}#thick", [])
    assert row["target_physical_percent"] == 1.1
    rest_api.client.simulate_delete(f"/v3/volumes/{volume['id']}")
    rest_api.client.wait_until_settled(volume["id"])


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        (f"plan relieve {BACKEND}#thick --below 80", "0.4 % are used"),
        (f"plan balance {BACKEND}#thick {BACKEND}#thin --points 5 --zone nova", "no pool is above 5."),
        ("plan fit 10 --type b --count 2 --zone nova", f"2 fit now, in {BACKEND}#thick"),
    ],
)
def test_a_goal_that_is_reached_already_needs_no_move(
    rest_api: RestApi, capsys: pytest.CaptureFixture[str], line: str, outcome: str
) -> None:
    run(line, rest_api)
    output = capsys.readouterr().out
    assert "0 moves of 0 GiB" in output
    assert outcome in output


def test_wrong_arguments_are_usage_errors(rest_api: RestApi, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        run("plan relieve p --below 120", rest_api)
    assert "argument --below: '120': expected a number from 0 to 100" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"^2$"):
        run("plan empty", rest_api)
    assert "the goal empty takes a SUBJECT: a pool or a backend" in capsys.readouterr().err
    for line in ("plan stauts x", "plan aply fit 10"):
        with pytest.raises(SystemExit, match=r"^2$"):
            run(line, rest_api)
        assert "the commands are plan apply, plan list, plan pause" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"^2$"):
        run("plan fit large", rest_api)
    assert "argument SUBJECT: 'large': expected" in capsys.readouterr().err
    with pytest.raises(errors.NotFound, match=r"pool nowhere could not be found: .*; 'tonnage pools' lists the pools"):
        run("plan empty nowhere", rest_api)
    with pytest.raises(errors.NotFound, match=rf"backend {BACKEND}x could not be found: .*; did you mean {BACKEND}"):
        run(f"plan empty {BACKEND}x", rest_api)
    with pytest.raises(errors.NotFound, match=f"pool {BACKEND}#thinn could .*; did you mean {BACKEND}#thin"):
        run(f"plan relieve {BACKEND}#thinn --below 5", rest_api)


def test_a_plan_names_the_command_that_carries_it_out(rest_api: RestApi, capsys: pytest.CaptureFixture[str]) -> None:
    volume = rest_api.client.wait_until_settled(rest_api.client.create(3)["id"])
    run(f"plan relieve {BACKEND}#thin --below 0 --bound promised", rest_api)
    last = capsys.readouterr().out.splitlines()[-1]
    line = last.removeprefix("To carry it out: tonnage ")
    assert shlex.split(line) == [
        *f"plan apply relieve {BACKEND}#thin --bound promised --below 0 --url".split(),
        rest_api.url,
    ]
    rest_api.client.simulate_delete(f"/v3/volumes/{volume['id']}")
    rest_api.client.wait_until_settled(volume["id"])


def test_programs_get_the_outcome_of_a_plan_without_moves(
    rest_api: RestApi, capsys: pytest.CaptureFixture[str]
) -> None:
    run("plan fit 99999 -f json", rest_api, status=3)
    printed = capsys.readouterr()
    assert json.loads(printed.out) == []
    assert "0 of 1 fit, and no moves make room for more" in printed.err
    run("plan fit 99999 --json", rest_api, status=3)
    printed = capsys.readouterr()
    plan = json.loads(printed.out)["move_plan"]
    assert (plan["is_reached"], plan["moves"]) == (False, [])
    assert plan["outcome"].startswith("0 of 1 fit, and no moves make room for more: ")
    assert printed.err == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.4, "1 s"), (29, "29 s"), (90.5, "2 min"), (3599, "1 h 0 min"), (7500, "2 h 5 min")],
)
def test_times_are_words(seconds: float | None, text: str) -> None:
    assert plan_commands.duration(seconds) == text


def test_a_plan_has_the_time_that_earlier_moves_took(rest_api: RestApi, capsys: pytest.CaptureFixture[str]) -> None:
    volume = rest_api.client.wait_until_settled(rest_api.client.create(3)["id"])
    run(f"plan apply empty {BACKEND}#thin --wait", rest_api)
    capsys.readouterr()
    other = rest_api.client.wait_until_settled(rest_api.client.create(3)["id"])
    run(f"plan empty {BACKEND}#thin", rest_api)
    last = capsys.readouterr().out.splitlines()[-2]
    assert re.search(r": 1 move of 3 GiB in about [0-9]+ s; .* becomes empty\.$", last), last
    for created in (volume, other):
        rest_api.client.simulate_delete(f"/v3/volumes/{created['id']}")
        rest_api.client.wait_until_settled(created["id"])


def test_an_api_without_the_extension_is_told(rest_api: RestApi) -> None:
    conf = configuration(osapi_volume_listen_port=0, enabled_extensions=[])
    authenticator = authentication.select(conf, "127.0.0.1")
    server = ApiServer(conf, app.build(conf, rest_api.cluster.database, rest_api.cluster.scheduler, authenticator))
    server.start()
    bare = RestApi(rest_api.cluster, rest_api.client, server.url, rest_api.volume_id)
    try:
        for line in ("plan list", f"plan empty {BACKEND}", "plan apply fit 1", "plan show p", "plan stop p"):
            with pytest.raises(errors.ConfigurationError, match="'moves' is not enabled at http"):
                run(line, bare)
    finally:
        server.stop()


def test_a_pool_has_the_short_names_of_the_command_pool(rest_api: RestApi, capsys: pytest.CaptureFixture[str]) -> None:
    run("plan empty thin", rest_api)
    assert f"To empty {BACKEND}#thin: " in capsys.readouterr().out
    run("plan relieve thick --below 80", rest_api)
    assert f"To relieve {BACKEND}#thick " in capsys.readouterr().out
    run(f"plan balance thin {BACKEND}#thick --points 99", rest_api)
    assert "To balance 2 pools " in capsys.readouterr().out
    with pytest.raises(errors.InvalidInput, match="th is a part of the names of 2 pools"):
        run("plan empty th", rest_api)
    with pytest.raises(errors.NotFound, match=f"pool thinn could not be found: .* did you mean {BACKEND}#thin"):
        run("plan empty thinn", rest_api)
