# SPDX-License-Identifier: Apache-2.0
"""``tonnage plan apply``, ``list``, ``show``, ``pause``, ``resume`` and ``stop``."""

import argparse
import json
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.api.cluster import BACKEND, wait_until
from tests.unit.cli.conftest import RestApi
from tests.unit.extensions.moves.test_plan_commands import run
from tests.unit.extensions.moves.test_plan_resources import CLOSED
from tonnage.capacity import errors
from tonnage.extensions.moves import plan_bodies, plan_execution_commands
from tonnage.extensions.moves.records import plan_records, tables


@pytest.fixture(autouse=True)
def _ended_plans(rest_api: RestApi) -> Iterator[None]:
    """Wait until the scheduler has released the pools of the plans of a test."""
    yield
    wait_until(lambda: not rest_api.cluster.database.run(plan_records.open_plans))


@pytest.fixture
def volume(rest_api: RestApi) -> Iterator[str]:
    """A volume in the thin pool, from where it can be moved."""
    volume_id = rest_api.client.wait_until_settled(rest_api.client.create(3)["id"])["id"]
    yield volume_id
    rest_api.client.simulate_delete(f"/v3/volumes/{volume_id}")
    rest_api.client.wait_until_settled(volume_id)


def test_a_plan_that_is_waited_for_has_moved_its_volumes(
    rest_api: RestApi, volume: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"plan apply empty {BACKEND}#thin --per-backend 1 --moves 2 --in-flight 50 --failures 2 --wait", rest_api)
    output = capsys.readouterr().out
    fields = " ".join(output.replace("|", " ").split())
    assert "state finished" in fields
    assert f"outcome {BACKEND}#thin becomes empty" in fields
    assert volume in output
    run("plan list --limit 1 -f json", rest_api)
    [row] = json.loads(capsys.readouterr().out)
    assert (row["state"], row["moved"], row["moves"], row["size_bytes"]) == ("finished", 1, 1, 3 * 2**30)
    assert row["mover"] == "tonnage"
    run(f"plan show {row['id']} -f json", rest_api)
    shown = json.loads(capsys.readouterr().out)
    assert (shown["id"], shown["message"]) == (row["id"], f"{BACKEND}#thin has no volume")
    assert [(step["volume"], step["state"]) for step in shown["steps"]] == [(volume, "moved")]
    thick, thin = shown["pools"]
    assert (thick["pool"], thin["pool"]) == (f"{BACKEND}#thick", f"{BACKEND}#thin")
    assert thick["after_promised_bytes"] - thick["before_promised_bytes"] == 3 * 2**30
    assert thin["before_promised_bytes"] - thin["after_promised_bytes"] == 3 * 2**30
    assert thick["after_physical_limit_bytes"] == thick["before_physical_limit_bytes"] > 0
    run(f"plan show {row['id']}", rest_api)
    output = capsys.readouterr().out
    assert "Pools before and after" in output
    assert "promised before GiB" in output


def test_a_limit_of_the_options_is_taken_off_for_one_plan() -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    plan_execution_commands.add_limits(parser)
    for text, size_gb in (("0", 0), ("50", 50)):
        arguments = parser.parse_args(["--in-flight", text])
        assert plan_execution_commands.read_limits(arguments) == {"in_flight_gb": size_gb}
    for text in ("-1", "all", str(2**31)):
        with pytest.raises(argparse.ArgumentError):
            parser.parse_args([f"--in-flight={text}"])


