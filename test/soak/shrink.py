# SPDX-License-Identifier: Apache-2.0
"""
Of a script that fails, a short one that still does, pure: first without the steps before an empty node, which cost most and mostly do not
matter; then by delta debugging (Zeller's ddmin) over the steps.
"""


def parts(steps, count):
    """|count| pieces of about the same length, none empty."""
    count = min(count, len(steps))
    edges = [len(steps) * i // count for i in range(count + 1)]
    return [steps[begin:end] for begin, end in zip(edges, edges[1:])]


def ends(steps):
    """What comes from the last empty node on, from the second to last, from the fourth to last …"""
    begins = [i for i, step in enumerate(steps[:-1]) if step.verb == 'empty' and i > 0]
    count = 1
    while count <= len(begins):
        yield steps[begins[-count]:]
        count *= 2


def shrink(steps, fails, may_go_on=lambda: True):
    """
    The shortest that was found. |fails| tells of a list of steps whether it fails in the same way; it is asked as long as |may_go_on|().
    With enough patience no single step can be left out of the result.
    """
    for end in ends(steps):
        if may_go_on() and fails(end):
            steps = end
            break
    count = 2
    while len(steps) > 1 and may_go_on():
        pieces = parts(steps, count)
        for i in range(len(pieces)):
            rest = [step for j, piece in enumerate(pieces) if j != i for step in piece]
            if rest and may_go_on() and fails(rest):
                steps, count = rest, max(count - 1, 2)
                break
        else:
            if count >= len(steps):
                break
            count = min(2 * count, len(steps))
    return steps
