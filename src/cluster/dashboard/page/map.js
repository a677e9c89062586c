// SPDX-License-Identifier: Apache-2.0
// The map: a row a node, a tile a GPU, a bar a unit, a segment a share. A row gets its tiles when it comes into view, so that a
// cluster of thousands of GPUs is there at once.

import {el, link, plural, shortModel} from './dom.js';
import {cluster, nodes} from './api.js';
import {byName, colourNamespaces, colourOf, colouredNamespaces, found, freeOf, isUnhealthy, isNodeFound, isShareDim, stateOf, sum, trouble, unitState} from './model.js';
import {hideTip, showTip} from './tip.js';

const choices = {show: 'all', colour: 'use', size: 'large', order: 'name'};
const rows = new Map(); // by name: {element, gpus, node, isSeen, isDrawn}
let list;
let observer;

// ---- a tile ----

// |isPlain|: on a page of its own, where neither the map's colours nor its search count.
function drawUnit(node, gpu, unit, isPlain) {
  const reserved = unit.replicas ? 1000 * (unit.reserved || 0) / unit.replicas : 0;
  const unknown = unit.shares.some((share) => share[0] === null);
  const widths = unit.shares.map((share) => share[0] === null ? 1000 / unit.shares.length : Math.max(share[0], 4));
  const isUnknown = unit.replicas !== undefined && unit.granted === undefined;
  const rest = unknown || isUnknown ? 0 : Math.max(0, 1000 - reserved - widths.reduce((a, b) => a + b, 0));
  const bar = el('span', {class: `unit ${unitState(node, unit)}`, '--w': gpu.units.length > 1 ? parseInt(unit.profile, 10) || 1 : 1});
  unit.shares.forEach((share, position) => {
    const [, memory, sm, namespace] = share;
    const classes = ['share'];
    if (choices.colour === 'namespace' && !isPlain)
      classes.push(`ns${namespace === null ? 0 : colourOf(node.namespaces[namespace])}`);
    if (memory >= 95)
      classes.push('full');
    if (!memory && !sm)
      classes.push('idle');
    if (!isPlain && isShareDim(node, gpu, unit, position))
      classes.push('dim');
    bar.append(el('i', {class: classes.join(' '), 'data-unit': unit.uuid, 'data-share': position, '--s': widths[position], '--m': `${Math.min(100, memory ?? 0)}%`}));
  });
  if (reserved > 0)
    bar.append(el('i', {class: 'reserved', '--s': reserved}));
  if (rest > 0)
    bar.append(el('i', {class: unit.draining ? 'reserved' : 'free', '--s': rest}));
  return bar;
}

export function drawBar(node, gpu, isPlain) {
  return el('span', {class: 'bar', 'aria-hidden': 'true'}, gpu.units.map((unit) => drawUnit(node, gpu, unit, isPlain)));
}

function words(node, gpu) {
  const granted = sum(gpu.units, (unit) => unit.granted);
  const of = sum(gpu.units, (unit) => unit.replicas);
  const reserved = sum(gpu.units, (unit) => unit.reserved);
  const faulty = gpu.units.find((unit) => unit.unhealthy !== undefined);
  return [`GPU ${gpu.index ?? ''} of ${node.name}, ${shortModel(gpu.model)}`,
    granted !== undefined && of !== undefined && `${granted} of ${of} replicas granted`, gpu.units.some((unit) => unit.draining) && 'draining', reserved > 0 && `${reserved} reserved`,
    gpu.used !== undefined && `memory ${gpu.used} %`, gpu.sm !== undefined && `SM ${gpu.sm} %`,
    faulty ? `unhealthy${faulty.unhealthy && ': ' + faulty.unhealthy}` : node.state !== 'answers' && stateOf(node)].filter(Boolean).join(', ');
}

function drawGpu(node, gpu) {
  const state = isUnhealthy(gpu) ? 'unhealthy' : node.state === 'answers' ? 'healthy' : 'away';
  return el('a', {class: `gpu ${state}`, href: link('gpus', gpu.uuid), tabindex: -1, 'data-uuid': gpu.uuid, 'data-node': node.name, 'aria-label': words(node, gpu)},
    el('span', {class: 'cap', 'aria-hidden': 'true'}, el('b', null, state === 'unhealthy' ? `⚠ ${gpu.index ?? ''}` : gpu.index ?? ''),
      el('span', null, gpu.used === undefined ? '' : `${gpu.used} %`)),
    drawBar(node, gpu),
    el('span', {class: 'sm', 'aria-hidden': 'true', '--v': `${Math.min(100, gpu.sm ?? 0)}%`}));
}

