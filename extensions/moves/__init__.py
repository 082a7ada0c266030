# SPDX-License-Identifier: Apache-2.0
"""Moves: plans that move volumes to empty, relieve or balance pools, or to make room for a request.

Floors from the ground up: planning, goals and records, execution, its modules.
"""
