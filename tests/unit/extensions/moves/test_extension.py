# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension."""

from tests.unit.api.cluster import parts
from tonnage import extension
from tonnage.extensions.moves.extension import EXTENSION


def test_its_parts_can_be_loaded_and_its_path_is_served() -> None:
    for reference in (EXTENSION.scheduler, EXTENSION.api, EXTENSION.policies, *EXTENSION.commands.values()):
        assert callable(extension.load(reference))
    assert "/move-plans" in {path for part in parts("moves") for path, *_ in part.routes}
    assert "/move-plans" not in {path for part in parts() for path, *_ in part.routes}
