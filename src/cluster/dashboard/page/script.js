// SPDX-License-Identifier: Apache-2.0
// The page: which view is shown, the numbers above it, the search, and asking again.

import {ask, cluster, nodes, refresh, setToken} from './api.js';
import {bytes, count, el, link, percent, plural} from './dom.js';
import {attention, eventsPage, foundBox, podsPage, tablePage} from './lists.js';
import {drawMap, updateMap} from './map.js';
import {byName, found, setFound, totals, trouble} from './model.js';
import {gpuPage, nodePage, podPage} from './pages.js';
import {hideTip} from './tip.js';

const EVERY_MS = 5000;
const DETAILS_EVERY = 3; // a page of one thing is asked for again with every third overview

const main = document.getElementById('main');
const status = document.getElementById('status');
const query = document.getElementById('query');
const login = document.getElementById('login');
const above = el('div', {class: 'above'});
const content = el('div', {class: 'content'});
main.append(above, content);

let timer;
let isAsking = false;
let rounds = 0;
let lastGood = 0;

// ---- which view ----

const VIEWS = {
  map: {draw: drawMap},
  table: {page: () => tablePage(() => showPage(false)), live: true},
  events: {page: eventsPage},
  nodes: {page: nodePage},
  gpus: {page: gpuPage},
  pods: {page: (namespace, name) => name === undefined ? podsPage(() => showPage(false), namespace || undefined) : podPage(namespace, name)},
};

function place() {
  const [view, ...parts] = location.hash.replace(/^#\/?/, '').split('/').map((part) => {
    try {
      return decodeURIComponent(part);
    } catch (error) {
      return part;
    }
  });
  return VIEWS[view] ? {view, parts} : {view: 'map', parts: []};
}

function markNavigation(view) {
  for (const item of document.querySelectorAll('nav a'))
    if (item.dataset.view === view)
      item.setAttribute('aria-current', 'page');
    else
      item.removeAttribute('aria-current');
}

// What has the focus keeps it, by its key or its address.
function replaceContent(children) {
  const focused = content.contains(document.activeElement) ? document.activeElement : undefined;
  const selector = focused?.dataset.key ? `[data-key="${CSS.escape(focused.dataset.key)}"]` : focused?.getAttribute('href') ? `[href="${CSS.escape(focused.getAttribute('href'))}"]` : undefined;
  const open = [...content.querySelectorAll('details')].map((details) => details.open);
  content.replaceChildren(...children.flat(3).filter(Boolean));
  content.querySelectorAll('details').forEach((details, i) => {
    details.open = Boolean(open[i]);
  });
  if (selector)
    content.querySelector(selector)?.focus({preventScroll: true});
}

async function showPage(isNew) {
  const {view, parts} = place();
  const hash = location.hash;
  let page;
  try {
    page = await VIEWS[view].page(...parts);
  } catch (error) {
    if (error.status === 401)
      return askForToken(error.message);
    if (!isNew && error.status !== 404)
      return;
    page = {title: 'Not found', children: [el('h1', {tabindex: -1}, error.status === 404 ? 'Not found' : 'That did not work'), el('p', null, error.message), el('p', null, el('a', {href: '#/'}, 'Back to the map'))]};
  }
  if (location.hash !== hash)
    return;
  document.title = `${page.title} · Warpshare`;
  replaceContent(page.children);
  if (isNew)
    content.querySelector('h1')?.focus({preventScroll: true});
}

function route() {
  const {view} = place();
  hideTip();
  markNavigation(view);
  drawAbove();
  scrollTo(0, 0);
  if (VIEWS[view].page) {
    content.replaceChildren(el('p', {class: 'quiet'}, 'Loading …'));
    showPage(true);
    return;
  }
  document.title = 'Warpshare';
  content.replaceChildren();
  drawMap(content);
}

// ---- above the view ----

function tile(value, name, more, ratio, href) {
  return el(href ? 'a' : 'div', {class: 'tile', href}, el('b', null, value), el('span', null, name), more && el('small', more.isBad ? {class: 'bad'} : null, more.text),
    ratio !== undefined && el('i', {class: 'track', 'aria-hidden': 'true', '--v': `${100 * ratio}%`}));
}

function tiles() {
  const all = totals(nodes.values());
  const models = [...all.models].map(([model, number]) => `${count(number)} × ${(model ?? 'GPU').replace(/^NVIDIA /, '')}`).join(', ');
  return el('div', {class: 'tiles', title: models},
    tile(count(all.nodes), all.nodes === 1 ? 'Node' : 'Nodes', all.silent ? {text: `${count(all.silent)} silent`, isBad: true} : all.nodes && {text: 'all answer'}),
    tile(count(all.gpus), all.gpus === 1 ? 'GPU' : 'GPUs', all.unhealthy ? {text: `${count(all.unhealthy)} unhealthy`, isBad: true} : all.gpus && {text: 'all healthy'}),
    all.replicas > 0 && tile(percent(all.granted / all.replicas), 'Granted', {text: `${count(all.granted)} of ${count(all.replicas)}`}, all.granted / all.replicas),
    all.reserved > 0 && tile(percent(all.reserved / all.replicas), 'Reserved', {text: plural(all.reserved, 'replica')}, all.reserved / all.replicas),
    all.memory > 0 && tile(percent(all.used / all.memory), 'Memory used', {text: `${bytes(all.used)} of ${bytes(all.memory)}`}, all.used / all.memory),
    all.smOf > 0 && tile(percent(all.sm / all.smOf / 100), 'SM activity', {text: 'mean of all GPUs'}, all.sm / all.smOf / 100),
    tile(count(cluster.waiting), 'Pods that wait', {text: cluster.waiting ? 'for a GPU' : 'none'}, undefined, '#/events'));
}

