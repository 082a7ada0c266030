# SPDX-License-Identifier: Apache-2.0
"""Names that commands select by."""

import pytest

from tests.unit.ledger.records import Records
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.inventory import names


def test_backends_pools_and_types_are_known_by_their_full_names(records: Records) -> None:
    records.pool("host@b#p")
    records.add(models.VolumeType(id="1", name="gold"))
    records.run(names.require_backend, "host@b")
    records.run(names.require_pool_or_backend, "host@b")
    records.run(names.require_pool_or_backend, "host@b#p")
    records.run(names.require_type, "gold")


def test_any_other_name_is_not_found(records: Records) -> None:
    records.pool("host@b#p")
    for require, name in (
        (names.require_backend, "host@b#p"),
        (names.require_pool_or_backend, "p"),
        (names.require_type, "gold"),
    ):
        with pytest.raises(errors.NotFound, match=f"{name} could not be found"):
            records.run(require, name)
