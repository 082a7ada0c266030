# SPDX-License-Identifier: Apache-2.0
"""Loading filters and weighers by the names in the configuration, from this package and from others."""

import sys
import textwrap
import uuid
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from oslo_config import cfg
from stevedore import extension

from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.request import Request
from tonnage.scheduler.configuration import plugins

Install = Callable[[str, str], str]
Configure = Callable[[str], cfg.ConfigOpts]

FILTER = """
    from oslo_config import cfg
    from tonnage.filters.base import PoolFilter

    class SmallPools(PoolFilter):
        options = [cfg.FloatOpt("largest_pool", default=100.0)]
        options_group = "small_pools"

        def accepts_pool(self, pool, request):
            return pool.total <= self.conf.largest_pool
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a module with these entry points as a package of its own, and return the module's name."""

    def install(source: str, entry_points: str) -> str:
        module = f"plugin_{uuid.uuid4().hex}"
        folder = tmp_path / module
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="utf-8")
        points = textwrap.dedent(entry_points).replace("MODULE", module)
        (info / "entry_points.txt").write_text(points, encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        # As in a new process: stevedore keeps the entry points that it has found.
        monkeypatch.setattr(extension.ExtensionManager, "ENTRY_POINT_CACHE", {})
        return module

    return install


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """Return the configuration that a file with this text gives."""

    def configure(text: str) -> cfg.ConfigOpts:
        path = tmp_path / "tonnage.conf"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        conf = cfg.ConfigOpts()
        conf(["--config-file", str(path)], project="tonnage")
        return conf

    return configure


def test_defaults(configure: Configure) -> None:
    conf = configure("")
    filters, weighers = plugins.load_filters(conf), plugins.load_weighers(conf)
    assert [plugin.name for plugin in filters.filters] == [
        "AvailabilityZoneFilter",
        "CapacityFilter",
        "CapabilitiesFilter",
        "SameBackendFilter",
        "DifferentBackendFilter",
    ]
    assert [plugin.name for plugin in weighers.weighers] == ["CapacityWeigher"]
    assert conf.over_provisioning_calculation == "cinder"


def test_named_plugins_in_their_order_with_their_values(configure: Configure) -> None:
    conf = configure("""
        [DEFAULT]
        scheduler_default_filters = CapabilitiesFilter, CapacityFilter, CapabilitiesFilter
        scheduler_default_weighers = CapacityWeigher,AllocatedCapacityWeigher
        capacity_weight_multiplier = 2.5
        over_provisioning_calculation = standard
    """)
    filters = plugins.load_filters(conf).filters
    assert [plugin.name for plugin in filters] == ["CapabilitiesFilter", "CapacityFilter"]
    assert filters[1].conf.over_provisioning_calculation is Calculation.STANDARD
    weighers = plugins.load_weighers(conf).weighers
    assert [(plugin.name, plugin.multiplier) for plugin in weighers] == [
        ("CapacityWeigher", 2.5),
        ("AllocatedCapacityWeigher", -1.0),
    ]


def test_all_that_the_package_has_can_be_enabled_together(configure: Configure) -> None:
    names = {
        group: sorted(point.name for point in metadata.distribution("tonnage").entry_points if point.group == group)
        for group in (plugins.FILTERS.namespace, plugins.WEIGHERS.namespace)
    }
    conf = configure(f"""
        [DEFAULT]
        scheduler_default_filters = {",".join(names[plugins.FILTERS.namespace])}
        scheduler_default_weighers = {",".join(names[plugins.WEIGHERS.namespace])}
    """)
    filters, weighers = plugins.load_filters(conf), plugins.load_weighers(conf)
    assert [plugin.name for plugin in filters.filters] == names[plugins.FILTERS.namespace]
    assert [plugin.name for plugin in weighers.weighers] == names[plugins.WEIGHERS.namespace]
    pools, request = PoolTable([Pool(name="h@b#1", total=10.0, free=10.0)]), Request("r", 1)
    result = filters.run(pools, request)
    assert result.failures == {}
    assert weighers.rank(pools, request, result.remaining) == 0


def test_pools_are_chosen_in_order_unless_told(configure: Configure) -> None:
    pools = PoolTable(Pool(name=f"h@b#{i}", total=100.0, free=free) for i, free in enumerate((60.0, 40.0)))
    cinder = "cinder.scheduler.weights.stochastic.StochasticHostWeightHandler"
    chosen = {}
    for handler in ("OrderedHostWeightHandler", cinder):
        weighers = plugins.load_weighers(configure(f"[DEFAULT]\nscheduler_weight_handler = {handler}"))
        chosen[handler] = {weighers.rank(pools, Request(f"r{i}", 1), pools.up) for i in range(50)}
    assert chosen == {"OrderedHostWeightHandler": {0}, cinder: {0, 1}}


def test_an_unknown_weight_handler(configure: Configure) -> None:
    with pytest.raises(errors.ConfigurationError, match="scheduler_weight_handler names 'Lottery', which is unknown"):
        plugins.load_weighers(configure("[DEFAULT]\nscheduler_weight_handler = Lottery"))


def test_without_capacity_filter_a_full_pool_is_refused_as_the_ledger_would(configure: Configure) -> None:
    conf = configure("[DEFAULT]\nscheduler_default_filters =\nover_provisioning_calculation = standard")
    chain = plugins.load_filters(conf)
    pools, request = PoolTable([Pool(name="h@b#full", total=10.0, free=4.0, reserved_percentage=10.0)]), Request("r", 4)
    result = chain.run(pools, request)
    refusal = chain.refusal(pools, request, result)
    assert refusal.message == (
        "No pool for 4 GiB: 1 pool; LedgerFilter refused 1, nearest h@b#full has headroom 3.00 GiB (total 10, free 4, "
        "in flight 0, reserved 10 %, thick); the ledger keeps every pool within its limits, also where "
        "scheduler_default_filters does not name CapacityFilter"
    )
    assert chain.explain(pools, request, result)[0].filter == "LedgerFilter"
    assert plugins.load_filters(conf).with_calculation(Calculation.CINDER).filters[0].name == "LedgerFilter"


def test_none_at_all(configure: Configure) -> None:
    conf = configure("[DEFAULT]\nscheduler_default_filters =\nscheduler_default_weighers =")
    assert [each.name for each in plugins.load_filters(conf).filters] == ["LedgerFilter"]
    assert plugins.load_weighers(conf).weighers == ()


def test_a_filter_of_another_package(configure: Configure, install: Install) -> None:
    install(FILTER, "[tonnage.filters]\nOnlySmall = MODULE:SmallPools\n")
    conf = configure("[DEFAULT]\nscheduler_default_filters = OnlySmall\n[small_pools]\nlargest_pool = 50")
    chain = plugins.load_filters(conf)
    pools = PoolTable(Pool(name=f"h@b#{total}", total=float(total), free=1.0) for total in (10, 50, 51))
    result = chain.run(pools, Request("r", 1))
    assert result.remaining.tolist() == [True, True, False]
    assert chain.explain(pools, Request("r", 1), result)[2].filter == "OnlySmall"


def test_a_weigher_of_another_package(configure: Configure, install: Install) -> None:
    source = """
        from tonnage.weighers.base import PoolWeigher

        class SmallFirst(PoolWeigher):
            def weigh_pool(self, pool, request):
                return -pool.total
    """
    install(source, "[tonnage.weighers]\nSmallFirst = MODULE:SmallFirst\n")
    chain = plugins.load_weighers(configure("[DEFAULT]\nscheduler_default_weighers = SmallFirst"))
    pools = PoolTable(Pool(name=f"h@b#{total}", total=float(total), free=1.0) for total in (30, 10, 20))
    assert chain.order(pools, Request("r", 1), pools.up).tolist() == [1, 2, 0]


def test_an_unknown_name_is_answered_with_the_known_ones(configure: Configure) -> None:
    with pytest.raises(errors.ConfigurationError) as caught:
        plugins.load_filters(configure("[DEFAULT]\nscheduler_default_filters = CapacityFilter,CapacityFliter"))
    assert caught.value.message == (
        "scheduler_default_filters names 'CapacityFliter', which is not installed; "
        "known are AvailabilityZoneFilter, CapabilitiesFilter, CapacityFilter, DifferentBackendFilter, DriverFilter, "
        "FreeSpaceFilter, InstanceLocalityFilter, JsonFilter, RetryFilter, SameBackendFilter, StorageClassFilter, "
        "TopologyFilter; did you mean CapacityFilter?"
    )
    with pytest.raises(errors.ConfigurationError, match=r"scheduler_default_weighers names 'X', .* known are Alloc"):
        plugins.load_weighers(configure("[DEFAULT]\nscheduler_default_weighers = X"))


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import a_module_that_is_not_there", "ModuleNotFoundError: No module named 'a_module_that_is_not_there'"),
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("Broken = 5", "it is not a subclass of tonnage.filters.base.Filter"),
        ("class Broken: pass", "it is not a subclass of tonnage.filters.base.Filter"),
        ("from tonnage.weighers.capacity import CapacityWeigher as Broken", "it is not a subclass of"),
        ("from tonnage.filters.base import PoolFilter as Broken", "TypeError: Can't instantiate abstract class"),
        (
            """
            from oslo_config import cfg
            from tonnage.filters.capacity import CapacityFilter
            class Broken(CapacityFilter):
                options = [cfg.IntOpt("over_provisioning_calculation")]
            """,
            "DuplicateOptError: duplicate option: over_provisioning_calculation",
        ),
        ("", "AttributeError: module"),
        ('import sys; sys.exit("no licence")', "SystemExit: no licence"),
        ('assert False, "wants Python 4"', "AssertionError: wants Python 4"),
        (
            """
            from tonnage.filters.capacity import CapacityFilter
            class Broken(CapacityFilter):
                def __init__(self, conf):
                    raise SystemExit("no licence")
            """,
            "SystemExit: no licence",
        ),
        (
            """
            from tonnage.filters.capacity import CapacityFilter
            class Broken(CapacityFilter):
                name = property(lambda self: "mine")
            """,
            "AttributeError: property 'name'",
        ),
    ],
)
def test_a_broken_plugin_is_named_with_the_cause(
    source: str, cause: str, configure: Configure, install: Install
) -> None:
    install(source, "[tonnage.filters]\nBroken = MODULE:Broken\n")
    with pytest.raises(errors.ConfigurationError) as caught:
        plugins.load_filters(configure("[DEFAULT]\nscheduler_default_filters = CapacityFilter,Broken"))
    assert caught.value.message.startswith("scheduler_default_filters names 'Broken', which cannot be loaded: ")
    assert cause in caught.value.message
    assert "known are AvailabilityZoneFilter, CapabilitiesFilter, CapacityFilter" in caught.value.message


