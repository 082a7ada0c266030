# SPDX-License-Identifier: Apache-2.0
"""``tonnage replay`` repeats the decisions that a real ``tonnage-standalone`` has recorded."""

import json
import pathlib
import shutil

from tests.functional.deployment import run_program, standalone

THIN, THICK = "box@thin#thin", "box@thick#thick"


def replay(conf: pathlib.Path, log: pathlib.Path, *arguments: str, status: int) -> str:
    ended = run_program("tonnage", "replay", log, "--config-file", conf, *arguments)
    assert ended.code == status, ended.output + ended.error
    assert "Traceback" not in ended.error
    return ended.output + ended.error


def test_decisions_are_recorded_and_replayed(tmp_path: pathlib.Path) -> None:
    conf, log = tmp_path / "tonnage.conf", tmp_path / "decisions-box.jsonl"
    with standalone(decision_log=f"{tmp_path}/decisions-${{host}}.jsonl") as tonnage:
        rest = tonnage.rest
        for body in (
            {"volume": {"size": 1}},
            {"volumes": [{"size": 2}, {"size": 1}]},
            {"volume": {"size": 70}},
            {"volume": {"size": 1, "availability_zone": "moon"}},
        ):
            assert rest.request("POST", "volumes", body).status_code in (202, 409)
        oldest = rest.volumes()[-1]["id"]
        rest.wait_until_available(oldest)
        assert rest.extend(oldest, 5).status_code == 202
        shutil.copy(tonnage.conf, conf)
    told = json.loads(replay(conf, log, "--json", "--all", status=0))
    assert (told["decisions"], told["differ"]) == (5, 0)
    assert [each["recorded"]["pools"] for each in told["replayed"]] == [[THIN], [THIN, THIN], [], [], [THIN]]
    assert "CapacityFilter" in told["replayed"][2]["replayed"]["refusal"]
    assert "0 of 5 decision(s) would differ" in replay(conf, log, status=0)
    other = tmp_path / "other.conf"
    other.write_text(
        "[DEFAULT]\nscheduler_default_filters = CapacityFilter\ncapacity_weight_multiplier = -1\n", encoding="utf-8"
    )
    shown = replay(other, log, status=3)
    assert THICK in shown
    assert "3 of 5 decision(s) would differ" in shown
    assert "Nothing is asked of a scheduler" not in shown


def test_unusable_configurations_and_logs_are_reported_in_one_line(tmp_path: pathlib.Path) -> None:
    conf = tmp_path / "tonnage.conf"
    conf.write_text("[DEFAULT]\nscheduler_default_filters = MoonFilter\n")
    empty = tmp_path / "empty"
    empty.write_text("")
    assert "'MoonFilter', which is not installed" in replay(conf, empty, status=1)
    conf.write_text("")
    assert "there is no decision that could be replayed" in replay(conf, empty, status=1)
    assert "nowhere: No such file" in replay(conf, tmp_path / "nowhere", status=2)
    empty.write_text("moon\n" * 1000)
    told = replay(conf, empty, status=2)
    assert told.startswith(
        f"tonnage: {empty} is no decision log (option decision_log) that this release can read; line 1: "
    )
    assert told.count("\n") == 1
