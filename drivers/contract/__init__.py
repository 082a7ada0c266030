# SPDX-License-Identifier: Apache-2.0
"""The contract suite: what every storage driver promises, as tests.

For authors of drivers, in this repository or outside. It needs pytest. Subclass :class:`DriverContract` in a test
module and give it a fixture that makes drivers::

    class TestMyDriver(contract.DriverContract):
        @pytest.fixture
        def make_driver(self, tmp_path):
            return lambda: loader.build(MyDriver, "host@mine", "mine", conf_for(tmp_path))

With ``pytest.register_assert_rewrite("tonnage.drivers.contract")`` in a ``conftest.py``, failures show the values.
Tests of what a driver does not declare (thick volumes, extending, cloning, ...) are skipped, and say so. A driver that
declares ``supports_migrate`` needs a second fixture, ``make_origin``; where volumes can be read and written through a
file, :meth:`~tonnage.drivers.contract.tested_storage.Storage.open_volume` lets the suite compare what is in them.
"""

from tonnage.drivers.contract.clone_tests import Cloning
from tonnage.drivers.contract.concurrency_tests import Together
from tonnage.drivers.contract.creation_tests import Creating
from tonnage.drivers.contract.extension_tests import Extending
from tonnage.drivers.contract.limit_tests import Limits
from tonnage.drivers.contract.manage_tests import Managing
from tonnage.drivers.contract.migration_tests import Migrating
from tonnage.drivers.contract.observations import (
    all_stats,
    as_judged,
    assert_grown,
    assert_plain,
    figures,
    headroom,
    room_for_single_gibs,
    sizes,
    stats_of,
    stored_as,
)
from tonnage.drivers.contract.report_tests import Reports
from tonnage.drivers.contract.test_data import declares, new_volume, pieces, resized, run_together, source_of
from tonnage.drivers.contract.tested_storage import MakeDriver

__all__ = [
    "DriverContract",
    "MakeDriver",
    "all_stats",
    "as_judged",
    "assert_grown",
    "assert_plain",
    "declares",
    "figures",
    "headroom",
    "new_volume",
    "pieces",
    "resized",
    "room_for_single_gibs",
    "run_together",
    "sizes",
    "source_of",
    "stats_of",
    "stored_as",
]


class DriverContract(Reports, Creating, Limits, Extending, Cloning, Migrating, Managing, Together):
    """Tests of one driver. All make volumes of few GiB and expect nothing else to use the storage meanwhile.

    What an author overrides is in :class:`~tonnage.drivers.contract.tested_storage.Storage`.
    """
