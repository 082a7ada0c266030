# SPDX-License-Identifier: Apache-2.0
"""The weighers, which rank the accepted pools: one in each module, their base class, their chain."""
