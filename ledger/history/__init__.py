# SPDX-License-Identifier: Apache-2.0
"""The history of pools and volume types, and past forecasts."""
