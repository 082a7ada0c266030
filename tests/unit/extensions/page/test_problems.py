# SPDX-License-Identifier: Apache-2.0
"""The problems on the page, from rows of the ledger, and their commands."""

import datetime
import shlex
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.extensions.page.overviews import add, overview, read, thin
from tonnage.cli import manage, tonnage
from tonnage.extensions.history import history_writer, tables
from tonnage.extensions.page.overview_bodies import Problem
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.inventory import drains

HOUR = datetime.timedelta(hours=1)


def problems(ledger: database.Database) -> dict[str, Problem]:
    """Return the problems by their names, in their order. The programs accept their commands."""
    by_name = {problem.problem: problem for problem in read(ledger)[1].problems}
    for problem in by_name.values():
        program, *words = shlex.split(problem.command)
        if program == "tonnage-status":  # of oslo.upgradecheck
            assert words == ["upgrade", "check"]
            continue
        manager = {"tonnage": tonnage.program, "tonnage-manage": manage.program}[program]().command_manager
        command, name, arguments = manager.find_command(words)
        command(None, None).get_parser(name).parse_args(arguments)
    return by_name


def store(ledger: database.Database, *rows: Any) -> None:
    with orm.Session(ledger.engine) as session:
        session.add_all(rows)
        session.commit()


def pool_id(ledger: database.Database, name: str) -> int:
    with ledger.reading() as session:
        return session.scalars(sa.select(models.Pool.id).where(models.Pool.name == name)).one()


def now(ledger: database.Database) -> datetime.datetime:
    with ledger.reading() as session:
        return history_writer.database_time(session)


def claim(ledger: database.Database, volume: str, age: datetime.timedelta, state: str = "pending") -> models.Claim:
    with ledger.reading() as session:
        pool = session.scalars(sa.select(models.Pool).where(models.Pool.name == "box@a#p")).one()
        backend_id = pool.backend_id
        time = history_writer.database_time(session)
        return models.Claim(
            id=f"claim-{volume}",
            backend_id=backend_id,
            pool_id=pool.id,
            volume_id=volume,
            verb="create",
            state=state,
            size_gb=1,
            physical_gb=0,
            target_size_gb=1,
            provisioning="thin",
            request_id=f"request-{volume}",
            created_at=time - age,
        )


