// SPDX-License-Identifier: Apache-2.0
// STOP and hold above everything, fields that are sent on Enter or on leaving, small screens.
'use strict';
(() => {
  const SMALL = 1300; // px; below, the plots are collapsed
  const buttons = document.currentScript.dataset.buttons.split(' ').filter(Boolean);
  const reader = () => document.querySelector('[data-client]')?.dataset.client ?? '';

  const send = async (name, value) => {
    const query = new URLSearchParams({name, value, client: reader()});
    try {
      const answer = await fetch(`/act?${query}`, {headers: {'X-Viewer': '1'}});
      return [answer.ok, await answer.text()];
    } catch {
      return [false, 'the viewer does not answer'];
    }
  };

  let last = Promise.resolve(); // requests are sent in the order of the user's actions
  const act = async (element, value) => {
    const request = last.then(() => send(element.dataset.act, value));
    last = request;
    const [taken, text] = await request;
    const note = element.parentElement?.querySelector('[data-note]');
    if (note && !taken) {
      note.textContent = text;
      note.style.color = '#c0392b';
    }
    return taken;
  };

  const commit = async (input) => {
    const value = input.value.trim();
    if (!value || value === input.dataset.sent) return;
    input.dataset.sent = value;
    if (await act(input, value)) input.value = input.dataset.sent = '';
  };

  const isField = (element) => element.matches?.('input[data-act]');
  document.addEventListener('focusout', (event) => isField(event.target) && commit(event.target));
  document.addEventListener('keydown', (event) => {
    if (!isField(event.target)) return;
    event.stopPropagation();
    if (event.key === 'Enter') commit(event.target);
    if (event.key === 'Escape') event.target.value = '';
  }, true);
  document.addEventListener('click', (event) => {
    const button = event.target.closest?.('button[data-act]');
    if (button) act(button, button.dataset.value ?? '');
  });

  if (buttons.length) {
    const bar = document.createElement('div');
    bar.id = 'stop';
    bar.innerHTML = `<style>
      #stop {position: fixed; top: 6px; left: 50%; transform: translateX(-50%); z-index: 99999;
        text-align: center; font: 12px sans-serif; color: #868e96; pointer-events: none}
      #stop button {pointer-events: auto; border: 0; border-radius: 6px; color: #fff;
        font: bold 15px sans-serif; padding: .7em 1.5em; margin: 0 3px; cursor: pointer}
      #stop button[data-name=stop] {background: #c92a2a}
      #stop button[data-name=hold] {background: #495057}</style>
      <div data-buttons></div><div>It is not an emergency stop: keep that in reach.</div>
      <div data-answer style="color:#c92a2a;font-weight:bold"></div>`;
    for (const name of buttons) {
      const button = document.createElement('button');
      button.dataset.name = name;
      button.textContent = name === 'stop' ? 'STOP' : name;
      // Not after what is pending: a stop waits for nothing.
      button.onclick = async () => {
        const [taken, text] = await send(name, '');
        bar.querySelector('[data-answer]').textContent = taken ? '' : text;
      };
      bar.querySelector('[data-buttons]').append(button);
    }
    document.addEventListener('DOMContentLoaded', () => document.body.append(bar));
    if (document.body) document.body.append(bar);
  }

  let small = false;
  const collapse = () => {
    if (window.innerWidth >= SMALL) {
      small = false;
      return;
    }
    const button = document.querySelector('[data-dock-region-collapse="left"]');
    if (small || !button) return;
    small = true; // once: who opens them again keeps them
    if (button.getAttribute('aria-expanded') === 'true') button.click();
  };
  window.addEventListener('resize', collapse);
  setInterval(collapse, 500);
})();
