# SPDX-License-Identifier: Apache-2.0
"""Tests of the detection of unknown options in configuration files."""

import pathlib

import pytest
from oslo_config import cfg
from oslo_log import log

from tonnage.agent import builder
from tonnage.agent import options as agent_options
from tonnage.cli import option_names, opts, unknown_options
from tonnage.ledger.db import options as database_options
from tonnage.rpc import options as rpc_options
from tonnage.scheduler.configuration import settings

ROOT = pathlib.Path(__file__).parents[3]

STANDALONE = """
[DEFAULT]
state_path = {folder}
enabled_backends = thin
osapi_volume_listen_port = 1
log-dir = /var/log
rpc_thread_pool_size = 3
claim_leese = 3
connection = sqlite://
[database]
conection = sqlite://
[databse]
connection = sqlite://
[default]
claim_lease = 3
[oslo_messaging_rabbit]
rabbit_qos_prefetch_count = 1
heartbeat_treshold = 0
[oslo_middleware]
max_request_body_size = 1
[of_another_program]
anything = 1
[thin]
volume_driver = filesystem
filesystem_path = {folder}/thin
filesystem_pools = a
filesytem_size_limit_gb = 3
[thin:a]
reserved_percentige = 3
[elsewhere]
volume_driver = of_another_machine
its_own = 1
[elsewhere:pool]
its_own = 1
"""


def read_config(file: pathlib.Path, *, agent: bool) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    register = [agent_options.register] if agent else [settings.register, database_options.register]
    for function in (rpc_options.register, *register):
        function(conf)
    conf(["--config-file", str(file)], project="tonnage")
    if agent:
        builder.validate(conf)
    return conf


def test_unknown_options_are_reported_with_suggestions(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tonnage.conf"
    file.write_text(STANDALONE.format(folder=tmp_path))
    everywhere = [
        ("DEFAULT", "claim_leese", "there is no such option; is it claim_lease?"),
        ("DEFAULT", "connection", "there is no such option; there is one of that name in [database]"),
        ("database", "conection", "there is no such option; is it connection?"),
        ("databse", "connection", "there is no such section; is it [database]?"),
        ("default", "claim_lease", "there is no such section; is it [DEFAULT]?"),
        (
            "oslo_messaging_rabbit",
            "heartbeat_treshold",
            "there is no such option; is it heartbeat_timeout_threshold?",
        ),
    ]
    on_agents = [
        ("thin", "filesytem_size_limit_gb", "there is no such option; is it filesystem_size_limit_gb?"),
        ("thin:a", "reserved_percentige", "there is no such option; is it reserved_percentage?"),
    ]
    for agent, expected in ((False, everywhere), (True, everywhere + on_agents)):
        found = unknown_options.find(read_config(file, agent=agent))
        lines = [f"[{section}] {name} in {file} has no effect: {why}" for section, name, why in expected]
        if agent:
            lines.append(f"[elsewhere] in {file} has no effect: [DEFAULT] enabled_backends does not name elsewhere")
        assert found == lines


def test_the_names_of_sections_are_compared_without_regard_to_case(tmp_path: pathlib.Path) -> None:
    """oslo.config takes [Thin] for the section of the backend thin."""
    file = tmp_path / "tonnage.conf"
    text = "[DEFAULT]\nenabled_backends = thin\n[Thin]\nvolume_driver = filesystem\n"
    file.write_text(f"{text}filesystem_path = {tmp_path}\nfilesystem_pools = a\nfilesytem_size_limit_gb = 3\n")
    [line] = unknown_options.find(read_config(file, agent=True))
    assert line.startswith(f"[Thin] filesytem_size_limit_gb in {file} has no effect: there is no such option; is it ")


def test_options_of_plugins_that_are_not_enabled_are_reported(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tonnage.conf"
    file.write_text(
        "[DEFAULT]\nscheduler_default_filters = CapacityFilter\nmin_free_capacity_percentage = 5\n"
        "volume-number-multiplier = -2\ncapacity_weight_multiplier = 2\n"
    )
    assert unknown_options.find(read_config(file, agent=False)) == [
        f"[DEFAULT] min_free_capacity_percentage in {file} has no effect: FreeSpaceFilter is not among "
        "scheduler_default_filters",
        f"[DEFAULT] volume-number-multiplier in {file} has no effect: VolumeNumberWeigher is not among "
        "scheduler_default_weighers",
    ]
    file.write_text(
        "[DEFAULT]\nscheduler_default_filters = FreeSpaceFilter\nmin_free_capacity_percentage = 5\n"
        "scheduler_default_weighers = VolumeNumberWeigher\nvolume-number-multiplier = -2\n"
    )
    assert unknown_options.find(read_config(file, agent=False)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"CapacityFilter", "RetryFilter"', 'is read as CapacityFilter", "RetryFilter: its first and its last quote'),
        ("'CapacityFilter','RetryFilter'", "is read as CapacityFilter','RetryFilter: its first and its last quote"),
        ('CapacityFilter, "RetryFilter', 'is read as CapacityFilter, "RetryFilter, with a quote that nothing closes'),
    ],
)
def test_quotes_that_are_misread_are_reported(tmp_path: pathlib.Path, text: str, problem: str) -> None:
    file = tmp_path / "tonnage.conf"
    file.write_text(f'[DEFAULT]\n# a comment = "x\nscheduler_default_filters = {text}\n')
    [line] = unknown_options.find(read_config(file, agent=False))
    assert line.startswith(f"[DEFAULT] scheduler_default_filters in {file} {problem}")


@pytest.mark.parametrize("text", ['"CapacityFilter"', "'CapacityFilter'", "CapacityFilter"])
def test_quotes_around_a_value_are_no_problem(tmp_path: pathlib.Path, text: str) -> None:
    file = tmp_path / "tonnage.conf"
    file.write_text(f"[DEFAULT]\nscheduler_default_filters = {text}\n[thin]\nvolume_driver = filesystem\n")
    assert unknown_options.find(read_config(file, agent=False)) == []


def test_the_shipped_configurations_have_no_unknown_options(monkeypatch: pytest.MonkeyPatch) -> None:
    # The file has the usual names, so the slow collection of all names is not necessary.
    monkeypatch.delattr(option_names, "collect")
    examples = (ROOT / "docs" / "examples").rglob("*.conf")
    ours = [file for file in examples if file.name not in ("postgresql.conf", "rabbitmq.conf")]
    assert len(ours) > 3
    for file in (ROOT / "etc" / "tonnage-standalone.conf", *ours):
        assert unknown_options.find(read_config(file, agent=False)) == []


@pytest.mark.parametrize("kind", [ModuleNotFoundError, SystemExit])
def test_a_plugin_that_cannot_be_loaded_is_logged_once(
    kind: type[BaseException], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> list[object]:
        raise kind("No module named 'nowhere'")

    monkeypatch.setattr(opts, "list_opts", broken)
    file = tmp_path / "tonnage.conf"
    file.write_text("[DEFAULT]\nmoon = 1\n")
    unknown_options.warn(read_config(file, agent=False))
    assert [record.message for record in caplog.records] == [
        f"The names of options have not been checked: {kind.__name__}: No module named 'nowhere'"
    ]
