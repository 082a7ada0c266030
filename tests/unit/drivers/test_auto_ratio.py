# SPDX-License-Identifier: Apache-2.0
"""The ratio ``auto``, and a driver from elsewhere that has an option of its own for that: from conf to get_pools."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from oslo_config import cfg

from tests.unit.drivers import configured
from tests.unit.scheduler import world
from tests.unit.scheduler.driven import Site
from tonnage.capacity import errors
from tonnage.drivers import loader
from tonnage.drivers.memory.driver import MemoryDriver
from tonnage.rpc.messages import PoolQuery
from tonnage.scheduler.simulation import pool_views


class ArrayDriver(MemoryDriver):
    """One that has its array say what ratio to go by, twice what it saves by compression, if told to."""

    options: ClassVar[Sequence[cfg.Opt]] = (
        *MemoryDriver.options,
        cfg.BoolOpt("array_automatic_ratio", default=False),
    )
    auto_ratio_option = "array_automatic_ratio"

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Report the array's own ratio where that is asked for."""
        pools = [dict(pool) for pool in super().report()]
        for pool in pools:
            if self.conf.pools[pool["pool_name"]].has_own_ratio:
                pool["max_over_subscription_ratio"] = 2 * 3.5
        return pools


class CleverDriver(ArrayDriver):
    """One that can also do with a ratio that others work out."""

    supports_auto_ratio = True


def driver(kind: type[MemoryDriver], folder: Path, *lines: str) -> MemoryDriver:
    text = ["[DEFAULT]", *lines[:1], "[array]", "memory_provisioning = thin", "memory_pool_size_gb = 40", *lines[1:]]
    built = loader.build(kind, world.BACKEND, "array", configured.conf(folder, "\n".join(text)))
    assert isinstance(built, MemoryDriver)
    return built


def shown(site: Site, pool: str = "pool1") -> tuple[float, str, str | None]:
    """Return the ratio that get_pools shows, where it comes from and how it was worked out."""
    picture = pool_views.picture(site.hosts, site.now, {})
    [found] = pool_views.asked_for(picture, PoolQuery(name=f"{world.BACKEND}#{pool}"), None)
    capabilities = found.capabilities
    inputs = capabilities.get("max_over_subscription_ratio_inputs", {})
    return (
        capabilities["max_over_subscription_ratio"],
        capabilities["max_over_subscription_ratio_source"],
        inputs.get("formula"),
    )


AUTO = "max_over_subscription_ratio = auto"
OWN = "array_automatic_ratio = true"


def test_auto_is_worked_out_at_each_report(tmp_path: Path) -> None:
    site = Site(driver(CleverDriver, tmp_path, "", AUTO))
    assert shown(site) == (20.0, "auto", "20 while nothing is provisioned")
    site.made(6)
    assert shown(site) == (7.0, "auto", "1 + 6 / (40 - 40 + 1)")
    site.made(3)
    assert shown(site) == (10.0, "auto", "1 + 9 / (40 - 40 + 1)")


def test_auto_by_default(tmp_path: Path) -> None:
    """The scheduler's, which the agent sees if they share a file."""
    for kind, more in ((CleverDriver, ""), (ArrayDriver, "max_over_subscription_ratio = 3"), (ArrayDriver, OWN)):
        driver(kind, tmp_path, AUTO, more)
    site = Site(driver(CleverDriver, tmp_path, AUTO))
    site.hosts.go_by("auto", site.calculation, 0)
    site.made(6)
    assert shown(site) == (7.0, "default", "1 + 6 / (40 - 40 + 1)")


def test_where_no_provisioned_capacity_is_reported_allocated_stands_in(tmp_path: Path) -> None:
    site = Site(driver(CleverDriver, tmp_path, "", AUTO), lambda report: report[0].pop("provisioned_capacity_gb"))
    site.made(6)
    # By the report after the one that the claim was in flight at.
    site.report()
    assert shown(site) == (7.0, "auto", "1 + 6 / (40 - 40 + 1)")


def test_where_total_is_unknown(tmp_path: Path) -> None:
    site = Site(driver(CleverDriver, tmp_path, "", AUTO), lambda report: report[0].update(total_capacity_gb="unknown"))
    assert shown(site) == (20.0, "auto", "20 where total or free is unknown or infinite")


@pytest.mark.parametrize("kind", [ArrayDriver, CleverDriver])
def test_the_drivers_own_option_takes_precedence(tmp_path: Path, kind: type[MemoryDriver]) -> None:
    for general in ("", AUTO, "max_over_subscription_ratio = 3"):
        assert shown(Site(driver(kind, tmp_path, "", general, OWN))) == (7.0, "reported", None)


def test_it_may_be_for_one_pool(tmp_path: Path) -> None:
    class ByPool(ArrayDriver):
        def __init__(self, backend: str, conf: Any) -> None:
            super().__init__(backend, conf)
            for section in conf.pools.values():
                section.register([cfg.BoolOpt("array_automatic_ratio")])

    lines = ("memory_pools = a, b", "max_over_subscription_ratio = 3", "[array:a]", OWN, AUTO)
    site = Site(driver(ByPool, tmp_path, "", *lines))
    assert shown(site, "a") == (7.0, "reported", None)
    assert shown(site, "b") == (3.0, "reported", None)


@pytest.mark.parametrize("lines", [("", AUTO), (AUTO,)])
def test_what_cannot_do_with_auto_does_not_start(tmp_path: Path, lines: tuple[str, ...]) -> None:
    with pytest.raises(errors.ConfigurationError) as caught:
        driver(ArrayDriver, tmp_path, *lines)
    section = "array" if len(lines) == 2 else "DEFAULT"
    assert str(caught.value) == (
        f"[{section}] max_over_subscription_ratio = auto: driver ArrayDriver of [array] does not support it; "
        "set a number of at least 1 in [array], or array_automatic_ratio = true"
    )
