# SPDX-License-Identifier: Apache-2.0
"""The page's one style sheet. The policy of the page names its digest, so that no other applies."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

LIGHT = {
    "ground": "#ffffff", "raised": "#f4f6f8", "ink": "#1c2730", "faint": "#55626d", "line": "#d3dae0", "mark": "#165d9c",
    "band": "#cfe1f2",
}  # fmt: skip
DARK = {
    "ground": "#13181d", "raised": "#1d242b", "ink": "#e8edf1", "faint": "#a9b6c1", "line": "#3a4651", "mark": "#79b8f0",
    "band": "#1f4262",
}  # fmt: skip


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


CSS = f"""
:root {{ color-scheme: light; {_variables(LIGHT)} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ color-scheme: dark; {_variables(DARK)} }} }}
* {{ box-sizing: border-box; }}
html {{ -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }}
body {{ margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 54rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }}
p, ul, dl {{ max-width: 46rem; }}
h1 {{ font-size: 1.75rem; line-height: 1.2; margin: 0 0 .5rem; }}
h2 {{ font-size: 1.25rem; line-height: 1.3; margin: 2.75rem 0 .75rem; padding-top: 1rem; border-top: 1px solid var(--line); }}
h3 {{ font-size: 1rem; margin: 1.5rem 0 .5rem; }}
.lead {{ font-size: 1.0625rem; }}
.note, caption, figcaption {{ color: var(--faint); font-size: .875rem; }}
caption {{ caption-side: top; text-align: left; min-width: 12rem; padding-bottom: .4rem; }}
dl {{ margin: 1rem 0; }}
dl div {{ display: grid; grid-template-columns: 11rem 1fr; gap: 0 1rem; padding: .35rem 0; border-bottom: 1px solid var(--line); }}
dt {{ color: var(--faint); }}
dd {{ margin: 0; }}
li {{ margin: .4rem 0; }}
table {{ border-collapse: collapse; font-size: .9375rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .9rem .3rem 0; text-align: left; vertical-align: baseline; border-bottom: 1px solid var(--line); overflow-wrap: normal; }}
thead th {{ border-bottom: 2px solid var(--faint); font-weight: 600; }}
tbody th {{ font-weight: 400; }}
thead small {{ white-space: nowrap; }}
th small {{ display: block; font-weight: 400; color: var(--faint); }}
tbody th {{ min-width: 6rem; }}
td {{ overflow-wrap: anywhere; min-width: 8.5rem; }}
.scroll th, .scroll td {{ overflow-wrap: anywhere; min-width: 4rem; max-width: 18rem; }}
.scroll tbody th {{ min-width: 6rem; }}
.figure, table td.figure {{ min-width: 0; }}
.figure {{ text-align: right; white-space: nowrap; }}
.scroll {{ overflow-x: auto; max-width: 100%; }}
.scroll:focus-visible, summary:focus-visible {{ outline: 2px solid var(--mark); outline-offset: 2px; }}
figure {{ margin: 1.25rem 0; }}
figcaption {{ margin-bottom: .5rem; max-width: 46rem; }}
svg {{ display: block; overflow: visible; }}
svg text {{ fill: var(--faint); font: .75rem system-ui, "Segoe UI", Roboto, Arial, sans-serif; font-variant-numeric: tabular-nums; }}
.row {{ display: grid; grid-template-columns: minmax(4rem, 14rem) 1fr; gap: 0 .75rem; align-items: center; }}
.row span {{ font-size: .8125rem; line-height: 1.25rem; text-align: right; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }}
.row svg {{ width: 100%; height: 1.25rem; }}
.series {{ display: grid; grid-template-columns: 4.75rem 1fr; gap: .6rem .5rem; margin-top: 1.5rem; }}
.series svg {{ width: 100%; height: 15rem; }}
.series div {{ display: grid; }}
.series div svg {{ grid-area: 1 / 1; }}
.series .keys {{ grid-column: 2; height: 1.25rem; }}
.series line, .series polyline {{ vector-effect: non-scaling-stroke; }}
svg .far {{ fill: var(--mark); font-weight: 600; }}
.grid {{ stroke: var(--line); stroke-width: 1; }}
.zero {{ stroke: var(--faint); stroke-width: 1; }}
.reach {{ stroke: var(--mark); stroke-width: 2; }}
.dot {{ fill: var(--mark); stroke: var(--ground); stroke-width: 1; }}
.band {{ fill: var(--band); }}
.curve {{ fill: none; stroke: var(--mark); stroke-width: 2; }}
.same {{ stroke: var(--faint); stroke-width: 1; stroke-dasharray: 4 3; }}
.belief {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: 0 2.5rem; align-items: center; }}
.belief svg {{ width: 100%; max-width: 26rem; height: auto; }}
.belief svg .strong {{ fill: var(--mark); font-weight: 600; }}
.meter {{ width: 100%; max-width: 46rem; height: .875rem; margin: .25rem 0 .75rem; }}
.meter .whole {{ fill: var(--raised); stroke: var(--faint); stroke-width: 1; }}
.meter .before {{ fill: var(--band); }}
.meter .now {{ fill: var(--mark); }}
details {{ margin: 1rem 0; }}
summary {{ cursor: pointer; }}
pre {{ background: var(--raised); padding: .75rem; margin: .5rem 0; font: .8125rem/1.45 ui-monospace, Menlo, Consolas, monospace; }}
code {{ font: .9em ui-monospace, Menlo, Consolas, monospace; }}
footer {{ margin-top: 3rem; color: var(--faint); font-size: .875rem; }}
@media (max-width: 36rem) {{
  dl div {{ grid-template-columns: 1fr; }}
  .row {{ grid-template-columns: 1fr; }}
  .row span {{ text-align: left; margin-top: .25rem; line-height: 1.1rem; }}
  .row svg {{ height: 1rem; }}
  .row .dot {{ r: 3px; }}
  .series .more {{ display: none; }}
  th, td {{ padding-right: .6rem; }}
  .scroll th, .scroll td {{ max-width: 10rem; }}
}}
@media print {{
  body {{ max-width: none; padding: 0 .75rem; font-size: 10pt; }}
  .scroll {{ overflow: visible; }}
  th, td, .scroll th, .scroll td {{ font-size: 8pt; padding-right: .4rem; overflow-wrap: anywhere; white-space: normal; max-width: none; min-width: 0; }}
  .scroll tbody th {{ min-width: 0; }}
  pre {{ white-space: pre-wrap; overflow-wrap: anywhere; font-size: 8pt; background: none; border: 1px solid var(--line); }}
  details::details-content {{ content-visibility: visible; display: block; block-size: auto; }}
  summary {{ display: none; }}
  .row, tr, figure, .belief, dl div {{ break-inside: avoid; }}
  tbody tr:nth-child(-n+3) {{ break-before: avoid; }}
  h2, h3, caption, figcaption {{ break-after: avoid; }}
}}
""".strip()  # fmt: skip

POLICY = f"default-src 'none'; style-src 'sha256-{b64encode(sha256(CSS.encode()).digest()).decode()}'; base-uri 'none'; form-action 'none'"
