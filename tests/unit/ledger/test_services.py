# SPDX-License-Identifier: Apache-2.0
import pathlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tonnage.capacity import errors
from tonnage.ledger import database
from tonnage.ledger import schema
from tonnage.ledger import services


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    schema.sync(engine)
    ledger = database.Database(engine)
    yield ledger
    ledger.close()


def test_the_versions_of_schedulers_that_are_there(ledger: database.Database) -> None:
    with ledger.reading() as session:
        assert services.rpc_versions(session, 60) == []
    for host in ("old", "new", "gone", "other"):
        binary = services.AGENT if host == "other" else services.SCHEDULER
        ledger.run(services.heartbeat, services.Myself(binary=binary, host=host))
    with ledger.engine.begin() as connection:
        connection.execute(sa.text("UPDATE services SET rpc_version = '1.0'"))
        connection.execute(sa.text("UPDATE services SET rpc_version = '1.1' WHERE host = 'new'"))
        connection.execute(sa.text("UPDATE services SET last_seen_at = '2020-01-01 00:00:00' WHERE host = 'gone'"))
    with ledger.reading() as session:
        assert sorted(services.rpc_versions(session, 60)) == ["1.0", "1.1"]


def test_schedulers_that_are_up_have_to_agree(ledger: database.Database) -> None:
    def me(host: str, ratio: str = "20.0", calculation: str = "cinder") -> services.Myself:
        return services.Myself(
            binary=services.SCHEDULER, host=host, default_ratio=ratio, calculation=calculation, rpc_version="1.1"
        )

    ledger.run(services.agree, me("one"), 60.0)
    ledger.run(services.heartbeat, me("one"))
    ledger.run(services.agree, me("two"), 60.0)
    for other, option in ((me("two", ratio="auto"), "ratio is auto"), (me("two", calculation="standard"), "standard")):
        with pytest.raises(errors.ConfigurationError, match=rf"{option} here and .* on scheduler one, which is up"):
            ledger.run(services.agree, other, 60.0)
    ledger.run(services.agree, me("one", ratio="auto"), 60.0)  # itself, started anew
    ledger.run(services.leave, services.SCHEDULER, "one")
    ledger.run(services.agree, me("two", ratio="auto"), 60.0)


def test_a_proposal_counts_once_all_that_are_up_say_the_same(ledger: database.Database) -> None:
    def me(host: str, ratio: str) -> services.Myself:
        return services.Myself(binary=services.SCHEDULER, host=host, default_ratio=ratio, calculation="cinder")

    for host in ("one", "two", "gone"):
        ledger.run(services.heartbeat, me(host, "20.0"))
    with ledger.engine.begin() as connection:
        connection.execute(sa.text("UPDATE services SET last_seen_at = '2020-01-01 00:00:00' WHERE host = 'gone'"))
    [difference] = ledger.run(services.propose, me("one", "5.0"), 60.0)
    assert str(difference) == "option max_over_subscription_ratio is 5.0 here and 20.0 on scheduler two, which is up"
    # Withdrawn, it is as if nothing had been said.
    assert ledger.run(services.propose, me("one", "5.0"), 60.0, me("one", "20.0")) == [difference]
    [difference] = ledger.run(services.propose, me("two", "5.0"), 60.0)
    assert difference.theirs == "20.0"
    # Agreed upon, nobody withdraws it.
    assert ledger.run(services.propose, me("one", "5.0"), 60.0, me("one", "20.0")) == []
    assert ledger.run(services.propose, me("two", "5.0"), 60.0, me("two", "20.0")) == []
    with ledger.reading() as session:
        said = {row.host: row.default_ratio for row in services.load(session)}
    assert said == {"one": "5.0", "two": "5.0", "gone": "20.0"}
