# SPDX-License-Identifier: Apache-2.0
"""``tonnage cinder quotas`` counts the rows of Cinder, and compares them with its counters."""

import json
import pathlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.cli import command_runs
from tests.unit.extensions.cinder.quota.quota_rows import GIGABYTES, PROJECT, QuotaRows
from tests.unit.extensions.cinder.quota.test_quota_drift import count, hold
from tonnage.capacity import errors
from tonnage.cli import tonnage
from tonnage.extensions.cinder.commands import cinder_quotas
from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota.quota_operations import EXTEND, Booking

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def rows(tmp_path: pathlib.Path) -> Iterator[QuotaRows]:
    found = QuotaRows(f"sqlite:///{tmp_path}/cinder.sqlite")
    yield found
    found.close()


@pytest.fixture
def run(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command and return its exit status and its output; ``connection`` is that of the watch."""

    def run(line: str, connection: str | None = f"sqlite:///{tmp_path}/cinder.sqlite") -> tuple[int, str]:
        options = {"quota_reservation_lifetime": 60.0, "no_snapshot_gb_quota": False, "cinder_connection": connection}
        conf: Any = SimpleNamespace(cinder_shadow=SimpleNamespace(**options), enabled_extensions=["cinder"])
        return command_runs.run(tonnage.program(), line.split(), conf), capsys.readouterr().out

    return run


def test_use_without_drift_is_no_finding(rows: QuotaRows, run: Run) -> None:
    rows.put(tables.VOLUMES, size=3)
    status, shown = run("cinder quotas")
    assert status == 0
    assert "Counters that have drifted: none" in shown
    status, shown = run("cinder quotas -f json")
    found = json.loads(shown)
    assert (found["projects"], found["drifted_counters"]) == (1, 0)
    assert {use["resource"]: use["in_use"] for use in found["use"]} == {"volumes": 1, "gigabytes": 3}


@pytest.mark.parametrize(("in_use", "reserved"), [(2, 0), (1, 5)])
def test_drift_is_found(in_use: int, reserved: int, rows: QuotaRows, run: Run) -> None:
    rows.put(tables.VOLUMES, size=3)
    count(rows, "volumes", in_use, reserved)
    status, shown = run("cinder quotas -f json")
    [drifted] = json.loads(shown)["drift"]
    assert status == cinder_quotas.FOUND
    assert (drifted["project_id"], drifted["resource"]) == (PROJECT, "volumes")
    assert (drifted["drift"], drifted["reserved_drift"]) == (in_use - 1, reserved)


def test_reservations_have_their_operation_and_age(rows: QuotaRows, run: Run) -> None:
    volume = rows.put(tables.VOLUMES, size=1, status="extending")
    rows.reserve((GIGABYTES, 2, 10), booking=Booking(EXTEND, volume))
    hold(rows, "gigabytes", 7)
    _, shown = run("cinder quotas -f json")
    found = {each["delta"]: each for each in json.loads(shown)["reservations"]}
    assert (found[2]["operation"], found[2]["row_id"], found[2]["counts"]) == ("extend", volume, True)
    assert found[2]["age_seconds"] < 60
    assert (found[7]["operation"], found[7]["row_id"], found[7]["counts"]) == ("", None, False)


def test_the_configuration_of_cinder_names_its_database(rows: QuotaRows, run: Run, tmp_path: pathlib.Path) -> None:
    volume = rows.put(tables.VOLUMES, size=1)
    rows.put(tables.SNAPSHOTS, volume_id=volume, volume_size=1)
    file = tmp_path / "cinder.conf"
    file.write_text(
        f"[DEFAULT]\nno_snapshot_gb_quota = true\nother = 1\n[database]\nconnection = sqlite:///{tmp_path}/cinder.sqlite\n"
    )
    _, shown = run(f"cinder quotas --cinder-conf {file} -f json", None)
    assert {use["resource"]: use["in_use"] for use in json.loads(shown)["use"]} == {
        "volumes": 1,
        "gigabytes": 1,
        "snapshots": 1,
    }


def test_one_project_is_shown_alone(rows: QuotaRows, run: Run) -> None:
    rows.put(tables.VOLUMES, size=3)
    rows.put(tables.VOLUMES, size=4, project_id="q")
    _, shown = run("cinder quotas --project q -f json")
    assert {use["project_id"] for use in json.loads(shown)["use"]} == {"q"}


def test_lists_are_cut(rows: QuotaRows, run: Run) -> None:
    rows.put(tables.VOLUMES, size=3)
    assert "1 more: --rows 0 shows all" in run("cinder quotas --rows 1")[1]
    assert "more:" not in run("cinder quotas --rows 0")[1]


def test_without_a_database_there_is_an_error(run: Run, tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[cinder_shadow\] cinder_connection is not set: name the"):
        run("cinder quotas", None)
    file = tmp_path / "cinder.conf"
    file.write_text("[DEFAULT]\n")
    with pytest.raises(errors.ConfigurationError, match=r"\[database\] connection of .*cinder.conf is not set"):
        run(f"cinder quotas --cinder-conf {file}", None)
    with pytest.raises(errors.ConfigurationError, match="expected the configuration of Cinder"):
        run(f"cinder quotas --cinder-conf {tmp_path}/none.conf", None)
