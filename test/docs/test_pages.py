# SPDX-License-Identifier: Apache-2.0
"""The manual: its commands are run, what they print is what stands there, its files load, its links lead somewhere."""
import functools
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile

import pytest
import yaml

import cluster
from pages import CODE, SOURCE, Page, pattern, read_yaml
from simulated import SimulatedNode

DEADLINE = 300  # of a command; they take milliseconds, and much longer under a sanitizer
PATHS = sorted(glob.glob(os.path.join(SOURCE, 'docs/*.md'))) + [os.path.join(SOURCE, 'README.md')]
MORE = sorted(set(glob.glob(os.path.join(SOURCE, '*.md'))) - set(PATHS)) + glob.glob(os.path.join(SOURCE, '.github/*.md')) + \
    glob.glob(os.path.join(SOURCE, 'docs/decisions/*.md'))
FOLDER = os.path.dirname(os.environ['WARPSHARE'])

OURS = {'warpshare', 'nvidia-device-plugin', 'mps-control-daemon', 'config-manager', 'gpu-feature-discovery', 'nvidia-mig-parted',
        'kubectl-warpshare'}
ANYWHERE = OURS | {'cat', 'cut', 'diff', 'echo', 'grep', 'head', 'ls', 'mkdir', 'printf', 'sed', 'sha256sum', 'sort', 'tail', 'wc'}
# What is looked at and not run: it needs a cluster, a GPU, a registry or root, or changes the machine.
ELSEWHERE = {'amtool', 'apt-get', 'awk', 'base64', 'buildah', 'chcon', 'chmod', 'cosign', 'crictl', 'ctr', 'curl', 'do', 'docker', 'done', 'export',
             'for', 'git', 'helm', 'journalctl', 'jq', 'kind', 'kubectl', 'ln', 'make', 'meson', 'modprobe', 'mount', 'nvidia-cuda-mps-control', 'nvidia-modprobe',
             'nvidia-smi', 'oc', 'openssl', 'podman', 'rsync', 'skopeo', 'some-program', 'ssh', 'sudo', 'systemctl', 'tar', 'test', 'umount',
             'warpshare-mps-sim-client', 'xargs'}

CHANGING = {'apply', 'restore'}  # what changes the GPUs' MIG geometry

CONFIGURATION = {'version', 'flags', 'resources', 'sharing', 'imex', 'health', 'dra', 'mig'}

SCENARIO = {'driverVersion', 'cudaVersion', 'nvmlVersion', 'init', 'cpusPerNumaNode', 'gpus', 'topology', 'p2p', 'events', 'errors', 'delays',
            'geometryFile', 'computeModeDirectory', 'boots', 'longestWait', 'processDirectory'}


def identify(path):
    return os.path.relpath(path, SOURCE)


@functools.cache
def flags(*words):
    """Options of a command, and the commands below it."""
    program = os.path.join(FOLDER, words[0])
    text = subprocess.run([program, *words[1:], '--help'], capture_output=True, text=True, timeout=DEADLINE, check=True).stdout
    text = text.replace('kubectl warpshare', 'kubectl-warpshare')
    found = set(re.findall(r'^  (-\w), ', text, re.MULTILINE)) | set(re.findall(r'(?:^  |also )(?:-\w, )?(--?[a-z][a-z-]*)', text, re.MULTILINE)) | {'-h', '--help', '-v', '--version'}
    if 'Every option of' in text:
        found |= flags('warpshare', 'agent')[0]
    below = set(re.findall(r'^ {7}(?:\S+ )?%s ([a-z][a-z-]+)' % words[-1], text, re.MULTILINE))
    if words == ('warpshare',):
        below |= set(re.findall(r'^  ([a-z][a-z-]+) +\w', text[text.index('commands:'):], re.MULTILINE))
    return found, below


def as_program(words):
    """A plugin of kubectl is a program of ours."""
    return ['kubectl-warpshare', *words[2:]] if words[:2] == ['kubectl', 'warpshare'] else words


def option_faults(words):
    """Options and commands that our programs do not have."""
    known = (os.path.basename(words[0]),)
    rest = list(words[1:])
    found, below = flags(*known)
    while rest and rest[0] in below:
        known += (rest.pop(0),)
        found, below = flags(*known)
    if known == ('warpshare',) and rest and re.match(r'^[a-z-]+$', rest[0]) and not rest[0].startswith('-'):
        yield f'there is no command warpshare {rest[0]}'
    for word in rest[:rest.index('--')] if '--' in rest else rest:
        name = word.partition('=')[0]
        if re.match(r'^--?[a-z]', name) and name not in found:
            yield f'{" ".join(known)} has no option {name}'