function problemList() {
  const silent = [...nodes.values()].filter(trouble).sort(byName).map((node) => el('a', {href: link('nodes', node.name)}, `⚠ ${node.name}: ${trouble(node)}`));
  const all = [...cluster.troubles.map((text) => el('span', null, `⚠ ${text}`)), ...attention(), ...silent];
  return all.length > 0 && el('section', {class: 'problems', 'aria-label': 'Needs attention'}, el('ul', null, all.slice(0, 5).map((item) => el('li', null, item)),
    all.length > 5 && el('li', {class: 'quiet'}, `and ${all.length - 5} more: choose “that need attention” above the map`)));
}

function drawAbove() {
  const {view} = place();
  const parts = view === 'map' ? [tiles(), problemList(), foundBox()] : view === 'table' ? [foundBox()] : [];
  const focused = above.contains(document.activeElement) ? document.activeElement.getAttribute('href') : undefined;
  above.replaceChildren(...parts.filter(Boolean));
  if (focused)
    above.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus({preventScroll: true});
}

function drawStatus(error) {
  status.className = error ? 'bad' : '';
  if (error)
    status.textContent = `${error.message || error}${lastGood ? `; shown is what was known ${new Date(lastGood).toLocaleTimeString()}` : ''}`;
  else
    status.textContent = cluster.isComplete ? `Live${cluster.seesAll ? '' : ' · some namespaces'}` : 'Asking the agents';
}

// ---- asking ----

function askForToken(text) {
  const refused = document.getElementById('login-error');
  refused.textContent = lastGood || document.getElementById('token').value ? text : '';
  clearTimeout(timer);
  if (!login.open)
    login.showModal();
}

async function round() {
  if (isAsking || login.open)
    return;
  isAsking = true;
  clearTimeout(timer);
  try {
    const isFirst = lastGood === 0;
    const changed = await refresh();
    lastGood = Date.now();
    drawStatus();
    if (isFirst) {
      route();
      performance.mark('drawn');
    } else {
      update(changed);
    }
  } catch (error) {
    if (error.status === 401)
      askForToken(error.message);
    drawStatus(error);
  } finally {
    isAsking = false;
  }
  if (!document.hidden && !login.open)
    timer = setTimeout(round, EVERY_MS);
}

function update(changed) {
  const {view} = place();
  rounds++;
  if (!changed || changed.size > 0 || rounds % DETAILS_EVERY === 0)
    drawAbove();
  if (view === 'map')
    updateMap(changed);
  else if (VIEWS[view].live ? !changed || changed.size > 0 : rounds % DETAILS_EVERY === 0)
    showPage(false);
}

// ---- the search ----

// The view shows only what the search finds; a page of one thing does not.
function isSearched() {
  const {view, parts} = place();
  return view === 'map' || view === 'table' || view === 'events' || (view === 'pods' && parts.length < 2);
}

let searchTimer;
let searches = 0;

async function search() {
  const text = query.value.trim();
  const mine = ++searches;
  try {
    const answer = text ? await ask('search', {q: text}) : null;
    if (mine !== searches)
      return;
    setFound(text, answer);
  } catch (error) {
    drawStatus(error);
    return;
  }
  drawAbove();
  if (place().view === 'map')
    updateMap();
  else if (isSearched())
    showPage(false);
}

query.addEventListener('input', () => {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(search, 200);
});
document.getElementById('search').addEventListener('submit', (event) => {
  event.preventDefault();
  if (!isSearched())
    location.hash = '#/';
  search();
});

// ---- keys, token, visibility ----

addEventListener('keydown', (event) => {
  const isTyping = event.target.matches('input, select, textarea');
  if (event.key === '/' && !isTyping && !login.open && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    query.focus();
    query.select();
  } else if (event.key === 'Escape' && event.target === query) {
    query.value = '';
    search();
    query.blur();
  }
});

document.getElementById('login-form').addEventListener('submit', (event) => {
  event.preventDefault();
  setToken(document.getElementById('token').value);
  login.close();
  round();
});
login.addEventListener('cancel', (event) => event.preventDefault());

document.addEventListener('visibilitychange', () => {
  clearTimeout(timer);
  if (!document.hidden)
    round();
});
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener('hashchange', () => lastGood && route());
round();
