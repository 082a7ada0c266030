# SPDX-License-Identifier: Apache-2.0
"""The columns' types on each database, and the ages of times."""

import datetime

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from tests.unit.ledger.records import Records
from tonnage.ledger import models
from tonnage.ledger.models import base

NOW = datetime.datetime.fromisoformat("2026-01-02T12:00:00")


@pytest.mark.parametrize(("seconds", "age"), [(90, 90.0), (0, 0.0), (-5, 0.0)])
def test_an_age_is_never_negative(seconds: int, age: float) -> None:
    assert base.age(NOW, NOW - datetime.timedelta(seconds=seconds)) == age


def test_what_never_happened_has_no_age() -> None:
    assert base.age(NOW, None) is None


@pytest.mark.parametrize(("observed", "silence"), [(False, 90.0), (True, 0.0)])
def test_an_observed_backend_is_not_silent_once_it_has_reported(observed: bool, silence: float) -> None:
    assert base.silence(NOW, NOW - datetime.timedelta(seconds=90), observed=observed) == silence
    assert base.silence(NOW, None, observed=observed) is None


@pytest.mark.parametrize(("observed", "silence"), [(False, 90.0), (True, None)])
def test_an_observed_backend_with_a_notice_is_down(observed: bool, silence: float | None) -> None:
    reported_at = NOW - datetime.timedelta(seconds=90)
    assert base.silence(NOW, reported_at, observed=observed, notice="down") == silence


def test_texts_are_compared_exactly_on_mysql() -> None:
    for length, text in ((36, "VARCHAR(36)"), (None, "TEXT")):
        column_type = base.exact_text(length)
        assert column_type.compile(mysql.dialect()) == f"{text} CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
        assert column_type.compile(postgresql.dialect()) == text


def test_times_have_microseconds_on_mysql() -> None:
    assert base.Timestamp.compile(mysql.dialect()) == "DATETIME(6)"


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (sqlite.dialect(), "strftime('%Y-%m-%d %H:%M:%f', 'now')"),
        (postgresql.dialect(), "timezone('utc', clock_timestamp())"),
        (mysql.dialect(), "utc_timestamp(6)"),
    ],
    ids=["sqlite", "postgresql", "mysql"],
)
def test_each_database_has_a_clock_in_utc(dialect: sa.Dialect, text: str) -> None:
    assert str(base.utcnow().compile(dialect=dialect)) == text


def test_the_clock_of_a_ledger_is_in_utc_without_a_zone() -> None:
    moment = Records().run(lambda session: session.execute(sa.select(models.utcnow())).scalar_one())
    assert moment.tzinfo is None
    assert abs(datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - moment) < datetime.timedelta(minutes=1)


def test_constraints_have_names_that_migrations_know() -> None:
    constraints = models.table(models.Claim).constraints
    assert {"pk_claims", "fk_claims_backend_id", "fk_claims_pool_id"} == {constraint.name for constraint in constraints}
