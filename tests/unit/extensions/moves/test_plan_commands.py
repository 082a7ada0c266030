# SPDX-License-Identifier: Apache-2.0
"""``tonnage plan`` and its goals."""

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.api.cluster import BACKEND
from tests.unit.cli import command_runs
from tests.unit.cli.conftest import RestApi
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
        ("plan fit 10 --type b --count 2 --zone nova", f"2 fit without a move, in {BACKEND}#thick"),
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
    with pytest.raises(errors.NotFound, match="backend nowhere could not be found"):
        run("plan empty nowhere", rest_api)


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
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.search(r": 1 move of 3 GiB in about [0-9]+ s; .* becomes empty\.$", last), last
    for created in (volume, other):
        rest_api.client.simulate_delete(f"/v3/volumes/{created['id']}")
        rest_api.client.wait_until_settled(created["id"])
