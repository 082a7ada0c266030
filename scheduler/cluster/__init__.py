# SPDX-License-Identifier: Apache-2.0
"""The other schedulers and the agents: membership, agreement on rules, commands."""
