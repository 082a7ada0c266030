# SPDX-License-Identifier: Apache-2.0
"""The enabled extensions, and what their declarations name."""

import pathlib
import subprocess
import sys

import pytest
from oslo_config import cfg

from tests.servers import ledger_schema
from tonnage import enabled_extensions, extension
from tonnage.capacity import errors
from tonnage.ledger.db import database


def _configuration(*names: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    enabled_extensions.register(conf)
    conf([])
    conf.set_override("enabled_extensions", list(names))
    return conf


def test_all_extensions_of_this_package_are_enabled_by_default() -> None:
    assert set(enabled_extensions.OPTION.default) == set(extension.installed())


def test_enabled_extensions_have_the_order_of_the_option() -> None:
    assert list(enabled_extensions.enabled(_configuration("replay", "history", "replay"))) == ["replay", "history"]


def test_an_unknown_extension_is_an_error_that_lists_the_installed_ones() -> None:
    with pytest.raises(errors.MissingPlugin, match="'reply', which is not installed; known are announcements, cinder,"):
        enabled_extensions.enabled(_configuration("reply"))


@pytest.mark.parametrize("name", sorted(extension.installed()))
def test_each_part_that_a_declaration_names_can_be_imported(name: str) -> None:
    for field, reference in enabled_extensions.references(extension.installed()[name]).items():
        assert extension.load(reference) is not None, field


def test_options_are_those_of_the_enabled_extensions_alone() -> None:
    conf = _configuration()
    enabled_extensions.register_options(conf)
    assert "notify_capacity" not in conf


#: Starts a scheduler and an API, and prints the imported modules of extensions.
_CORE = """
import sys
from oslo_config import cfg
from tonnage.api import options
from tonnage.api.http import middleware
from tonnage.api.process import ApiProcess
from tonnage.cli import setup
from tonnage.ledger.db import database, options as database_options
from tonnage.rpc import options as rpc_options, transport
from tonnage.scheduler.configuration import settings
from tonnage.scheduler.service import SchedulerService

conf = cfg.ConfigOpts()
register = [rpc_options.register, settings.register, options.register, middleware.register, database_options.register]
setup.configure(conf, ["--config-file", sys.argv[1]], "tonnage-scheduler", register, with_extensions=True)
ledger, bus = database.connect(conf), transport.create(conf)
scheduler = SchedulerService(conf, ledger, bus)
scheduler.start()
api = ApiProcess(conf, "127.0.0.1")
assert api.further_servers(conf) != []
scheduler.stop()
print(sorted(name for name in sys.modules if name.startswith("tonnage.extensions")))
"""


def test_the_core_runs_without_any_module_of_an_extension(tmp_path: pathlib.Path) -> None:
    connection = f"sqlite:///{tmp_path}/ledger.sqlite"
    engine = database.create_engine(connection)
    ledger_schema.create(engine)
    engine.dispose()
    conf = tmp_path / "tonnage.conf"
    conf.write_text(
        "[DEFAULT]\nenabled_extensions =\ntransport_url = kombu+memory://\n"
        f"[database]\nconnection = {connection}\n[metrics]\nenabled = true\n"
    )
    done = subprocess.run([sys.executable, "-c", _CORE, conf], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
