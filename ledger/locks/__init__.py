# SPDX-License-Identifier: Apache-2.0
"""The rows that transactions lock first: counters of pools, heartbeats, scheduling rules."""
