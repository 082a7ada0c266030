# SPDX-License-Identifier: Apache-2.0
"""``tonnage refusals``."""

import pytest
import sqlalchemy as sa

from tests.unit.cli.overviews.overview_ledger import Ledger, gib
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.ledger import models


def test_refusals_are_shown_and_counted(ledger: Ledger) -> None:
    assert ledger.run("refusals") == "No refusal is recorded\n"
    assert ledger.json("refusals --summary") == []
    ledger.world.create(50)
    ledger.world.create(60)
    rows = ledger.json("refusals")
    assert [row["request"] for row in rows] == ["60 GiB", "50 GiB"]
    assert {(row["verb"], row["filter"], row["code"]) for row in rows} == {("create", "CapacityFilter", "no_capacity")}
    assert rows[0]["largest_size_bytes"] == gib(40)
    assert rows[0]["message"].startswith("No pool for 60 GiB: 2 pools; CapacityFilter refused 2, nearest ")
    [counted] = ledger.json("refusals --summary")
    assert (counted["code"], counted["refusals"]) == ("no_capacity", 2)
    assert counted["day"] == rows[0]["refused_at"][:10]
    assert ledger.json(f"refusals --pool {rows[0]['pool']} --rows 1") == rows[:1]
    assert ledger.json(f"refusals --pool {BACKEND}") == rows
    assert ledger.run("refusals --code quota") == "No such refusal is recorded\n"
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Refusal).where(models.Refusal.request == "50 GiB").values(verb="extend"))
    assert len(ledger.json("refusals --summary --rows 1")) == 1
    assert len(ledger.json("refusals --summary --rows 0")) == 2
    with pytest.raises(SystemExit):
        ledger.run("refusals -c day")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("refusals --pool h@b#p", "h@b#p"),
        ("refusals --summary --pool h@b", "h@b"),
    ],
)
def test_a_name_that_the_ledger_does_not_know_is_an_error(ledger: Ledger, line: str, named: str) -> None:
    with pytest.raises(errors.NotFound, match=f"^{named} could not be found"):
        ledger.run(line)
