// SPDX-License-Identifier: Apache-2.0
// Unpacks the data, draws plots when they come into view, and moves a cursor through them.
'use strict';

const CONFIG = {
  displaylogo: false, responsive: true,
  modeBarButtons: [['toImage', 'zoom2d', 'pan2d', 'zoomIn2d', 'zoomOut2d', 'resetScale2d']],
};
const PAPER = {width: 700, share: 0.72};  // pixels, and of the height of a figure
const all = (selector) => [...document.querySelectorAll(selector)];
const plots = () => all('.js-plotly-plot');
let scene = null, instant = NaN;  // s on the clock of the recording

async function unpacked(name) {
  const text = document.getElementById(name).textContent;
  const packed = await fetch(`data:application/octet-stream;base64,${text}`);
  return new Response(packed.body.pipeThrough(new DecompressionStream('deflate'))).text();
}

// ---- time ------------------------------------------------------------------------------------

function goTo(time) {
  if (scene) {
    scene.stop();
    scene.show(time - scene.data.start);
  } else showCursors(time);
}

// Draw a cursor at an instant in every panel over time.
function showCursors(time) {
  instant = time;
  plots().forEach(showCursor);
}

function showCursor(plot) {
  const layout = plot._fullLayout, start = layout?.meta?.time, x = instant - start;
  if (!Number.isFinite(x)) return;
  plot.cursors ??= [];
  Object.keys(layout).filter((key) => /^xaxis\d*$/.test(key)).forEach((key, i) => {
    const across = layout[key], down = layout[key.replace('x', 'y')] ?? layout.yaxis;
    const own = layout[`yaxis${across.anchor.slice(1)}`] ?? down;
    const line = plot.cursors[i] ??= plot.querySelector('.svg-container').appendChild(
      Object.assign(document.createElement('div'), {className: 'cursor'}));
    const inside = x >= across.range[0] && x <= across.range[1];
    Object.assign(line.style, {
      display: inside ? 'block' : 'none', left: `${across._offset + across.l2p(x)}px`,
      top: `${own._offset}px`, height: `${own._length}px`});
  });
}

for (const item of all('.events li')) {
  item.addEventListener('click', () => goTo(+item.dataset.time));
}

document.addEventListener('keydown', (event) => {
  if (!scene || event.ctrlKey || event.altKey || event.metaKey) return;
  const {target, key} = event;
  if (target.matches('select, textarea') || (key === ' ' && target.matches('button, summary'))) return;
  if (key === ' ') scene.toggle();
  else if (key === 'ArrowLeft' || key === 'ArrowRight') scene.step(key === 'ArrowLeft' ? -1 : 1);
  else if (key === 'l') scene.repeat();
  else return;
  event.preventDefault();
});

// ---- plots -----------------------------------------------------------------------------------

function draw(plot, figure) {
  if (plot.classList.contains('js-plotly-plot')) return;
  Plotly.newPlot(plot, figure.data, figure.layout, CONFIG);
  const start = figure.layout.meta?.time;
  if (start === undefined) return;
  plot.on('plotly_click', ({points}) => goTo(points[0].x + start));
  plot.on('plotly_relayout', () => showCursor(plot));
  showCursor(plot);
}

async function loadLibrary() {
  const script = document.createElement('script');
  script.textContent = await unpacked('library');
  document.head.append(script);
}

function drawPlots(figures) {
  let library = null;  // loaded with the first plot that comes into view
  const drawn = new Map(all('.plot').map((plot, i) => [plot, () => draw(plot, figures[i])]));
  const seen = new IntersectionObserver(async (entries) => {
    const near = entries.filter(({isIntersecting}) => isIntersecting);
    if (near.length) await (library ??= loadLibrary());
    for (const {target} of near) drawn.get(target)();
  }, {rootMargin: '300px'});
  drawn.forEach((_, plot) => seen.observe(plot));
  setTimeout(() => { library ??= loadLibrary(); }, 500);  // for printing, and the first scroll
  addEventListener('beforeprint', () => {
    if (!window.Plotly) return;  // the page says so
    for (const [plot, now] of drawn) {
      now();
      const height = PAPER.share * parseFloat(plot.style.height);
      Plotly.relayout(plot, {width: PAPER.width, height, autosize: false});
      Plotly.Fx.unhover(plot);
    }
  });
  addEventListener('afterprint', () => {
    for (const plot of drawn.keys()) {
      Plotly.relayout(plot, {width: null, height: parseFloat(plot.style.height), autosize: true});
    }
  });
}

const ready = (async () => {
  const {arm, figures} = JSON.parse(await unpacked('data'));
  const root = document.querySelector('.arm');
  if (arm) {
    try {
      scene = root.scene = new Scene(root, arm);
    } catch (error) {
      root.classList.add('failed');
      root.querySelector('.hint').textContent = error.message;
    }
  }
  if (figures.length) drawPlots(figures);
})();
ready.catch((error) => {
  document.body.append(`This page cannot be shown completely: ${error.message}`);
});
