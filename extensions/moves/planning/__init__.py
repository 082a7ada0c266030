# SPDX-License-Identifier: Apache-2.0
"""Plans: moves on a copy of the pools, in an order in which no step takes a pool above a bound."""
