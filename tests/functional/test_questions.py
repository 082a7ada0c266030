# SPDX-License-Identifier: Apache-2.0
"""The ``tonnage`` command, which explains decisions, against a real ``tonnage-standalone``."""

import json
import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.functional.deployment import Deployment, run_program, standalone

Run = Callable[..., str]
THIN, THICK = "box@thin#thin", "box@thick#thick"


@pytest.fixture(scope="module")
def tonnage() -> Iterator[Deployment]:
    with standalone() as running:
        yield running


@pytest.fixture(scope="module")
def run(tonnage: Deployment) -> Run:
    def command(*arguments: str, status: int = 0, said: str = "", given: str = "", forked: bool = True) -> str:
        files = ("--config-file", tonnage.conf, "--url", tonnage.rest.url)
        ended = run_program("tonnage", *arguments, *files, given=given, environment=None if forked else {})
        assert ended.code == status, ended.output + ended.error
        assert "Traceback" not in ended.error
        assert said in ended.error
        return ended.output

    return command


def test_explain_names_the_pool_and_the_reasons_against_others(run: Run) -> None:
    shown = run("explain", "3", forked=False)
    assert shown.startswith(f"3 GiB goes to {THIN}, the best of 1 candidate")
    assert "CapacityFilter: has headroom 2.00 GiB (total 2, free 2" in shown
    [explanation] = json.loads(run("explain", "3", "--json"))["explanations"]
    verdicts = {verdict["pool"]: verdict for verdict in explanation["verdicts"]}
    assert verdicts[THICK]["filter"] == "CapacityFilter"
    assert verdicts[THIN]["weights"][0]["weigher"] == "CapacityWeigher"


def test_explain_of_a_refusal_exits_3_and_names_the_nearest_miss(run: Run) -> None:
    shown = run("explain", "300", "--zone", "moon", status=3)
    assert shown.startswith("No pool for 300 GiB: 2 pools; AvailabilityZoneFilter refused 2, nearest")
    assert "AvailabilityZoneFilter: is in availability zone 'nova'" in shown
    assert "CapacityFilter: has headroom" in shown
    [explanation] = json.loads(run("explain", "300", "--zone", "moon", "--json", status=3))["explanations"]
    assert explanation["refusal"]["nearest"]["filter"] == "AvailabilityZoneFilter"


def test_explain_places_several_volumes_all_or_none(run: Run) -> None:
    assert run("explain", "15", "--count", "2").count(f"goes to {THIN}") == 2
    assert "volume 3 of 3, all or none" in run("explain", "15", "--count", "3", status=3)


def test_what_if_shows_the_decision_after_a_change(run: Run) -> None:
    assert "refused" in run("what-if", "50", status=3)
    outlook = json.loads(run("what-if", "50", "--ratio", "box@thin=5", "--calculation", "standard", "--json"))
    assert [each["pool"] for each in outlook["outlooks"][0]["volumes"]] == [THIN]
    assert [each["pool"] for each in outlook["outlooks"][0]["unchanged"]] == [None]
    lines = run("what-if", "1", "--lose", "box@thin", "--reserved", "50")
    assert THICK in lines
    new = {
        "pool_name": "box@new#new",
        "total_capacity_gb": 90,
        "free_capacity_gb": 90,
        "thick_provisioning_support": True,
    }
    assert "box@new#new" in run("what-if", "60", "--add", json.dumps(new))


def test_what_if_plays_a_list_of_requests_in_order(run: Run, tmp_path: pathlib.Path) -> None:
    asked = json.dumps([{"volume": {"size": 30}}, {"volume": {"size": 30}}, {"volumes": [{"size": 1}, {"size": 1}]}])
    played = json.loads(run("what-if", "--file", "-", "--ratio", "box@thin=5", "--json", given=asked))["outlooks"]
    assert [each["pool"] for outlook in played for each in outlook["volumes"]] == [THIN] * 4
    (tmp_path / "requests.json").write_text(asked)
    run("what-if", "--file", str(tmp_path / "requests.json"), status=3)


def test_explain_of_an_existing_volume(run: Run, tonnage: Deployment) -> None:
    volume = tonnage.rest.create(1)
    tonnage.rest.create_type("solid", thick_provisioning_support="<is> True")
    tonnage.rest.wait_until_available(volume)
    assert run("explain", "--migrate", volume).startswith(f"1 GiB thin goes to {THICK}, the best of 1 candidate")
    moved = run("explain", "--retype", volume, "--type", "solid", "--migration-policy", "on-demand")
    assert moved.startswith("Cannot stay where it is: No pool for a volume")
    assert f"To move it: 1 GiB thin 'solid' goes to {THICK}" in moved


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["explain"], 2, "tonnage: no request: name a SIZE"),
        (["explain", "1", "--type", "moon"], 1, "tonnage: Volume type moon could not be found"),
        (
            ["what-if", "1", "--lose", "box@moon"],
            1,
            "tonnage: --lose: there is no pool or backend 'box@moon'; name one",
        ),
    ],
)
def test_a_wrong_argument_is_reported_in_one_line(run: Run, arguments: list[str], status: int, said: str) -> None:
    assert run(*arguments, status=status, said=said) == ""


def test_an_unreachable_api_is_reported_in_one_line(tmp_path: pathlib.Path) -> None:
    conf = tmp_path / "tonnage.conf"
    conf.write_text("[DEFAULT]\ntransport_url = kombu+memory://\nosapi_volume_listen_port = 1\n")
    ended = run_program("tonnage", "--config-file", conf, "explain", "1")
    assert ended.code == 1
    assert ended.error.startswith("tonnage: there is no answer at http://127.0.0.1:1/v3/scheduler-stats/what-if (")
