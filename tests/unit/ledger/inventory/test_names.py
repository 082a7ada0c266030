# SPDX-License-Identifier: Apache-2.0
"""Names that commands select by."""

import re

import pytest
from sqlalchemy import orm

from tests.unit.ledger.records import Records
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.inventory import backends, names
from tonnage.ledger.repair import consistency_check


def test_backends_pools_and_types_are_known_by_their_full_names(records: Records) -> None:
    records.pool("host@b#p")
    records.add(models.VolumeType(id="1", name="gold"))
    records.run(names.require_backend, "host@b")
    records.run(names.require_pool_or_backend, "host@b")
    records.run(names.require_pool_or_backend, "host@b#p")
    records.run(names.require_type, "gold")


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("host@both#both", "that is a pool, and its backend is host@both"),
        ("both", "no agent has introduced it; did you mean host@both?"),
        ("hosd@boht", "no agent has introduced it; did you mean host@both?"),
        ("elsewhere", "no agent has introduced it; 'tonnage-manage backend list' lists the backends"),
    ],
)
def test_a_missing_backend_is_an_error_that_names_the_way_out(records: Records, name: str, end: str) -> None:
    records.pool("host@both#both")
    message = f"backend {name} could not be found: {end}"
    for command in (names.require_backend, _drain):
        with pytest.raises(errors.NotFound) as caught:
            records.run(command, name)
        assert caught.value.message == message


def _drain(session: orm.Session, name: str) -> None:
    backends.set_state(session, name, enabled=False, draining=True, reason=None)


def test_a_missing_pool_is_an_error_that_names_the_way_out(records: Records) -> None:
    records.pool("host@both#both")
    for name, advice in (("both", "did you mean host@both#both?"), ("x", "'tonnage pools' lists the pools")):
        with pytest.raises(errors.NotFound, match=rf"^pool {name} could not be found: .*; {re.escape(advice)}$"):
            consistency_check.check(records.database, pool=name)


def test_any_other_name_is_not_found(records: Records) -> None:
    records.pool("host@b#p")
    for require, name in (
        (names.require_backend, "host@b#p"),
        (names.require_pool_or_backend, "p"),
        (names.require_type, "gold"),
    ):
        with pytest.raises(errors.NotFound, match=f"{name} could not be found"):
            records.run(require, name)
