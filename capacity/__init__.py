# SPDX-License-Identifier: Apache-2.0
"""The domain, without input or output.

Floors from the ground up: its modules, topology, pools, expressions, reports.
"""
