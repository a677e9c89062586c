# SPDX-License-Identifier: Apache-2.0
"""What `kubectl get -o` prints: as much of JSONPath and of Go's templates as the scripts use. test_kubectl.py compares it with kubectl's
own, where that is installed; what is not known here is an error.
"""
import json
import re

STEP = re.compile(r'\.((?:[^.\[\\{}\s]|\\.)+)|\[(\*|\d+)\]')


def shown(value):
    if value is None:
        return ''
    if isinstance(value, bool):
        return 'true' if value else 'false'
    return json.dumps(value, separators=(',', ':'), sort_keys=True) if isinstance(value, (dict, list)) else str(value)


def find(path, value):
    """The values that a path of JSONPath leads to."""
    found, at = [value], 0
    while at < len(path):
        step = STEP.match(path, at)
        assert step, f'the stand-in for kubectl does not know the path {path!r}'
        key, index = step.groups()
        key = re.sub(r'\\(.)', r'\1', key) if key else None
        if key is not None:
            found = [one[key] for one in found if isinstance(one, dict) and key in one]
        elif index == '*':
            found = [inner for one in found if isinstance(one, list) for inner in one]
        else:
            found = [one[int(index)] for one in found if isinstance(one, list) and len(one) > int(index)]
        at = step.end()
    return found


def jsonpath(template, value):
    parts = re.findall(r'\{"(?:[^"\\]|\\.)*"\}|\{[^}]*\}|[^{]+', template)
    assert ''.join(parts) == template, template

    def render(at, value):
        """The text of the parts from |at| on to the end, or to the end of the range; and where that is."""
        text = ''
        while at < len(parts):
            part, at = parts[at], at + 1
            if not part.startswith('{'):
                text += part
            elif part == '{end}':
                return text, at
            elif part.startswith('{"'):
                text += json.loads(part[1:-1])
            elif part.startswith('{range '):
                after = render(at, {})[1]
                text += ''.join(render(at, one)[0] for one in find(part[len('{range '):-1], value))
                at = after
            else:
                text += ' '.join(map(shown, find(part[1:-1], value)))
        return text, at

    return render(0, value)[0]


def go_template(template, value):
    """{{range $key, $value := .path}}…{{end}}, variables and strings."""
    parts = re.findall(r'\{\{.*?\}\}|(?:(?!\{\{).)+', template, re.DOTALL)

    def render(at, names):
        text = ''
        while at < len(parts):
            part, at = parts[at], at + 1
            if not part.startswith('{{'):
                text += part
                continue
            inside = part[2:-2]
            over = re.fullmatch(r'range (\$\w+), (\$\w+) := (\..*)', inside)
            if inside == 'end':
                return text, at
            if over:
                after = render(at, {over[1]: '', over[2]: ''})[1]
                for table in find(over[3], value):
                    text += ''.join(render(at, {over[1]: key, over[2]: one})[0] for key, one in sorted(table.items()))
                at = after
            elif inside.startswith('"'):
                text += json.loads(inside)
            else:
                assert inside in names, f'the stand-in for kubectl does not know the template {part!r}'
                text += shown(names[inside])
        return text, at

    return render(0, {})[0]
