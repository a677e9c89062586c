// SPDX-License-Identifier: Apache-2.0
// The pages of one node, one GPU, one pod.

import {ask, nodes} from './api.js';
import {ago, bytes, count, el, energy, facts, link, meter, percent, plural, shortModel, span, sparkline, table, when} from './dom.js';
import {drawBar, legendOf} from './map.js';
import {replicasText} from './model.js';
import {nameOf, sharingName} from './tip.js';
import {eventList} from './lists.js';

const OTHERS = {'mps-server': 'MPS servers', host: 'processes outside of Kubernetes', hidden: 'containers that are not known', unattributed: 'not attributed to a process'};

function podLink(share) {
  if (!share.hidden && share.namespace && share.pod)
    return el('a', {href: link('pods', share.namespace, share.pod)}, nameOf(share));
  return el('span', {class: share.hidden ? 'quiet' : undefined}, nameOf(share));
}

function agentState(answer) {
  if (answer.state === 'answers')
    return undefined;
  const age = answer.pageTime ? ` What is shown is from ${ago(answer.pageTime)}.` : '';
  return el('p', {class: 'banner warn'}, `⚠ The node's agent ${answer.state === 'none' ? 'is not there' : 'does not answer'}${answer.reason ? `: ${answer.reason}` : ''}.${age}`);
}

// The overview's form of a GPU, for the bar, from the page's.
function asSummary(gpu) {
  const width = (share, unit) => share.replicas && unit.replicas ? 1000 * share.replicas / unit.replicas :
    share.memoryLimit && unit.memory ? 1000 * share.memoryLimit / unit.memory : null;
  return {uuid: gpu.uuid, index: gpu.index, units: gpu.units.map((unit) => ({...unit, unhealthy: unit.healthy === false ? unit.reason || '' : undefined,
    shares: unit.shares.map((share) => [width(share, unit), share.memoryUsed === undefined ? null : 100 * share.memoryUsed / (share.memoryLimit || unit.memory),
      share.sm === undefined ? null : 100 * share.sm, null])}))};
}

function bigBar(node, gpu) {
  const bar = drawBar({name: node, state: nodes.get(node)?.state || 'answers'}, asSummary(gpu), true);
  bar.classList.add('big');
  return bar;
}

function reservedWords(unit) {
  if (!(unit.reserved > 0))
    return undefined;
  return `${unit.reserved} of ${unit.replicas} replicas are free, but not advertised: the scheduler only counts a node's free replicas, and does not know on which GPU they are. So many are kept back that every request it admits still finds room on one GPU.`;
}

function shareRow(share) {
  const limit = share.memoryLimit;
  return [podLink(share), share.container ?? '', share.replicas ?? '–', meter(limit && share.memoryUsed !== undefined ? share.memoryUsed / limit : undefined, `${bytes(share.memoryUsed)} of ${bytes(limit)}`),
    bytes(share.memoryPeak), meter(share.sm), sparkline(share.history, `SM activity of ${nameOf(share)} in the last hour`), span(share.seconds), energy(share.energy)];
}

const SHARE_HEADS = ['Pod', 'Container', 'Replicas', 'Memory used of granted', 'Peak (1 h)', 'SM', 'SM, last hour', 'Time on GPU', 'Energy (estimate)'];

function unitSection(unit, hasSeveral) {
  return el('section', {class: 'card'},
    hasSeveral && el('h2', null, unit.profile ? `MIG ${unit.profile} ` : 'Unit ', el('small', null, unit.index ?? '')),
    unit.healthy === false && el('p', {class: 'banner bad'}, `⚠ Unhealthy${unit.reason ? `: ${unit.reason}` : ''}. Nothing new is placed here; it comes back by itself once it answers well.`),
    facts([['Resource', unit.resource], ['Sharing', sharingName(unit.sharing)], ['Granted by', unit.by === 'dra' ? 'DRA' : unit.by === 'device-plugin' ? 'device plugin' : unit.by],
      ['Replicas', replicasText(unit)],
      ['Memory', hasSeveral ? meter(unit.memoryUsed / unit.memory, `${bytes(unit.memoryUsed)} of ${bytes(unit.memory)}`) : undefined],
      ['SM, last hour', unit.history && sparkline(unit.history, 'SM activity in the last hour')]]),
    reservedWords(unit) && el('details', null, el('summary', null, `Why ${unit.reserved === 1 ? 'is' : 'are'} ${plural(unit.reserved, 'replica')} reserved?`), el('p', null, reservedWords(unit))),
    unit.shares.length > 0 ? table(`${plural(unit.shares.length, 'share')}`, SHARE_HEADS, unit.shares.map(shareRow)) : el('p', {class: 'quiet'}, 'No shares.'),
    unit.others.length > 0 && table('Used by nobody\'s share', ['By', 'Memory', 'SM'], unit.others.map((other) => [OTHERS[other.by] || other.by, bytes(other.memoryUsed), percent(other.sm)])));
}

function gpuFacts(gpu) {
  return facts([['Model', gpu.model], ['Memory', meter(gpu.memoryUsed / gpu.memory, `${bytes(gpu.memoryUsed)} of ${bytes(gpu.memory)}`)], ['SM', meter(gpu.utilization)],
    ['Temperature', gpu.temperature === undefined ? undefined : `${gpu.temperature} °C`],
    ['Power', gpu.power === undefined ? undefined : meter(gpu.power / gpu.powerLimit, `${Math.round(gpu.power)} of ${gpu.powerLimit === undefined ? '–' : Math.round(gpu.powerLimit)} W`)]]);
}

