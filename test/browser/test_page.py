# SPDX-License-Identifier: Apache-2.0
"""The dashboard's page in Chromium."""
import itertools
import math
import time

import pytest

from fleet import GIB, gpu, page, pod, share, unit

SIZES = [(1280, 900), (768, 1024), (390, 844)]
# What a name could try: to be markup, to leave an attribute or an address, to be code, to turn the text around.
EVIL = ['<img src=x onerror="window.pwned=1">', '"><script>window.pwned=1</script>', "' onfocus=window.pwned=1 autofocus '", 'javascript:window.pwned=1',
        '\u202egnp.exe', '%3Cscript%3E', '</title><svg onload=window.pwned=1>', '{{7*7}}${7*7}', 'a' * 300]


def uuid_of(node, index):
    return f'GPU-{node:08d}-0000-0000-0000-{index:012d}'


def fill(fleet):
    """Three nodes: two GPUs with shares, an unhealthy one, MIG; and one whose agent is missing."""
    fleet.add_node('node-1')
    fleet.pages['node-1'] = page(
        'node-1', gpu('0', [share('team-a', 'train', replicas=3, memoryPeak=9 * GIB, history=[0.1, 0.9, 0.4], energy=7200, seconds=60),
                            share('team-b', 'serve', replicas=4, memoryUsed=32 * GIB)], uuid=uuid_of(1, 0), reserved=2),
        gpu('1', uuid=uuid_of(1, 1)),
        events=[{'time': time.time() - 90, 'kind': 'Warning', 'reason': 'MpsServerFault', 'unit': uuid_of(1, 0), 'text': 'by team-b/serve'}])
    fleet.add_node('node-2')
    fleet.pages['node-2'] = page('node-2', gpu('0', uuid=uuid_of(2, 0), healthy=False, reason='Xid 79: lost'))
    fleet.add_node('node-3')
    fleet.pages['node-3'] = page('node-3', gpu('0', uuid=uuid_of(3, 0), units=[
        unit('MIG-1', '0:0', [share('team-a', 'mig', replicas=1)], replicas=1, sharing='none', profile='3g.40gb'),
        unit('MIG-2', '0:1', [], replicas=4, profile='1g.10gb')]))
    fleet.add_node('node-4', agent=False, capacity={'nvidia.com/gpu': '8'})
    fleet.add_node('cpu', agent=False)


@pytest.fixture(name='shown')
def make_shown(browser, fleet, api, start):
    """Of that cluster, with the map."""
    fill(fleet)
    api.put('/api/v1/namespaces/team-c/pods', pod('later', count=7, scheduled=('Unschedulable', '0/4 nodes are available')))
    dashboard = start('--authorization', 'proxy')
    dashboard.until_complete()
    browser.dashboard = dashboard
    browser.open(dashboard.url)
    browser.wait(lambda: browser.find('.gpu'))
    return browser


def show(browser, view, selector):
    browser.open(f'{browser.dashboard.url}#/{view}')
    browser.wait(lambda: browser.find(selector))


# ---- what is seen ----

def test_the_map_shows_each_node_with_its_gpus_and_shares(shown):
    assert shown.texts('.node h3 a') == ['node-1', 'node-2', 'node-3', 'node-4']
    assert shown.run('return [...document.querySelectorAll(".node")].map((node) => node.querySelectorAll(".gpu").length)') == [2, 1, 1, 0]
    widths = shown.run('return [...document.querySelectorAll(".gpu")[0].querySelectorAll(".unit i")].map((i) => [i.className.split(" ")[0], i.getBoundingClientRect().width])')
    assert [name for name, _ in widths] == ['share', 'share', 'reserved', 'free']
    whole = sum(width for _, width in widths)
    assert [round(10 * width / whole) for _, width in widths] == [3, 4, 2, 1]
    assert shown.attribute('.gpu', 'aria-label') == (
        'GPU 0 of node-1, H100 80GB, 7 of 10 replicas granted, 2 reserved, memory 5 %, SM 50 %')


