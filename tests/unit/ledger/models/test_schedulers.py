# SPDX-License-Identifier: Apache-2.0
"""The rows of schedulers, and the tables with a single row."""

import pytest
from oslo_db import exception as db_exc

from tests.unit.ledger.records import Records, new_id
from tonnage.ledger import models


def test_a_host_has_one_row_for_each_binary(records: Records) -> None:
    records.add(models.Service(binary="tonnage-scheduler", host="h"))
    records.add(models.Service(binary="tonnage-cinder-scheduler", host="h"))
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(models.Service(binary="tonnage-scheduler", host="h"))


def test_a_new_scheduler_is_enabled_and_has_heard_no_agent(records: Records) -> None:
    records.add(models.Service(binary="tonnage-scheduler", host="h"))
    columns = "enabled, last_seen_at IS NULL, last_listened_at, hook_extensions, ledger_fault"
    assert records.rows(f"SELECT {columns} FROM services") == [(1, 0, None, "", None)]


def test_the_fault_of_a_ledger_is_cut_to_its_column(records: Records) -> None:
    """The fault is an error message of the database, in the transaction that reports it."""
    records.add(models.Service(binary="tonnage-scheduler", host="h", ledger_fault="no\0" + "x" * 300))
    [(fault,)] = records.rows("SELECT ledger_fault FROM services")
    assert fault == "no?" + "x" * 252


def test_two_schedulers_cannot_both_write_the_first_rules(records: Records) -> None:
    rules = {"default_ratio": "20.0", "calculation": "cinder", "generation": 1}
    records.add(models.Rules(id=1, **rules))
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(models.Rules(id=1, **rules))


def test_a_ledger_has_one_identity(records: Records) -> None:
    records.add(models.LedgerIdentity(id=1, ledger_id=new_id()))
    assert records.rows("SELECT copied_to, copied_at FROM ledger_identity") == [(None, None)]
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(models.LedgerIdentity(id=1, ledger_id=new_id()))


def test_a_row_of_a_write_probe_has_to_have_its_filler(records: Records) -> None:
    """The probe writes as many bytes as a transaction may, so a row without them shows nothing."""
    with pytest.raises(db_exc.DBError):
        records.add(models.WriteProbeRow(id=new_id()))
