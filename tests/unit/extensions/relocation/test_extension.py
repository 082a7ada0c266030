# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension."""

from tests.unit.extensions import alone
from tonnage import extension
from tonnage.extensions.relocation.extension import EXTENSION


def test_its_commands_can_be_loaded_and_it_has_no_tables_of_its_own() -> None:
    for reference in (EXTENSION.options, *EXTENSION.commands.values()):
        assert callable(extension.load(reference))
    assert alone.tables("relocation") == set()
