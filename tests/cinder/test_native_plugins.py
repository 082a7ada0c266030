# SPDX-License-Identifier: Apache-2.0
"""Native filters and weighers decide as Cinder's classes do."""

import pathlib
import re
import subprocess

import pytest

from tests.cinder import sites
from tests.servers.cinder import HOME

_PROGRAM = pathlib.Path(__file__).with_name("random_decisions.py")


@pytest.mark.parametrize("seed", [1, 2])
def test_random_decisions_are_those_of_cinders_classes(seed: int) -> None:
    sites.require_cinder()
    done = subprocess.run(
        [HOME / "bin" / "python", _PROGRAM, str(seed), "1000"], capture_output=True, text=True, check=False
    )
    found = re.search(r"^DECIDED (\d+) \d+$", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout + done.stderr[-2000:]
    assert int(found[1]) > 3000
