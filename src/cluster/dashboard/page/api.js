// SPDX-License-Identifier: Apache-2.0
// Questions to the server. The token is in this module's memory only: neither storage nor cookie has it.

let token = '';

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export function setToken(text) {
  token = text.trim();
}

export async function ask(path, parameters) {
  const query = parameters ? '?' + new URLSearchParams(parameters) : '';
  const response = await fetch(`api/v1/${path}${query}`, {
    headers: token ? {Authorization: `Bearer ${token}`} : {},
    cache: 'no-store', credentials: 'same-origin', redirect: 'error', signal: AbortSignal.timeout(30000),
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok)
    throw new Refused(response.status, answer.error || `the server answers ${response.status}`);
  return answer;
}

// ---- the overview, which is asked for again and again ----

export const nodes = new Map(); // by name
export const cluster = {version: '', waiting: 0, troubles: [], isComplete: false, seesAll: true, time: 0};

// The names of nodes that have changed; undefined: all of them may have.
export async function refresh() {
  const answer = await ask('overview', cluster.version ? {since: cluster.version} : undefined);
  const changed = answer.full ? undefined : new Set(answer.gone);
  if (answer.full)
    nodes.clear();
  for (const name of answer.gone)
    nodes.delete(name);
  for (const node of answer.nodes) {
    node.version = answer.version;
    nodes.set(node.name, node);
    changed?.add(node.name);
  }
  Object.assign(cluster, {version: answer.version, waiting: answer.waiting, troubles: answer.troubles,
    isComplete: answer.isComplete, seesAll: answer.seesAll, time: answer.time});
  return changed;
}

// ---- what is asked for when somebody looks at it ----

const details = new Map(); // of nodes: {version, promise}

export function nodeDetails(name) {
  const version = nodes.get(name)?.version;
  const known = details.get(name);
  if (known && known.version === version)
    return known.promise;
  const promise = ask(`nodes/${encodeURIComponent(name)}`);
  promise.catch(() => details.delete(name));
  details.set(name, {version, promise});
  if (details.size > 50)
    details.delete(details.keys().next().value);
  return promise;
}
