# SPDX-License-Identifier: Apache-2.0
import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity.pools.pool_table import Pool
from tonnage.capacity.request import Request
from tonnage.filters.chain import FilterChain
from tonnage.filters.driver import DriverFilter
from tonnage.rpc.messages import BackendReport
from tonnage.scheduler.configuration.unread_fields import UnreadFields
from tonnage.weighers.base import PoolWeigher
from tonnage.weighers.chain import WeigherChain
from tonnage.weighers.goodness import GoodnessWeigher

NEITHER = FilterChain([]), WeigherChain([])


class OwnFilter(DriverFilter):
    """One of somebody else, which does the same and more."""


@pytest.fixture
def world() -> World:
    return World({name: StoragePool(20, 2.0, thin=True, thick=False) for name in ("p0", "p1")}).started()


def report(world: World, **says: Any) -> None:
    look: BackendReport = world.agent.look()
    first, *others = look.pools
    world.deliver(
        BackendReport(
            backend=BACKEND, epoch=look.epoch, seq=look.seq, covers=look.covers, pools=[{**first, **says}, *others]
        )
    )


def test_an_unread_function_is_logged_once_with_the_way_to_enable_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    unread = UnreadFields(world.hosts)
    unread.warn(*NEITHER)
    report(world, filter_function="volume.size < 5", goodness_function="50")
    caplog.clear()
    for _ in range(3):
        unread.warn(*NEITHER)
    assert [record.getMessage() for record in caplog.records] == [
        f"filter_function has no effect on backend {BACKEND}: DriverFilter is not among scheduler_default_filters; add "
        "it there, or remove filter_function from the backend's configuration",
        f"goodness_function has no effect on backend {BACKEND}: GoodnessWeigher is not among "
        "scheduler_default_weighers; add it there, or remove goodness_function from the backend's configuration",
    ]
    report(world)
    unread.warn(*NEITHER)
    report(world, filter_function="volume.size < 6")
    unread.warn(*NEITHER)
    assert len(caplog.records) == 3, "it is back"


@pytest.mark.parametrize("plugin", [DriverFilter, OwnFilter])
def test_functions_that_are_read_are_not_worth_a_word(
    world: World, plugin: type[DriverFilter], caplog: pytest.LogCaptureFixture
) -> None:
    report(world, filter_function="volume.size < 5", goodness_function="50")
    caplog.clear()
    weigher = GoodnessWeigher(SimpleNamespace(goodness_weight_multiplier=1.0))
    UnreadFields(world.hosts).warn(FilterChain([plugin(SimpleNamespace())]), WeigherChain([weigher]))
    assert caplog.records == []


@pytest.mark.parametrize(
    ("field", "value", "option", "reader"),
    [
        ("min_free_capacity_percentage", 50, "min_free_capacity_percentage", "FreeSpaceFilter"),
        ("min_free_capacity_extend_percentage", 50, "min_free_capacity_extend_percentage", "FreeSpaceFilter"),
        ("node_name", "n1", "node_name", "TopologyFilter"),
        ("topology_labels", {"zone": "z1"}, "topology_labels", "TopologyFilter"),
        ("storage_class", "gold", "storage_classes", "StorageClassFilter"),
    ],
)
def test_a_rule_without_its_filter_is_logged(
    world: World, field: str, value: Any, option: str, reader: str, caplog: pytest.LogCaptureFixture
) -> None:
    report(world, **{field: value})
    caplog.clear()
    UnreadFields(world.hosts).warn(*NEITHER)
    [record] = caplog.records
    assert record.getMessage() == (
        f"{option} has no effect on backend {BACKEND}: {reader} is not among scheduler_default_filters; add it there, "
        f"or remove {option} from the backend's configuration"
    )


def test_a_plugin_of_another_package_declares_what_it_reads(world: World, caplog: pytest.LogCaptureFixture) -> None:
    class NodeWeigher(PoolWeigher):
        reads = ("node_name",)

        def weigh_pool(self, pool: Pool, request: Request) -> float:
            return 0.0

    report(world, node_name="n1", storage_class="gold")
    caplog.clear()
    UnreadFields(world.hosts).warn(FilterChain([]), WeigherChain([NodeWeigher(SimpleNamespace())]))
    assert [record.getMessage().partition(" ")[0] for record in caplog.records] == ["storage_classes"]


def backend(name: str, *, reported_here: bool) -> SimpleNamespace:
    rules = {"p": frozenset({"filter_function"})}
    return SimpleNamespace(name=name, rules=rules, reported_here=reported_here, reported_at=None)


def test_a_report_from_before_the_start_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The field may have been removed from the configuration before all processes restarted."""
    old = backend("h@b", reported_here=False)
    unread = UnreadFields(SimpleNamespace(backends=lambda: [old]))  # type: ignore[arg-type]
    unread.warn(*NEITHER)
    assert caplog.records == []
    old.reported_at = datetime.datetime.now(datetime.UTC)  # to another scheduler
    unread.warn(*NEITHER)
    assert len(caplog.records) == 1


def test_many_backends_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    backends = [backend(f"h@b{n}", reported_here=True) for n in range(9)]
    UnreadFields(SimpleNamespace(backends=lambda: backends)).warn(*NEITHER)  # type: ignore[arg-type]
    [record] = caplog.records
    assert "on backend h@b0, h@b1, h@b2, h@b3, h@b4 and 4 more: " in record.getMessage()
