# SPDX-License-Identifier: Apache-2.0
"""`python -m dpfast` is `dpfast`."""

import sys

from dpfast.app.cli import main

sys.exit(main())
