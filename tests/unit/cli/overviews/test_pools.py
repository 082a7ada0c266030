# SPDX-License-Identifier: Apache-2.0
"""``tonnage pools``: it agrees with the ledger at each moment."""

import pytest
import sqlalchemy as sa

from tests.unit.cli.overviews.overview_ledger import Ledger, gib
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.ledger import models


def test_a_claim_is_in_flight_until_a_report_contains_it(ledger: Ledger) -> None:
    ledger.world.create(4)
    before = {row["pool"]: row for row in ledger.json("pools")}
    pool = next(row for row in before.values() if row["allocated_bytes"])
    assert pool["in_flight_bytes"] == pool["allocated_bytes"] == gib(4)
    [claim] = ledger.json("claims")
    assert (claim["verb"], claim["state"], claim["size_bytes"]) == ("create", "pending", gib(4))
    ledger.world.settle()
    after = {row["pool"]: row for row in ledger.json("pools")}[pool["pool"]]
    assert after["in_flight_bytes"] == 0
    assert after["allocated_bytes"] == gib(4)
    assert after["physical_left_bytes"] == after["physical_limit_bytes"]
    assert ledger.json("claims") == []


def test_both_bounds_of_thin_volumes_are_shown_apart(ledger: Ledger) -> None:
    row = {row["pool"]: row for row in ledger.json("pools")}[f"{BACKEND}#p0"]
    assert (row["total_bytes"], row["virtual_left_bytes"], row["physical_left_bytes"]) == (gib(20), gib(40), gib(20))


def test_the_bound_of_thin_volumes_is_null_for_a_pool_without_any(ledger: Ledger) -> None:
    row = {row["pool"]: row for row in ledger.json("pools")}[f"{BACKEND}#p1"]
    assert (row["virtual_limit_bytes"], row["virtual_left_bytes"]) == (None, None)
    assert row["physical_left_bytes"] == gib(10)


def test_a_silent_backend_is_down_and_the_table_says_since_when(ledger: Ledger) -> None:
    assert "| up " in ledger.run("pools")
    with ledger.engine.begin() as connection:
        hours = sa.func.datetime(models.Backend.last_report_at, "-2 hours")
        connection.execute(sa.update(models.Backend).values(last_report_at=sa.type_coerce(hours, sa.String)))
    shown = ledger.run("pools")
    assert "down, was 20 GiB, 2 h ago" in shown
    assert "None of 2 pool(s) is up" in shown
    assert {row["state"] for row in ledger.json("pools")} == {"down"}
    assert all(row["silence_seconds"] >= 7200 for row in ledger.json("pools"))
    assert {row["physical_left_bytes"] for row in ledger.json("pools")} == {None}


def test_a_backend_whose_agent_cannot_report_says_so_at_once(ledger: Ledger) -> None:
    assert {row["problem"] for row in ledger.json("pools")} == {None}
    with ledger.engine.begin() as connection:
        values = {"notice": "failing", "notice_text": "not mounted", "notice_at": models.utcnow()}
        connection.execute(sa.update(models.Backend).values(values))
    assert "| up, failing " in ledger.run("pools")
    problems = {(row["state"], row["problem"]) for row in ledger.json("pools")}
    assert problems == {("up", "its agent cannot report: not mounted")}


def test_a_backend_of_another_system_is_down_by_the_word_of_that_system(ledger: Ledger) -> None:
    with ledger.engine.begin() as connection:
        hours = sa.type_coerce(sa.func.datetime(models.Backend.last_report_at, "-2 hours"), sa.String)
        connection.execute(sa.update(models.Backend).values(observed=True, last_report_at=hours))
    assert "2 of 2 pool(s) up" in ledger.run("pools")
    with ledger.engine.begin() as connection:
        values = {"notice": "down", "notice_text": "its service in Cinder is disabled", "notice_at": models.utcnow()}
        connection.execute(sa.update(models.Backend).values(values))
    assert "| down, its service in Cinder is disabled " in ledger.run("pools")
    problems = {(row["state"], row["problem"], row["silence_seconds"]) for row in ledger.json("pools")}
    assert problems == {("down", "its service in Cinder is disabled", None)}


def test_a_pool_that_is_no_longer_reported_is_listed_while_it_has_volumes(ledger: Ledger) -> None:
    ledger.world.made(4)
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Pool).values(present=False))
        notice = {"notice": "withdrawn", "notice_text": "", "notice_at": models.utcnow()}
        connection.execute(sa.update(models.Backend).values(notice))
    [row] = ledger.json("pools")
    assert (row["pool"], row["allocated_bytes"], row["state"]) == (f"{BACKEND}#p0", gib(4), "down")
    assert row["problem"].startswith(
        "its backend no longer reports it, and the ledger counts 4 GiB of volumes there; its agent has withdrawn it at"
    )
    assert row["problem"].endswith("UTC: it is not in enabled_backends")
    assert "| down, no longer reported " in ledger.run("pools")
    assert "None of 1 pool(s) is up" in ledger.run("pools")
    assert [volume["size_bytes"] for volume in ledger.json("pool p0")["volumes"]] == [gib(4)]
    with pytest.raises(errors.NotFound, match="it is in no backend's last report, and has no volumes"):
        ledger.run(f"pool {BACKEND}#p1")


def test_the_sums_are_those_of_the_pools_that_are_up(ledger: Ledger) -> None:
    ledger.world.create(4)
    assert ledger.run("pools").endswith("2 of 2 pool(s) up: total 30 GiB, free 30 GiB, in flight 4 GiB\n")
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Pool).values(storage_id="array"))
    note = "total 20 GiB, free 20 GiB, in flight 4 GiB (pools share a storage, whose space counts once)\n"
    assert ledger.run("pools").endswith(note)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("pools --backend h@b", "backend h@b"),
    ],
)
def test_a_name_that_the_ledger_does_not_know_is_an_error(ledger: Ledger, line: str, named: str) -> None:
    with pytest.raises(errors.NotFound, match=f"^{named} could not be found"):
        ledger.run(line)
