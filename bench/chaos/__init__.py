# SPDX-License-Identifier: Apache-2.0
"""The parts of ``bench/torture.py``: real processes, faults, requesters, and a checker that looks from outside."""

import pathlib
import sys
import warnings

# The servers are those of the tests.
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[2]))
# Libraries speak of their own past when they are imported.
warnings.simplefilter("ignore")