def test_what_needs_attention_stands_above_the_map(shown):
    assert shown.texts('.problems li') == ['⚠ node-2 GPU 0: Xid 79: lost', '⚠ node-4: no agent']
    assert 'unhealthy' in shown.attribute('.gpu.unhealthy', 'aria-label')
    shown.click('.problems a')
    shown.wait(lambda: shown.text('h1') == f'GPU 0 {uuid_of(2, 0)}')
    assert 'Xid 79: lost' in shown.text('.banner.bad')


def test_shares_are_named_below_the_pointer(shown):
    shown.point('.share:nth-child(2)')
    shown.wait(lambda: shown.find('#tip:not([hidden]) .marked'))
    assert shown.text('#tip .marked').startswith('team-b/serve')
    shown.point('.brand')
    shown.wait(lambda: not shown.find('#tip:not([hidden])'))


def test_pods_and_namespaces_have_a_table_each_with_what_lies_idle(shown, fleet):
    now = time.time()
    shell = share('team-b', 'shell', memoryUsed=0, seconds=0)
    del shell['sm']
    fleet.pages['node-1'] = page('node-1', gpu('0', [
        share('team-a', 'train', replicas=3), share('team-b', 'serve', replicas=4, sm=0, idleSince=int(now - 7200)), shell], uuid=uuid_of(1, 0)))
    show(shown, 'pods', '[id="pod table"]')
    shown.wait(lambda: len(shown.texts('[id="pod table"] tbody th')) == 4)
    assert shown.texts('[id="pod table"] tbody th') == ['team-a/mig', 'team-a/train', 'team-b/serve', 'team-b/shell']
    assert shown.texts('[id="pod table"] tbody td:last-child') == ['active', 'active', '2 h ago', 'no process']
    assert shown.texts('[id="pod table"] tbody tr:nth-child(2) td') == ['node-1', '0', '3 of 10', '24 GiB', '2 GiB', '25 %', 'active']
    assert shown.texts('[id="namespace table"] tbody th') == ['team-a', 'team-b', 'team-c']
    assert shown.texts('[id="namespace table"] tbody td:last-child') == ['active', '2 h ago', '–']
    assert shown.texts('[id="namespace table"] tbody td:nth-child(3)') == ['0', '0', '1']
    shown.click('[data-key="pod Idle since"]')
    shown.wait(lambda: shown.texts('[id="pod table"] tbody th')[:2] == ['team-b/shell', 'team-b/serve'])
    assert shown.run('return document.activeElement.dataset.key') == 'pod Idle since'
    assert shown.attribute('[id="pod table"] thead th:last-child', 'aria-sort') == 'ascending'
    assert shown.attribute('[id="namespace table"] thead th', 'aria-sort') == 'ascending'
    shown.press('/', 'serve')
    shown.wait(lambda: shown.texts('[id="pod table"] tbody th') == ['team-b/serve'])
    shown.press('Escape')
    shown.wait(lambda: len(shown.texts('[id="namespace table"] tbody th')) == 3)
    shown.click('[id="namespace table"] tbody tr:nth-child(2) a')
    shown.wait(lambda: shown.text('h1') == 'team-b')
    assert sorted(shown.texts('[id="pod table"] tbody th')) == ['team-b/serve', 'team-b/shell']
    shown.click('[id="pod table"] tbody a')
    shown.wait(lambda: (shown.text('h1') or '').startswith('shell'))


def test_bars_have_a_legend_on_every_page_that_has_some(shown):
    for view in (f'gpus/{uuid_of(1, 0)}', 'nodes/node-1'):
        show(shown, view, '.legend')
        assert shown.texts('.legend span') == ['granted; filled: memory used', 'memory nearly full', 'granted, not used', 'free', 'reserved for larger requests, or waiting for a change']


