#include "train/report_style.h"

namespace dptrain::train {
namespace {

// The colors can be told apart with every kind of color blindness (after Okabe and Ito, 2008), and each has a contrast
// of 3 to its background. Dashes, markers and hatchings show the same without color.
constexpr std::string_view kStyle = R"css(:root {
  --ground: #ffffff; --ink: #1b2330; --quiet: #5a6473; --rule: #dfe3e8; --soft: #f4f6f8;
  --c0: #0072b2; --c1: #d55e00; --c2: #008a64; --c3: #b3478c; --c4: #a87400; --c5: #3d4653;
  --f0: #2f7fb5; --f1: #d9702a; --f2: #2f9c7c; --f3: #b9629a; --f4: #b98a1d; --f5: #8b94a0;
  --hatching: #ffffff; --good: #00734f; --bad: #b23a00;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ground: #12161c; --ink: #e4e8ed; --quiet: #9aa5b3; --rule: #2c343f; --soft: #1a2029;
    --c0: #5ab0ea; --c1: #f28a48; --c2: #3cc69b; --c3: #e08cc0; --c4: #e3b341; --c5: #c9d1db;
    --f0: #3f8ec6; --f1: #dd7a3a; --f2: #35a583; --f3: #c672a6; --f4: #c0942f; --f5: #76808d;
    --hatching: #12161c; --good: #4fcfa3; --bad: #ff9a66;
  }
}
* { box-sizing: border-box; }
html { color-scheme: light dark; -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; font-size: 16px; }
main { max-width: 1280px; margin: 0 auto; padding: 40px 32px 64px; }
.fills { position: absolute; }
h1 { font-size: 32px; line-height: 1.2; font-weight: 650; letter-spacing: -0.015em; margin: 0; }
h2 { font-size: 21px; line-height: 1.3; font-weight: 650; margin: 0 0 12px; }
h3 { font-size: 15px; font-weight: 600; color: var(--quiet); margin: 28px 0 8px; }
h4 { font-size: 14px; font-weight: 600; margin: 20px 0 6px; }
p { margin: 0 0 12px; max-width: 76ch; }
section { margin-top: 44px; padding-top: 28px; border-top: 1px solid var(--rule); }
section > p, .lead { color: var(--quiet); }
.lead { margin: 8px 0 0; font-size: 17px; }
.quiet { color: var(--quiet); }
a { color: inherit; text-decoration: underline; text-decoration-color: var(--quiet); text-decoration-thickness: 1px;
  text-underline-offset: 3px; }
a:hover { color: var(--c0); text-decoration-color: currentColor; }
:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px; border-radius: 2px; }
nav { margin-top: 18px; font-size: 14px; display: flex; flex-wrap: wrap; gap: 4px 20px; }
.fault { border-left: 3px solid var(--bad); background: var(--soft); padding: 8px 14px; margin: 14px 0;
  overflow-wrap: anywhere; }

.best { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(calc(50% - 1px), 190px), 1fr)); gap: 1px; margin: 28px 0 0;
  background: var(--rule); border: 1px solid var(--rule); border-radius: 8px; overflow: hidden; }
.best div { background: var(--ground); padding: 14px 18px; }
.best dt { color: var(--quiet); font-size: 13px; }
.best dd { margin: 0; font-size: 14px; overflow-wrap: anywhere; }
.best b { display: block; font-size: 26px; line-height: 1.3; font-weight: 600; font-variant-numeric: tabular-nums; }
.best small { font-size: 15px; font-weight: 500; color: var(--quiet); }

.scroll { overflow: auto; max-width: 100%; }
.scroll.long { max-height: 80vh; width: fit-content; border: 1px solid var(--rule); border-radius: 8px; }
.long th:first-child { padding-left: 14px; }
.long td:last-child, .long thead th:last-child { padding-right: 14px; }
.long tbody tr:last-child > * { border-bottom: 0; }
.charts + .chart { margin-top: 28px; }
table { border-collapse: separate; border-spacing: 0; font-size: 14px; font-variant-numeric: tabular-nums; min-width: min(100%, 420px); }
th, td { padding: 6px 14px 6px 0; text-align: left; vertical-align: middle; white-space: nowrap;
  border-bottom: 1px solid var(--rule); }
th:last-child, td:last-child { padding-right: 2px; }
thead th { color: var(--quiet); font-weight: 500; font-size: 13px; vertical-align: bottom; position: sticky; top: 0;
  z-index: 2; background: var(--ground); }
thead th:first-child { left: 0; z-index: 3; }
tbody th { font-weight: 500; position: sticky; left: 0; z-index: 1; background: var(--ground); max-width: 260px; overflow: hidden;
  text-overflow: ellipsis; }
tbody td { max-width: 420px; overflow: hidden; text-overflow: ellipsis; }
tbody tr:hover > * { background: var(--soft); }
.number { text-align: right; }
td.bars, th.bars { width: 40%; min-width: 190px; }
table:has(.bars) { width: 100%; }
.bar { display: block; border-radius: 2px; overflow: hidden; }
.bar rect, .legend rect { stroke: var(--ground); stroke-width: 1; }
.f0 { fill: var(--f0); } .f1 { fill: var(--f1); } .f2 { fill: var(--f2); }
.f3 { fill: var(--f3); } .f4 { fill: var(--f4); } .f5 { fill: var(--f5); }
.hatching { stroke: var(--hatching); stroke-width: 1; fill: none; opacity: 0.6; }

