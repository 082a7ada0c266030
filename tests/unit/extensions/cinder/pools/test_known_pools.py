# SPDX-License-Identifier: Apache-2.0
"""The pools that may be chosen, as Cinder's plug-ins see them."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.ledger.observed import BACKEND, POOL, Ledger
from tonnage.extensions.cinder.pools.known_pools import KnownPools
from tonnage.extensions.cinder.pools.ledger_pools import LedgerPools

OTHER = f"{BACKEND}#b"
THIRD = f"{BACKEND}#c"

_MISSING = (
    *("cluster_name", "volume_backend_name", "vendor_name", "driver_version", "storage_protocol", "QoS_support"),
    *("multiattach", "filter_function", "goodness_function", "updated"),
)


def reported(*names: str, **more: Any) -> dict[str, Any]:
    """Return pools as Cinder's scheduler knows them."""
    attributes = dict.fromkeys(_MISSING)
    attributes |= {"capabilities": {"media": "ssd"}, "service": {"availability_zone": "nova"}, **more}
    return {
        name: SimpleNamespace(host=name, backend_id=name, pool_name=name.partition("#")[2], **attributes)
        for name in names
    }


class Site:
    """A ledger with two pools, and the pools of Cinder's scheduler."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.ledger.probe_and_report(1, pools=(POOL, OTHER))
        self.of_ledger = LedgerPools(self.ledger.database)
        self.of_ledger.refresh()
        self.known = KnownPools(self.of_ledger)

    def report(self, *names: str, **more: Any) -> None:
        """Let Cinder's scheduler know these pools, all with a new report."""
        self.known.set_reported(reported(*names, **more), names)

    def states(self) -> dict[str, Any]:
        """Return the pools by name."""
        return {state.backend_id: state for state in self.known.present()[1]}


@pytest.fixture
def site() -> Site:
    found = Site()
    found.report(OTHER, POOL)
    return found


def test_pools_are_in_the_order_of_cinder_with_the_figures_of_the_ledger(site: Site) -> None:
    assert list(site.states()) == [OTHER, POOL]
    site.ledger.send(3)
    site.of_ledger.refresh()
    state = site.states()[POOL]
    assert (state.provisioned_capacity_gb, state.allocated_capacity_gb) == (3, 3)
    assert (state.max_over_subscription_ratio, state.capabilities) == (1.0, {"media": "ssd"})


def test_a_pool_that_only_one_of_them_knows_is_left_out(site: Site) -> None:
    site.report(THIRD, POOL)
    assert list(site.states()) == [POOL]
    site.ledger.probe_and_report(pools=(POOL, OTHER, THIRD))
    site.of_ledger.refresh()
    assert list(site.states()) == [THIRD, POOL]


def test_a_look_alike_is_kept_until_its_row_or_its_report_changes(site: Site) -> None:
    before = site.states()
    assert site.states()[POOL] is before[POOL]
    site.ledger.send(3)
    site.of_ledger.refresh()
    changed = site.states()
    assert changed[POOL] is not before[POOL]
    assert changed[OTHER] is before[OTHER]
    site.known.set_reported(reported(OTHER, POOL, capabilities={"media": "hdd"}), [OTHER])
    after = site.states()
    assert after[OTHER].capabilities == {"media": "hdd"}
    assert after[POOL] is changed[POOL]


def test_a_decision_keeps_its_pools_while_they_change(site: Site) -> None:
    _, states = site.known.present()
    seen = list(states)
    site.ledger.send(3)
    site.of_ledger.refresh()
    site.known.present()
    site.report(POOL)
    assert list(site.states()) == [POOL]
    assert list(states) == seen


def test_a_pool_comes_back_with_its_present_figures(site: Site) -> None:
    site.report(POOL)
    assert list(site.states()) == [POOL]
    site.ledger.probe_and_report(pools=(POOL, OTHER), free=7)
    site.of_ledger.refresh()
    site.report(POOL, OTHER)
    assert list(site.states()) == [POOL, OTHER]


def test_thick_volumes_in_flight_are_less_free() -> None:
    ledger = Ledger(thick=True)
    ledger.probe_and_report(pools=(POOL,))
    pools = LedgerPools(ledger.database)
    ledger.send(4)
    pools.refresh()
    known = KnownPools(pools)
    known.set_reported(reported(POOL), [POOL])
    [state] = known.present()[1]
    assert (state.free_capacity_gb, state.row.counters.in_flight_physical) == (-4, 4)


def test_a_look_alike_consumes_nothing(site: Site) -> None:
    state = site.states()[POOL]
    state.consume_from_volume({"size": 5})
    assert state.allocated_capacity_gb == 0
    assert repr(state) == f"pool '{POOL}'"


def test_functions_of_figures_follow_the_pools_that_change(site: Site) -> None:
    def provisioned(state: Any) -> float:
        return float(state.provisioned_capacity_gb)

    _, before = site.known.present()
    assert before.columns.computed(provisioned).tolist() == [0, 0]
    site.ledger.send(3)
    site.of_ledger.refresh()
    site.known.present()
    assert before.columns.computed(provisioned).tolist() == [0, 3]


def test_traits_follow_the_reports(site: Site) -> None:
    _, pools = site.known.present()
    assert pools.columns.in_zone("nova").tolist() == [True, True]
    site.report(OTHER, POOL, service={"availability_zone": "az1"}, capabilities={"media": "hdd"})
    _, pools = site.known.present()
    codes, values = pools.columns.capability("media")
    assert [values[code] for code in codes] == ["hdd", "hdd"]
    assert pools.columns.in_zone("az1").tolist() == [True, True]
