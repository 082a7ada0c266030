# SPDX-License-Identifier: Apache-2.0
"""From a configuration file to backends."""

import pathlib

import pytest
from oslo_config import cfg

from tests.unit.rpc import bus as memory_bus
from tonnage.agent import builder, options
from tonnage.agent.lock import BackendLock
from tonnage.capacity import errors
from tonnage.rpc import options as rpc_options
from tonnage.scheduler.configuration import options as scheduler_options


def configured(tmp_path: pathlib.Path, text: str) -> cfg.ConfigOpts:
    file = tmp_path / "tonnage.conf"
    file.write_text(f"[DEFAULT]\nhost = node1\nstate_path = {tmp_path}\n{text}")
    conf = cfg.ConfigOpts()
    options.register(conf)
    rpc_options.register(conf)
    conf(["--config-file", str(file)], project="tonnage")
    return conf


def test_each_enabled_backend_is_built_from_its_section(tmp_path: pathlib.Path) -> None:
    conf = configured(
        tmp_path,
        "enabled_backends = one, two\n"
        "backend_stats_polling_interval = 7\n"
        "listing_interval = 70\n"
        "[one]\nvolume_driver = memory\nbackend_availability_zone = az1\n"
        "[two]\nvolume_driver = memory\n",
    )
    with memory_bus.memory_transport() as bus:
        one, two = builder.build(conf, bus)
    assert (one.backend, two.backend) == ("node1@one", "node1@two")
    assert (one.settings.availability_zone, two.settings.availability_zone) == ("az1", "nova")
    assert one.settings.driver_name == "memory"
    assert one.settings.polling_interval == 7
    assert one.settings.listing_interval == 70
    assert one.settings.record_seconds == 600
    assert one.settings.lock_folder == f"{tmp_path}/locks"


def test_a_function_that_cannot_be_read_is_logged_at_the_start(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    conf = configured(
        tmp_path,
        "enabled_backends = one, two\n"
        "[one]\nvolume_driver = memory\nmemory_pools = gold, hdd\nfilter_function = volume.size <\n"
        "[one:gold]\ngoodness_function = 50 +\n"
        "[two]\nvolume_driver = memory\nfilter_function = volume.size < 5\n",
    )
    with memory_bus.memory_transport() as bus:
        builder.validate(conf)
        builder.build(conf, bus)
    assert [record.getMessage() for record in caplog.records] == [
        "[one] filter_function 'volume.size <' ends where something is missing; DriverFilter excludes the pool",
        "[one:gold] goodness_function '50 +' ends where something is missing; GoodnessWeigher counts the pool as poor",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"enabled_backends is empty; name at least one"),
        ("enabled_backends = a#b", r"enabled_backends: 'a#b' is no name"),
        ("enabled_backends = a, a\n[a]\nvolume_driver = memory", r"enabled_backends names 'a' twice"),
        ("enabled_backends = a", r"\[a\] sets no volume_driver"),
        (
            "enabled_backends = a\n[a]\nvolume_driver = tape",
            r"\[a\] volume_driver names 'tape', which is not installed",
        ),
        (
            "enabled_backends = a\n[a]\nvolume_driver = memory\nmax_over_subscription_ratio = 0.5",
            r"\[a\] max_over_subscription_ratio = 0\.5 in \S+/tonnage\.conf: .*0\.5",
        ),
        (
            "enabled_backends = a\n[a]\nvolume_driver = memory\nreserved_percentage = 200",
            r"\[a\] reserved_percentage = 200 in \S+/tonnage\.conf: it takes a whole number from 0 to 100$",
        ),
    ],
)
def test_what_cannot_work_is_named_before_anything_starts(tmp_path: pathlib.Path, text: str, message: str) -> None:
    conf = configured(tmp_path, text)
    with pytest.raises(errors.ConfigurationError, match=message):
        builder.validate(conf)


def test_a_backend_that_another_process_runs_is_found_out_and_not_disturbed(tmp_path: pathlib.Path) -> None:
    conf = configured(tmp_path, "enabled_backends = a\n[a]\nvolume_driver = memory\n")
    assert builder.validate(conf) == ["a"]
    lock = BackendLock(options.lock_folder(conf), "node1@a")
    lock.acquire()
    with pytest.raises(errors.ConfigurationError, match="node1@a is run by another process"):
        builder.validate(conf)
    lock.release()


def test_one_process_can_be_agent_and_scheduler() -> None:
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf.register_opts(scheduler_options.OPTIONS)  # raises if they define an option differently
