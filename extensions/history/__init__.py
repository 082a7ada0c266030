# SPDX-License-Identifier: Apache-2.0
"""The history of pools and volume types, forecasts, and refusals to come.

Floors from the ground up: forecast, its modules, api.
"""
