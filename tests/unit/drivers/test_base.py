# SPDX-License-Identifier: Apache-2.0
"""The ratio ``auto``, and the ratio option of an external driver: from the configuration to get_pools."""

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
    """A driver whose array computes its ratio, if its own option is true."""

    options: ClassVar[Sequence[cfg.Opt]] = (
        *MemoryDriver.options,
        cfg.BoolOpt("array_automatic_ratio", default=False),
    )
    auto_ratio_option = "array_automatic_ratio"

    def report(self) -> Sequence[Mapping[str, Any]]:
        """Report the array's own ratio if its option is true."""
        pools = [dict(pool) for pool in super().report()]
        for pool in pools:
            if self.conf.pools[pool["pool_name"]].has_own_ratio:
                pool["max_over_subscription_ratio"] = 2 * 3.5
        return pools


class AutoRatioDriver(ArrayDriver):
    """A driver that supports both its own ratio and the ratio ``auto``."""

    supports_auto_ratio = True


def driver(kind: type[MemoryDriver], folder: Path, *lines: str) -> MemoryDriver:
    text = ["[DEFAULT]", *lines[:1], "[array]", "memory_provisioning = thin", "memory_pool_size_gb = 40", *lines[1:]]
    built = loader.build(kind, world.BACKEND, "array", configured.conf(folder, "\n".join(text)))
    assert isinstance(built, MemoryDriver)
    return built


def shown(site: Site, pool: str = "pool1") -> tuple[float, str, str | None]:
    """Return the ratio in the answer of get_pools, its source and its formula."""
    picture = pool_views.take_snapshot(site.hosts, site.now, {})
    [found] = pool_views.selected(picture, PoolQuery(name=f"{world.BACKEND}#{pool}"), None)
    capabilities = found.capabilities
    inputs = capabilities.get("max_over_subscription_ratio_inputs", {})
    return (
        capabilities["max_over_subscription_ratio"],
        capabilities["max_over_subscription_ratio_source"],
        inputs.get("formula"),
    )


AUTO = "max_over_subscription_ratio = auto"
OWN = "array_automatic_ratio = true"


def test_auto_is_computed_at_each_report(tmp_path: Path) -> None:
    site = Site(driver(AutoRatioDriver, tmp_path, "", AUTO))
    assert shown(site) == (20.0, "auto", "20 while nothing is provisioned")
    site.made(6)
    assert shown(site) == (7.0, "auto", "1 + 6 / (40 - 40 + 1)")
    site.made(3)
    assert shown(site) == (10.0, "auto", "1 + 9 / (40 - 40 + 1)")


def test_auto_by_default(tmp_path: Path) -> None:
    """The default is an option of the scheduler, which the agent reads if both use one file."""
    for kind, more in ((AutoRatioDriver, ""), (ArrayDriver, "max_over_subscription_ratio = 3"), (ArrayDriver, OWN)):
        driver(kind, tmp_path, AUTO, more)
    site = Site(driver(AutoRatioDriver, tmp_path, AUTO))
    site.hosts.apply_rules("auto", site.calculation, 0)
    site.made(6)
    assert shown(site) == (7.0, "default", "1 + 6 / (40 - 40 + 1)")


def test_auto_uses_allocated_capacity_without_a_provisioned_one(tmp_path: Path) -> None:
    site = Site(driver(AutoRatioDriver, tmp_path, "", AUTO), lambda report: report[0].pop("provisioned_capacity_gb"))
    site.made(6)
    # The claim is in flight until the second report.
    site.report()
    assert shown(site) == (7.0, "auto", "1 + 6 / (40 - 40 + 1)")


def test_auto_is_20_for_an_unknown_total(tmp_path: Path) -> None:
    site = Site(
        driver(AutoRatioDriver, tmp_path, "", AUTO), lambda report: report[0].update(total_capacity_gb="unknown")
    )
    assert shown(site) == (20.0, "auto", "20 where total or free is unknown or infinite")


@pytest.mark.parametrize("kind", [ArrayDriver, AutoRatioDriver])
def test_the_drivers_own_option_takes_precedence(tmp_path: Path, kind: type[MemoryDriver]) -> None:
    for general in ("", AUTO, "max_over_subscription_ratio = 3"):
        assert shown(Site(driver(kind, tmp_path, "", general, OWN))) == (7.0, "reported", None)


def test_the_drivers_own_option_can_be_set_for_one_pool(tmp_path: Path) -> None:
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
def test_a_driver_without_support_for_auto_does_not_start(tmp_path: Path, lines: tuple[str, ...]) -> None:
    with pytest.raises(errors.ConfigurationError) as caught:
        driver(ArrayDriver, tmp_path, *lines)
    section = "array" if len(lines) == 2 else "DEFAULT"
    assert str(caught.value) == (
        f"[{section}] max_over_subscription_ratio = auto: driver ArrayDriver of [array] does not support it; "
        "set a number of at least 1 in [array], or array_automatic_ratio = true"
    )