def test_a_gpus_page_says_who_has_what_and_why_some_is_reserved(shown):
    show(shown, f'gpus/{uuid_of(1, 0)}', '.card')
    assert shown.texts('.card td a') == ['team-a/train', 'team-b/serve']
    row = shown.text('.card tbody tr')
    for word in ('main', '3', '2 GiB of 24 GiB', '9 GiB', '25 %', '1 min', '2.0 Wh'):
        assert word in row
    assert 'Why are 2 replicas reserved?' in shown.text('.card')
    shown.click('summary')
    assert 'every request it admits still finds room' in shown.text('details')
    assert 'MpsServerFault' in shown.text('.events')


def test_a_pods_page_has_its_shares_and_why_it_waits(shown):
    show(shown, 'pods/team-a/train', 'tbody tr')
    assert shown.texts('tbody a') == ['node-1', 'GPU 0']
    show(shown, 'pods/team-c/later', '.banner')
    assert '0/4 nodes are available' in shown.text('.banner')
    assert '7 nvidia.com/gpu.shared' in shown.text('.banner')
    assert shown.text('#why b').startswith('team-c/later waits: it asks for 7 nvidia.com/gpu.shared')
    assert 'node-1, node-3: ' in shown.text('#why ul')


def test_a_nodes_page_has_its_gpus(shown):
    show(shown, 'nodes/node-1', '.card')
    assert shown.texts('.card h2 a') == ['GPU 0', 'GPU 1']
    assert '570.86.15' in shown.text('.facts')


def test_what_happened_and_who_waits_is_one_list(shown):
    show(shown, 'events', '.events')
    assert shown.texts('.events b') == ['⚠ MpsServerFault']
    assert 'GPU 0' in shown.text('.events li')
    assert shown.texts('tbody a') == ['team-c/later']


def test_an_unknown_thing_is_not_found_and_the_way_back_is_there(shown):
    show(shown, 'gpus/GPU-none', 'h1')
    shown.wait(lambda: shown.text('h1') == 'Not found')
    shown.click('.content a')
    shown.wait(lambda: shown.find('.gpu'))


def test_a_cluster_without_gpus_says_so(browser, fleet, start):
    fleet.add_node('cpu', agent=False)
    dashboard = start('--authorization', 'proxy')
    dashboard.until_complete()
    browser.open(dashboard.url)
    browser.wait(lambda: (browser.text('#none') or '').startswith('No nodes with GPUs: none runs an agent'))


# ---- the table, for screen readers and for sorting ----

def test_the_table_has_each_gpu_and_is_sorted_by_its_heads(shown):
    show(shown, 'table', 'tbody tr')
    assert shown.texts('tbody th') == ['node-1', 'node-1', 'node-2', 'node-3']
    shown.click('[data-key="Granted"]')
    shown.wait(lambda: shown.attribute('thead th:nth-child(9)', 'aria-sort') == 'ascending')
    shown.click('[data-key="Granted"]')
    shown.wait(lambda: shown.attribute('thead th:nth-child(9)', 'aria-sort') == 'descending')
    assert shown.texts('tbody td:nth-child(9)') == ['7', '1', '0', '0']
    assert shown.run('return document.activeElement.dataset.key') == 'Granted'
    assert shown.run('return [...document.querySelectorAll("thead th")].every((th) => th.scope === "col")')


# ---- keys ----

def test_the_map_is_walked_by_keys(shown):
    def here():
        return shown.run('return document.activeElement.dataset.uuid')

    shown.run('document.getElementById("choose-size").focus()')
    shown.press('Tab')
    while shown.run('return !document.activeElement.matches(".gpu") && document.activeElement !== document.body'):
        shown.press('Tab')
    assert here() == uuid_of(1, 0)
    assert shown.run('return document.querySelectorAll(".gpu[tabindex=\'0\']").length') == 1
    walked = []
    for key in ('Right', 'Right', 'Down', 'Up', 'Left', 'Left', 'Left'):
        shown.press(key)
        walked.append(here())
    assert walked == [uuid_of(1, 1), uuid_of(2, 0), uuid_of(3, 0), uuid_of(2, 0), uuid_of(1, 1), uuid_of(1, 0), uuid_of(1, 0)]
    shown.wait(lambda: shown.find('#tip:not([hidden]) table'))
    shown.press('Escape')
    assert not shown.find('#tip:not([hidden])')
    shown.press('Enter')
    shown.wait(lambda: shown.text('h1') == f'GPU 0 {uuid_of(1, 0)}')


