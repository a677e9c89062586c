#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/pictures/dashboard-*.png: the page with a cluster that is made up, in Chromium.

usage: test/browser/pictures.py PROGRAM [FOLDER]      (PROGRAM: a built `warpshare`; FOLDER: where to write, default docs/pictures)
"""
import collections
import os
import struct
import sys
import tempfile
import time
import zlib

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(SOURCE, 'test', folder) for folder in ('browser', 'e2e')]

import made_up  # noqa: E402
import webdriver  # noqa: E402
from apiserver import ApiServer  # noqa: E402
from dashboard import Dashboard  # noqa: E402
from fleet import Fleet  # noqa: E402


# ---- small files: 256 colours are enough for a page ----

def unfilter(data, width, height, size):
    """The rows of a PNG's pixels of |size| bytes."""
    above = bytearray(width * size)
    for row in range(height):
        start = row * (width * size + 1)
        kind, line = data[start], bytearray(data[start + 1:start + 1 + width * size])
        for i, byte in enumerate(line):
            left, up, corner = (line[i - size], above[i], above[i - size]) if i >= size else (0, above[i], 0)
            if kind == 1:
                byte += left
            elif kind == 2:
                byte += up
            elif kind == 3:
                byte += (left + up) // 2
            elif kind == 4:
                guess = left + up - corner
                byte += min((left, up, corner), key=lambda one, guess=guess: abs(guess - one))
            line[i] = byte & 255
        yield line
        above = line


def chunks(data):
    at = 8
    while at < len(data):
        size, = struct.unpack('>I', data[at:at + 4])
        yield data[at + 4:at + 8], data[at + 8:at + 8 + size]
        at += size + 12


def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))


def make_small(path):
    with open(path, 'rb') as file:
        parts = list(chunks(file.read()))
    width, height, depth, colour = struct.unpack('>IIBB', parts[0][1][:10])
    assert depth == 8 and colour in (2, 6)
    size = 3 if colour == 2 else 4
    rows = list(unfilter(zlib.decompress(b''.join(data for kind, data in parts if kind == b'IDAT')), width, height, size))
    pixels = [[bytes(row[i:i + 3]) for i in range(0, len(row), size)] for row in rows]
    palette = [one for one, _ in collections.Counter(pixel for row in pixels for pixel in row).most_common(256)]
    places = {one: i for i, one in enumerate(palette)}
    for row in pixels:
        for pixel in row:
            if pixel not in places:
                places[pixel] = min(range(len(palette)), key=lambda i, pixel=pixel: sum((a - b) ** 2 for a, b in zip(palette[i], pixel)))
    body = b''.join(b'\0' + bytes(places[pixel] for pixel in row) for row in pixels)
    with open(path, 'wb') as file:
        file.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 3, 0, 0, 0)) + chunk(b'PLTE', b''.join(palette)) +
                   chunk(b'IDAT', zlib.compress(body, 9)) + chunk(b'IEND', b''))


# ---- what is shown ----

def settle(browser, selector):
    browser.wait(lambda: browser.find(selector))
    time.sleep(0.7)


def choose(browser, name, value):
    browser.run('const one = document.getElementById(arguments[0]); one.value = arguments[1]; one.dispatchEvent(new Event("change"))', f'choose-{name}', value)


def take(browser, url, folder):
    def picture(name):
        path = os.path.join(folder, f'dashboard-{name}.png')
        browser.picture(path)
        make_small(path)

    browser.resize(1200, 760)
    browser.open(url)
    settle(browser, '.gpu')
    uuid = browser.attribute('.node:nth-child(3) .gpu:nth-child(2)', 'data-uuid')
    browser.point('.node:nth-child(3) .gpu:nth-child(2) .share:nth-child(2)')
    settle(browser, '#tip:not([hidden]) table')
    picture('map')
    browser.set_dark(True)
    choose(browser, 'colour', 'namespace')
    browser.click('#query')
    browser.press('vision')
    settle(browser, '.found li')
    picture('search')
    browser.press('Escape')
    browser.set_dark(False)
    browser.open(f'{url}#/gpus/{uuid}')
    settle(browser, '.card')
    picture('gpu')
    browser.open(f'{url}#/pods')
    settle(browser, '[id="pod table"]')
    picture('pods')
    browser.open(f'{url}#/pods/llm-serving/chat-70b-x2k4')
    settle(browser, '#why')
    browser.resize(1200, 390)
    picture('why')
    browser.open(f'{url}#/events')
    settle(browser, '.events')
    browser.resize(1200, 520)
    picture('events')


def main():
    if len(sys.argv) < 2 or webdriver.missing():
        sys.exit(webdriver.missing() or __doc__)
    os.environ['WARPSHARE'] = os.path.abspath(sys.argv[1])
    folder = sys.argv[2] if len(sys.argv) > 2 else os.path.join(SOURCE, 'docs/pictures')
    with tempfile.TemporaryDirectory() as home, ApiServer(home + '/api') as api, Fleet(api) as fleet:
        made_up.small(api, fleet)
        with Dashboard(api, '--authorization', 'proxy', interval=60) as dashboard, webdriver.Browser(folder=home) as browser:
            dashboard.until_complete()
            take(browser, dashboard.url, folder)


if __name__ == '__main__':
    main()