def test_a_broken_plugin_that_is_not_enabled_does_no_harm(configure: Configure, install: Install) -> None:
    module = install("raise RuntimeError", "[tonnage.filters]\nBroken = MODULE:Broken\n")
    assert all(plugin.name != "Broken" for plugin in plugins.load_filters(configure("")).filters)
    assert module not in sys.modules


def test_two_packages_with_one_name(configure: Configure, install: Install) -> None:
    install(FILTER, "[tonnage.filters]\nCapacityFilter = MODULE:SmallPools\n")
    with pytest.raises(errors.ConfigurationError, match="several installed packages provide one of that name"):
        plugins.load_filters(configure(""))


def test_a_wrong_value_of_a_plugins_option(configure: Configure, install: Install) -> None:
    install(FILTER, "[tonnage.filters]\nOnlySmall = MODULE:SmallPools\n")
    conf = configure("[DEFAULT]\nscheduler_default_filters = OnlySmall\n[small_pools]\nlargest_pool = huge")
    with pytest.raises(
        errors.ConfigurationError, match=r"^\[small_pools\] largest_pool = huge in \S+: it takes a number$"
    ):
        plugins.load_filters(conf)


def test_a_wrong_calculation(configure: Configure) -> None:
    with pytest.raises(
        errors.ConfigurationError,
        match=r"^\[DEFAULT\] over_provisioning_calculation = exact in \S+: it takes cinder or standard$",
    ):
        plugins.load_filters(configure("[DEFAULT]\nover_provisioning_calculation = exact"))


