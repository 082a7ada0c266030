# SPDX-License-Identifier: Apache-2.0
"""A ledger keeps its id, and is no longer used while a copy of it is."""

import pytest

from tests.unit.ledger.records import Records
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.locks import ledger_identity, scheduling_rules

COPY = "postgresql://new/tonnage"


@pytest.fixture
def generations(records: Records) -> Records:
    """A ledger whose rules have generation 4; that of one backend is behind."""
    records.add(models.Rules(id=1, default_ratio="20", calculation="cinder", generation=4))
    records.backend("h1@b", rules_generation=4)
    records.backend("h2@b", rules_generation=0)
    return records


def test_a_ledger_keeps_the_id_that_it_gets_first(records: Records) -> None:
    first = records.run(ledger_identity.ledger_id)
    assert records.run(ledger_identity.ledger_id) == first
    assert Records().run(ledger_identity.ledger_id) != first


def test_no_generation_of_a_copied_ledger_is_valid(generations: Records) -> None:
    assert generations.run(ledger_identity.set_copy, COPY) is None
    assert generations.rows("SELECT generation FROM rules") == [(-5,)]
    assert generations.rows("SELECT rules_generation FROM backends ORDER BY name") == [(-5,), (-1,)]
    with pytest.raises(errors.LedgerMoved, match="postgresql://new"):
        generations.run(scheduling_rules.read_generation)


def test_a_copy_that_is_undone_leaves_the_generations_as_they_were(generations: Records) -> None:
    generations.run(ledger_identity.set_copy, COPY)
    assert generations.run(ledger_identity.set_copy, "mysql://newer") == COPY
    assert generations.rows("SELECT generation FROM rules") == [(-5,)], "a second copy changes nothing more"
    assert generations.run(ledger_identity.set_copy, None) == "mysql://newer"
    assert generations.run(scheduling_rules.read_generation) == 4
    assert generations.rows("SELECT rules_generation FROM backends ORDER BY name") == [(4,), (0,)]
    assert generations.rows("SELECT copied_to, copied_at FROM ledger_identity") == [(None, None)]