def test_who_waits_for_a_plan_fetches_none_of_its_steps(
    rest_api: RestApi, volume: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    show = plan_bodies.single_plan_body

    def recorded(session: orm.Session, plan_id: str, most_steps: int | None = None) -> plan_bodies.AppliedPlan:
        steps.append(most_steps)
        return show(session, plan_id, most_steps)

    monkeypatch.setattr(plan_bodies, "single_plan_body", recorded)
    run(f"plan apply empty {BACKEND}#thin --wait", rest_api)
    assert set(steps) == {0}


def test_a_pool_that_a_plan_no_longer_uses_is_shown_without_levels_after_it(
    rest_api: RestApi, volume: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"plan apply empty {BACKEND}#thin --hours {CLOSED} -f value -c id", rest_api)
    plan = capsys.readouterr().out.strip()
    with rest_api.cluster.database.engine.begin() as connection:
        connection.execute(sa.update(tables.MovePlanLevel).values(level_after=None))
    run(f"plan show {plan} -f json", rest_api)
    pools = json.loads(capsys.readouterr().out)["pools"]
    assert [(pool["after_promised_bytes"], pool["before_promised_bytes"] is None) for pool in pools] == [
        (None, False),
        (None, False),
    ]
    run(f"plan stop {plan}", rest_api)


def test_a_plan_is_shown_with_the_volumes_that_stay(
    rest_api: RestApi, volume: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # The first volume of the backend is in a pool that no other volume type takes.
    run(f"plan apply empty {BACKEND} --hours {CLOSED} -f json", rest_api, status=3)
    applied = json.loads(capsys.readouterr().out)
    assert applied["id"] is None
    run(f"plan apply empty {BACKEND}#thin --hours {CLOSED} -f json", rest_api)
    plan = json.loads(capsys.readouterr().out)["id"]
    rest_api.cluster.database.run(_let_stay, plan, volume)
    run(f"plan show {plan} -f json", rest_api)
    [staying] = json.loads(capsys.readouterr().out)["staying"]
    assert staying == {"volume": volume, "size_bytes": 3 * 2**30, "pool": f"{BACKEND}#thin", "reason": "it is in use"}
    run(f"plan show {plan}", rest_api)
    output = capsys.readouterr().out
    assert "Volumes that stay" in output
    assert "it is in use" in output
    run(f"plan stop {plan}", rest_api)


def _let_stay(session: orm.Session, plan_id: str, volume_id: str) -> None:
    session.add(
        tables.MovePlanStaying(
            plan_id=plan_id, number=1, volume_id=volume_id, size_gb=3, pool=f"{BACKEND}#thin", reason="it is in use"
        )
    )


def test_a_plan_is_paused_resumed_and_stopped(
    rest_api: RestApi, volume: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"plan apply empty {BACKEND}#thin --hours {CLOSED} -f value -c id", rest_api)
    plan = capsys.readouterr().out.strip()
    for action, done, state in (
        ("pause", "is paused", "paused"),
        ("resume", "runs", "running"),
        ("stop", "is stopped", "stopped"),
    ):
        run(f"plan {action} {plan}", rest_api)
        assert capsys.readouterr().out == f"Plan {plan} {done}\n"
        run(f"plan list --state {state} -f value -c id", rest_api)
        assert capsys.readouterr().out.split()[0] == plan
    run(f"plan show {plan}", rest_api, status=3)
    assert "skipped" in capsys.readouterr().out
    with pytest.raises(errors.InvalidInput, match="is stopped: only a running or paused plan can be resumed"):
        run(f"plan resume {plan}", rest_api)


def test_a_plan_that_needs_no_move_is_not_carried_out(rest_api: RestApi, capsys: pytest.CaptureFixture[str]) -> None:
    run("plan apply fit 1 --wait", rest_api)
    output = capsys.readouterr().out
    assert "Nothing is to be moved." in output
    assert "| id" not in output
    run("plan apply fit 1 -f value -c id", rest_api)
    assert capsys.readouterr().out == "\n"
    run("plan apply fit 1 -f json -c id", rest_api)
    assert json.loads(capsys.readouterr().out) == {"id": None}


def test_a_goal_that_is_out_of_reach_has_a_status(rest_api: RestApi, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"plan apply empty {BACKEND}#thick", rest_api, status=3)
    assert "stays" in capsys.readouterr().out
    run("plan apply fit 99999", rest_api, status=3)
    output = capsys.readouterr().out
    assert "Volumes that stay: The plan names none." in output
    assert "No volume stays" not in output


def test_a_plan_without_its_goal_is_shown_as_it_was_planned(
    rest_api: RestApi, volume: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"plan apply empty {BACKEND}#thin --hours {CLOSED} --failures 7 -f value -c id", rest_api)
    plan = capsys.readouterr().out.strip()
    run(f"plan show {plan} -f json", rest_api)
    shown = json.loads(capsys.readouterr().out)
    assert (shown["limits"]["hours"], shown["limits"]["failures"]) == (CLOSED, 7)
    run(f"plan show {plan}", rest_api)
    output = capsys.readouterr().out
    assert f"in the hours {CLOSED}; until 7 moves have failed" in " ".join(output.split())
    assert f" {BACKEND}#thin becomes empty" in output
    run(f"plan stop {plan}", rest_api)
    capsys.readouterr()
    run(f"plan show {plan}", rest_api, status=3)
    output = capsys.readouterr().out
    assert f" planned: {BACKEND}#thin becomes empty" in output
    assert "Volumes that stay: The plan named none." in output
    assert "Pools before and after, as planned" in output


def test_the_list_is_short_unless_it_is_to_be_long(
    rest_api: RestApi, volume: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"plan apply empty {BACKEND}#thin --hours {CLOSED} -f value -c id", rest_api)
    plan = capsys.readouterr().out.strip()
    run("plan list", rest_api)
    lines = capsys.readouterr().out.splitlines()
    assert any(f"| {plan} |" in line for line in lines)
    assert max(map(len, lines)) <= 80
    assert "message" not in lines[1]
    run("plan list --long", rest_api)
    assert "| message " in capsys.readouterr().out.splitlines()[1]
    run("plan list -c message -f json", rest_api)
    assert "message" in json.loads(capsys.readouterr().out)[0]
    run(f"plan stop {plan}", rest_api)


def test_who_waits_for_a_plan_sees_its_id_and_why_it_waits(
    rest_api: RestApi, volume: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []

    def pause(seconds: float) -> None:
        """End the wait as Ctrl-C does, once the reason is shown."""
        shown.append(capsys.readouterr().err)
        if "waits for the hours" in "".join(shown):
            raise KeyboardInterrupt
        real_pause(seconds)

    real_pause = time.sleep
    monkeypatch.setattr(plan_execution_commands, "time", SimpleNamespace(sleep=pause))
    with pytest.raises(KeyboardInterrupt):
        run(f"plan apply empty {BACKEND}#thin --hours {CLOSED} --wait", rest_api)
    first, *_ = shown[0].splitlines()
    plan = first.split()[1].removesuffix(":")
    assert first == f"Plan {plan}: 1 move of 3 GiB; {BACKEND}#thin becomes empty"
    assert f"Plan {plan}: waits for the hours {CLOSED}: it was " in "".join(shown)
    assert capsys.readouterr().err == f"Plan {plan} goes on: 'tonnage plan stop {plan}' ends it\n"
    run(f"plan stop {plan}", rest_api)


def test_wrong_limits_and_unknown_plans_are_errors(rest_api: RestApi, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        run("plan apply fit 1 --moves 0", rest_api)
    assert "argument --moves: '0': expected" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"^2$"):
        run("plan apply fit 1 --hours 25-30", rest_api)
    assert "argument --hours: '25-30': expected two hours of the day such as 22-06" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"^2$"):
        run("plan apply fit 1 --hours 24-6", rest_api)
    assert "the first from 0 to 23 and the second from 0 to 24" in capsys.readouterr().err
    with pytest.raises(errors.NotFound, match="plan none could not be found; 'tonnage plan list' lists the plans"):
        run("plan show none", rest_api)


def test_the_time_that_is_left_is_one_within_the_hours_of_the_plan() -> None:
    """A plan that waits for its hours ends after them."""
    [column] = [column for column in plan_execution_commands.PlanList.columns if column.key == "seconds_left"]
    for seconds, hours, text in (
        (1500.0, "22-06", "25 min in the hours 22-06"),
        (1500.0, "", "25 min"),
        (None, "22-06", ""),
    ):
        assert column.text({"seconds_left": seconds, "limits": {"hours": hours}}) == text
