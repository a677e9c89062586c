// SPDX-License-Identifier: Apache-2.0
/* The search of tools/site: |sections| are [page, its title, anchor, heading, text] of each part of the manual. */
'use strict';

/* Sections that have every word; those whose heading or title has them come first. */
function search(all, query, most) {
        const words = query.toLowerCase().split(/\s+/).filter(Boolean);
        const found = [];

        if (words.length === 0)
                return found;
        for (const section of all) {
                const places = [section[3], section[1], section[4]].map((text) => text.toLowerCase());
                let score = 0;

                for (const word of words) {
                        const place = places.findIndex((text) => text.includes(word));

                        score = place < 0 ? -Infinity : score + [9, 3, 1][place];
                }
                if (score > 0)
                        found.push([score, section]);
        }
        return found.sort((one, other) => other[0] - one[0]).slice(0, most).map((one) => one[1]);
}

function show(list, query) {
        const rows = search(sections, query, 20).map(([page, title, anchor, heading]) => {
                const row = document.createElement('li');
                const link = row.appendChild(document.createElement('a'));

                link.href = list.dataset.root + page + '#' + anchor;
                link.textContent = heading === title ? title : title + ': ' + heading;
                return row;
        });

        list.replaceChildren(...rows);
}

if (typeof document !== 'undefined') {
        const list = document.getElementById('found');

        document.getElementById('search').addEventListener('input', (event) => show(list, event.target.value));
}