def ends_by_itself(words):
    """Of our programs, what may be run here: it ends, and changes nothing but the folder."""
    if not set(words).isdisjoint({'--help', '-h', '--version', '-v', '--check', '--print-schema', '--dry-run'}):
        return True
    return words[0] == 'warpshare' and (words[1] in ('plan', 'doctor', 'probe') or words[1:3] == ['mps', 'status'] or
                                        words[1] == 'mig' and words[2] not in CHANGING or
                                        words[1] == 'labels' and '--remove' not in words) or \
        words[0] == 'nvidia-mig-parted' and words[1] not in CHANGING


def can_run(command):
    """Whether all of it runs anywhere. A program that is named by a path, as scripts/setup.sh, is looked at only."""
    programs = {words[0] for words in command.programs()}
    unknown = {name for name in programs - ANYWHERE - ELSEWHERE if '/' not in name}
    assert not unknown, f'$ {command.text}\nare these to be run, or looked at only: {unknown}? say so in test_pages.py'
    return programs <= ANYWHERE and '$(' not in command.text and \
        all(ends_by_itself(words) for words in command.programs() if words[0] in OURS)


@pytest.fixture
def node():
    folder = tempfile.mkdtemp(prefix='ws-docs-', dir='/tmp')
    made = SimulatedNode(folder)
    for name in ('deploy', 'sim', 'scripts'):
        os.symlink(os.path.join(SOURCE, name), os.path.join(made.work, name))
    yield made
    made.finish()
    shutil.rmtree(folder)