// ---- a row ----

function modelsOf(node) {
  const counts = new Map();
  for (const gpu of node.gpus)
    counts.set(shortModel(gpu.model), (counts.get(shortModel(gpu.model)) || 0) + 1);
  return [...counts].map(([model, number]) => `${number} × ${model}`).join(', ');
}

function drawRow(row) {
  const {node, element} = row;
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.uuid : undefined;
  const state = stateOf(node);
  element.replaceChildren(
    el('h3', null, el('a', {href: link('nodes', node.name)}, node.name),
      el('small', state ? {class: trouble(node) ? 'bad' : 'quiet', title: node.reason} : {class: 'quiet'}, state || modelsOf(node))),
    el('div', {class: 'gpus'}, node.gpus.length ? node.gpus.map((gpu) => drawGpu(node, gpu)) : el('span', {class: 'quiet none'}, state ? 'Its GPUs are not known.' : 'No GPUs.')));
  row.isDrawn = true;
  setTabStop();
  if (focused)
    element.querySelector(`[data-uuid="${CSS.escape(focused)}"]`)?.focus({preventScroll: true});
}

function onSeen(entries) {
  for (const entry of entries) {
    const row = rows.get(entry.target.dataset.name);
    if (!row)
      continue;
    row.isSeen = entry.isIntersecting;
    if (row.isSeen && !row.isDrawn)
      drawRow(row);
  }
}

// One tile of the map is in the order of the Tab key; arrows go on from there.
function setTabStop() {
  if (!list.querySelector('.gpu[tabindex="0"]'))
    list.querySelector('.gpu')?.setAttribute('tabindex', 0);
}

// ---- which rows, in which order ----

const FILTERS = {
  all: () => true,
  free: (node) => node.gpus.some((gpu) => gpu.units.some((unit) => freeOf(unit) > 0 && unit.unhealthy === undefined)),
  trouble: (node) => Boolean(trouble(node)) || node.gpus.some(isUnhealthy),
};

function freeRatio(node) {
  const units = node.gpus.flatMap((gpu) => gpu.units);
  return (sum(units, freeOf) || 0) / (sum(units, (unit) => unit.replicas) || 1);
}

function mean(node) {
  return node.gpus.reduce((total, gpu) => total + (gpu.used || 0), 0) / Math.max(1, node.gpus.length);
}

const ORDERS = {
  name: byName,
  free: (a, b) => freeRatio(b) - freeRatio(a) || byName(a, b),
  used: (a, b) => mean(b) - mean(a) || byName(a, b),
};

function rowOf(node) {
  let row = rows.get(node.name);
  if (!row) {
    row = {element: el('section', {class: 'node', 'data-name': node.name})};
    row.element.append(el('h3', null, el('a', {href: link('nodes', node.name)}, node.name)));
    rows.set(node.name, row);
    observer.observe(row.element);
  }
  row.node = node;
  return row;
}

function arrange() {
  const shown = [...nodes.values()].filter((node) => FILTERS[choices.show](node) && isNodeFound(node)).sort(ORDERS[choices.order]);
  const elements = shown.map((node) => rowOf(node).element);
  for (const [name, row] of rows)
    if (!nodes.has(name)) {
      observer.unobserve(row.element);
      rows.delete(name);
    }
  if (elements.length !== list.children.length || elements.some((element, i) => list.children[i] !== element))
    list.replaceChildren(...elements);
  list.dataset.size = choices.size;
  const none = document.getElementById('none');
  none.hidden = shown.length > 0;
  none.textContent = found.query ? 'Nothing of that name.' : nodes.size > 0 ? 'No such nodes.' : !cluster.isComplete ? 'Asking the API server …' :
    'No nodes with GPUs: none runs an agent, or has a resource or a label of NVIDIA\'s.';
  document.getElementById('shown').textContent = shown.length === nodes.size ? '' : `${plural(shown.length, 'node')} of ${nodes.size} shown`;
}

