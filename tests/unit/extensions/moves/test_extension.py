# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension."""

from tests.unit.api.cluster import parts
from tonnage import extension
from tonnage.extensions.moves.extension import EXTENSION


def test_its_parts_can_be_loaded_and_its_path_is_served() -> None:
    functions = (EXTENSION.options, EXTENSION.check, EXTENSION.scheduler, EXTENSION.api, EXTENSION.policies)
    for reference in (*functions, *EXTENSION.commands.values()):
        assert callable(extension.load(reference))
    paths = {"/move-plans", "/move-plans/{plan_id}", "/move-plans/{plan_id}/action"}
    assert paths <= {path for part in parts("moves") for path, *_ in part.routes}
    assert paths.isdisjoint({path for part in parts() for path, *_ in part.routes})
