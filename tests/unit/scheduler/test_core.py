# SPDX-License-Identifier: Apache-2.0
import uuid

import pytest

from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.ledger import database
from tonnage.ledger import services
from tonnage.rpc.messages import CreateVolume
from tonnage.rpc.messages import Hello
from tonnage.rpc.messages import ManageVolume
from tonnage.rpc.messages import PoolQuery
from tonnage.scheduler.core import SchedulerCore


def test_an_agent_of_the_release_before_is_given_nothing_to_copy(core: SchedulerCore) -> None:
    hello = Hello(backend="old@backend", nonce="n", availability_zone="nova", driver="memory")
    core.hello(hello)
    assert "old@backend" in core._hosts.outdated()
    with pytest.raises(errors.Unavailable, match=r"manage_volume needs version 1\.1 .* the agent of old@backend"):
        core.manage(
            ManageVolume(
                request_id="req-1", volume_id=str(uuid.uuid4()), pool="old@backend#p", reference="x", project_id="p"
            )
        )


def test_a_scheduler_that_ends_need_not_be_agreed_with(core: SchedulerCore, ledger: database.Database) -> None:
    core.stop()
    with ledger.reading() as session:
        [row] = [row for row in services.load(session) if row.binary == services.SCHEDULER]
    assert (row.host, row.default_ratio, row.calculation) == ("here", None, None)


def test_pools_are_shown_and_decisions_explained(core: SchedulerCore, ledger: database.Database) -> None:
    [pool] = core.get_pools(PoolQuery())
    assert pool.name == f"{BACKEND}#p0"
    assert core.get_pools(PoolQuery(name="elsewhere")) == []
    with pytest.raises(errors.InvalidInput, match="volume type 'gold' could not be found"):
        core.get_pools(PoolQuery(volume_type="gold"))
    message = CreateVolume(request_id="r", volume_id=str(uuid.uuid4()), size_gb=1, project_id="p")
    assert core.explain(message).pool == pool.name
    with ledger.reading() as session:
        assert session.connection().exec_driver_sql("SELECT COUNT(*) FROM volumes").scalar() == 0
