# SPDX-License-Identifier: Apache-2.0
"""The filters, which exclude pools that cannot take a volume: one in each module, their base class, their chain."""
