# SPDX-License-Identifier: Apache-2.0
"""The stored refusals to come."""

import datetime
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.extensions.history import coming_refusals, tables
from tonnage.extensions.history.coming_refusals import ComingRefusals, WantedVolume
from tonnage.ledger import models
from tonnage.ledger.db import database

GOLD, BRONZE = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"
NO_TYPE = ComingRefusals(type_id="", known_days=30, runs=20, requests=[])
REFUSED = ComingRefusals(
    type_id=GOLD,
    known_days=30,
    runs=20,
    refused=7,
    filter="CapacityFilter",
    message="no room",
    requests=[WantedVolume(GOLD, 5), WantedVolume("", 2)],
)


@pytest.fixture
def session() -> Iterator[orm.Session]:
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    with orm.Session(engine) as session:
        session.add(models.VolumeType(id=GOLD, name="gold"))
        session.flush()
        yield session
    engine.dispose()


def set_back(session: orm.Session, **elapsed: float) -> None:
    """Set the time of all forecasts back."""
    row = tables.ComingRefusals
    time = session.scalars(sa.select(row.made_at)).first()
    assert time is not None
    session.execute(sa.update(row).values(made_at=time - datetime.timedelta(**elapsed)))


@pytest.mark.parametrize(
    ("refusals", "text"),
    [
        (ComingRefusals(type_id="", known_days=6), "no forecast: 6 of 21 days of history"),
        (NO_TYPE, "not refused in 20 runs of 14 days"),
        (REFUSED, "refused in 7 of 20 runs within 14 days, CapacityFilter first"),
    ],
)
def test_the_text_gives_the_numbers_of_runs_or_of_days(refusals: ComingRefusals, text: str) -> None:
    assert refusals.text() == text


def test_stored_refusals_are_read_as_they_are_the_most_refused_type_first(session: orm.Session) -> None:
    coming_refusals.store(session, [NO_TYPE, REFUSED])
    stored = coming_refusals.latest(session)
    assert [(row.volume_type, row.of) for row in stored] == [("gold", REFUSED), ("", NO_TYPE)]


def test_the_requests_of_a_run_are_read_on_demand_only(session: orm.Session) -> None:
    coming_refusals.store(session, [REFUSED])
    [row] = coming_refusals.latest(session, requests=False)
    assert (row.of.refused, row.of.message, row.of.requests) == (7, "no room", ())


def test_a_forecast_replaces_those_of_all_types(session: orm.Session) -> None:
    coming_refusals.store(session, [NO_TYPE, REFUSED])
    coming_refusals.store(session, [NO_TYPE])
    assert [row.of for row in coming_refusals.latest(session)] == [NO_TYPE]
    coming_refusals.store(session, [])
    assert coming_refusals.latest(session) == []


def test_refusals_of_a_deleted_type_are_not_shown(session: orm.Session) -> None:
    coming_refusals.store(session, [NO_TYPE, ComingRefusals(type_id=BRONZE, known_days=30, runs=20, refused=20)])
    assert [row.of for row in coming_refusals.latest(session)] == [NO_TYPE]


@pytest.mark.parametrize(("hours", "number"), [(23, 1), (25, 0), (-1, 0)])
def test_refusals_are_shown_for_a_day_and_not_from_the_future(session: orm.Session, hours: int, number: int) -> None:
    coming_refusals.store(session, [NO_TYPE])
    set_back(session, hours=hours)
    assert len(coming_refusals.latest(session)) == number


def test_the_age_is_that_of_the_last_forecast(session: orm.Session) -> None:
    assert coming_refusals.age(session) is None
    coming_refusals.store(session, [NO_TYPE])
    set_back(session, hours=1)
    assert coming_refusals.age(session) == pytest.approx(3600, abs=60)
