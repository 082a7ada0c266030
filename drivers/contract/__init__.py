# SPDX-License-Identifier: Apache-2.0
"""The contract suite: tests of the behaviour that every storage driver has to have.

For authors of drivers, in this repository or outside. It needs pytest. Subclass :class:`DriverContract` in a test
module and give it a fixture that returns a factory of drivers::

    class TestMyDriver(contract.DriverContract):
        @pytest.fixture
        def make_driver(self, tmp_path):
            return lambda: loader.build(MyDriver, "host@mine", "mine", conf_for(tmp_path))

With ``pytest.register_assert_rewrite("tonnage.drivers.contract")`` in a ``conftest.py``, failures show the values.
Tests of features that the driver does not declare (thick volumes, extending, cloning, ...) are skipped, with the
reason. A driver that declares ``supports_migrate`` needs a second fixture, ``make_origin``, and one that marks its
storage the method :meth:`~tonnage.drivers.contract.tested_storage.StorageFixtures.take_storage_away`. Where volumes
can be read and written through a file,
:meth:`~tonnage.drivers.contract.tested_storage.StorageFixtures.open_volume` lets the suite compare their content.
"""

from tonnage.drivers.contract.clone_tests import CloneTests
from tonnage.drivers.contract.concurrency_tests import ConcurrencyTests
from tonnage.drivers.contract.creation_tests import CreationTests
from tonnage.drivers.contract.extension_tests import ExtensionTests
from tonnage.drivers.contract.limit_tests import LimitTests
from tonnage.drivers.contract.manage_tests import ManageTests
from tonnage.drivers.contract.mark_tests import MarkTests
from tonnage.drivers.contract.migration_tests import MigrationTests
from tonnage.drivers.contract.observations import (
    all_stats,
    assert_growth,
    assert_plain,
    capacity_in_1gib_volumes,
    figures,
    headroom,
    listed_volume,
    pool_and_terms,
    sizes,
    stats_of,
)
from tonnage.drivers.contract.report_tests import ReportTests
from tonnage.drivers.contract.test_data import (
    LEDGER_MARK,
    content_chunks,
    new_volume,
    resized,
    run_concurrently,
    skip_unless_declared,
    source_of,
)
from tonnage.drivers.contract.tested_storage import MakeDriver

__all__ = [
    "LEDGER_MARK",
    "DriverContract",
    "MakeDriver",
    "all_stats",
    "assert_growth",
    "assert_plain",
    "capacity_in_1gib_volumes",
    "content_chunks",
    "figures",
    "headroom",
    "listed_volume",
    "new_volume",
    "pool_and_terms",
    "resized",
    "run_concurrently",
    "sizes",
    "skip_unless_declared",
    "source_of",
    "stats_of",
]


class DriverContract(
    ReportTests,
    MarkTests,
    CreationTests,
    LimitTests,
    ExtensionTests,
    CloneTests,
    MigrationTests,
    ManageTests,
    ConcurrencyTests,
):
    """The tests of one driver. They create volumes of few GiB, and need exclusive use of the storage.

    The members that an author overrides are in :class:`~tonnage.drivers.contract.tested_storage.StorageFixtures`.
    """
