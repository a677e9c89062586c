// SPDX-License-Identifier: Apache-2.0
// What is known of the GPU below the pointer, or with the focus: its shares by name.

import {el, bytes, percent, plural, shortModel} from './dom.js';
import {nodeDetails} from './api.js';

const ROWS = 20;
const tip = document.getElementById('tip');
let timer;
let current; // the tile

const SHARING = {mps: 'MPS', none: 'not shared'};

export function sharingName(word) {
  return SHARING[word] || word;
}

export function nameOf(share) {
  if (share.hidden)
    return 'another namespace';
  if (share.pod)
    return `${share.namespace ?? '?'}/${share.pod}`;
  return share.claim ? `claim ${share.namespace ?? '?'}/${share.claim}` : 'unknown';
}

function place(tile) {
  const box = tile.getBoundingClientRect();
  const width = tip.offsetWidth;
  const height = tip.offsetHeight;
  const below = box.bottom + 6 + height <= innerHeight || box.top < height + 6;
  tip.style.setProperty('left', `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`);
  tip.style.setProperty('top', `${below ? Math.min(box.bottom + 6, Math.max(8, innerHeight - height - 8)) : box.top - height - 6}px`);
}

function shareRow(share, isMarked) {
  return el('tr', {class: isMarked ? 'marked' : undefined}, el('td', null, nameOf(share), share.container && el('small', null, ` ${share.container}`)),
    el('td', null, share.replicas ?? ''), el('td', null, `${bytes(share.memoryUsed)} / ${bytes(share.memoryLimit)}`), el('td', null, percent(share.sm)));
}

function unitBlock(unit, gpu, marked) {
  const position = marked && marked.dataset.unit === unit.uuid ? Number(marked.dataset.share) : -1;
  const first = Math.max(0, Math.min(position - ROWS + 1, unit.shares.length - ROWS));
  const rows = unit.shares.slice(first, first + ROWS).map((share, i) => shareRow(share, first + i === position));
  const head = [unit.profile && `${unit.profile} (${unit.index ?? ''})`, sharingName(unit.sharing), unit.replicas !== undefined && (unit.granted === undefined ? plural(unit.replicas, 'replica') : `${unit.granted} of ${plural(unit.replicas, 'replica')} granted`),
    unit.draining && 'draining', unit.reserved > 0 && `${unit.reserved} reserved`].filter(Boolean).join(' · ');
  return [el('p', null, head), unit.healthy === false && el('p', {class: 'bad'}, `⚠ ${unit.reason || 'unhealthy'}`),
    rows.length > 0 && el('table', null, el('thead', null, el('tr', null, ['Share', 'Replicas', 'Memory', 'SM'].map((head) => el('th', null, head)))), el('tbody', null, rows)),
    unit.shares.length > ROWS && el('p', {class: 'quiet'}, `and ${unit.shares.length - rows.length} more`)];
}

function draw(tile, node, gpu, marked) {
  const units = gpu ? gpu.units.filter((unit) => !marked || gpu.units.length < 3 || unit.uuid === marked.dataset.unit) : [];
  tip.replaceChildren(...[el('h4', null, `${node.name} · GPU ${gpu?.index ?? ''}`, el('small', null, ` ${shortModel(gpu?.model)}`)),
    units.map((unit) => unitBlock(unit, gpu, marked))].flat(3).filter(Boolean));
  tip.hidden = false;
  place(tile);
}

async function fetchAndDraw(tile, node, marked) {
  try {
    const details = await nodeDetails(node.name);
    if (current === tile)
      draw(tile, node, details.gpus.find((gpu) => gpu.uuid === tile.dataset.uuid), marked);
  } catch (error) {
    hideTip();
  }
}

export function showTip(tile, node, marked, isAtOnce) {
  clearTimeout(timer);
  current = tile;
  timer = setTimeout(() => fetchAndDraw(tile, node, marked), isAtOnce || !tip.hidden ? 30 : 150);
}

export function hideTip() {
  clearTimeout(timer);
  current = undefined;
  tip.hidden = true;
}

addEventListener('scroll', hideTip, {passive: true});
