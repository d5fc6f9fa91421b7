# SPDX-License-Identifier: Apache-2.0
"""`python -m dpfast` is `dpfast`."""

import sys

from dpfast.cli import main

sys.exit(main())