.state { display: inline-block; font-size: 12px; line-height: 1.5; font-weight: 500; padding: 0 8px; border-radius: 9px;
  border: 1px solid var(--rule); color: var(--quiet); }
.state.finished { color: var(--good); }
.state.failed { color: var(--bad); border-color: currentColor; }
.state.running { color: var(--c0); border-color: currentColor; }
.state.unfinished { color: var(--c0); border-color: currentColor; border-style: dashed; }

.legend { list-style: none; margin: 0 0 14px; padding: 0; display: flex; flex-wrap: wrap; gap: 4px 22px; font-size: 14px; }
.legend li { display: flex; align-items: center; gap: 8px; min-width: 0; }
.legend svg { flex: none; }
.legend.curves { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr)); }
.legend.curves li { align-items: baseline; }
.legend.curves span { overflow-wrap: anywhere; }
.sample .behind { opacity: 0.8; }
.sample { width: 34px; height: 14px; position: relative; top: 2px; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 440px), 1fr)); gap: 24px 32px; }
.chart { margin: 0; min-width: 0; }
.chart figcaption { font-size: 14px; font-weight: 600; margin-bottom: 2px; }
.chart figcaption small { font-weight: 400; font-size: 12px; color: var(--quiet); margin-left: 4px; }
.chart svg { display: block; width: 100%; height: auto; overflow: visible; }
.ticks text { font-size: 12px; fill: var(--quiet); font-variant-numeric: tabular-nums; }
.end { text-anchor: end; }
.middle { text-anchor: middle; }
.grid { stroke: var(--rule); stroke-width: 1; fill: none; }
.axis { stroke: var(--quiet); stroke-width: 1; fill: none; }
.line { fill: none; stroke-linejoin: round; stroke-linecap: butt; }
.line.behind { stroke: var(--quiet); opacity: 0.28; }
.dot.behind { fill: var(--quiet); opacity: 0.5; }
.open { fill: none; stroke-width: 1.5; }
.open.behind { stroke: var(--quiet); opacity: 0.5; }
path.mark { stroke: var(--ground); stroke-width: 0.8; }
.line:hover { opacity: 1; stroke-width: 5; }
.l0, .l6 { stroke: var(--c0); } .l1, .l7 { stroke: var(--c1); } .l2, .l8 { stroke: var(--c2); }
.l3, .l9 { stroke: var(--c3); } .l4, .l10 { stroke: var(--c4); } .l5, .l11 { stroke: var(--c5); }
.mark.l0, .mark.l6 { fill: var(--c0); } .mark.l1, .mark.l7 { fill: var(--c1); } .mark.l2, .mark.l8 { fill: var(--c2); }
.mark.l3, .mark.l9 { fill: var(--c3); } .mark.l4, .mark.l10 { fill: var(--c4); }
.mark.l5, .mark.l11 { fill: var(--c5); }
.line.l1, .line.l5, .line.l9 { stroke-dasharray: 7 3; }
.line.l2, .line.l6, .line.l10 { stroke-dasharray: 2.5 2.5; }
.line.l3, .line.l7, .line.l11 { stroke-dasharray: 9 3 2 3; }

details { border-bottom: 1px solid var(--rule); }
summary { padding: 9px 0; cursor: pointer; overflow-wrap: anywhere; }
summary .quiet { font-size: 14px; }
.of-run { padding: 4px 0 22px 18px; scroll-margin-top: 60px; }
.of-run dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 2px 18px; font-size: 14px; margin: 12px 0; }
.of-run tbody th, .of-run tbody td:last-child { white-space: normal; min-width: 220px; max-width: 420px; }
.of-run dt { color: var(--quiet); }
.of-run dd { margin: 0; overflow-wrap: anywhere; }
pre, code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; font-size: 13px; }
pre { background: var(--soft); border-radius: 6px; padding: 12px 16px; margin: 0; overflow-x: auto; line-height: 1.45; }
code { overflow-wrap: anywhere; }

@media (max-width: 600px) {
  main { padding: 24px 16px 40px; }
  h1 { font-size: 25px; }
  section { margin-top: 32px; padding-top: 22px; }
  tbody th { max-width: 128px; }
  .best div { padding: 12px 14px; }
  .best b { font-size: 22px; }
  .ticks text { font-size: 16px; }
  td.bars, th.bars { min-width: 150px; }
  .of-run { padding-left: 0; }
  .of-run dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .of-run dd { margin-bottom: 8px; }
}
@page { margin: 14mm; }
@media print {
  body { font-size: 11pt; }
  table, .of-run dl { font-size: 8pt; }
  thead th { font-size: 7.5pt; }
  th, td { white-space: normal; overflow-wrap: break-word; padding-right: 8px; }
  tbody .number, .state { white-space: nowrap; }
  td.bars, th.bars { width: 30%; min-width: 100px; }
  pre { white-space: pre-wrap; }
  main { max-width: none; padding: 0; }
  .scroll, .scroll.long { overflow: visible; max-height: none; border: 0; }
  nav { display: none; }
  tr, figure, .best { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .charts { grid-template-columns: repeat(2, 1fr); }
  .best { grid-template-columns: repeat(4, 1fr); }
}
)css";

}  // namespace

std::string_view report_style() { return kStyle; }

}  // namespace dptrain::train
