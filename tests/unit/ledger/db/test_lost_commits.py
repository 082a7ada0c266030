# SPDX-License-Identifier: Apache-2.0
"""Changes whose commit takes effect although the connection is lost during it."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.catalog import group_types, groups, qos_specs, type_access, type_catalog, volume_types
from tonnage.ledger.claims import operation_outcomes
from tonnage.ledger.claims.settlement import EndedOperation
from tonnage.ledger.db import database
from tonnage.ledger.locks.pool_counters import Counters


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger_schema.create(engine)
    made = database.Database(engine, retry_interval=0)
    yield made
    made.close()


@pytest.fixture
def lose_first_commit(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that runs a method and loses the connection during its first commit."""

    def run(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        commit, commits = orm.SessionTransaction.commit, []

        def lost(self: Any, *more: Any, **named: Any) -> None:
            commit(self, *more, **named)
            if self.parent is None:
                commits.append(self)
                if len(commits) == 1:
                    raise db_exc.DBConnectionError

        with monkeypatch.context() as patched:
            patched.setattr(orm.SessionTransaction, "commit", lost)
            result = method(*args, **kwargs)
        assert len(commits) == 2, "it was run again"
        return result

    return run


def test_group_types_survive_a_lost_commit(ledger: database.Database, lose_first_commit: Callable[..., Any]) -> None:
    made = lose_first_commit(ledger.run, group_types.create, "g", "d", True, {"a": "1", "b": "2"})
    with ledger.reading() as session:
        assert [kind.id for kind in session.query(models.GroupType)] == [made.id]
    lose_first_commit(ledger.remove, group_types.unset_spec, made.id, "a")
    lose_first_commit(ledger.remove, group_types.delete, made.id)
    with pytest.raises(errors.NotFound):
        ledger.remove(group_types.delete, made.id)


def test_volume_types_their_access_and_qos_specs_survive_a_lost_commit(
    ledger: database.Database, lose_first_commit: Callable[..., Any]
) -> None:
    kind = lose_first_commit(ledger.run, volume_types.create, "t", None, False, {"a": "1"})
    lose_first_commit(ledger.run, type_access.add, kind.id, "p")
    with ledger.reading() as session:
        assert type_access.projects(session, kind.id) == ["p"]
    lose_first_commit(ledger.remove, type_access.remove, kind.id, "p")
    lose_first_commit(ledger.remove, volume_types.delete, kind.id)
    specs = lose_first_commit(ledger.run, qos_specs.create, "q", qos_specs.Consumer.BOTH, {"b": "2"})
    lose_first_commit(ledger.remove, qos_specs.unset, specs.id, ["b"])
    lose_first_commit(ledger.remove, qos_specs.delete, specs.id)


def test_a_name_in_use_stays_taken(ledger: database.Database, lose_first_commit: Callable[..., Any]) -> None:
    for create in (volume_types.create, group_types.create):
        lose_first_commit(ledger.run, create, "n", "one")
        with pytest.raises(type_catalog.NameTaken):
            ledger.run(create, "n", "one")


def test_groups_survive_a_lost_commit(ledger: database.Database, lose_first_commit: Callable[..., Any]) -> None:
    kind = ledger.run(group_types.create, "g")
    wanted = groups.NewGroup(
        project_id="p", user_id="u", name="n", description=None, group_type_id=kind.id, volume_type_ids=()
    )
    ledger.run(groups.create, wanted)
    lose_first_commit(ledger.run, groups.update, wanted.id, "p", groups.Changes(name="m"))
    with pytest.raises(errors.InvalidInput, match="change nothing"):
        ledger.run(groups.update, wanted.id, "p", groups.Changes(name="m"))
    assert lose_first_commit(ledger.run, groups.begin_deletion, wanted.id, "p", with_volumes=False) == []
    with pytest.raises(errors.NotFound):
        ledger.run(groups.begin_deletion, wanted.id, "p", with_volumes=False)


def test_a_settlement_with_a_lost_commit_returns_the_counters(
    ledger: database.Database, lose_first_commit: Callable[..., Any]
) -> None:
    def fill(session: orm.Session) -> None:
        session.add(models.Backend(id=1, name="h@b", epoch=1, allocated_capacity_gb=3))
        session.flush()
        counted = {"allocated_capacity_gb": 3, "in_flight_gb": 3}
        session.add(models.Pool(id=1, backend_id=1, name="h@b#p", covers_epoch=1, stats={}, **counted))
        session.add(models.Volume(id="v", project_id="p", size_gb=3, status="deleting", pool_id=1))
        session.flush()
        for id, verb, state, size in (("made", "create", "confirmed", 3), ("gone", "delete", "pending", 0)):
            session.add(
                models.Claim(
                    id=id,
                    volume_id="v",
                    backend_id=1,
                    pool_id=1,
                    verb=verb,
                    state=state,
                    size_gb=size,
                    physical_gb=0,
                    target_size_gb=3,
                    provisioning="thin",
                )
            )

    ledger.run(fill)
    endings = [EndedOperation(claim_id="gone", ok=True, epoch=1, tick=5)]
    assert lose_first_commit(ledger.run, operation_outcomes.apply, endings, 3).counters == {
        1: Counters(allocated=0, in_flight=3)
    }
    assert ledger.run(operation_outcomes.apply, endings, 3).counters == {}, (
        "as nearly always, when a report brings it again"
    )
