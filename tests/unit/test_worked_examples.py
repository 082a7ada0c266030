# SPDX-License-Identifier: Apache-2.0
"""The examples with figures in the docstrings of modules are true."""

import ast
import inspect
import re
import types
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import arithmetic
from tonnage.capacity.request import Provisioning
from tonnage.ledger.claims import bookings, settlement
from tonnage.rpc.messages import Answer
from tonnage.scheduler.cache import host_manager
from tonnage.scheduler.decisions import placer

GOLD = f"{BACKEND}#gold"


def blocks(module: types.ModuleType) -> list[str]:
    """Return the literal blocks of a module's docstring."""
    text = inspect.getdoc(module)
    assert text is not None
    return [inspect.cleandoc(block) for block in re.findall(r"::\n\n((?:(?: {4}.*)?\n)+)", f"{text}\n\n")]


@pytest.fixture
def world() -> World:
    """Return a world with the pool of the examples, in which 20 GiB are in flight."""
    volumes = {"thick": (520, Provisioning.THICK), "thin": (880, Provisioning.THIN)}
    gold = StoragePool(1000, 2.0, thin=True, thick=False, volumes=volumes, reserved=10)
    world = World({"gold": gold}).started()
    world.create(20)
    return world


def second_scheduler(world: World) -> World:
    """Return another scheduler on the same ledger and the same agent."""
    second = World(world.pools, engine=world.engine)
    second.agent = world.agent
    return second


def placed(answers: list[Answer | Exception]) -> list[bool]:
    """Return which of the requests got a pool."""
    return [isinstance(answer, Answer) and answer.refusal is None for answer in answers]


def test_the_row_of_a_reported_pool(world: World) -> None:
    report_text, row_text = blocks(host_manager)
    reported = ast.literal_eval(report_text)
    report = world.agent.look()
    assert set(reported) - {"disk"} <= set(report.pools[0])
    world.deliver(replace(report, pools=[reported]))
    pool = world.hosts.table.get(GOLD)
    assert pool is not None
    row = {name: float(ast.literal_eval(value)) for name, value in re.findall(r"(\w+)=(\w+)", row_text)}
    assert {name: float(getattr(pool, name)) for name in row} == row
    assert pool.capabilities["disk"] == "nvme"
    world.settle()
    pool = world.hosts.table.get(GOLD)
    assert pool is not None
    assert (pool.provisioned, pool.claimed) == (1420, 0)


@pytest.mark.parametrize(("taken", "matches"), [(0, True), (280, True), (281, False), (300, False)])
def test_the_update_of_a_booking(world: World, taken: int, matches: bool) -> None:
    """The statement of the example and the product's have the same effect, also at the limit."""
    [statement] = blocks(bookings)
    if taken:
        assert placed(second_scheduler(world).create(taken)) == [True]
    before = world.rows("SELECT id, generation, thin_limit_gb, physical_limit_gb, ratio FROM pools")
    assert before == [(1, 1, 2000, 380, 2)]
    with world.engine.connect() as connection:
        assert connection.execute(sa.text(statement)).rowcount == matches
        expected = connection.execute(sa.text("SELECT allocated_capacity_gb, in_flight_gb FROM pools")).all()
        connection.rollback()
    booking = bookings.Booking(
        id="claim",
        request_id="request",
        volume_id="volume",
        verb="create",
        pool_id=1,
        pool_name=GOLD,
        backend_id=1,
        generation=1,
        size_gb=300,
        physical_gb=0,
        target_size_gb=300,
        provisioning=Provisioning.THIN,
    )
    try:
        world.database.run(bookings.take, [booking], arithmetic.Calculation.CINDER, 0)
    except bookings.PoolsChanged:
        assert not matches
    assert world.rows("SELECT allocated_capacity_gb, in_flight_gb FROM pools") == expected


def test_a_batch_of_three(world: World) -> None:
    [table] = [block for block in blocks(placer) if block.startswith("request ")]
    rows = [re.fullmatch(r"(\d+) GiB +(\d+) +(\d+)   (placed|refused.*)", line) for line in table.splitlines()[1:]]
    sizes = [int(row[1]) for row in rows if row is not None]
    assert len(sizes) == 3
    in_flight, headrooms = 20, []
    for row in rows:
        assert row is not None
        world.hosts.table.set_figures([GOLD], {"claimed": [float(in_flight)]})
        headroom = arithmetic.headroom(world.hosts.table, np.array([True]), world.calculation)
        headrooms.append((in_flight, int(headroom[0])))
        in_flight += int(row[1]) if row[4] == "placed" else 0
    assert headrooms == [(int(row[2]), int(row[3])) for row in rows if row is not None]
    world.hosts.reset([GOLD])
    answers = world.create(*sizes)
    assert placed(answers) == [row[4] == "placed" for row in rows if row is not None]
    refused = answers[1]
    assert isinstance(refused, Answer)
    assert refused.refusal is not None
    assert "headroom 280.00 GiB" in refused.refusal.message
    assert world.rows("SELECT in_flight_gb FROM pools") == [(520,)]


def test_a_batch_of_three_after_another_scheduler_took_capacity(world: World) -> None:
    assert placed(second_scheduler(world).create(100)) == [True]
    assert placed(world.create(300, 300, 200)) == [True, False, False]


def test_the_four_ends_of_a_claim() -> None:
    [table] = blocks(settlement)
    ends = [{}, {"fails": True, "clean": True}, {"fails": True}, {"fails": True, "leaves": True}]
    for line, end in zip(table.splitlines()[1:], ends, strict=True):
        text = re.fullmatch(r"it .*?  +(\w+) +(\d+) +(\d+) +(\d+) +(\d+)", line)
        assert text is not None, line
        world = World({"gold": StoragePool(1000, 2.0, thin=True, thick=False)}).started()
        world.create(20)
        outcome = world.agent.work(**end)
        assert outcome is not None
        world.deliver(outcome)
        states = [state for (state,) in world.rows("SELECT state FROM claims")]
        assert states == ([] if text[1] == "deleted" else [text[1]])
        counters = "SELECT allocated_capacity_gb, in_flight_gb FROM pools"
        assert world.rows(counters) == [(int(text[2]), int(text[3]))]
        world.report()
        assert world.rows(counters) == [(int(text[4]), int(text[5]))]
        assert len(world.waiting) == (text[1] in ("deleted", "released"))
