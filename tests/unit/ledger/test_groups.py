# SPDX-License-Identifier: Apache-2.0
"""Groups and their types where the connection is lost in the midst of a commit that takes effect all the same."""

import pathlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import database
from tonnage.ledger import group_types
from tonnage.ledger import groups
from tonnage.ledger import models
from tonnage.ledger import schema


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    schema.sync(engine)
    made = database.Database(engine, retry_interval=0)
    yield made
    made.close()


@pytest.fixture
def losing(ledger: database.Database, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs something whose first commit is not heard of."""

    def run(work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        commit, commits = orm.SessionTransaction.commit, []

        def lost(self: Any, *more: Any, **named: Any) -> None:
            commit(self, *more, **named)
            if self.nested or self.parent is not None:
                return
            commits.append(self)
            if len(commits) == 1:
                raise db_exc.DBConnectionError

        with monkeypatch.context() as patched:
            patched.setattr(orm.SessionTransaction, "commit", lost)
            result = ledger.run(work, *args, **kwargs)
        assert len(commits) == 2, "it was run again"
        return result

    return run


def test_group_types(ledger: database.Database, losing: Callable[..., Any]) -> None:
    made = losing(group_types.create, "g", "d", True, {"a": "1", "b": "2"})
    with ledger.reading() as session:
        assert [kind.id for kind in session.query(models.GroupType)] == [made.id]
    losing(group_types.unset_spec, made.id, "a")
    losing(group_types.delete, made.id)
    with pytest.raises(errors.NotFound):
        ledger.run(group_types.delete, made.id)


def test_a_name_that_another_type_has_stays_taken(ledger: database.Database) -> None:
    ledger.run(group_types.create, "g", "one")
    with pytest.raises(group_types.NameTaken):
        ledger.run(group_types.create, "g", "one")


def test_groups(ledger: database.Database, losing: Callable[..., Any]) -> None:
    kind = ledger.run(group_types.create, "g")
    wanted = groups.NewGroup(
        project_id="p", user_id="u", name="n", description=None, group_type_id=kind.id, volume_type_ids=()
    )
    ledger.run(groups.create, wanted)
    losing(groups.update, wanted.id, "p", groups.Changes(name="m"))
    with pytest.raises(errors.InvalidInput, match="change nothing"):
        ledger.run(groups.update, wanted.id, "p", groups.Changes(name="m"))
    assert losing(groups.begin_deletion, wanted.id, "p", with_volumes=False) == []
    with pytest.raises(errors.NotFound):
        ledger.run(groups.begin_deletion, wanted.id, "p", with_volumes=False)
