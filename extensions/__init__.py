# SPDX-License-Identifier: Apache-2.0
"""The optional parts of Tonnage, one folder each. The core imports none of them."""