def run(node, text, **environment):
    return subprocess.run(['bash', '-c', text], cwd=node.work, env={**node.environment, **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE, check=False)


def run_fault(node, command):
    done = run(node, command.text)
    if not command.output:
        return None if done.returncode == 0 else f'ended with status {done.returncode} and printed\n{done.stdout}'
    while command.output and not command.output[-1].strip():
        command.output.pop()
    if pattern(command.output).fullmatch(done.stdout.rstrip('\n') + '\n'):
        return None
    return f'printed\n{done.stdout}'


def look_faults(node, command, files):
    """Of a command that is not run."""
    done = run(node, 'bash -n -c ' + "'" + command.text.replace("'", "'\\''") + "'")
    if done.returncode:
        yield done.stdout
    for words in map(as_program, command.programs()):
        yield from cluster.faults(words, files)
        if '--' in words and words[0] in ('kubectl', 'oc') and words[words.index('--') + 1:]:
            words = words[words.index('--') + 1:]
        if os.path.basename(words[0]) in OURS:
            yield from option_faults([word.rstrip(')"') for word in words])
        yield from script_faults(words)


def is_script(name):
    """One of ours that has a help."""
    return name.removeprefix('./') in {'scripts/setup.sh', 'scripts/verify-mps-setup.sh', 'deploy/kind/setup.sh', 'deploy/container/build',
                                       'deploy/container/signature', 'bench/run', 'bench/peers', 'tools/dist', 'tools/gpu'}


@functools.cache
def script_help(name):
    return subprocess.run([os.path.join(SOURCE, name), '--help'], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE, check=True).stdout


MADE_BY = {'IMAGE_ARGS': 'deploy/container/build', 'GPU_ARGS': 'tools/gpu', 'DIST_ARGS': 'tools/dist'}


def script_faults(words):
    """Options that the help of a script does not have, also where make passes them on."""
    if words[0] == 'make':
        for name, _, value in (word.partition('=') for word in words):
            if name in MADE_BY:
                yield from script_faults([MADE_BY[name], *value.split()])
    for word in words[1:] if is_script(words[0]) else ():
        name = word.partition('=')[0]
        if name.startswith('-') and not re.search(r'(?<![\w-])%s(?![\w-])' % re.escape(name), script_help(words[0])):
            yield f'{words[0]} has no option {name}'


def config_faults(node, name, text, **environment):
    node.write(name, text)
    done = run(node, 'warpshare agent --check --config-file ' + name, **environment)
    if name.startswith('bad'):
        if done.returncode == 0:
            yield 'this configuration is called bad, and is accepted'
    elif done.returncode or done.stdout != f"config '{name}' is valid\n":
        yield f'{name} as a configuration:\n{done.stdout}'


def mig_faults(node, name, text):
    """Of a file of MIG configurations: each of them can be chosen."""
    node.write(name, text)
    for config in read_yaml(text)['mig-configs']:
        done = run(node, f'warpshare mig assert --valid-config --file {name} --config {config}')
        if done.returncode:
            yield f'{config} of {name} as a MIG configuration:\n{done.stdout}'


def block_faults(node, block):
    """Of a block of YAML, by what it is."""
    try:
        content = read_yaml(block.text)
    except yaml.composer.ComposerError:
        return  # several documents
    if not isinstance(content, dict):
        return
    if set(content) <= CONFIGURATION and ('version' in content or 'sharing' in content and
                                          all('resources' in (one or {}) for one in content['sharing'].values())):
        yield from config_faults(node, block.file_name or 'unnamed.yaml', block.text)
    elif set(content) <= SCENARIO and 'gpus' in content:
        name = block.file_name or 'unnamed-node.yaml'
        node.write(name, block.text)
        said = run(node, 'warpshare plan --scenario ' + name).stdout
        if re.search(r"scenario '[^']*' line", said):
            yield f'{name} as a simulated node:\n{said}'
    elif 'mig-configs' in content:
        yield from mig_faults(node, block.file_name or 'unnamed.yaml', block.text)
    elif (block.file_name or '').startswith('values'):
        yield from cluster.values_faults(content)
        for name, text in ((content.get('config') or {}).get('map') or {}).items():
            yield from config_faults(node, 'of-values.yaml', text if isinstance(text, str) else yaml.safe_dump(text),
                                     MPS_ROOT='/run/nvidia/mps')
    elif content.get('kind') == 'ConfigMap':
        for name, text in content['data'].items():
            yield from config_faults(node, 'of-map.yaml', text, MPS_ROOT='/run/nvidia/mps')


@pytest.mark.parametrize('path', PATHS, ids=identify)
def test_what_the_page_shows_is_what_the_program_does(path, node):
    page = Page(path)
    files = [block.file_name for block in page.blocks if block.file_name]
    faults = []
    for block, commands in page.commands():
        if block.file_name:
            node.write(block.file_name, block.text + '\n')
        if block.language == 'yaml':
            faults += [f'{page.name}:{block.line}: {fault}' for fault in block_faults(node, block)]
        for command in commands:
            if can_run(command):
                found = [run_fault(node, command)]
            else:
                found = look_faults(node, command, files)
            faults += [f'{page.name}:{command.line}: $ {command.text}\n{fault}' for fault in found if fault]
    if faults:
        pytest.fail('\n\n'.join(faults), pytrace=False)


@pytest.mark.parametrize('path', PATHS, ids=identify)
def test_commands_begin_with_a_dollar(path):
    """Others are neither run nor looked at."""
    page = Page(path)
    faults = []
    for block, commands in page.commands():
        for at, line in enumerate(() if commands or block.language not in ('', 'sh', 'bash') else block.text.splitlines()):
            first = next((word for word in line.split() if not re.match(r'^\w+=', word)), '')
            if not line.startswith(' ') and (first in ANYWHERE | ELSEWHERE or re.match(r'(?:scripts|deploy|tools|bench)/', first)):
                faults.append(f'{page.name}:{block.line + at}: {line}')
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


@pytest.mark.parametrize('path', PATHS, ids=identify)
def test_our_commands_within_the_text_have_these_options(path):
    faults = []
    for line, text in Page(path).code():
        words = as_program(text.replace('…', '').split())
        if words and words[0] in OURS:
            faults += [f'{identify(path)}:{line}: `{text}`: {fault}' for fault in option_faults(words)]
        elif words and (is_script(words[0]) or words[0] == 'make'):
            faults += [f'{identify(path)}:{line}: `{text}`: {fault}' for fault in script_faults(shlex.split(text.replace('…', '')))]
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


@functools.cache
def anchors(path):
    return set(Page(path).headings())


@pytest.mark.parametrize('path', PATHS + MORE, ids=identify)
def test_links_lead_somewhere(path):
    page = Page(path)
    faults = []
    for line, target in page.links():
        if re.match(r'^\w+:', target):
            continue
        file, _, anchor = target.partition('#')
        there = os.path.normpath(os.path.join(page.folder, file)) if file else path
        if not os.path.exists(there):
            faults.append(f'{page.name}:{line}: there is no {target}')
        elif anchor and there.endswith('.md') and anchor not in anchors(there):
            faults.append(f'{page.name}:{line}: {file or page.name} has no heading #{anchor}')
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


@functools.cache
def words_of_the_program():
    """Each word of the source, with texts that are broken into lines made whole."""
    found = set()
    for folder in ('src', 'sim', 'bench', 'deploy', 'test/cluster', 'test/gpu', 'test/e2e', 'tools'):
        for path in glob.glob(os.path.join(SOURCE, folder, '**/*'), recursive=True):
            if os.path.isfile(path) and not path.endswith(('.pyc', '.md')):
                with open(path, encoding='utf-8', errors='replace') as file:
                    found |= set(re.findall(r'\w+', re.sub(r'"\s*\n\s*"', '', file.read())))
    return found


# ---- what the program says ----

OF_OTHERS = ('failed to stat CDI host device', 'no matches for kind')  # said by containerd and kubectl
WORDS = re.compile(r"(?<![\w.,:=%/'<{-])[A-Za-z]+(?: [A-Za-z]+){3,}(?![\w.*='-])")


@functools.cache
def said():
    """Each four words in a row of what the program says. % is what it fills in, | ends a sentence or a text."""
    found = set()
    for folder in ('src/**/*.[ch]', 'src/**/*.js', 'sim/**/*.[ch]', 'scripts/*', 'deploy/**/*', 'tools/*'):
        for path in glob.glob(os.path.join(SOURCE, folder), recursive=True):
            if os.path.isfile(path):
                with open(path, encoding='utf-8', errors='replace') as file:
                    text = re.sub(r'"\s*(?:\\\n\s*)?(?:PRI\w+\s*)?"', '', file.read())
                words = re.sub(r"[^A-Za-z% ]+", ' | ', re.sub(r'%[-.*0-9]*(?:ll?|z)?[a-z]', '%', re.sub(r'\s+', ' ', text))).split()
                found |= set(zip(words, words[1:], words[2:], words[3:]))
    return found


def message_fault(text):
    """Four words that the program does not say in this order, or None. One of them may be filled in."""
    for words in map(str.split, () if text.startswith(OF_OTHERS) else WORDS.findall(text)):
        for at in range(len(words) - 3):
            four = tuple(words[at:at + 4])
            forms = [four, *(four[:i] + ('%',) + four[i + 1:] for i in range(4))]
            if not said().intersection(forms):
                return ' '.join(four)
    return None


@pytest.mark.parametrize('path', PATHS, ids=identify)
def test_messages_on_the_page_are_the_programs(path):
    page = Page(path)
    texts = [(line, text) for line, text in page.code() if not re.match(r'(?:\./)?(?:%s|test|srun|scripts|deploy)\b' %
                                                                     '|'.join(sorted(ANYWHERE | ELSEWHERE)), text)]
    for block in page.blocks:
        for at, line in enumerate(block.text.splitlines()):
            found = re.match(r'20\d\d-\S+Z (?:debug|info|warn|error) +(.*?)(?: \w+=|$)', line)
            if found:
                texts.append((block.line + at, found.group(1)))
    faults = [f'{page.name}:{line}: `{text}`: nobody says "{message_fault(text)}"' for line, text in texts if message_fault(text)]
    if faults:
        pytest.fail('\n'.join(faults), pytrace=False)


@pytest.mark.parametrize('path', PATHS, ids=identify)
def test_metrics_and_variables_on_the_page_are_the_programs(path):
    with open(path, encoding='utf-8') as file:
        names = set(re.findall(r'\b(?:warpshare_[a-z_]*[a-z]|WARPSHARE_[A-Z_]*[A-Z])\b', file.read()))
    assert names <= words_of_the_program(), names - words_of_the_program()


# ---- what the program takes ----

def help_of(*words):
    return subprocess.run([os.path.join(FOLDER, 'warpshare'), *words, '--help'], capture_output=True, text=True, timeout=DEADLINE, check=True).stdout


def test_the_table_of_flags_says_what_the_help_says():
    """Flags, variables, keys and defaults, both ways round."""
    with open(os.path.join(SOURCE, 'docs/configuration.md'), encoding='utf-8') as file:
        section = file.read().partition('\n## Flags\n')[2].partition('\n## ')[0]
    shown = {}
    for row in re.findall(r'^\| (?:\*\*\+\*\* )?`--.*$', section, re.MULTILINE):
        cells = [cell.strip() for cell in row.split('|')[1:]]
        names = [re.findall(r'`([^`]+)`', cell) for cell in cells]
        if names[0][1:] and cells[0].count(', `--'):  # several in one row, each with its variable
            shown |= {flag.lstrip('-'): ([], [variable], names[2], '') for flag, variable in zip(names[0], names[1])}
        else:
            shown[names[0][0].lstrip('-')] = ([name for name in names[0][1:] if name.startswith('--')], names[1], names[2],
                                              cells[3].partition(';')[0].strip('`').replace('empty', ''))
    entries = re.findall(r'^  (?:-\w, )?--([a-z][a-z-]+)(?: \S+)?\n?((?:.*\n)(?: {32}.*\n)*)', help_of('agent'), re.MULTILINE)
    assert len(entries) > 60
    there = {}
    for flag, text in entries:
        said = re.search(r'\(default ([^;]*?)(?:; env ([^;]*))?(?:; key ([^;]*))?((?:; also [^;]*)*)\)$', re.sub(r'\s+', ' ', text).strip())
        if said:  # --help and the like have no default
            there[flag] = (re.findall(r'--[a-z-]+', said.group(4)), (said.group(2) or '').split(' or '), [said.group(3)] if said.group(3) else [],
                           said.group(1).replace('empty', ''))
    assert {flag for flag in shown if flag not in there} <= {'check', 'help'}
    assert {flag: (shown.get(flag), values) for flag, values in there.items() if shown.get(flag) != values} == {}


def test_each_variable_of_a_command_is_on_a_page():
    commands = re.findall(r'^  ([a-z][a-z-]+) +\w', help_of().partition('commands:')[2], re.MULTILINE)
    called = {(name,) for name in commands} | {('mps', 'status'), ('mig', 'apply'), ('mig', 'plan')}
    names = {name for words in called for name in re.findall(r'\bWARPSHARE_[A-Z_]*[A-Z]', help_of(*words))}
    pages = ''
    for path in PATHS:
        with open(path, encoding='utf-8') as file:
            pages += file.read()
    assert len(names) > 30
    assert {name for name in names if not re.search(r'\b%s\b' % name, pages)} == set()


def test_the_example_of_the_file_has_each_section():
    page = Page(os.path.join(SOURCE, 'docs/configuration.md'))
    at = next(number for number, line in page.prose if line == '## The file')
    text = next(block.text for block in page.blocks if block.line > at)
    assert set(re.findall(r'^(\w+):', text, re.MULTILINE)) == set(json.loads(subprocess.run(
        [os.path.join(FOLDER, 'warpshare'), 'agent', '--print-schema'], capture_output=True, text=True, timeout=DEADLINE, check=True).stdout)['properties'])


def test_checks_and_events_in_troubleshooting_are_the_programs(node):
    page = Page(os.path.join(SOURCE, 'docs/troubleshooting.md'))
    checks = {finding['check'] for finding in json.loads(run(node, 'warpshare doctor --output json').stdout)['findings']}
    for line, text in page.prose:
        for names in re.findall(r'[Dd]octor:? ((?:`[^`]+`,? ?)+)', text):
            assert set(CODE.findall(names)) <= checks, (line, names)
        for name in re.findall(r'event `(\w+)`', text):
            assert name in words_of_the_program(), (line, name)


def test_each_row_of_promises_has_its_tests_and_pages_for_users_name_none():
    done = subprocess.run([os.path.join(SOURCE, 'tools/check-compatibility')], capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def listed_in(name):
    return {target.partition('#')[0] for _, target in Page(os.path.join(SOURCE, 'docs', name)).links()}


def test_every_page_is_in_the_index_for_users_or_in_that_for_developers():
    listed = listed_in('README.md') | listed_in('developers.md')
    missing = {os.path.basename(path) for path in glob.glob(os.path.join(SOURCE, 'docs/*.md'))} - listed - {'README.md'}
    assert not missing, missing
    assert listed_in('README.md').isdisjoint({'soak.md', 'stand-ins.md', 'evidence.md', 'promises.md', 'cluster-tests.md', 'architecture.md'})


def test_each_function_of_the_tour_is_where_it_says():
    with open(os.path.join(SOURCE, 'docs/architecture.md'), encoding='utf-8') as file:
        named = re.findall(r'`([a-z_/]+\.c): ([a-z_]+)`', file.read())
    assert len(named) > 20
    for path, function in named:
        with open(os.path.join(SOURCE, 'src', path), encoding='utf-8') as file:
            assert re.search(r'^(?!\s)[^;\n]*\b%s\((?:[^;]|;(?=[^\n]))*?\)\n\{' % function, file.read(), re.MULTILINE), \
                '%s has no function %s' % (path, function)


def test_a_request_takes_no_more_than_ten_steps_and_a_claim_an_event_or_a_configmap_twelve():
    with open(os.path.join(SOURCE, 'docs/architecture.md'), encoding='utf-8') as file:
        steps = [int(number) for number in re.findall(r'^\| (\d+) \| `', file.read(), re.MULTILINE)]
    assert steps.count(1) >= 4 and max(steps) <= 12
    assert max(steps[:steps.index(1, 1)]) <= 10
