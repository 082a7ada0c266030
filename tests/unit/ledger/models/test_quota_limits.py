# SPDX-License-Identifier: Apache-2.0
"""The keys of limits and of usage counters."""

import pytest
from oslo_db import exception as db_exc

from tests.unit.ledger.records import Records, new_id
from tonnage.ledger import models


def test_a_limit_is_on_all_users_and_types_unless_it_names_them(records: Records) -> None:
    records.add(models.QuotaLimit(holder="project", name="p", resource="volumes", hard_limit=-1))
    assert records.rows("SELECT user_id, volume_type_id, hard_limit FROM quota_limits") == [("", "", -1)]


def test_each_scope_has_one_limit_on_a_resource(records: Records) -> None:
    scopes = [
        {},
        {"user_id": "u"},
        {"volume_type_id": new_id()},
        {"resource": "gigabytes"},
        {"holder": "class"},
        {"name": "q"},
    ]
    for scope in scopes:
        records.add(
            models.QuotaLimit(**{"holder": "project", "name": "p", "resource": "volumes"} | scope, hard_limit=5)
        )
    assert records.rows("SELECT COUNT(*) FROM quota_limits") == [(len(scopes),)]
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(models.QuotaLimit(holder="project", name="p", resource="volumes", hard_limit=6))


def test_a_new_counter_is_not_trusted_before_it_is_counted(records: Records) -> None:
    records.add(models.QuotaUsage(project_id="p"))
    columns = "user_id, volume_type_id, volumes, gigabytes, counted_at"
    assert records.rows(f"SELECT {columns} FROM quota_usages") == [("", "", 0, 0, None)]


def test_a_counter_holds_more_gigabytes_than_a_limit(records: Records) -> None:
    """A counter is a sum of volumes, each of which may be as large as the largest limit."""
    records.add(models.QuotaUsage(project_id="p", gigabytes=2**40))
    assert records.rows("SELECT gigabytes FROM quota_usages") == [(2**40,)]
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(models.QuotaUsage(project_id="p", gigabytes=1))
