# SPDX-License-Identifier: Apache-2.0
"""The row of a refusal: texts from any source, and bodies that other requests do not have."""

from typing import Any

from tests.unit.ledger.records import Records, new_id
from tonnage.ledger import models


def _refusal(**values: Any) -> models.Refusal:
    usual = {
        "request_id": "req-1",
        "volume_id": new_id(),
        "project_id": "p",
        "verb": "create",
        "request": "3 GiB",
        "filter": "CapacityFilter",
        "code": "thin_limit",
        "message": "no room",
    }
    return models.Refusal(**usual | values)


def test_a_request_without_a_body_is_null_and_not_the_text_null(records: Records) -> None:
    """``tonnage`` repeats the requests whose body is not null."""
    records.add(_refusal(request_body=None))
    records.add(_refusal(request_body={"volume": {"size": 3}}))
    columns = "request_body IS NULL, pool, largest_size_gb"
    assert records.rows(f"SELECT {columns} FROM refusals ORDER BY id") == [(1, None, None), (0, None, None)]
    rows = records.run(lambda session: session.query(models.Refusal).order_by(models.Refusal.id).all())
    assert [row.request_body for row in rows] == [None, {"volume": {"size": 3}}]


def test_texts_of_plugins_are_stored_whatever_characters_they_have(records: Records) -> None:
    records.add(_refusal(message="a\0b \udcff", request="x" * 70_000))
    [(message, length)] = records.rows("SELECT message, LENGTH(request) FROM refusals")
    assert (message, length) == ("a?b ?", 65_535)


def test_a_request_may_be_refused_more_than_once(records: Records) -> None:
    volume_id = new_id()
    for _ in range(2):
        records.add(_refusal(volume_id=volume_id))
    assert records.rows("SELECT COUNT(*), COUNT(refused_at) FROM refusals") == [(2, 2)]
