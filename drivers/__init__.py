# SPDX-License-Identifier: Apache-2.0
"""Drivers of storage. Floors from the ground up: its modules, contract and filesystem and lvm, csi and memory."""
