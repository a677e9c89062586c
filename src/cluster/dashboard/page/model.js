// SPDX-License-Identifier: Apache-2.0
// What the overview says, added up and judged. No elements here.

export function unitState(node, unit) {
  if (unit.unhealthy !== undefined)
    return 'unhealthy';
  return node.state === 'answers' ? 'healthy' : 'away';
}

export function isUnhealthy(gpu) {
  return gpu.units.some((unit) => unit.unhealthy !== undefined);
}

// undefined: the agent counts no replicas, or does not know who has some.
export function freeOf(unit) {
  if (unit.replicas === undefined || unit.granted === undefined)
    return undefined;
  return unit.draining ? 0 : Math.max(0, unit.replicas - unit.granted - (unit.reserved || 0));
}

// "3 granted, 1 reserved, 6 free of 10"
export function replicasText(unit) {
  if (unit.replicas === undefined)
    return undefined;
  if (unit.granted === undefined)
    return `${unit.replicas}; who has some of them is not known`;
  if (unit.draining)
    return `${unit.granted} of ${unit.replicas} granted; the others wait with a change until these are given back`;
  return `${unit.granted} granted, ${unit.reserved ?? 0} reserved, ${freeOf(unit)} free of ${unit.replicas}`;
}

// Sums over the units of a GPU; undefined where no unit knows.
export function sum(units, value) {
  return units.reduce((total, unit) => value(unit) === undefined ? total : (total || 0) + value(unit), undefined);
}

const STATES = {none: 'no agent', asked: 'agent not asked yet', silent: 'agent does not answer', 'too-old': 'agent is too old'};

// Why a node needs attention; undefined: it does not.
export function trouble(node) {
  if (node.state === 'silent' || node.state === 'too-old' || node.state === 'none')
    return STATES[node.state] + (node.reason ? `: ${node.reason}` : '');
  return node.isReady === false ? 'the node is not ready' : undefined;
}

export function stateOf(node) {
  const words = [];
  if (node.state !== 'answers')
    words.push(STATES[node.state] || node.state);
  if (node.isReady === false)
    words.push('not ready');
  if (node.isCordoned)
    words.push('cordoned');
  return words.join(', ');
}

export function totals(nodes) {
  const all = {nodes: 0, silent: 0, gpus: 0, unhealthy: 0, replicas: 0, granted: 0, reserved: 0, shares: 0, memory: 0, used: 0, sm: 0, smOf: 0, models: new Map()};
  for (const node of nodes) {
    all.nodes++;
    all.silent += node.state !== 'answers' && node.state !== 'asked';
    for (const gpu of node.gpus) {
      all.gpus++;
      all.unhealthy += isUnhealthy(gpu);
      all.models.set(gpu.model, (all.models.get(gpu.model) || 0) + 1);
      if (gpu.memory !== undefined && gpu.used !== undefined) {
        all.memory += gpu.memory;
        all.used += gpu.memory * gpu.used / 100;
      }
      if (gpu.sm !== undefined) {
        all.sm += gpu.sm;
        all.smOf++;
      }
      for (const unit of gpu.units) {
        all.replicas += unit.granted === undefined ? 0 : unit.replicas || 0;
        all.granted += unit.granted || 0;
        all.reserved += unit.reserved || 0;
        all.shares += unit.shares.length;
      }
    }
  }
  return all;
}

// ---- colours of namespaces: the eight largest have one each, which they keep ----

const colours = new Map();
export const COLOURS = 8;

export function colourNamespaces(nodes) {
  const sizes = new Map();
  for (const node of nodes)
    for (const gpu of node.gpus)
      for (const unit of gpu.units)
        for (const share of unit.shares)
          if (share[3] !== null) {
            const name = node.namespaces[share[3]];
            sizes.set(name, (sizes.get(name) || 0) + (share[0] || 0));
          }
  for (const [name] of [...sizes].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)))
    if (!colours.has(name) && colours.size < COLOURS)
      colours.set(name, colours.size + 1);
}

export function colourOf(namespace) {
  return colours.get(namespace) || 0;
}

export function colouredNamespaces() {
  return [...colours.keys()];
}

// ---- what the search has found ----

export const found = {query: '', nodes: new Set(), gpus: new Set(), marks: new Map(), answer: null};

export function setFound(query, answer) {
  found.query = query;
  found.answer = answer;
  found.nodes = new Set(answer?.nodes);
  found.gpus = new Set(answer?.gpus.map((gpu) => gpu.uuid));
  found.marks = new Map(Object.entries(answer?.marks || {}).map(([uuid, positions]) => [uuid, new Set(positions)]));
}

export function isGpuFound(gpu) {
  return found.gpus.has(gpu.uuid) || gpu.units.some((unit) => found.marks.has(unit.uuid));
}

export function isNodeFound(node) {
  return !found.query || found.nodes.has(node.name) || node.name.toLowerCase().includes(found.query.toLowerCase()) || node.gpus.some(isGpuFound);
}

// Dimmed: something was looked for, and it is not this.
export function isShareDim(node, gpu, unit, position) {
  return found.query !== '' && !found.nodes.has(node.name) && !found.gpus.has(gpu.uuid) && !found.marks.get(unit.uuid)?.has(position);
}

export function byName(a, b) {
  return a.name.localeCompare(b.name, 'en', {numeric: true});
}