def test_a_ledger_at_rest_has_no_problems(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": thin(100, 60)})
    store(ledger, claim(ledger, "v1", HOUR / 2), claim(ledger, "v2", 2 * HOUR, "done"))
    assert problems(ledger) == {}


def test_problems_of_pools_and_backends_name_the_worst_first(ledger: database.Database) -> None:
    exceeded = thin(36, 30, 1.0, provisioned_capacity_gb=144)
    add(ledger, "box@a", {"over": exceeded, "full": thin(100, 60, 1.0, provisioned_capacity_gb=100)})
    add(ledger, "box@b", {"q": dict(exceeded)}, silence=600)
    add(ledger, "box@c", {"r": thin(100, 60), "s": thin(100, 60)})
    with orm.Session(ledger.engine) as session:
        backend = session.scalars(sa.select(models.Backend).where(models.Backend.name == "box@c")).one()
        pool = session.scalars(sa.select(models.Pool).where(models.Pool.name == "box@c#r")).one()
        pool.unheard_at, pool.figures_at = backend.last_report_at, backend.last_report_at - HOUR
        session.commit()
    listed = problems(ledger)
    assert list(listed) == ["backends_down", "pools_over_limit", "pools_full", "pools_stale"]
    assert {name: [subject.name for subject in problem.subjects] for name, problem in listed.items()} == {
        "backends_down": ["box@b"],
        "pools_over_limit": ["box@a#over"],
        "pools_full": ["box@a#full"],
        # The pools of a backend that is down are part of its own problem.
        "pools_stale": ["box@c#r"],
    }
    assert listed["pools_over_limit"].subjects[0].text == "promised 108 GiB over its limit"
    assert "service_down_time" in listed["backends_down"].subjects[0].text
    assert listed["pools_over_limit"].command == "tonnage pool 'box@a#over'"


def test_pools_with_volumes_that_are_no_longer_reported_are_shown(ledger: database.Database) -> None:
    add(
        ledger,
        "box@a",
        {"here": thin(100, 60), "gone": thin(50, 50, row={"allocated_capacity_gb": 7}), "empty": thin(9, 9)},
    )
    with orm.Session(ledger.engine) as session:
        pool = models.Pool
        session.execute(sa.update(pool).where(pool.name != "box@a#here").values(present=False))
        session.commit()
    pools, summary = read(ledger)
    assert list(pools) == ["gone", "here"]
    assert (pools["gone"].state, pools["gone"].stale, pools["gone"].severity) == ("down", True, None)
    reason = "its backend no longer reports it, and the ledger counts 7 GiB of volumes there"
    assert pools["gone"].state_reason == reason
    assert summary.physical.total_gb == 100
    listed = problems(ledger)
    assert list(listed) == ["pools_absent"]
    assert [(subject.name, subject.text) for subject in listed["pools_absent"].subjects] == [("box@a#gone", reason)]
    assert listed["pools_absent"].command == "tonnage pool 'box@a#gone'"


def test_no_backend_is_down_because_the_ledger_cannot_be_written(ledger: database.Database) -> None:
    add(ledger, "box@b", {"q": thin(100, 60)}, silence=600)
    ledger.connectivity.record_refusal(OSError("database or disk is full"))
    listed = problems(ledger)
    assert list(listed) == ["ledger_unwritable"]
    [subject] = listed["ledger_unwritable"].subjects
    assert subject.name == "ledger"
    assert "database or disk is full" in subject.text
    [backend] = overview(ledger).backends
    assert backend.state_reason == "no report can be recorded, because the ledger cannot be written"


def test_an_agent_that_cannot_report_is_a_problem_before_its_backend_is_down(ledger: database.Database) -> None:
    notice = {"notice": "failing", "notice_text": "not mounted", "notice_at": models.utcnow()}
    add(ledger, "box@a", {"p": thin(100, 60)}, **notice)
    listed = problems(ledger)
    assert list(listed) == ["backends_failing"]
    assert listed["backends_failing"].subjects[0].text == "its agent cannot report: not mounted"


def test_many_subjects_are_counted_and_the_first_are_named(ledger: database.Database) -> None:
    add(ledger, "box@a", {f"p{number}": thin(10, 0, 1.0, provisioned_capacity_gb=10) for number in range(7)})
    full = problems(ledger)["pools_full"]
    assert (full.count, len(full.subjects), full.command) == (7, 5, "tonnage pools")


def test_a_drain_with_volumes_is_a_problem_and_one_without_is_none(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": thin(100, 60)}, enabled=False, draining=True, disabled_reason="old disks")
    assert problems(ledger) == {}
    rows = [
        models.Volume(
            id=f"v{number}", pool_id=pool_id(ledger, "box@a#p"), size_gb=1, status="available", project_id="x"
        )
        for number in range(2)
    ]
    store(ledger, *rows)
    [subject] = problems(ledger)["drains_waiting"].subjects
    assert (subject.name, subject.text) == ("box@a", "2 volumes to move")
    [backend] = overview(ledger).backends
    assert (backend.state, backend.state_reason) == ("draining", "old disks; 2 volumes to move")
    with orm.Session(ledger.engine) as session:
        drains.record(session, {"v1": "No pool for 1 GiB"})
        session.commit()
    [backend] = overview(ledger).backends
    assert backend.state_reason == "old disks; 2 volumes to move; 1 cannot: volume v1: No pool for 1 GiB"


def test_claims_wait_after_an_hour(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": thin(100, 60)})
    store(
        ledger,
        *(claim(ledger, "v1", 2 * HOUR), claim(ledger, "v2", 3 * HOUR, "abandoned"), claim(ledger, "v3", HOUR / 2)),
    )
    waiting = problems(ledger)["claims_waiting"]
    assert [subject.volume_id for subject in waiting.subjects] == ["v2", "v1"]
    assert waiting.subjects[0].text == "create in box@a#p"


def test_refusals_of_the_last_day_are_a_problem(ledger: database.Database) -> None:
    add(ledger, "box@a", {"p": thin(100, 60)})
    time = now(ledger)
    refused = {"project_id": "x", "verb": "create", "filter": "CapacityFilter", "code": "no_capacity"}
    store(
        ledger,
        *(
            models.Refusal(
                request_id=f"r{age}", volume_id=f"v{age}", request=f"{age} GiB", message=f"No pool for {age} GiB",
                refused_at=time - datetime.timedelta(hours=age), **refused,
            )
            for age in (30, 23, 2)
        ),
    )  # fmt: skip
    listed = problems(ledger)["refusals"]
    assert listed.count == 2
    assert [(subject.name, subject.text, subject.volume_id) for subject in listed.subjects] == [
        ("create 2 GiB", "No pool for 2 GiB", "v2"),
        ("create 23 GiB", "No pool for 23 GiB", "v23"),
    ]


def test_pools_that_will_be_full_within_two_weeks_are_a_problem(ledger: database.Database) -> None:
    add(ledger, "box@a", {name: thin(100, 60) for name in ("p", "q", "r")})
    today = now(ledger).replace(hour=0, minute=0, second=0, microsecond=0)
    for name, days in (("p", 13.0), ("q", 5.0), ("r", 30.0)):
        ranges = {"p10_days": days - 2, "p50_days": days, "p90_days": days + 2, "low_gb": 1.0, "high_gb": 5.0}
        made = {"made_on": today, "pool_id": pool_id(ledger, f"box@a#{name}"), "known_days": 30}
        store(ledger, tables.PoolForecast(bound="physical", **made, **ranges))
    soon = problems(ledger)["pools_full_soon"]
    assert [subject.name for subject in soon.subjects] == ["box@a#q", "box@a#p"]
    assert soon.subjects[0].text.startswith("full in ")
