# SPDX-License-Identifier: Apache-2.0
"""The forecast of the growth of a pool, from its history."""
