# SPDX-License-Identifier: Apache-2.0
"""Pages of the manual → what in them can be held against the program: commands with their output, files, and links."""
import os
import re
import shlex
from dataclasses import dataclass, field

import yaml

SOURCE = os.environ['WARPSHARE_SOURCE']

FENCE = re.compile(r'^( *)```(\w*)$')
FILE_LINE = re.compile(r'^# ([\w.-]+\.(?:yaml|json))$')
FILE_BEFORE = re.compile(r'.*`(?:/[\w./-]*/)?([\w.-]+\.(?:yaml|json))`.*:$')
LINK = re.compile(r'\[[^\]]*\]\(([^)\s]+)\)')
CODE = re.compile(r'`([^`\n]+)`')
CONNECTORS = {'|', '||', '&&', ';', '&'}


@dataclass
class Block:
    line: int  # of its first line, from 1
    language: str
    text: str
    before: str = ''  # the paragraph above it

    @property
    def file_name(self):
        """A block is a file that begins with a comment of its name, or that is announced as "…, `NAME.yaml`:"."""
        found = FILE_LINE.match(self.text.partition('\n')[0])
        if not found and self.language in ('yaml', 'json'):
            found = FILE_BEFORE.match(self.before)
        return found and found.group(1)


@dataclass
class Command:
    line: int
    text: str
    output: list = field(default_factory=list)

    def programs(self):
        """Each simple command of it, as its words. Variables that are set before a program, and a comment, are left out."""
        words = shlex.shlex(re.sub(r'\s#\s.*', '', self.text), posix=True, punctuation_chars='|&;')
        words.whitespace_split = True
        words.commenters = ''
        found = [[]]
        for word in words:
            if word in CONNECTORS:
                found.append([])
            elif found[-1] or not re.match(r'^\w+=', word):
                found[-1].append(word)
        return [one for one in found if one]


class Page:
    def __init__(self, path):
        self.name = os.path.relpath(path, SOURCE)
        self.folder = os.path.dirname(path)
        with open(path, encoding='utf-8') as file:
            self.lines = file.read().splitlines()
        self.blocks = []
        self.prose = []  # (line, text) outside of blocks
        self._split()

    def _split(self):
        block, indent, before, is_new = None, 0, '', True
        for number, line in enumerate(self.lines, 1):
            fence = FENCE.match(line)
            if block and fence and not fence.group(2):
                block.text = '\n'.join(block.text)
                self.blocks.append(block)
                block = None
            elif block:
                block.text.append(line[indent:] if not line[:indent].strip() else line)
            elif fence:
                indent = len(fence.group(1))
                block = Block(number + 1, fence.group(2), [], before)
                before = ''
            else:
                self.prose.append((number, line))
                if line.strip():
                    before = line.strip() if is_new else before + ' ' + line.strip()
                is_new = not line.strip()
        assert not block, f'{self.name}:{block.line}: this block has no end'

    def commands(self):
        """Those of a block: "$ command", and below it what it prints."""
        for block in self.blocks:
            found = []
            lines = iter(enumerate(block.text.splitlines(), block.line))
            for number, line in lines:
                if line.startswith('$ '):
                    text = line[2:]
                    while text.endswith('\\'):
                        text = text[:-1] + next(lines)[1].strip()
                    found.append(Command(number, text))
                elif found:
                    found[-1].output.append(line)
            yield block, found

    def headings(self):
        """As anchors, the way that code forges make them."""
        seen = {}
        for _, line in self.prose:
            heading = re.match(r'^#{1,6} (.*)$', line)
            if heading:
                anchor = re.sub(r'[^\w\- ]', '', LINK.sub(r'\g<0>', heading.group(1)).lower()).replace(' ', '-')
                count = seen.setdefault(anchor, 0)
                seen[anchor] += 1
                yield f'{anchor}-{count}' if count else anchor

    def links(self):
        for number, line in self.prose:
            for target in LINK.findall(CODE.sub('``', line)):
                yield number, target
            # A link whose text is code.
            for target in re.findall(r'\[`[^`]*`\]\(([^)\s]+)\)', line):
                yield number, target

    def code(self):
        for number, line in self.prose:
            for text in CODE.findall(line):
                yield number, text


def read_yaml(text):
    """None for what is no YAML, or is one of which parts are left out."""
    if '…' in text:
        return None
    return yaml.safe_load(text)


def pattern(output):
    """What stands below a command, as a regular expression: … is anything, and alone in its line any number of lines."""
    parts = []
    for line in output:
        if line.strip() == '…':
            parts.append(r'(?:.*\n)*?')
        else:
            parts.append('.*?'.join(re.escape(part) for part in line.rstrip().split('…')) + r' *\n')
    return re.compile(''.join(parts))
