# SPDX-License-Identifier: Apache-2.0
"""A Prometheus that scrapes agents on loopback, and what one asks it."""
import json
import os
import urllib.parse
import urllib.request

import yaml

from node import DEADLINE, Process
from source import RULES


class Prometheus:
    def __init__(self, program, folder, ports):
        """|ports|: of the agents' metrics, by the name of the node."""
        path = os.path.join(folder, 'prometheus.yaml')
        with open(path, 'w', encoding='utf-8') as file:
            yaml.safe_dump({
                'global': {'scrape_interval': '500ms', 'evaluation_interval': '1s'}, 'rule_files': [RULES],
                'scrape_configs': [{'job_name': 'warpshare', 'honor_labels': True, 'static_configs': [
                    {'targets': [f'127.0.0.1:{port}'], 'labels': {'node': name}} for name, port in ports.items()]}]}, file)
        self.process = Process([program, f'--config.file={path}', f'--storage.tsdb.path={folder}/data', '--web.listen-address=127.0.0.1:0'],
                               {**os.environ, 'GOMAXPROCS': '1'})
        address = self.process.wait_log(r'msg="Listening on" address=(\S+)').group(1)
        self.process.wait_log('Server is ready to receive web requests')
        self._base = f'http://{address}/api/v1/'

    def _get(self, path, **parameters):
        url = self._base + path + '?' + urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(url, timeout=DEADLINE) as response:
            return json.load(response)['data']

    def query(self, expression):
        """Labels and value of each series."""
        return [(one['metric'], float(one['value'][1])) for one in self._get('query', query=expression)['result']]

    def label_values(self, metric, label):
        return self._get(f'label/{label}/values', **{'match[]': metric})

    def rules(self):
        """By alert: state, health, lastError …"""
        return {rule['name']: rule for group in self._get('rules')['groups'] for rule in group['rules']}

    def finish(self):
        return self.process.finish('Prometheus')
