# SPDX-License-Identifier: Apache-2.0
"""An executable model of the whole: storages, agents and schedulers in one thread, and everything that may go wrong.

What is modelled is the world around the ledger: storages that fail, processes that die, messages that are late, doubled
or lost, transactions of several schedulers in any order. The schedulers' and the agents' parts are the real ones.
"""
