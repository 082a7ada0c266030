# SPDX-License-Identifier: Apache-2.0
"""What the tables of backends and pools refuse, and what happens to the rows of a backend that is deleted."""

import datetime

import pytest
from oslo_db import exception as db_exc

from tests.unit.ledger.records import Records
from tonnage.ledger import models


def test_names_of_backends_and_pools_are_unique(records: Records) -> None:
    records.pool("host@b#p")
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(models.Backend(name="host@b"))
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.pool("host@b#p")


def test_names_that_differ_in_case_or_in_a_space_at_the_end_are_names_of_different_backends(records: Records) -> None:
    names = ["host@b", "host@B", "host@b "]
    for name in names:
        records.add(models.Backend(name=name))
    assert sorted(records.rows("SELECT name FROM backends")) == sorted((name,) for name in names)


def test_a_new_backend_is_enabled_and_has_never_reported(records: Records) -> None:
    records.add(models.Backend(name="host@b"))
    [row] = records.run(lambda session: session.query(models.Backend).all())
    assert (row.enabled, row.draining, row.observed, row.epoch, row.allocated_capacity_gb) == (True, False, False, 0, 0)
    assert (row.last_report_at, row.last_listing_at, row.notice) == (None, None, None)
    assert abs(row.created_at - datetime.datetime.now(datetime.UTC).replace(tzinfo=None)) < datetime.timedelta(
        minutes=1
    )


def test_a_pool_belongs_to_a_backend(records: Records) -> None:
    with pytest.raises(db_exc.DBReferenceError):
        records.add(models.Pool(name="host@b#p", backend_id=7))


def test_a_pool_without_a_report_has_unknown_figures_and_nothing_counted(records: Records) -> None:
    records.add(models.Pool(name="host@b#p", backend_id=records.backend()))
    [row] = records.run(lambda session: session.query(models.Pool).all())
    assert (row.total_capacity_gb, row.free_capacity_gb, row.thin_limit_gb, row.physical_limit_gb) == (None,) * 4
    assert (row.allocated_capacity_gb, row.in_flight_gb, row.in_flight_physical_gb, row.external_gb) == (0, 0, 0, 0)
    assert (row.ratio, row.stats) == (1.0, {})


def test_the_id_of_a_deleted_pool_is_never_used_again(records: Records) -> None:
    """Rows of extensions, such as the history, may outlive their pool."""
    pools = [records.pool("host@b#p"), records.pool("host@b#q")]
    records.rows("DELETE FROM pools")
    assert records.pool("host@b#r") > max(pools)


def test_a_backend_cannot_be_deleted_before_its_pools(records: Records) -> None:
    records.pool("host@b#p")
    with pytest.raises(db_exc.DBReferenceError):
        records.rows("DELETE FROM backends")


def test_marks_and_findings_are_deleted_with_their_backend(records: Records) -> None:
    gone, stays = records.backend("host@gone"), records.backend("host@stays")
    for backend_id in (gone, stays):
        records.add(models.StorageMark(backend_id=backend_id, pool="p", mark="m"))
        records.add(models.Finding(backend_id=backend_id, pool="p", breach="b", text="t"))
    records.rows("DELETE FROM backends WHERE id = :id", id=gone)
    assert records.rows("SELECT backend_id FROM storage_marks") == [(stays,)]
    assert records.rows("SELECT backend_id FROM findings") == [(stays,)]


def test_a_pool_has_one_discrepancy_for_each_volume(records: Records) -> None:
    first, second = records.pool("host@b#p"), records.pool("host@b#q")
    records.discrepancy(first, "volume-1", "orphan")
    records.discrepancy(second, "volume-1", "orphan")
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.discrepancy(first, "volume-1", "lost")


def test_a_pool_breaks_a_rule_for_reports_once(records: Records) -> None:
    backend_id = records.backend()
    for pool, breach in (("p", "negative"), ("p", "unsteady"), ("q", "negative")):
        records.add(models.Finding(backend_id=backend_id, pool=pool, breach=breach, text="t"))
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(models.Finding(backend_id=backend_id, pool="p", breach="negative", text="another"))