@pytest.mark.parametrize("multiplier", ["nan", "inf", "-inf", "1e+200"])
def test_a_multiplier_is_finite(multiplier: str, configure: Configure) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"CapacityWeigher: its weight multiplier is -?(inf|nan|1e)"):
        plugins.load_weighers(configure(f"[DEFAULT]\ncapacity_weight_multiplier = {multiplier}"))


def test_a_multiplier_that_cannot_be_read(configure: Configure, install: Install) -> None:
    source = """
        from tonnage.weighers.capacity import CapacityWeigher

        class Nameless(CapacityWeigher):
            multiplier = property(lambda self: self.conf.no_such_option)
    """
    install(source, "[tonnage.weighers]\nNameless = MODULE:Nameless\n")
    with pytest.raises(errors.ConfigurationError, match="Nameless: its weight multiplier cannot be read: AttributeErr"):
        plugins.load_weighers(configure("[DEFAULT]\nscheduler_default_weighers = Nameless"))


def test_the_sample_configuration_lists_the_options_of_every_plugin(install: Install) -> None:
    install(FILTER, "[tonnage.filters]\nOnlySmall = MODULE:SmallPools\n")
    listed = {group: [option.name for option in options] for group, options in plugins.list_opts()}
    assert listed == {
        None: [
            "over_provisioning_calculation",
            "scheduler_default_filters",
            "scheduler_default_weighers",
            "scheduler_weight_handler",
            "min_free_capacity_percentage",
            "min_free_capacity_extend_percentage",
            "allocated_capacity_weight_multiplier",
            "capacity_weight_multiplier",
            "headroom_weight_multiplier",
            "volume_number_multiplier",
        ],
        "small_pools": ["largest_pool"],
    }


def test_options_of_plugins_can_change(configure: Configure, install: Install) -> None:
    source = """
        from oslo_config import cfg
        from tonnage.weighers.capacity import CapacityWeigher

        class Often(CapacityWeigher):
            options = [cfg.FloatOpt("often", default=1.0)]
            multiplier = property(lambda self: self.conf.often)
    """
    install(source, "[tonnage.weighers]\nOften = MODULE:Often\n")
    text = "[DEFAULT]\nscheduler_default_weighers = Often\noften = {}\n"
    conf = configure(text.format(2))
    assert [each.multiplier for each in plugins.load_weighers(conf).weighers] == [2.0]
    configure(text.format(3))
    assert {option for _, option in conf.mutate_config_files()} == {"often"}
    assert [each.multiplier for each in plugins.load_weighers(conf).weighers] == [3.0]
