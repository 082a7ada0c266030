# SPDX-License-Identifier: Apache-2.0
"""The records of requested volumes, in a real SQLite file."""

import dataclasses
import sqlite3
from pathlib import Path

import pytest

from tonnage.capacity import errors
from tonnage.drivers.csi.volume_records import VolumeRecord, VolumeRecords

PENDING = VolumeRecord(
    pool="gold", id="v", name="tonnage-1", size=10, plugin_id=None, earlier_ids=frozenset({"vol-8", "vol-9"})
)
MADE = dataclasses.replace(PENDING, plugin_id="vol-1")


@pytest.fixture
def records(tmp_path: Path) -> VolumeRecords:
    records = VolumeRecords(tmp_path / "state")
    records.check()
    return records


def test_a_record_is_read_back_by_another_process(records: VolumeRecords, tmp_path: Path) -> None:
    conflict = dataclasses.replace(PENDING, pool="tin", has_conflict=True)
    records.save(PENDING)
    records.save(conflict)
    restarted = VolumeRecords(tmp_path / "state")
    restarted.check()
    assert sorted(restarted.all(), key=lambda record: record.pool) == [PENDING, conflict]
    assert restarted.find("gold", "v") == PENDING
    assert restarted.find("tin", "v") == conflict
    assert restarted.find("gold", "w") is None


def test_a_record_replaces_that_of_the_same_volume(records: VolumeRecords) -> None:
    records.save(PENDING)
    records.save(MADE)
    assert records.all() == [MADE]
    assert records.find_by_plugin_id("vol-1") == MADE
    assert records.find_by_plugin_id("vol-2") is None


def test_a_managed_volume_replaces_the_record_of_its_earlier_id(records: VolumeRecords) -> None:
    records.save(MADE)
    managed = dataclasses.replace(MADE, id="w")
    records.save(managed, replaced=MADE)
    assert records.all() == [managed]


def test_a_removed_record_is_gone_and_only_it(records: VolumeRecords) -> None:
    same_id = dataclasses.replace(MADE, pool="tin", plugin_id="vol-2")
    records.save(MADE)
    records.save(same_id)
    records.remove(MADE)
    records.remove(MADE)
    assert records.all() == [same_id]


def test_a_watch_has_the_records_of_all_its_moments(records: VolumeRecords) -> None:
    before, meanwhile, after = (
        dataclasses.replace(PENDING, id=number, plugin_id=f"vol-{number}") for number in ("1", "2", "3")
    )
    records.save(before)
    with records.watch() as watched:
        records.save(PENDING)
        records.save(meanwhile)
        records.remove(meanwhile)
        records.remove(before)
    records.save(after)
    assert watched == {"vol-1": before, "vol-2": meanwhile}


def test_watches_do_not_end_each_other(records: VolumeRecords) -> None:
    with records.watch() as outer:
        with records.watch() as inner:
            pass
        records.save(MADE)
    assert (outer, inner) == ({"vol-1": MADE}, {})


def test_a_volume_is_pending_until_its_id_or_a_conflict_is_known() -> None:
    assert PENDING.pending
    assert not MADE.pending
    assert not dataclasses.replace(PENDING, has_conflict=True).pending


@pytest.mark.parametrize(
    ("pool", "inline"), [("<ephemeral>/n1", True), ("<ephemeral>", True), ("gold/<ephemeral>", False), ("gold", False)]
)
def test_an_inline_volume_is_in_a_pool_of_the_ephemeral_class(pool: str, inline: bool) -> None:
    assert dataclasses.replace(PENDING, pool=pool).inline is inline


def test_a_file_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no database at all, but long enough to look like a file of somebody else")
    records = VolumeRecords(tmp_path / "state")
    with pytest.raises(sqlite3.DatabaseError, match="file is not a database"):
        records.check()
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        VolumeRecords(tmp_path / "absent" / "state").check()


@pytest.mark.parametrize("error", [errors.DriverError("refused", clean=True), errors.CapacityExceeded("full")])
def test_an_extend_is_recorded_until_its_outcome_is_known(
    records: VolumeRecords, tmp_path: Path, error: errors.TonnageError
) -> None:
    records.save(MADE)
    with pytest.raises(errors.OutcomeUnknown), records.extending(MADE, "claim"):
        raise errors.OutcomeUnknown("no answer")
    restarted = VolumeRecords(tmp_path / "state")
    assert restarted.has_begun_extend(MADE, "claim")
    assert not restarted.has_begun_extend(MADE, "later claim")
    with pytest.raises(type(error)), records.extending(MADE, "claim"):
        raise error
    assert not records.has_begun_extend(MADE, "claim")
    with records.extending(MADE, "claim"):
        pass
    assert records.has_begun_extend(MADE, "claim")
    records.save(dataclasses.replace(MADE, size=30))
    assert not records.has_begun_extend(MADE, "claim")


def test_an_extend_without_an_id_is_never_an_earlier_one(records: VolumeRecords) -> None:
    with records.extending(MADE, ""):
        assert not records.has_begun_extend(MADE, "")


def test_a_removed_volume_has_no_extend(records: VolumeRecords) -> None:
    records.save(MADE)
    with records.extending(MADE, "claim"):
        records.remove(MADE)
    assert not records.has_begun_extend(MADE, "claim")
