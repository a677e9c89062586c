// The table of all GPUs, what happened, and what the search has found.

import {ask, cluster, nodes} from './api.js';
import {bytes, count, el, link, meter, plural, shortModel, table, when} from './dom.js';
import {sharingName} from './tip.js';
import {byName, found, freeOf, isGpuFound, isUnhealthy, stateOf, sum} from './model.js';

// ---- events ----

// "GPU 3", or "GPU 0:1" of a MIG device, where the map knows it.
function unitName(node, uuid) {
  for (const gpu of nodes.get(node)?.gpus || []) {
    const unit = gpu.units.find((one) => one.uuid === uuid);
    if (unit || gpu.uuid === uuid)
      return `GPU ${(gpu.uuid === uuid ? gpu.index : unit.index) ?? uuid}`;
  }
  return uuid;
}

export function eventList(events, otherwise) {
  if (events.length === 0)
    return el('p', {class: 'quiet'}, cluster.seesAll ? otherwise : 'Events may name any pod: they are shown to those who may list pods in all namespaces.');
  return el('ol', {class: 'events'}, events.map((event) => el('li', {class: event.kind === 'Warning' ? 'warning' : undefined},
    event.time === undefined ? el('time', null, '–') : when(event.time), el('b', null, event.kind === 'Warning' ? '⚠ ' : '', event.reason ?? ''),
    el('span', null, el('a', {href: link('nodes', event.node)}, event.node), event.unit && [' ', el('a', {href: link('gpus', event.unit), title: event.unit}, unitName(event.node, event.unit))]), el('p', null, event.text ?? ''))));
}

function matches(words) {
  return !found.query || words.some((word) => word?.toLowerCase().includes(found.query.toLowerCase()));
}

export async function eventsPage() {
  const answer = await ask('events');
  const waiting = answer.waiting.filter((pod) => matches([`${pod.namespace}/${pod.name}`, pod.message]));
  const events = answer.events.filter((event) => matches([event.node, event.unit, event.reason, event.text]));
  return {title: 'Events', children: [
    el('h1', {tabindex: -1}, 'What happened'),
    waiting.length > 0 && table(`${plural(waiting.length, 'pod')} wait for a GPU, or were refused one`, ['Pod', 'State', 'Asks for', 'Why', 'Since'], waiting.map((pod) => [
      el('a', {href: link('pods', pod.namespace, pod.name)}, `${pod.namespace}/${pod.name}`), pod.phase ?? '',
      [...pod.requests.map((request) => `${request.count} ${request.resource}`), ...pod.claims.map((claim) => `claim ${claim}`)].join(', '),
      el('span', {class: 'long'}, [pod.reason, pod.message].filter(Boolean).join(': ')), pod.created ? when(pod.created) : '–'])),
    ...Object.entries(answer.leftOut).map(([namespace, number]) => el('p', {class: 'quiet'}, `${plural(number, 'more pod')} of the namespace ${namespace}: left out.`)),
    eventList(events, found.query ? `Nothing about “${found.query}”.` : 'Nothing that the agents still know.'), answer.isCut && el('p', {class: 'quiet'}, 'Older ones are left out.')]};
}

// ---- the table ----

const ROWS = 100;
const order = {column: 0, isDown: false};
let shown = ROWS;

const COLUMNS = [
  ['Node', (row) => row.node.name, (row) => el('a', {href: link('nodes', row.node.name)}, row.node.name)],
  ['GPU', (row) => Number(row.gpu.index), (row) => el('a', {href: link('gpus', row.gpu.uuid)}, row.gpu.index ?? '–')],
  ['Model', (row) => row.gpu.model ?? '', (row) => shortModel(row.gpu.model)],
  ['Memory', (row) => row.gpu.memory, (row) => bytes(row.gpu.memory)],
  ['Memory used', (row) => row.gpu.used, (row) => meter(row.gpu.used === undefined ? undefined : row.gpu.used / 100)],
  ['SM', (row) => row.gpu.sm, (row) => meter(row.gpu.sm === undefined ? undefined : row.gpu.sm / 100)],
  ['Sharing', (row) => row.sharing, (row) => row.sharing || '–'],
  ['Shares', (row) => row.shares, (row) => count(row.shares)],
  ['Granted', (row) => row.granted, (row) => count(row.granted)],
  ['Reserved', (row) => row.reserved, (row) => count(row.reserved)],
  ['Free', (row) => row.free, (row) => count(row.free)],
  ['Health', (row) => row.health, (row) => el('span', {class: `long ${row.isBad ? 'bad' : ''}`}, row.health)],
];

