# SPDX-License-Identifier: Apache-2.0
"""Its command ``tonnage cinder``."""
