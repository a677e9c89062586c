# SPDX-License-Identifier: Apache-2.0
"""The table at the end: what was done, how it went, how long it took, and what is worth to be known of it."""


def sentence(name):
    """test_a_pod_has_a_share[x] → 'a pod has a share: x'."""
    name, _, case = name.removeprefix('test_').partition('[')
    return name.replace('_', ' ') + (f': {case.rstrip("]")}' if case else '')


def table(rows):
    """Lines, of [(what, outcome, seconds, notes)]."""
    lines = [('WHAT', 'OUTCOME', 'SECONDS', 'NOTES')] + [(what, how, f'{seconds:.1f}', '; '.join(notes)) for what, how, seconds, notes in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return [f'{what:{widths[0]}}  {how:{widths[1]}}  {seconds:>{widths[2]}}  {notes}'.rstrip() for what, how, seconds, notes in lines]
