# SPDX-License-Identifier: Apache-2.0
"""Clients of the scheduler and of agents, and the batches that they send."""
