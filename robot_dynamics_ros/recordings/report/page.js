// SPDX-License-Identifier: Apache-2.0
// Fit plots to the paper width while printing.
const plots = () => [...document.querySelectorAll('.js-plotly-plot')];
const PAPER = 700;

addEventListener('beforeprint', () => {
  for (const plot of plots()) Plotly.relayout(plot, {width: PAPER, autosize: false});
});
addEventListener('afterprint', () => {
  for (const plot of plots()) Plotly.relayout(plot, {width: null, autosize: true});
});