function crumbs(...steps) {
  return el('p', {class: 'crumbs'}, el('a', {href: '#/'}, 'Map'), steps.map((step) => [' / ', step]));
}

export async function gpuPage(uuid) {
  const {node, gpu, events, ...state} = await ask(`gpus/${encodeURIComponent(uuid)}`);
  return {title: `GPU ${gpu.index ?? ''} of ${node}`, children: [
    crumbs(el('a', {href: link('nodes', node)}, node), `GPU ${gpu.index ?? ''}`),
    el('h1', {tabindex: -1}, `GPU ${gpu.index ?? ''} `, el('small', null, gpu.uuid)), agentState(state), bigBar(node, gpu), legendOf(), gpuFacts(gpu),
    gpu.units.map((unit) => unitSection(unit, gpu.units.length > 1 || unit.profile)), el('h2', null, 'What happened'), eventList(events, 'Nothing that the agent still knows.')]};
}

function gpuCard(node, gpu) {
  const faulty = gpu.units.find((unit) => unit.healthy === false);
  return el('section', {class: 'card'}, el('h2', null, el('a', {href: link('gpus', gpu.uuid)}, `GPU ${gpu.index ?? ''}`), ' ', el('small', null, shortModel(gpu.model))),
    faulty && el('p', {class: 'banner bad'}, `⚠ ${faulty.reason || 'unhealthy'}`), bigBar(node, gpu),
    facts([['Memory', meter(gpu.memoryUsed / gpu.memory, `${bytes(gpu.memoryUsed)} of ${bytes(gpu.memory)}`)], ['SM', meter(gpu.utilization)],
      ['Shares', gpu.units.reduce((total, unit) => total + unit.shares.length, 0)]]));
}

export async function nodePage(name) {
  const node = await ask(`nodes/${encodeURIComponent(name)}`);
  const problems = (node.conditions || []).filter((condition) => (condition.type === 'Ready') !== (condition.status === 'True'));
  return {title: node.name, children: [
    crumbs(node.name), el('h1', {tabindex: -1}, node.name), agentState(node),
    problems.map((condition) => el('p', {class: 'banner warn'}, `⚠ ${condition.type} is ${condition.status}${condition.message ? `: ${condition.message}` : ''}`)),
    node.ownersUnknown && el('p', {class: 'quiet'}, node.ownersUnknown),
    facts([['Driver', node.driver], ['Configuration', node.configuration], ['kubelet', node.kubelet], ['Agent', node.agent && `${node.agent.version ?? ''} ${node.agent.namespace}/${node.agent.pod}`],
      ['Restarts of the agent', node.agent?.restarts || undefined], ['Scheduling', node.isCordoned ? 'cordoned' : undefined], ['Taints', node.taints?.length ? node.taints.join(', ') : undefined]]),
    node.resources?.length > 0 && table('Resources', ['Name', 'Capacity', 'Allocatable'], node.resources.map((resource) => [resource.name, count(resource.capacity), count(resource.allocatable)])),
    node.gpus.length > 0 && legendOf(), el('div', {class: 'cards'}, node.gpus.map((gpu) => gpuCard(node.name, gpu))), el('h2', null, 'What happened'), eventList(node.events, 'Nothing that the agent still knows.')]};
}

// The sentence of `kubectl warpshare why`, and what is in the way on which nodes.
function whyLines(why) {
  return el('div', {id: 'why'}, el('p', null, el('b', null, why.sentence)), why.todo && el('p', null, `What to do: ${why.todo}.`),
    why.nodes.length > 0 && el('ul', null, why.nodes.map((group) => el('li', null, `${group.names}: ${group.reason}`))));
}

function waitingBox(waiting, why) {
  const wants = [...waiting.requests.map((request) => `${request.count} ${request.resource}`), ...waiting.claims.map((claim) => `claim ${claim}`)].join(', ');
  return el('div', {class: 'banner warn'}, why && whyLines(why), el('p', null, `⚠ ${waiting.phase ?? 'It does not run'}${waiting.reason ? `: ${waiting.reason}` : ''}`), waiting.message && el('p', null, waiting.message),
    facts([['Asks for', wants || undefined], ['Made by', waiting.owner], ['Node', waiting.node && el('a', {href: link('nodes', waiting.node)}, waiting.node)], ['Created', waiting.created && when(waiting.created)]]));
}

export async function podPage(namespace, name) {
  const pod = await ask(`pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);
  const rows = pod.shares.map(({node, gpu, model, unit, share}) => [el('a', {href: link('nodes', node)}, node), el('a', {href: link('gpus', gpu)}, `GPU ${unit.index ?? ''}`), shortModel(model),
    unit.healthy === false ? el('span', {class: 'long bad'}, `⚠ ${unit.reason || 'unhealthy'}`) : unit.healthy ? 'healthy' : '–', ...shareRow(share).slice(1)]);
  return {title: `${pod.namespace}/${pod.name}`, children: [
    crumbs(pod.namespace, pod.name), el('h1', {tabindex: -1}, pod.name, ' ', el('small', null, pod.namespace)), pod.waiting && waitingBox(pod.waiting, pod.why),
    rows.length > 0 ? table(plural(rows.length, 'share'), ['Node', 'GPU', 'Model', 'Health', ...SHARE_HEADS.slice(1)], rows) : el('p', {class: 'quiet'}, 'It has no share of a GPU.'),
    el('h2', null, 'What happened'), eventList(pod.events, 'Nothing that its node\'s agent still knows.')]};
}