def test_what_is_typed_behind_a_slash_is_looked_for_and_escape_ends_it(shown):
    shown.press('/')
    assert shown.run('return document.activeElement.id') == 'query'
    shown.press('team-b')
    shown.wait(lambda: shown.find('.found li'))
    assert shown.texts('.found li a') == ['pod team-b/serve']
    shown.wait(lambda: shown.texts('.node h3 a') == ['node-1'])
    assert shown.run('return [...document.querySelectorAll(".unit .share")].map((share) => share.classList.contains("dim"))') == [True, False]
    shown.press('Escape')
    shown.wait(lambda: len(shown.texts('.node')) == 4)
    assert not shown.find('.found')


def test_all_that_can_be_used_can_be_reached_by_tab_and_has_a_name(shown):
    for view, selector in (('', '.gpu'), ('table', 'tbody tr'), ('pods', 'tbody tr'), ('events', '.events'), (f'gpus/{uuid_of(1, 0)}', '.card')):
        show(shown, view, selector)
        nameless = shown.run('''return [...document.querySelectorAll("a, button, input, select, summary")].filter((element) =>
            !(element.innerText || element.getAttribute("aria-label") || element.labels?.length)).map((element) => element.outerHTML)''')
        assert not [one for one in nameless if 'class="gpu' not in one], nameless
        assert shown.run('return document.querySelectorAll("h1").length') == (0 if view == '' else 1)


# ---- what changes ----

def test_what_changes_appears_and_the_focus_stays(shown, fleet):
    shown.run('document.querySelector(".gpu").focus()')
    fleet.pages['node-1'] = page('node-1', gpu('0', [share('team-z', 'new', replicas=10)], uuid=uuid_of(1, 0)), gpu('1', uuid=uuid_of(1, 1)))
    shown.wait(lambda: '10 of 10 replicas granted' in shown.attribute('.gpu', 'aria-label'))
    assert shown.run('return document.activeElement.dataset.uuid') == uuid_of(1, 0)
    fleet.pages['node-1'] = (500, 'broken')
    shown.wait(lambda: 'agent does not answer' in shown.text('.node h3'))
    show(shown, f'gpus/{uuid_of(1, 0)}', '.banner')
    assert "The node's agent does not answer" in shown.text('.banner')


def test_a_page_that_nobody_sees_asks_nothing(shown):
    asked = 'return performance.getEntriesByType("resource").filter((entry) => entry.name.includes("/api/")).length'
    shown.run('''Object.defineProperty(document, "hidden", {configurable: true, get: () => true});
                 document.dispatchEvent(new Event("visibilitychange"))''')
    before = shown.run(asked)
    time.sleep(7)
    assert shown.run(asked) <= before + 1  # one may have been on its way
    shown.run('''Object.defineProperty(document, "hidden", {configurable: true, get: () => false});
                 document.dispatchEvent(new Event("visibilitychange"))''')
    shown.wait(lambda: shown.run(asked) > before + 1)


def test_a_server_that_is_gone_is_said_and_the_map_stays(shown):
    shown.dashboard.close()
    shown.wait(lambda: 'shown is what was known' in (shown.text('#status') or ''))
    assert len(shown.texts('.node')) == 4
    shown.log()  # connections that were refused


# ---- the token ----

