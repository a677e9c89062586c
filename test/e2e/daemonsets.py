# SPDX-License-Identifier: Apache-2.0
"""Which nodes get a pod of a DaemonSet. Its pod on a node ends, too, as soon as this is no longer so."""

OPERATORS = {'In': lambda found, values: found in values, 'NotIn': lambda found, values: found not in values,
             'Exists': lambda found, values: found is not None, 'DoesNotExist': lambda found, values: found is None}


def lands(spec, labels):
    """|spec|: of the pod."""
    required = spec.get('affinity', {}).get('nodeAffinity', {}).get('requiredDuringSchedulingIgnoredDuringExecution')
    return spec.get('nodeSelector', {}).items() <= labels.items() and (not required or any(
        all(OPERATORS[one['operator']](labels.get(one['key']), one.get('values')) for one in term['matchExpressions'])
        for term in required['nodeSelectorTerms']))
