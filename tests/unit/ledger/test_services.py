# SPDX-License-Identifier: Apache-2.0
import pathlib

import sqlalchemy as sa

from tonnage.ledger import database
from tonnage.ledger import schema
from tonnage.ledger import services


def test_the_versions_of_schedulers_that_are_there(tmp_path: pathlib.Path) -> None:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    schema.sync(engine)
    ledger = database.Database(engine)
    with ledger.reading() as session:
        assert services.rpc_versions(session, 60) == []
    for host in ("old", "new", "gone", "other"):
        binary = services.AGENT if host == "other" else services.SCHEDULER
        ledger.run(services.heartbeat, services.Myself(binary=binary, host=host))
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE services SET rpc_version = '1.0'"))
        connection.execute(sa.text("UPDATE services SET rpc_version = '1.1' WHERE host = 'new'"))
        connection.execute(sa.text("UPDATE services SET last_seen_at = '2020-01-01 00:00:00' WHERE host = 'gone'"))
    with ledger.reading() as session:
        assert sorted(services.rpc_versions(session, 60)) == ["1.0", "1.1"]
    ledger.close()
