# SPDX-License-Identifier: Apache-2.0
"""The site: `sphinx-build -W -b html docs docs/_build/html` (extra `docs`)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "dpfast"
author = "The dpfast authors"
copyright = "The dpfast authors"  # noqa: A001  Sphinx's name
extensions = ["myst_parser", "sphinx_click", "sphinx_copybutton", "site_pages"]
# For those who change or check the code: they stay in the repository, and source.md lists them.
exclude_patterns = ["_build", "assurance", "assurance.md", "behind/*", "design.md", "guarantees.md", "releasing.md"]
exclude_patterns += ["threat_model.md"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_fence_as_directive = []
suppress_warnings = ["myst.header"]  # a page of the repository may begin at any level
smartquotes = False  # commands are copied: -- is no dash
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # signatures name types of other libraries
html_theme = "furo"
html_title = "dpfast"
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"  # MathJax would be loaded from elsewhere
toc_object_entries_show_parents = "hide"
html_static_path = ["_static"]
html_css_files = ["site.css"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
# There is no network where the site is tested: links to other hosts are checked by hand.
linkcheck_ignore = [r"https?://.*"]
