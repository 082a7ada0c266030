# SPDX-License-Identifier: Apache-2.0
"""Messages between the processes. Floors from the ground up: its modules, clients."""
