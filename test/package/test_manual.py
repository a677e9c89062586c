# SPDX-License-Identifier: Apache-2.0
"""Manual pages and shell completion have what --help has. Both are read by the programs that they are for."""
import os
import re
import shutil
import subprocess

import pytest

WARPSHARE = os.environ['WARPSHARE']
FOLDER = os.environ['WARPSHARE_MANUAL']
PAGES = os.path.join(FOLDER, 'man1')
BASH = os.path.join(FOLDER, 'completions')
ZSH = os.path.join(FOLDER, 'site-functions')
FISH = os.path.join(FOLDER, 'vendor_completions.d')

# Where the cursor is goes into COMP_WORDS as bash itself would put it.
ASK_BASH = '''
. "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
"_${1//-/_}"
printf '%s\\n' "${COMPREPLY[@]}"
'''


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL, **more)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def below(*words):
    """The commands below one: its usage has a line for each."""
    usage = run(WARPSHARE, *words, '--help').split('\n\n')[0].replace('kubectl warpshare', 'kubectl-warpshare')
    return re.findall(r'^ {7}(?:warpshare )?%s ([a-z][a-z-]+)' % ' '.join(words), usage, re.MULTILINE)


def commands():
    """All of them, as words after the program's name; what --help lists is the table."""
    text = run(WARPSHARE, '--help')
    found = re.findall(r'^  ([a-z][a-z-]+) +\w', text[text.index('commands:'):], re.MULTILINE)
    assert {'agent', 'plan', 'mps'} <= set(found)
    for name in found:
        yield [name]
        for word in below(name):
            yield [name, word]


ALL = [[], *commands()]


def name_of(words):
    """A command that is a program of its own is called as that."""
    is_program = words and words[0] in os.listdir(BASH)
    return '-'.join(words if is_program else ['warpshare', *words])


def flags(words):
    """Those that --help has, with their values."""
    return re.findall(r'^  (?:-\w, )?--([a-z][a-z-]+)(?: (\S+))?', run(WARPSHARE, *words, '--help'), re.MULTILINE)


def complete_bash(*words):
    program = words[0]
    return run('bash', '-c', ASK_BASH, 'ask', os.path.join(BASH, program), *words).split()


