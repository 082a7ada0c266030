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
file, :meth:`~tonnage.drivers.contract.storage.Storage.open_volume` lets the suite compare what is in them.
"""

from tonnage.drivers.contract.cloning import Cloning
from tonnage.drivers.contract.creating import Creating
from tonnage.drivers.contract.extending import Extending
from tonnage.drivers.contract.limits import Limits
from tonnage.drivers.contract.looking import all_stats
from tonnage.drivers.contract.looking import as_judged
from tonnage.drivers.contract.looking import assert_grown
from tonnage.drivers.contract.looking import assert_plain
from tonnage.drivers.contract.looking import figures
from tonnage.drivers.contract.looking import headroom
from tonnage.drivers.contract.looking import room_for_single_gibs
from tonnage.drivers.contract.looking import sizes
from tonnage.drivers.contract.looking import stats_of
from tonnage.drivers.contract.looking import stored_as
from tonnage.drivers.contract.making import declares
from tonnage.drivers.contract.making import new_volume
from tonnage.drivers.contract.making import pieces
from tonnage.drivers.contract.making import resized
from tonnage.drivers.contract.making import run_together
from tonnage.drivers.contract.making import source_of
from tonnage.drivers.contract.managing import Managing
from tonnage.drivers.contract.migrating import Migrating
from tonnage.drivers.contract.reports import Reports
from tonnage.drivers.contract.storage import MakeDriver
from tonnage.drivers.contract.together import Together

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

    What an author overrides is in :class:`~tonnage.drivers.contract.storage.Storage`.
    """
