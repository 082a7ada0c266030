# SPDX-License-Identifier: Apache-2.0
"""The parts of ``bench/torture.py``: real processes, faults, requesters, and an independent checker."""

import pathlib
import sys
import warnings

# The servers are in the tests.
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[2]))
# Libraries emit deprecation warnings at their import.
warnings.simplefilter("ignore")
