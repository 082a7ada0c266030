# SPDX-License-Identifier: Apache-2.0
"""Cinder's view of pools: look-alikes for its filters, native filters, ranking."""
