# SPDX-License-Identifier: Apache-2.0
"""Overviews on the wire: capacities are numbers or words, and what does not exist is null."""

from typing import Any

import msgspec
import pytest

from tests.unit.extensions.page import overviews
from tonnage.capacity import type_conversion
from tonnage.extensions.page import overview_bodies
from tonnage.extensions.page.overview_bodies import PoolOverview, PoolOverviews
from tonnage.ledger.db import database


def sent(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize(("total", "shown"), [(10, 10.0), ("infinite", "infinite"), ("unknown", "unknown")])
def test_a_capacity_is_a_number_or_one_of_two_words(ledger: database.Database, total: Any, shown: Any) -> None:
    overviews.add(ledger, "h@b", {"p": overviews.thin(total, total)})
    pools, _ = overviews.read(ledger)
    body = sent(PoolOverviews([pools["p"]], 1))
    assert body["pools"][0]["total_gb"] == shown
    assert type_conversion.convert(body, PoolOverviews) == PoolOverviews([pools["p"]], 1)


def test_each_key_is_there_whatever_a_pool_reports(ledger: database.Database) -> None:
    """The page reads them without asking whether they are there."""
    overviews.add(ledger, "h@b", {"empty": {}, "p": overviews.thin(10, 5)})
    pools, summary = overviews.read(ledger)
    for pool in pools.values():
        assert list(sent(pool)) == list(PoolOverview.__struct_fields__)
    assert sent(pools["empty"])["severity"] is None
    assert sent(summary).keys() == set(overview_bodies.CapacitySummary.__struct_fields__)


def test_the_subject_of_a_problem_need_not_be_a_volume() -> None:
    subject = overview_bodies.ProblemSubject(name="h@b", text="no report")
    assert sent(subject) == {"name": "h@b", "text": "no report", "volume_id": None}


def test_a_body_takes_no_capacity_of_another_type() -> None:
    refused = overview_bodies.FilterRefusals(filter="F", pools=1, example="h@b#p", reason="r")
    usual = {"name": "gold", "message": "m", "pools": 1, "candidates": 0, "refused": [sent(refused)]}
    assert type_conversion.convert({**usual, "headroom_gb": None}, overview_bodies.TypeCapacity).headroom_gb is None
    with pytest.raises(msgspec.ValidationError, match="headroom_gb"):
        type_conversion.convert({**usual, "headroom_gb": []}, overview_bodies.TypeCapacity)