def test_who_has_no_token_is_asked_for_one_and_it_is_kept_nowhere(browser, fleet, api, start):
    fill(fleet)
    token = api.reviews.add('jane', ('list', 'nodes'), ('list', 'pods'))
    dashboard = start('--authorization', 'token')
    dashboard.until_complete(token)
    browser.open(dashboard.url)
    browser.wait(lambda: browser.find('#login[open]'))
    assert browser.run('return document.activeElement.id') == 'token'
    browser.press('wrong', 'Enter')
    browser.wait(lambda: 'does not accept this token' in (browser.text('#login-error') or ''))
    browser.run('document.getElementById("token").value = ""')
    browser.press(token, 'Enter')
    browser.wait(lambda: browser.find('.gpu'))
    assert browser.run('return [document.cookie, localStorage.length, sessionStorage.length, location.href.includes("viewer")]') == ['', 0, 0, False]
    browser.open('about:blank')
    browser.open(dashboard.url)
    browser.wait(lambda: browser.find('#login[open]'))


def test_who_has_the_address_of_a_dashboard_for_oneself_needs_no_token_also_after_a_reload(browser, fleet, start):
    fill(fleet)
    dashboard = start()
    dashboard.until_complete()
    for _ in range(2):
        browser.open('about:blank')
        browser.open(dashboard.url)
        browser.wait(lambda: browser.find('.gpu'))
        assert not browser.find('#login[open]')
    browser.click('.gpu')
    browser.wait(lambda: browser.text('h1') == f'GPU 0 {uuid_of(1, 0)}')
    assert browser.run('return location.href').startswith(dashboard.url)


# ---- names that are no names ----

def shown(evil):
    """What turns the direction of a text is not seen itself, so the page has a question mark in its place."""
    return evil.replace('\u202e', '?')


def test_names_of_any_kind_are_text(browser, fleet, api, start):
    fleet.add_node('node-1')
    shares = [share(evil, evil, container=evil, by_claim=evil, replicas=1) for evil in EVIL]
    fleet.pages['node-1'] = page('node-1', gpu('0', shares, uuid=EVIL[0], model=EVIL[1], reason=EVIL[6], healthy=False), driver=EVIL[1],
                                 configuration=EVIL[2], events=[{'time': 1, 'kind': evil, 'reason': evil, 'unit': EVIL[0], 'text': evil} for evil in EVIL])
    api.put('/api/v1/namespaces/team-a/pods', pod('later', reason=EVIL[1], message=EVIL[0], scheduled=(EVIL[1], EVIL[0])))
    browser.dashboard = start('--authorization', 'proxy')
    browser.dashboard.until_complete()
    browser.open(browser.dashboard.url)
    browser.wait(lambda: browser.find('.share'))
    browser.run('const choose = document.getElementById("choose-colour"); choose.value = "namespace"; choose.dispatchEvent(new Event("change"))')
    assert EVIL[0] in browser.texts('.legend span')
    browser.point('.share:nth-child(1)')
    browser.wait(lambda: browser.find('#tip:not([hidden]) td'))
    assert EVIL[0] in browser.text('#tip')
    browser.click('#query')
    browser.press('<img')
    browser.wait(lambda: browser.find('.found li'))
    assert EVIL[0] in browser.text('.found')
    browser.click('.gpu')
    browser.wait(lambda: browser.find('.card td a'))
    links = browser.run('return [...document.querySelectorAll(".card td a")].map((a) => [a.innerText, a.getAttribute("href")])')
    assert [text for text, _ in links] == [f'{shown(evil)}/{shown(evil)}' for evil in EVIL]
    assert all(href.startswith('#/pods/') for _, href in links)
    for number in range(len(EVIL)):
        show(browser, f'gpus/{"%3Cimg%20src%3Dx%20onerror%3D%22window.pwned%3D1%22%3E"}', '.card td a')
        browser.run('document.querySelectorAll(".card td a")[arguments[0]].click()', number)
        wanted = 'Not found' if '/' in EVIL[number] else shown(EVIL[number]).strip()[:20]  # a namespace with a slash is none
        browser.wait(lambda wanted=wanted: (browser.text('h1') or '').startswith(wanted))
    for view, selector in (('nodes/node-1', '.card'), ('events', '.events'), ('table', 'tbody tr'), ('pods', 'tbody tr'), ('pods/team-a/later', '.banner'),
                           ('%ff/%', '.node')):
        show(browser, view, selector)
    assert browser.run('return [window.pwned ?? null, document.querySelectorAll("main img, main script, main svg[onload]").length]') == [None, 0]


