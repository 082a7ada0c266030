# SPDX-License-Identifier: Apache-2.0
"""QoS specs and their associations with volume types."""

from collections.abc import Iterator

import pytest
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.capacity import errors
from tonnage.ledger.catalog import qos_specs, volume_types
from tonnage.ledger.catalog.qos_specs import Consumer
from tonnage.ledger.db import database, paging

MISSING = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def session() -> Iterator[orm.Session]:
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    with orm.Session(engine) as session:
        yield session
    engine.dispose()


def test_specs_are_created_changed_and_listed(session: orm.Session) -> None:
    made = qos_specs.create(session, "fast", specs={"maxIOPS": "500", "burst": "9"})
    assert (made.consumer, made.specs) == ("back-end", {"maxIOPS": "500", "burst": "9"})
    with pytest.raises(qos_specs.NameTaken), session.begin_nested():
        qos_specs.create(session, "fast")
    qos_specs.update(session, made.id, {"maxIOPS": "700", "minIOPS": "5"}, Consumer.BOTH)
    with pytest.raises(errors.NotFound, match="no spec with key nothing"):
        qos_specs.unset(session, made.id, ["burst", "nothing"])
    qos_specs.unset(session, made.id, ["burst"])
    session.expire_all()
    found = qos_specs.get(session, made.id)
    assert (found.consumer, found.specs) == ("both", {"maxIOPS": "700", "minIOPS": "5"})
    other = qos_specs.create(session, "also")
    by_name = (paging.Order("name"), paging.Order("id"))
    assert qos_specs.page(session, paging.Page(5, order=by_name)) == [other, made]
    assert qos_specs.page(session, paging.Page(5, other.id, by_name)) == [made]


def test_a_type_is_associated_with_one_set_of_specs(session: orm.Session) -> None:
    gold, silver = (volume_types.create(session, name) for name in ("gold", "silver"))
    fast, slow = (qos_specs.create(session, name) for name in ("fast", "slow"))
    for _ in range(2):
        qos_specs.associate(session, fast.id, gold.id)
    qos_specs.associate(session, fast.id, silver.id)
    with pytest.raises(errors.InvalidInput, match=f"already associated with another qos specs: {fast.id}"):
        qos_specs.associate(session, slow.id, gold.id)
    assert [kind.name for kind in qos_specs.associations(session, fast.id)] == ["gold", "silver"]
    session.expire_all()
    assert gold.qos is fast
    # This removes no association with other specs.
    qos_specs.disassociate(session, slow.id, gold.id)
    assert len(qos_specs.associations(session, fast.id)) == 2
    qos_specs.disassociate(session, fast.id, gold.id)
    qos_specs.associate(session, slow.id, gold.id)
    session.expire_all()
    assert (gold.qos, silver.qos) == (slow, fast)
    qos_specs.disassociate_all(session, fast.id)
    assert qos_specs.associations(session, fast.id) == []


def test_deleting_associated_specs_requires_force(session: orm.Session) -> None:
    gold, fast = volume_types.create(session, "gold"), qos_specs.create(session, "fast")
    qos_specs.associate(session, fast.id, gold.id)
    with pytest.raises(qos_specs.InUse):
        qos_specs.delete(session, fast.id)
    qos_specs.delete(session, fast.id, force=True)
    session.expire_all()
    assert gold.qos is None
    with pytest.raises(errors.NotFound):
        qos_specs.get(session, fast.id)


def test_a_type_with_specs_can_be_deleted(session: orm.Session) -> None:
    gold, fast = volume_types.create(session, "gold"), qos_specs.create(session, "fast")
    qos_specs.associate(session, fast.id, gold.id)
    volume_types.delete(session, gold.id)
    assert qos_specs.associations(session, fast.id) == []
    qos_specs.delete(session, fast.id)


@pytest.mark.parametrize(
    "call",
    [
        lambda session, kind, specs: qos_specs.get(session, MISSING),
        lambda session, kind, specs: qos_specs.page(session, paging.Page(5, MISSING)),
        lambda session, kind, specs: qos_specs.update(session, MISSING, {}),
        lambda session, kind, specs: qos_specs.unset(session, MISSING, []),
        lambda session, kind, specs: qos_specs.delete(session, MISSING),
        lambda session, kind, specs: qos_specs.associations(session, MISSING),
        lambda session, kind, specs: qos_specs.associate(session, MISSING, kind),
        lambda session, kind, specs: qos_specs.associate(session, specs, MISSING),
        lambda session, kind, specs: qos_specs.disassociate(session, MISSING, kind),
        lambda session, kind, specs: qos_specs.disassociate(session, specs, MISSING),
        lambda session, kind, specs: qos_specs.disassociate_all(session, MISSING),
    ],
)
def test_missing_specs_or_types_are_not_found(session: orm.Session, call: "object") -> None:
    kind, specs = volume_types.create(session, "gold").id, qos_specs.create(session, "fast").id
    with pytest.raises(errors.NotFound, match=MISSING):
        call(session, kind, specs)  # type: ignore[operator]
