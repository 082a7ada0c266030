# SPDX-License-Identifier: Apache-2.0
"""The extension ``cinder`` alone: its tables, and no part of it in Tonnage's own scheduler and API."""

import subprocess
import sys

from tests.unit.api.cluster import configuration
from tests.unit.extensions import alone
from tonnage import enabled_extensions, extension


def test_a_ledger_has_the_tables_of_the_shadow() -> None:
    assert {"cinder_decisions", "cinder_findings"} <= alone.tables("cinder")


def test_schedulers_and_the_api_of_tonnage_have_no_part_of_it() -> None:
    conf = configuration(enabled_extensions=["cinder"])
    for part in ("scheduler", "api", "listener", "metrics", "policies"):
        assert enabled_extensions.parts(conf, part) == {}
    assert enabled_extensions.with_transaction_hooks(conf) == ""


def test_its_options_have_a_section_of_their_own() -> None:
    """They are in the sample of Tonnage's configuration, and none of them belongs to Cinder's."""
    conf = configuration(enabled_extensions=["cinder"])
    assert conf.cinder_shadow.control_exchange == "openstack"
    assert "control_exchange" not in {option.name for option in enabled_extensions.list_opts()[0][1]}


def test_its_parts_need_no_cinder() -> None:
    """The shadow and its command run where no Cinder is installed."""
    references = enabled_extensions.references(extension.installed()["cinder"])
    program = (
        "import sys; sys.modules['cinder'] = None; from tonnage import extension; "
        f"print([extension.load(part) is not None for part in {sorted(references.values())}])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{[True] * len(references)}\n", "")