# ---- looks ----

def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


# How colours look to people who lack one of the three kinds of cones, of linear RGB: Machado, Oliveira and Fernandes 2009, severity 1.0
# (https://www.inf.ufrgs.br/~oliveira/pubs_files/CVD_Simulation/CVD_Simulation.html).
SIGHT = {
    'all': ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    'no long': ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    'no medium': ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    'no short': ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900))}


def seen(colour, cones):
    """As CIELAB of sRGB's white, D65."""
    rgb = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    rgb = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb]
    red, green, blue = [min(1, max(0, sum(weight * part for weight, part in zip(row, rgb)))) for row in SIGHT[cones]]
    x, y, z = [(part / white) ** (1 / 3) if part / white > 0.008856 else 7.787 * part / white + 16 / 116 for part, white in (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue, 0.95047), (0.2126 * red + 0.7152 * green + 0.0722 * blue, 1),
        (0.0193 * red + 0.1192 * green + 0.9505 * blue, 1.08883))]
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize('is_dark', [False, True])
def test_colours_are_told_apart_by_who_does_not_see_all_of_them(shown, is_dark):
    """2.3 is the least difference that is seen side by side; in small pieces far from the legend it takes much more."""
    shown.set_dark(is_dark)
    for names, least in (([f'ns{number}' for number in range(9)], 20), (['used', 'full', 'sm', 'panel'], 15), (['used', 'granted', 'idle'], 9)):
        values = shown.run('return arguments[0].map((name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim())', names)
        colours = {name: '#' + ''.join(c * 2 for c in value[1:]) if len(value) == 4 else value for name, value in zip(names, values)}
        for one, other in itertools.combinations(names, 2):
            for cones in SIGHT:
                assert math.dist(seen(colours[one], cones), seen(colours[other], cones)) >= least, (one, other, cones)


@pytest.mark.parametrize('is_dark', [False, True])
def test_texts_and_marks_stand_out_from_what_is_behind_them(shown, is_dark):
    shown.set_dark(is_dark)
    names = ['page', 'panel', 'text', 'quiet', 'link', 'bad', 'bad-pale', 'warn', 'warn-pale', 'used', 'granted', 'full', 'full-pale', 'idle', 'sm']
    values = shown.run('''const style = getComputedStyle(document.documentElement);
                          return arguments[0].map((name) => style.getPropertyValue(`--${name}`).trim())''', names)
    colours = {name: '#' + ''.join(c * 2 for c in value[1:]) if len(value) == 4 else value for name, value in zip(names, values)}
    for text, behind in (('text', 'page'), ('text', 'panel'), ('quiet', 'page'), ('quiet', 'panel'), ('link', 'page'), ('link', 'panel'),
                         ('bad', 'bad-pale'), ('bad', 'panel'), ('warn', 'warn-pale')):
        assert contrast(colours[text], colours[behind]) >= 4.5, (text, behind)
    for mark, behind in (('used', 'granted'), ('full', 'panel'), ('sm', 'panel'), ('used', 'panel')):
        assert contrast(colours[mark], colours[behind]) >= 2.9, (mark, behind)
    assert abs(luminance(colours['used']) - luminance(colours['full'])) > 0.05  # without their hues, too


@pytest.mark.parametrize('width, height', SIZES)
def test_nothing_is_wider_than_the_screen(shown, width, height):
    shown.resize(width, height)
    for view, selector in (('', '.gpu'), ('table', 'tbody tr'), ('pods', 'tbody tr'), ('pods/team-a', 'tbody tr'), ('events', '.events'), ('nodes/node-1', '.card'), (f'gpus/{uuid_of(1, 0)}', '.card'),
                           (f'gpus/{uuid_of(3, 0)}', '.card'), ('pods/team-a/train', 'tbody tr'), ('pods/team-c/later', '.banner')):
        show(shown, view, selector)
        assert shown.run('return document.documentElement.scrollWidth') <= width, view