function rowOf(node, gpu) {
  const faulty = gpu.units.find((unit) => unit.unhealthy !== undefined);
  return {node, gpu, sharing: [...new Set(gpu.units.map((unit) => unit.profile ? `MIG, ${sharingName(unit.sharing) ?? ''}` : sharingName(unit.sharing) ?? ''))].join(' and '),
    shares: gpu.units.reduce((total, unit) => total + unit.shares.length, 0), granted: sum(gpu.units, (unit) => unit.granted),
    reserved: sum(gpu.units, (unit) => unit.reserved), free: sum(gpu.units, freeOf),
    isBad: faulty !== undefined, health: faulty ? `⚠ ${faulty.unhealthy || 'unhealthy'}` : stateOf(node) || 'healthy'};
}

function compare(a, b) {
  const [x, y] = [COLUMNS[order.column][1](a), COLUMNS[order.column][1](b)];
  const sign = order.isDown ? -1 : 1;
  if (x !== y && (x === undefined || y === undefined))
    return x === undefined ? 1 : -1;
  const by = typeof x === 'number' ? x - y : String(x).localeCompare(String(y), 'en', {numeric: true});
  return sign * by || byName(a.node, b.node) || Number(a.gpu.index) - Number(b.gpu.index);
}

export function tablePage(redraw) {
  const all = [...nodes.values()].flatMap((node) => node.gpus.filter((gpu) => !found.query || found.nodes.has(node.name) || isGpuFound(gpu)).map((gpu) => rowOf(node, gpu))).sort(compare);
  const heads = COLUMNS.map(([name], i) => el('th', {scope: 'col', 'aria-sort': order.column === i ? (order.isDown ? 'descending' : 'ascending') : undefined},
    el('button', {'data-key': name, onclick: () => {
      Object.assign(order, {column: i, isDown: order.column === i && !order.isDown});
      redraw();
    }}, name)));
  return {title: 'Table', children: [
    el('h1', {tabindex: -1, class: 'quiet-title'}, 'All GPUs'),
    el('div', {class: 'scroll'}, el('table', {class: 'gpus-table'}, el('caption', null, `${plural(all.length, 'GPU')}${found.query ? ' found' : ''}${all.length > shown ? `, the first ${shown}` : ''}`),
      el('thead', null, el('tr', null, heads)),
      el('tbody', null, all.slice(0, shown).map((row) => el('tr', null, COLUMNS.map(([, , cell], i) => i === 0 ? el('th', {scope: 'row'}, cell(row)) : el('td', null, cell(row)))))))),
    all.length > shown && el('button', {'data-key': 'more', onclick: () => {
      shown += ROWS;
      redraw();
    }}, `Show ${Math.min(ROWS, all.length - shown)} more`)]};
}

// ---- what the search has found ----

export function foundBox() {
  const {answer, query} = found;
  if (!query || !answer)
    return undefined;
  const pods = [...new Map(answer.pods.filter((pod) => pod.pod).map((pod) => [`${pod.namespace}/${pod.pod}`, pod])).entries()];
  const items = [
    ...pods.slice(0, 12).map(([name, pod]) => ['pod', link('pods', pod.namespace, pod.pod), name]),
    ...answer.nodes.slice(0, 6).map((name) => ['node', link('nodes', name), name]),
    ...answer.gpus.slice(0, 6).map((gpu) => ['GPU', link('gpus', gpu.uuid), `${gpu.node} GPU ${gpu.index ?? ''}`])];
  const number = pods.length + answer.nodes.length + answer.gpus.length;
  return el('section', {class: 'found', 'aria-label': 'Found'},
    el('p', {role: 'status'}, number === 0 ? `Nothing is called “${query}”.` : `${answer.isCut ? 'More than ' : ''}${plural(pods.length, 'pod')}, ${plural(answer.nodes.length, 'node')}, ${plural(answer.gpus.length, 'GPU')} found for “${query}”`),
    items.length > 0 && el('ul', null, items.map(([kind, href, text]) => el('li', null, el('a', {href}, el('small', null, kind), ' ', text)))));
}

export function attention() {
  const problems = [];
  for (const node of [...nodes.values()].sort(byName))
    for (const gpu of node.gpus.filter(isUnhealthy))
      problems.push(el('a', {href: link('gpus', gpu.uuid)}, `⚠ ${node.name} GPU ${gpu.index ?? ''}: ${gpu.units.find((unit) => unit.unhealthy !== undefined).unhealthy || 'unhealthy'}`));
  return problems;
}