def needs(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip('no %s here' % program)


@pytest.mark.parametrize('words', ALL, ids=' '.join)
def test_the_page_has_every_option_of_the_help(words):
    with open(os.path.join(PAGES, name_of(words) + '.1'), encoding='utf-8') as file:
        page = file.read().replace('\\-', '-')
    found = flags(words)
    assert found
    for flag, argument in found:
        line = '%s%s\n' % (flag, ' " %s"' % argument if argument else '')
        assert re.search(r'^\.BR (-\w ", " )?--%s' % re.escape(line), page, re.MULTILINE), flag


@pytest.mark.parametrize('words', ALL, ids=' '.join)
def test_bash_completes_every_option_of_the_help(words):
    offered = complete_bash('warpshare', *words, '--')
    assert {'--' + flag for flag, _ in flags(words)} <= set(offered)
    assert len(offered) == len(set(offered))


def choices():
    """(words, flag, values) of each option that takes one of some words, as fish has them: all of them are in its files."""
    for name in sorted(os.listdir(FISH)):
        with open(os.path.join(FISH, name), encoding='utf-8') as file:
            for place, flag, values in re.findall(r'_place\)" = "([^"]*)"\' .*-l (\S+) .*-x -a \'([^\']*)\'', file.read()):
                program = name.removesuffix('.fish')
                yield [*([] if program == 'warpshare' else [program]), *place.removeprefix('warpshare').split()], flag, values.split()


def test_the_help_names_each_word_that_an_option_takes():
    faults = []
    found = list(choices())
    assert len(found) > 50
    for words, flag, values in found:
        said = re.search(r'^  (?:-\w, )?--%s( \S+)?(?:\n| )((?:.*\n)(?: {32}.*\n)*)' % flag, run(WARPSHARE, *words, '--help'), re.MULTILINE)
        if not said or values == ['true', 'false']:
            continue  # an option of the agent that another command has, too, or one that may stand alone
        if not said.group(1):
            faults.append((words, flag, 'does not show that it takes a value'))
        faults += [(words, flag, one) for one in values if not re.search(r'(?<![\w-])%s(?![\w-])' % re.escape(one), said.group(2))]
    assert not faults


@pytest.mark.parametrize('words', ALL, ids=' '.join)
def test_a_letter_is_named_once(words):
    assert not re.search(r'also\s+--\w\W', run(WARPSHARE, *words, '--help'))


def test_every_command_has_a_page_and_no_other_page_is_there():
    assert sorted(name_of(words) + '.1' for words in ALL) == sorted(os.listdir(PAGES))


def test_pages_are_correct():
    needs('mandoc')
    pages = [os.path.join(PAGES, name) for name in os.listdir(PAGES)]
    assert run('mandoc', '-T', 'lint', '-W', 'warning', *pages) == ''
    text = re.sub('.\b', '', run('mandoc', '-T', 'utf8', os.path.join(PAGES, 'warpshare-agent.1')))
    words = ' '.join(text.split())
    assert '--mig-strategy WORD how GPUs with MIG enabled are advertised' in words
    assert 'Environment: NVIDIA_DRIVER_ROOT. In the file: flags.nvidiaDriverRoot. Also: --nvidia-driver-root.' in words


@pytest.mark.parametrize('words, expected', [
    (['warpshare', 'pl'], ['plan']),
    (['warpshare', 'mps', 'un'], ['uninstall']),
    (['warpshare', 'plan', '--mo'], ['--model', '--mofed-enabled']),
    (['warpshare', 'plan', '--output', ''], ['table', 'json']),
    (['warpshare', 'mps', 'status', '--output', ''], ['table', 'json', 'metrics']),
    (['warpshare', 'plan', '--model', '=', 'H'], ['H100-80GB', 'H200', 'H100-NVL', 'H20']),  # '=' parts words in bash
    (['warpshare', 'plan', '--output', '='], ['table', 'json']),
    (['warpshare', 'plan', '--output=j'], ['--output=json']),  # or does not, as the user has set it
    (['warpshare', 'agent', '-device-list-strategy', 'envvar,vol'], ['envvar,volume-mounts']),
    (['warpshare', 'plan', '--gpus', ''], []),
    (['warpshare', 'agent', '--config-file', '/etc/passw'], ['/etc/passwd']),
    (['warpshare', 'agent', '--container-driver-root', '/etc/passw'], ['/etc/passwd']),
    (['nvidia-device-plugin', '--mig-strategy', 'm'], ['mixed']),
    (['mps-control-daemon', 'm'], ['mount-shm']),
    (['kubectl-warpshare', 'w'], ['why']),
    (['kubectl-warpshare', 'shares', '--output', ''], ['table', 'wide', 'json', 'csv']),
    (['warpshare', 'nonsense', 'mps', 'un'], [])])
def test_bash_completes_commands_and_values(words, expected):
    assert [one for one in complete_bash(*words) if one != '/etc/passwd-'] == expected


@pytest.mark.parametrize('line, expected', [
    ('warpshare pl', ['plan']),
    ('warpshare mps un', ['uninstall']),
    ('warpshare plan --output ', ['json', 'table']),
    ('warpshare plan --model=H', ['--model=H100-80GB', '--model=H100-NVL', '--model=H20', '--model=H200']),
    ('warpshare mps status --outp', ['--output']),
    ('warpshare agent --config-file /etc/passw', ['/etc/passwd'])])
def test_fish_completes_commands_options_and_values(line, expected, tmp_path):
    needs('fish')
    said = run('fish', '--no-config', '-c', 'source "$argv[1]"; complete -C "$argv[2]"',
               os.path.join(FISH, 'warpshare.fish'), line, env={'PATH': os.environ['PATH'], 'HOME': str(tmp_path)})
    found = [one.split('\t')[0] for one in said.splitlines()]
    assert sorted(set(found) - {'/etc/passwd-'}) == expected


def test_zsh_completes_every_option():
    needs('zsh')
    script = '''
    _arguments() { print -rl -- "$@" }
    _describe() { print -rl -- "${(P)4}[@]" $commands }
    words=(warpshare "${@[2,-1]}" '')
    CURRENT=$#words
    . "$1"
    '''
    for words in ALL:
        said = run('zsh', '-f', '-c', script, 'ask', os.path.join(ZSH, '_warpshare'), *words)
        offered = set(re.findall(r'^--([a-z][a-z-]+)=?\[', said, re.MULTILINE))
        assert {flag for flag, _ in flags(words)} <= offered, words
        for word in below(*words) if words else []:
            assert re.search('^%s:' % word, said, re.MULTILINE), words


def test_files_for_shells_are_correct():
    needs('shellcheck')
    run('shellcheck', *(os.path.join(BASH, name) for name in os.listdir(BASH)))
