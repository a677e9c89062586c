// SPDX-License-Identifier: Apache-2.0
// The table of all GPUs, what happened, and what the search has found.

import {ask, cluster, nodes} from './api.js';
import {bytes, count, el, link, meter, percent, plural, shortModel, sortedTable, table, when} from './dom.js';
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

const order = {name: '', column: 0, isDown: false};

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

export function tablePage(redraw) {
  const all = [...nodes.values()].flatMap((node) => node.gpus.filter((gpu) => !found.query || found.nodes.has(node.name) || isGpuFound(gpu)).map((gpu) => rowOf(node, gpu)));
  const tie = (a, b) => byName(a.node, b.node) || Number(a.gpu.index) - Number(b.gpu.index);
  return {title: 'Table', children: [el('h1', {tabindex: -1}, 'All GPUs'),
    sortedTable(`${plural(all.length, 'GPU')}${found.query ? ' found' : ''}`, COLUMNS, all, order, redraw, tie)]};
}

// ---- pods and namespaces ----

const podOrder = {name: 'pod ', column: 0, isDown: false};
const namespaceOrder = {name: 'namespace ', column: 0, isDown: false};

// The longest idle first where it is sorted by this: what has no process comes before all of them.
const idleTime = (row) => row.isIdle ? row.idleSince ?? 0 : undefined;

function idleCell(row) {
  if (!row.isIdle)
    return row.sm === undefined ? '–' : 'active';
  return row.idleSince ? when(row.idleSince) : 'no process';
}

const usedOf = (row) => row.granted > 0 && row.used !== undefined ? row.used / row.granted : undefined;

const USE = [
  ['Granted', (row) => row.granted, (row) => bytes(row.granted)],
  ['Used of it', usedOf, (row) => meter(usedOf(row), bytes(row.used))],
];

const POD_COLUMNS = [
  ['Pod', (row) => `${row.namespace}/${row.pod}`, (row) => el('a', {href: link('pods', row.namespace, row.pod)}, `${row.namespace}/${row.pod}`)],
  ['Node', (row) => row.node, (row) => el('a', {href: link('nodes', row.node)}, row.node)],
  ['GPU', (row) => row.index, (row) => el('a', {href: link('gpus', row.unit ?? row.gpu)}, row.index ?? '–')],
  ['Replicas', (row) => row.replicas, (row) => row.replicas === undefined ? '–' : `${row.replicas} of ${row.of ?? '–'}`],
  ...USE,
  ['SM', (row) => row.sm, (row) => meter(row.sm)],
  ['Idle since', idleTime, idleCell],
];

const NAMESPACE_COLUMNS = [
  ['Namespace', (row) => row.name, (row) => el('a', {href: link('pods', row.name)}, row.name)],
  ['Pods', (row) => row.pods, (row) => count(row.pods)],
  ['Waiting', (row) => row.waiting, (row) => row.waiting ? el('a', {href: '#/events'}, count(row.waiting)) : '0'],
  ...USE,
  ['SM, added up', (row) => row.sm, (row) => percent(row.sm)],
  ['Idle since', idleTime, (row) => row.pods > 0 ? idleCell(row) : '–'],
];

// |namespace| undefined: of all.
export async function podsPage(redraw, namespace) {
  const answer = await ask('pods', namespace === undefined ? undefined : {namespace});
  const pods = answer.pods.filter((row) => matches([`${row.namespace}/${row.pod}`, row.node]));
  const namespaces = answer.namespaces.filter((row) => namespace === undefined ? matches([row.name]) : row.name === namespace);
  return {title: namespace ?? 'Pods', children: [
    namespace !== undefined && el('p', {class: 'crumbs'}, el('a', {href: '#/pods'}, 'Pods'), ` / ${namespace}`),
    el('h1', {tabindex: -1}, namespace ?? 'Pods and namespaces'),
    sortedTable(plural(namespaces.length, 'namespace'), NAMESPACE_COLUMNS, namespaces, namespaceOrder, redraw, (a, b) => byName(a, b)),
    answer.isCut && el('p', {class: 'quiet'}, `These are the first ${count(answer.pods.length)} shares: choose a namespace to see the others.`),
    sortedTable(`${plural(pods.length, 'share')} of pods, one line for each GPU`, POD_COLUMNS, pods, podOrder, redraw,
      (a, b) => `${a.namespace}/${a.pod}`.localeCompare(`${b.namespace}/${b.pod}`, 'en', {numeric: true})),
    el('p', {class: 'quiet'}, 'Granted is memory. A share is idle since its SMs have done nothing; “no process”: none within ten minutes. “–” is not known.')]};
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
