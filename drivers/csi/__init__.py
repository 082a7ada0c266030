# SPDX-License-Identifier: Apache-2.0
"""The driver for plug-ins of the Container Storage Interface."""
