// SPDX-License-Identifier: Apache-2.0
// Elements, and words for numbers. Text from the cluster becomes text nodes and attribute values only, never markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false)
      continue;
    if (name.startsWith('--'))
      element.style.setProperty(name, value);
    else if (name.startsWith('on'))
      element.addEventListener(name.slice(2), value);
    else
      element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(2).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

export function el(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

// Parts of an address: names are from the cluster.
export function link(kind, ...parts) {
  return `#/${kind}/${parts.map(encodeURIComponent).join('/')}`;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(number) {
  if (number === undefined)
    return '–';
  let unit = 0;
  while (number >= 1024 && unit < UNITS.length - 1) {
    number /= 1024;
    unit++;
  }
  return `${number >= 100 || unit === 0 ? Math.round(number) : Number(number.toFixed(1))} ${UNITS[unit]}`;
}

export function percent(ratio) {
  return ratio === undefined || ratio === null ? '–' : `${Math.round(ratio * 100)} %`;
}

export function count(number) {
  return number === undefined ? '–' : number.toLocaleString('en');
}

export function plural(number, one, many) {
  return `${count(number)} ${number === 1 ? one : many || one + 's'}`;
}

export function span(seconds) {
  if (seconds === undefined)
    return '–';
  for (const [name, size] of [['d', 86400], ['h', 3600], ['min', 60]])
    if (seconds >= size)
      return `${Number((seconds / size).toFixed(seconds >= 10 * size ? 0 : 1))} ${name}`;
  return `${Math.round(seconds)} s`;
}

export function energy(joules) {
  if (joules === undefined)
    return '–';
  return joules >= 3600000 ? `${(joules / 3600000).toFixed(1)} kWh` : `${(joules / 3600).toFixed(1)} Wh`;
}

export function ago(time) {
  const seconds = Math.max(0, Date.now() / 1000 - time);
  return seconds < 5 ? 'now' : `${span(seconds)} ago`;
}

export function when(time) {
  const date = new Date(time * 1000);
  return el('time', {datetime: date.toISOString(), title: date.toLocaleString()}, ago(time));
}

export function shortModel(model) {
  return (model || 'GPU').replace(/^NVIDIA /, '').replace(/ HBM\w+$/, '');
}

// A bar with its number beside it.
export function meter(ratio, label) {
  if (ratio === undefined || ratio === null || !Number.isFinite(ratio))
    return el('span', {class: 'quiet'}, label || '–');
  return el('span', {class: 'meter'},
    el('i', {'aria-hidden': 'true', class: ratio >= 0.95 ? 'full' : undefined, '--v': `${Math.min(100, ratio * 100)}%`}), label || percent(ratio));
}

// The last hour, one value a minute.
export function sparkline(values, label) {
  if (!values || values.length < 2)
    return el('span', {class: 'quiet'}, '–');
  const most = Math.max(1, values.length - 1);
  const points = values.map((value, i) => value === null ? null : `${(i * 120 / most).toFixed(1)},${(23 - 22 * Math.min(1, value)).toFixed(1)}`);
  return svg('svg', {class: 'spark', viewBox: '0 0 120 24', role: 'img', 'aria-label': label},
    svg('polyline', {points: points.filter(Boolean).join(' ')}));
}

// Heads are texts; rows are lists of cells.
export function table(caption, heads, rows) {
  return el('div', {class: 'scroll'}, el('table', null, el('caption', null, caption),
    el('thead', null, el('tr', null, heads.map((head) => el('th', {scope: 'col'}, head)))),
    el('tbody', null, rows.map((row) => el('tr', null, row.map((cell) => el('td', null, cell)))))));
}

const ROWS = 100;

// Sorted by its heads. |columns|: [head, value, cell]; |order|: {name, column, isDown, shown}, which the caller keeps and only this
// changes; |tie|: of rows with the same value. What is not known comes last.
export function sortedTable(caption, columns, rows, order, redraw, tie) {
  order.shown ??= ROWS;
  const value = columns[order.column][1];
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x !== y && (x === undefined || y === undefined))
      return x === undefined ? 1 : -1;
    const by = typeof x === 'number' ? x - y : String(x).localeCompare(String(y), 'en', {numeric: true});
    return (order.isDown ? -by : by) || tie(a, b);
  };
  const sorted = [...rows].sort(compare);
  const heads = columns.map(([name], i) => el('th', {scope: 'col', 'aria-sort': order.column === i ? (order.isDown ? 'descending' : 'ascending') : undefined},
    el('button', {'data-key': order.name + name, onclick: () => {
      Object.assign(order, {column: i, isDown: order.column === i && !order.isDown});
      redraw();
    }}, name)));
  return [el('div', {class: 'scroll'}, el('table', {id: `${order.name}table`}, el('caption', null, `${caption}${rows.length > order.shown ? `, the first ${order.shown}` : ''}`),
    el('thead', null, el('tr', null, heads)),
    el('tbody', null, sorted.slice(0, order.shown).map((row) => el('tr', null, columns.map(([, , cell], i) => i === 0 ? el('th', {scope: 'row'}, cell(row)) : el('td', null, cell(row)))))))),
    rows.length > order.shown && el('button', {'data-key': `${order.name}more`, onclick: () => {
      order.shown += ROWS;
      redraw();
    }}, `Show ${Math.min(ROWS, rows.length - order.shown)} more`)];
}

export function facts(pairs) {
  return el('dl', {class: 'facts'}, pairs.filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => el('div', null, el('dt', null, name), el('dd', null, value))));
}
