# SPDX-License-Identifier: Apache-2.0
"""The hosts of instances, asked of OpenStack Nova, for volumes near an instance."""
