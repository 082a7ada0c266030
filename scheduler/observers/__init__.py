# SPDX-License-Identifier: Apache-2.0
"""The audit of drivers, which watches reports, and the events of extensions."""