// |changed|: names; undefined: all.
export function updateMap(changed) {
  if (!list?.isConnected)
    return;
  colourNamespaces(nodes.values());
  arrange();
  for (const [name, row] of rows) {
    if (changed && !changed.has(name))
      continue;
    row.isDrawn = false;
    if (row.isSeen && row.element.isConnected)
      drawRow(row);
  }
  drawLegend();
}

// ---- legend and choices ----

const item = (classes, text) => el('span', null, el('i', {class: `key ${classes}`, 'aria-hidden': 'true'}), text);
const legendOfUse = () => [item('share', 'granted; filled: memory used'), item('share full', 'memory nearly full'), item('share idle', 'granted, not used')];
const legendOfRest = () => [item('free', 'free'), item('reserved', 'reserved for larger requests, or waiting for a change')];

function drawLegend() {
  const own = choices.colour === 'namespace' ?
    [...colouredNamespaces().map((name) => item(`ns${colourOf(name)}`, name)), item('ns0', 'others')] : legendOfUse();
  document.getElementById('legend').replaceChildren(...own, ...legendOfRest(), item('smkey', 'SM activity'), item('illkey', 'unhealthy'));
}

// Of the bars of pages of their own, which have neither.
export function legendOf() {
  return el('div', {class: 'legend', 'aria-label': 'Legend'}, legendOfUse(), legendOfRest());
}

function choice(name, label, options) {
  return el('label', null, label, ' ', el('select', {id: `choose-${name}`, onchange: (event) => {
    choices[name] = event.target.value;
    updateMap();
  }}, options.map(([value, text]) => el('option', {value, selected: choices[name] === value}, text))));
}

// ---- keys and pointer ----

const STEPS = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};

function onKey(event) {
  const tile = event.target.closest('.gpu');
  const step = STEPS[event.key];
  if (event.key === 'Escape')
    hideTip();
  if (!tile || !step || event.altKey || event.ctrlKey || event.metaKey)
    return;
  event.preventDefault();
  let row = tile.closest('.node');
  let position = [...row.querySelectorAll('.gpu')].indexOf(tile) + step[1];
  if (step[0] || position < 0 || position >= row.querySelectorAll('.gpu').length) {
    const direction = step[0] || step[1];
    do
      row = direction < 0 ? row.previousElementSibling : row.nextElementSibling;
    while (row && !rows.get(row.dataset.name)?.node.gpus.length);
    if (!row)
      return;
    if (!rows.get(row.dataset.name).isDrawn)
      drawRow(rows.get(row.dataset.name));
    position = step[0] ? position : direction < 0 ? Infinity : 0;
  }
  const tiles = [...row.querySelectorAll('.gpu')];
  const next = tiles[Math.min(position, tiles.length - 1)];
  tile.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  next.scrollIntoView({block: 'nearest'});
}

function onPoint(event) {
  const tile = event.target.closest?.('.gpu');
  if (tile && nodes.has(tile.dataset.node))
    showTip(tile, nodes.get(tile.dataset.node), event.target.closest('.share'), event.type === 'focusin');
  else
    hideTip();
}

export function drawMap(main) {
  observer?.disconnect();
  rows.clear();
  observer = new IntersectionObserver(onSeen, {rootMargin: '600px 0px'});
  list = el('div', {class: 'map', id: 'map', onkeydown: onKey, onpointerover: onPoint, onpointerleave: hideTip, onfocusin: onPoint, onfocusout: hideTip});
  main.append(
    el('div', {class: 'tools'},
      choice('show', 'Show', [['all', 'all nodes'], ['free', 'with free replicas'], ['trouble', 'that need attention']]),
      choice('colour', 'Colour by', [['use', 'use'], ['namespace', 'namespace']]),
      choice('order', 'Order', [['name', 'name'], ['used', 'most used'], ['free', 'most free']]),
      choice('size', 'Size', [['large', 'large'], ['small', 'small']]),
      el('span', {id: 'shown', class: 'quiet', role: 'status'})),
    el('div', {id: 'legend', class: 'legend', 'aria-label': 'Legend'}), list,
    el('p', {id: 'none', class: 'empty', hidden: true}));
  updateMap();
}
