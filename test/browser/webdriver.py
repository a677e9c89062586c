# SPDX-License-Identifier: Apache-2.0
"""W3C WebDriver by Python's own HTTP client, as far as the tests need it, and Chromium's beside it (screens, media, its log).

    with Browser() as browser:
        browser.open('http://127.0.0.1:8080/')
        browser.wait(lambda: browser.find('.node'))
"""
import base64
import http.client
import json
import os
import shutil
import socket
import subprocess
import time

PATIENCE = 60  # seconds that a condition may take on a loaded machine
ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'  # the specification's name of a reference
KEYS = {'Tab': '\ue004', 'Enter': '\ue007', 'Escape': '\ue00c', 'Left': '\ue012', 'Up': '\ue013', 'Right': '\ue014', 'Down': '\ue015'}


def missing():
    """Why there is no browser; None: there is one."""
    absent = [name for name in ('chromium', 'chromedriver') if not shutil.which(name)]
    return f'{" and ".join(absent)} not installed (Debian: chromium chromium-driver, 440 MB)' if absent else None


class Failed(Exception):
    pass


class Browser:
    def __init__(self, width=1280, height=900, folder='/tmp'):
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            self.port = probe.getsockname()[1]
        environment = {k: v for k, v in os.environ.items() if not k.lower().endswith('_proxy')}
        environment.update(HOME=str(folder), TMPDIR=str(folder), XDG_CONFIG_HOME=str(folder), XDG_CACHE_HOME=str(folder))
        self.driver = subprocess.Popen(['chromedriver', f'--port={self.port}', '--allowed-ips=127.0.0.1', '--log-level=SEVERE'],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        self.session = ''
        self.wait(self.is_ready)
        arguments = ['--headless=new', f'--window-size={width},{height}', '--disable-gpu', '--hide-scrollbars', '--force-color-profile=srgb',
                     '--disable-dev-shm-usage', '--no-proxy-server', '--disable-background-networking', '--disable-component-update',
                     '--disable-sync', '--no-first-run', '--lang=en']
        if os.geteuid() == 0:
            arguments.append('--no-sandbox')
        answer = self.ask('POST', '/session', {'capabilities': {'alwaysMatch': {
            'browserName': 'chrome', 'goog:loggingPrefs': {'browser': 'ALL'},
            'goog:chromeOptions': {'args': arguments, 'binary': shutil.which('chromium')}}}})
        self.session = f'/session/{answer["sessionId"]}'
        self.resize(width, height)

    def is_ready(self):
        try:
            return self.ask('GET', '/status')['ready']
        except OSError:
            return False

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=2 * PATIENCE)
        try:
            connection.request(method, self.session + path, json.dumps(body if body is not None else {}) if method == 'POST' else None,
                               {'Content-Type': 'application/json'})
            answer = connection.getresponse()
            value = json.loads(answer.read())['value']
        finally:
            connection.close()
        if answer.status != 200:
            raise Failed(f'{value.get("error")}: {value.get("message")}')
        return value

    def close(self):
        if self.session:
            try:
                self.ask('DELETE', '')
            except (Failed, OSError):
                pass
        self.driver.terminate()
        self.driver.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    # ---- the page ----

    def open(self, url):
        self.ask('POST', '/url', {'url': url})

    def run(self, script, *arguments):
        """The value that the function body |script| returns."""
        return self.ask('POST', '/execute/sync', {'script': script, 'args': list(arguments)})

    def find(self, selector):
        """The first element, or None."""
        found = self.ask('POST', '/elements', {'using': 'css selector', 'value': selector})
        return found[0][ELEMENT] if found else None

    def text(self, selector):
        """What a person reads there; None where there is no such element."""
        return self.run('return document.querySelector(arguments[0])?.innerText ?? null', selector)

    def texts(self, selector):
        return self.run('return [...document.querySelectorAll(arguments[0])].map((element) => element.innerText)', selector)

    def attribute(self, selector, name):
        return self.run('return document.querySelector(arguments[0])?.getAttribute(arguments[1]) ?? null', selector, name)

    def click(self, selector):
        for _ in range(5):
            try:
                return self.ask('POST', f'/element/{self.find(selector)}/click')
            except Failed as failed: # the page was drawn anew meanwhile
                if 'stale element' not in str(failed):
                    raise
        raise Failed(f'{selector} does not stay')

    def point(self, selector):
        """The pointer goes there."""
        self.ask('POST', '/actions', {'actions': [{'type': 'pointer', 'id': 'mouse', 'parameters': {'pointerType': 'mouse'}, 'actions': [
            {'type': 'pointerMove', 'duration': 0, 'x': 0, 'y': 0, 'origin': {ELEMENT: self.find(selector)}}]}]})

    def press(self, *keys):
        """Names of KEYS, or texts, one after the other, for what has the focus."""
        actions = []
        for key in keys:
            for letter in [KEYS[key]] if key in KEYS else key:
                actions += [{'type': 'keyDown', 'value': letter}, {'type': 'keyUp', 'value': letter}]
        self.ask('POST', '/actions', {'actions': [{'type': 'key', 'id': 'keyboard', 'actions': actions}]})

    def wait(self, condition, patience=PATIENCE):
        deadline = time.monotonic() + patience
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > deadline:
                raise AssertionError('nothing came of it')
            time.sleep(0.05)

    # ---- the browser ----

    def chromium(self, command, **parameters):
        return self.ask('POST', '/goog/cdp/execute', {'cmd': command, 'params': parameters})

    def resize(self, width, height):
        self.chromium('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)

    def set_dark(self, is_dark):
        self.chromium('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark' if is_dark else 'light'}])

    def log(self):
        """What the page has said on its console since the last time: errors, and what its policy has refused."""
        return self.ask('POST', '/se/log', {'type': 'browser'})

    def picture(self, path):
        with open(path, 'wb') as file:
            file.write(base64.b64decode(self.ask('GET', '/screenshot')))
