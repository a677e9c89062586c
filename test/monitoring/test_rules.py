# SPDX-License-Identifier: Apache-2.0
"""The alerts: each fires when it should and not on the near miss, by promtool; and each has its section in the manual."""
import os
import re
import subprocess
import sys

import pytest
import yaml

sys.path.insert(0, os.path.join(os.environ['WARPSHARE_SOURCE'], 'test/docs'))
from pages import Page  # noqa: E402 -- beside the tests of all pages
from cases import BUILD, CASES
from source import FILES, RULES, SOURCE, program, query_faults, read, rules

RUNBOOK = 'docs/alerts.md'


def look(alert, at, fired):
    """What promtool is to find at that time."""
    rule = rules()[alert]
    return {'eval_time': at, 'alertname': alert, 'exp_alerts': [{
        'exp_labels': {**labels, **rule['labels']}, 'exp_annotations': {**rule['annotations'], 'description': description}}
        for labels, description in fired]}


def run(folder, alerts, cases):
    """promtool over (series, looks), with these alerts."""
    path, of_alerts = os.path.join(folder, 'test.yaml'), os.path.join(folder, 'rules.yaml')
    with open(of_alerts, 'w', encoding='utf-8') as file:
        yaml.safe_dump({'groups': [{'name': 'tested', 'rules': [rules()[alert] for alert in alerts]}]}, file)
    with open(path, 'w', encoding='utf-8') as file:
        yaml.safe_dump({'rule_files': [of_alerts], 'evaluation_interval': '1m', 'tests': [
            {'interval': '1m', 'input_series': [{'series': name, 'values': values} for name, values in series.items()],
             'alert_rule_test': looks} for series, looks in cases]}, file, sort_keys=False)
    done = subprocess.run([program('promtool'), 'test', 'rules', path], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize('alert', CASES)
def test_it_fires_and_does_not_fire_on_the_near_miss(alert, tmp_path):
    assert {bool(fired) for _, _, fired in CASES[alert]} == {True, False}
    run(tmp_path, [alert], [(series, [look(alert, at, fired)]) for series, at, fired in CASES[alert]])


@pytest.mark.parametrize('alert', [alert for alert, rule in rules().items() if 'for' in rule])
def test_it_waits_as_long_as_it_says(alert, tmp_path):
    series, at, fired = next(case for case in CASES[alert] if case[2])
    run(tmp_path, [alert], [(series, [look(alert, f'{int(at[:-1]) - 1}m', []), look(alert, at, fired)])])


def test_every_alert_has_its_cases():
    assert CASES.keys() == rules().keys()


def test_a_node_that_reports_nothing_but_itself_fires_nothing(tmp_path):
    """What a driver does not report, or a feature that is off, is absent."""
    run(tmp_path, rules(), [(BUILD, [look(alert, at, []) for alert in rules() for at in ('30m', '2h')])])


def test_promtool_finds_nothing_wrong_with_the_rules():
    done = subprocess.run([program('promtool'), 'check', 'rules', '--lint-fatal', RULES], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize('alert', CASES)
def test_it_asks_for_metrics_and_labels_that_the_manual_has(alert):
    assert not list(query_faults(rules()[alert]['expr']))


@pytest.mark.parametrize('alert', CASES)
def test_it_says_whom_to_wake_and_where_to_read_on(alert):
    rule = rules()[alert]
    assert rule['labels'].keys() == {'severity'} and rule['labels']['severity'] in ('critical', 'warning', 'info')
    assert rule['annotations'].keys() == {'summary', 'description', 'runbook_url'}
    assert rule['annotations']['runbook_url'] == f'{RUNBOOK}#{alert.lower()}'
    assert '{{ $labels.node }}' in rule['annotations']['description']


def test_xids_are_sorted_as_the_program_sorts_them():
    classes = {}
    for number, kind in re.findall(r'(?:COUNTS\(|\{)(\d+), (?:XID_)?([A-Z]+)', read('src/gpu/health.c')):
        classes.setdefault(kind, set()).add(int(number))
    assert len(classes) == 6

    def numbers(alert):
        """The operator, and those that it is about."""
        found = re.search(r'xid([=!]~)"([\d|]+)"', rules()[alert]['expr'])
        return found.group(1), {int(number) for number in found.group(2).split('|')}

    needs_reset, is_program = classes['RESET'] | classes['SERVICE'], classes['APPLICATION']
    assert numbers('WarpshareXidReset') == ('=~', needs_reset)
    assert numbers('WarpshareXidApplication') == ('=~', is_program)
    assert numbers('WarpshareXidRestart') == ('!~', needs_reset | is_program | classes['INFORMATIONAL'])


def sections():
    """The runbook's: text by alert."""
    return dict(re.findall(r'^### (Warpshare\w+)\n\n(.*?)(?=^##|\Z)', read(RUNBOOK), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize('alert', CASES)
def test_the_runbook_says_what_it_means_and_what_to_do(alert):
    text = sections()[alert]
    for row in ('means', 'a tenant notices', 'look at', 'do'):
        assert re.search(rf'^\| {row} \| \S', text, re.MULTILINE), row


def test_the_table_of_alerts_is_that_of_the_rules():
    listed = re.findall(r'^\| \[(\w+)\]\(#(\w+)\) \| (\w+) \| ([^|]*) \|', read(RUNBOOK), re.MULTILINE)
    assert [(name, severity) for name, _, severity, _ in listed] == [(name, rule['labels']['severity']) for name, rule in rules().items()]
    assert {name for name, anchor, _, _ in listed if anchor == name.lower()} == sections().keys()
    for name, _, _, after in listed:
        assert after == (rules()[name].get('for') or '0'), name


def queries_of_the_manual():
    for name in ('docs/metrics.md', 'docs/alerts.md', 'docs/troubleshooting.md'):
        page = Page(os.path.join(SOURCE, name))
        for block, commands in page.commands():
            if 'warpshare_' in block.text and not commands:
                yield from (re.sub(r'^#.*\n?', '', query, flags=re.MULTILINE) for query in block.text.split('\n\n'))
        yield from (query for _, query in page.code() if 'warpshare_' in query and re.search(r'[({]', query))


def test_the_queries_of_the_manual_are_right(tmp_path):
    queries = list(queries_of_the_manual())
    assert len(queries) > 10
    faults = [(query, fault) for query in queries for fault in query_faults(re.sub(r'\blabel_\w+', 'pod', query)) if '=~"warpshare_' not in query]
    assert not faults
    rules_file = tmp_path / 'queries.yaml'
    rules_file.write_text(yaml.safe_dump({'groups': [{'name': 'manual', 'rules': [
        {'record': f'manual:query{at}', 'expr': query} for at, query in enumerate(queries)]}]}), encoding='utf-8')
    done = subprocess.run([program('promtool'), 'check', 'rules', rules_file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_without_helm_the_same_files_are_used_with_the_pages_configuration(tmp_path):
    plain = os.path.join(SOURCE, 'deploy/monitoring')
    assert os.path.samefile(f'{plain}/rules.yaml', RULES) and os.path.samefile(f'{plain}/dashboards', f'{FILES}/dashboards')
    config = yaml.safe_load(re.search(r'^# prometheus.yaml\n(.*?)^```', read(RUNBOOK), re.MULTILINE | re.DOTALL).group(1))
    for scrape in config['scrape_configs']:
        del scrape['kubernetes_sd_configs']  # Debian's Prometheus does not know Kubernetes
    (tmp_path / 'prometheus.yaml').write_text(yaml.safe_dump(config), encoding='utf-8')
    (tmp_path / 'rules.yaml').symlink_to(f'{plain}/rules.yaml')
    done = subprocess.run([program('promtool'), 'check', 'config', tmp_path / 'prometheus.yaml'], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0 and f'{len(rules())} rules found' in done.stdout, done.stdout + done.stderr
