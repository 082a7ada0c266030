# SPDX-License-Identifier: Apache-2.0
"""Tonnage as Cinder's scheduler and as its quota driver, and the watch beside Cinder's own schedulers.

Floors from the ground up: releases, decoding and ledger and pools and quota, scheduler and watch, commands and daemons.
"""
