# SPDX-License-Identifier: Apache-2.0
"""The access of projects to private volume types."""

import pytest

from tests.unit.ledger.catalog.catalogues import volume_type
from tests.unit.ledger.records import Records, new_id
from tonnage.capacity import errors
from tonnage.ledger.catalog import type_access, volume_types


def test_a_project_sees_a_private_type_while_it_has_access(records: Records) -> None:
    type_id = volume_type(records, is_public=False)
    for project_id in ("b", "a"):
        records.run(type_access.add, type_id, project_id)
    assert records.run(type_access.projects, type_id) == ["a", "b"]
    assert records.run(volume_types.get, type_id, "a").id == type_id
    records.run(type_access.remove, type_id, "a")
    assert records.run(type_access.projects, type_id) == ["b"]
    with pytest.raises(errors.NotFound):
        records.run(volume_types.get, type_id, "a")


def test_access_is_given_and_taken_once(records: Records) -> None:
    type_id = volume_type(records, is_public=False)
    records.run(type_access.add, type_id, "demo")
    with pytest.raises(type_access.AccessExists, match="already exists"):
        records.run(type_access.add, type_id, "demo")
    records.run(type_access.remove, type_id, "demo")
    with pytest.raises(errors.NotFound, match="access not found"):
        records.run(type_access.remove, type_id, "demo")


def test_a_public_type_has_no_access_list(records: Records) -> None:
    type_id = volume_type(records)
    with pytest.raises(errors.NotFound, match="not available for public volume types"):
        records.run(type_access.projects, type_id)
    for change in (type_access.add, type_access.remove):
        with pytest.raises(errors.InvalidInput, match="is public"):
            records.run(change, type_id, "demo")


def test_a_missing_type_is_not_found(records: Records) -> None:
    for change in (type_access.add, type_access.remove):
        with pytest.raises(errors.NotFound):
            records.run(change, new_id(), "demo")
