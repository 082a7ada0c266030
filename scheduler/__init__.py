# SPDX-License-Identifier: Apache-2.0
"""The scheduler: it applies reports, chooses pools, books claims and sends commands.

Floors from the ground up: cache and observers, configuration and requests, cluster and steps, agents and decisions,
periodic and simulation, its modules.
"""
