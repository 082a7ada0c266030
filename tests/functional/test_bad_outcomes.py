# SPDX-License-Identifier: Apache-2.0
"""An unusable outcome or message of an agent does not stop others, on every database."""

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity.request import Provisioning
from tonnage.ledger.catalog import managed_volumes
from tonnage.ledger.claims import operation_outcomes
from tonnage.ledger.claims.settlement import EndedOperation, Settlement
from tonnage.ledger.db import database
from tonnage.rpc.messages import ManageVolume, Outcome
from tonnage.scheduler.requests.placement_requests import Retry


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[sa.Engine]:
    engine = database.create_engine(ledger_url)
    ledger_schema.create(engine)
    yield engine
    engine.dispose()


def test_an_absurd_size_puts_only_its_volume_in_error(ledger: sa.Engine) -> None:
    """A driver's manage() returns bytes instead of GiB."""
    pool = StoragePool(1000, 2.0, thin=True, thick=False)
    world = World({"p0": pool}, engine=ledger).started()
    pool.volumes["image"] = (2, Provisioning.THIN)
    volume = ManageVolume(
        request_id=world.request_id(),
        volume_id=str(uuid.uuid4()),
        pool=f"{BACKEND}#p0",
        reference="image",
        project_id="demo",
    )
    claim_id = world.database.run(managed_volumes.begin, volume)
    world.create(5)
    outcome = Outcome(
        backend=BACKEND,
        epoch=world.agent.epoch,
        claim_id=claim_id,
        ok=True,
        end_tick=world.agent.next_tick(),
        size_gb=2.0 * 2**30,
    )
    receipts = world.outcome_handler.outcomes([outcome, world.agent.work()])
    assert [receipt.accepted for receipt in receipts] == [True, True]
    assert sorted(world.rows("SELECT status FROM volumes")) == [("available",), ("error_managing",)]
    assert world.report_handler.reports([world.agent.look()]) == [None]


def test_long_error_messages_of_many_pools_are_stored(ledger: sa.Engine) -> None:
    pools = {f"p{number}": StoragePool(100, 2.0, thin=True, thick=False) for number in range(6)}
    world = World(pools, engine=ledger).started()
    world.outcome_handler._max_attempts = 6
    world.create(5)
    for _ in pools:
        outcome = replace(world.agent.work(fails=True, clean=True), message="\N{CJK UNIFIED IDEOGRAPH-5B58}" * 4000)
        world.deliver(outcome)
        world.place([Retry(volume_id) for volume_id in world.waiting])
        world.waiting.clear()
    assert world.rows("SELECT status FROM volumes") == [("error",)]


def test_any_text_of_an_error_is_stored(ledger: sa.Engine) -> None:
    world = World({"p0": StoragePool(100, 2.0, thin=True, thick=False)}, engine=ledger).started()
    cyrillic_and_emoji = "\N{CYRILLIC CAPITAL LETTER ZHE}\N{GRINNING FACE}"
    for text, stored in ((cyrillic_and_emoji, cyrillic_and_emoji), ("a\0b\udcff", "a?b?")):
        world.create(5)
        world.deliver(replace(world.agent.work(fails=True, clean=True), message=text))
        rows = world.rows("SELECT status_reason FROM volumes WHERE status = 'creating'")
        assert rows == [(f"{BACKEND}#p0: {stored}",)]
        world.settle()  # no other pool is left
    assert world.rows("SELECT DISTINCT status FROM volumes") == [("error",)]


def test_an_outcome_that_the_ledger_rejects_does_not_affect_others(
    ledger: sa.Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World({"p0": StoragePool(1000, 2.0, thin=True, thick=False)}, engine=ledger).started()
    for _ in range(5):
        world.create(5)
    outcomes = [world.agent.work() for _ in range(5)]
    confirm = operation_outcomes._created

    def created(work: Settlement, claim: object, volume: object, ending: EndedOperation) -> None:
        if ending.claim_id == outcomes[1].claim_id:
            raise ValueError("out of range")
        confirm(work, claim, volume, ending)  # type: ignore[arg-type]

    monkeypatch.setitem(operation_outcomes._APPLY, "create", created)
    receipts = world.outcome_handler.outcomes(outcomes)
    assert [type(receipt).__name__ for receipt in receipts] == [
        "Receipt",
        "ValueError",
        "Receipt",
        "Receipt",
        "Receipt",
    ]
    assert f"The outcome of claim {outcomes[1].claim_id} could not be taken in" in caplog.text
    assert world.report_handler.reports([world.agent.look()]) == [None]
    assert world.rows("SELECT COUNT(*) FROM volumes WHERE status = 'available'") == [(4,)]
