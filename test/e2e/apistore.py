# SPDX-License-Identifier: Apache-2.0
"""The objects of the stand-in API server: versions, conflicts, server-side apply, and the log that watches read.

Kinds are generic: a collection is known by its path, '/api/v1/nodes' or '/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu/nodefeatures'.
What is modelled is what a client can observe and depend on (https://kubernetes.io/docs/reference/using-api/): resourceVersion grows
with each write of the whole store, a write that changes nothing is none, managers own leaf fields, lists are atomic but for
those whose items have a key.
"""
import copy
import datetime
import json
import threading
import uuid

# Lists that server-side apply merges item by item: the end of their path, and the keys of an item, of which some may be absent.
KEYED_LISTS = {('conditions',): ('type',), ('ownerReferences',): ('uid',), ('addresses',): ('type',),
               ('status', 'devices'): ('driver', 'pool', 'device', 'shareID'), ('status', 'reservedFor'): ('uid',)}
# Whose writes to the object itself leave its status alone, and the other way round.
WITH_STATUS = {'nodes', 'pods', 'resourceclaims'}
# Whose metadata.generation counts the changes of their spec.
WITH_GENERATION = {'resourceslices', 'deviceclasses'}
# What managers do not own.
UNOWNED = {('apiVersion',), ('kind',)} | {('metadata', key) for key in (
    'name', 'namespace', 'uid', 'resourceVersion', 'creationTimestamp', 'managedFields', 'generation', 'selfLink',
    'generateName')}


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, code, reason, message, retry_after=None, details=None):
        super().__init__(message)
        self.code, self.reason, self.message, self.retry_after, self.details = code, reason, message, retry_after, details

    def status(self):
        status = {'kind': 'Status', 'apiVersion': 'v1', 'metadata': {}, 'status': 'Failure', 'message': self.message,
                  'reason': self.reason, 'code': self.code}
        return {**status, 'details': self.details} if self.details else status


def details_of(collection, name):
    """Of a refusal: name, group where there is one, and kind, which is the resource here."""
    parts = collection.split('/')
    return {'name': name, **({'group': parts[2]} if parts[1] == 'apis' else {}), 'kind': parts[-1]}


def called(collection, name):
    """'resourceclaims.resource.k8s.io "train"'."""
    details = details_of(collection, name)
    return f'{details["kind"]}{"." if "group" in details else ""}{details.get("group", "")} "{name}"'


def merge(target, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def item_keys(path):
    return next((keys for end, keys in KEYED_LISTS.items() if path[-len(end):] == end), ())


def is_atomic(path):
    """The data of a device's status belongs to one manager as a whole."""
    return len(path) > 1 and path[-1] == 'data' and isinstance(path[-2], tuple)


def leaves(value, path=()):
    """Path → value of everything that a manager can own. An item of a keyed list is the step (('type', 'Ready'),)."""
    keys = item_keys(path)
    if isinstance(value, dict) and value and not is_atomic(path):
        return {p: v for name, inner in value.items() for p, v in leaves(inner, path + (name,)).items()}
    if isinstance(value, list) and keys and value and all(isinstance(i, dict) and set(keys) & set(i) for i in value):
        return {p: v for item in value for p, v in leaves(item, path + (tuple((key, item.get(key)) for key in keys),)).items()}
    is_nothing = value in ({}, []) and (keys or len(path) == 1)  # of which only the items could be owned
    return {path: value} if path and path not in UNOWNED and not is_nothing else {}


def step_into(value, step, make):
    """The inner value that |step| leads to, None where there is none and none is to be made."""
    if isinstance(step, tuple):
        for item in value:
            if all(item.get(key) == wanted for key, wanted in step):
                return item
        if make:
            value.append({key: wanted for key, wanted in step if wanted is not None})
            return value[-1]
        return None
    return value.get(step)


def set_leaf(object_, path, value):
    for step, following in zip(path, path[1:]):
        inner = step_into(object_, step, True)
        if inner is None:
            inner = object_[step] = [] if isinstance(following, tuple) else {}
        object_ = inner
    if not isinstance(path[-1], tuple):
        object_[path[-1]] = copy.deepcopy(value)


def is_item_key(path):
    return len(path) > 1 and isinstance(path[-2], tuple) and path[-1] in dict(path[-2])


def remove_leaf(object_, path):
    """Containers that become empty by it go as well, as long as they were made for it."""
    way = []
    for step in path[:-1]:
        way.append((object_, step))
        object_ = step_into(object_, step, False)
        if object_ is None:
            return
    if not is_item_key(path):  # by which the item is found as long as anything else of it is there
        object_.pop(path[-1], None)
    for outer, step in reversed(way):
        inner = step_into(outer, step, False)
        only_key = isinstance(step, tuple) and set(inner) <= set(dict(step))
        if inner and not only_key:
            return
        if isinstance(step, tuple):
            outer.remove(inner)
        elif len(way) > 1 and step not in ('metadata', 'spec', 'status'):
            outer.pop(step)


def fields_v1(paths):
    tree = {}
    for path in sorted(paths, key=str):
        at = tree
        for step in path:
            name = f'f:{step}'
            if isinstance(step, tuple):
                name = 'k:' + json.dumps({k: v for k, v in sorted(step) if v is not None}, separators=(',', ':'))
            at = at.setdefault(name, {'.': {}} if isinstance(step, tuple) else {})
    return tree


def now():
    return datetime.datetime.utcnow().strftime('%Y-%m-%dT%H:%M:%SZ')


class Store:
    """
    All methods are for holders of |lock|, which is also notified of each write. |admit| is called with what is about to be kept: the
    collection, the object before or None, the object, which it may change, or None where it is deleted, and the subresource or None.
    It raises Refused.
    """

    def __init__(self, admit=lambda collection, before, object_, subresource: None):
        self.admit = admit
        self.lock = threading.Condition()
        self.version = 1000
        self.oldest = 0  # versions before it are forgotten: 410
        self.collections = {}  # path → {name: object}
        self.owners = {}  # (path, name) → {(manager, operation): set of paths}
        self.log = []  # (version, collection, type, object, the object before or None)

    def compact(self):
        """As etcd does from time to time: who wants to go on from what was before has to list again."""
        self.version += 1
        self.oldest = self.version
        self.log.clear()
        self.lock.notify_all()

    def find(self, collection, name):
        found = self.collections.get(collection, {}).get(name)
        if found is None:
            raise Refused(404, 'NotFound', f'{called(collection, name)} not found', details=details_of(collection, name))
        return found

    def record(self, collection, name, type_, object_, before=None):
        self.version += 1
        object_['metadata']['resourceVersion'] = str(self.version)
        owners = self.owners.get((collection, name), {})
        object_['metadata']['managedFields'] = [
            {'manager': manager, 'operation': operation, 'apiVersion': object_.get('apiVersion', 'v1'), 'time': now(),
             'fieldsType': 'FieldsV1', 'fieldsV1': fields_v1(paths)}
            for (manager, operation), paths in sorted(owners.items()) if paths]
        self.log.append((self.version, collection, type_, copy.deepcopy(object_), copy.deepcopy(before)))
        self.lock.notify_all()

    def own(self, collection, name, manager, operation, changed, removed=()):
        """What somebody changes belongs to nobody else any more."""
        owners = self.owners.setdefault((collection, name), {})
        for paths in owners.values():
            paths -= set(changed) | set(removed)
        owners.setdefault((manager, operation), set()).update(changed)

    def create(self, collection, object_, manager, namespace=None, operation='Update'):
        object_ = copy.deepcopy(object_)
        metadata = object_.setdefault('metadata', {})
        if 'name' not in metadata and metadata.get('generateName'):
            metadata['name'] = metadata['generateName'] + uuid.uuid4().hex[:5]
        name = metadata.get('name')
        if not name:
            raise Refused(422, 'Invalid', 'metadata.name: Required value: name or generateName is required')
        if metadata.get('namespace', namespace) != namespace:
            raise Refused(400, 'BadRequest', 'the namespace of the provided object does not match the namespace sent '
                                             'on the request')
        if name in self.collections.get(collection, {}):
            raise Refused(409, 'AlreadyExists', f'{called(collection, name)} already exists', details=details_of(collection, name))
        if namespace:
            metadata['namespace'] = namespace
        metadata.update(uid=str(uuid.uuid4()), creationTimestamp=now())
        if collection.rsplit('/', 1)[1] in WITH_GENERATION:
            metadata['generation'] = 1
        self.admit(collection, None, object_, None)
        self.collections.setdefault(collection, {})[name] = object_
        self.owners.pop((collection, name), None)
        self.own(collection, name, manager, operation, leaves(object_))
        self.record(collection, name, 'ADDED', object_)
        return object_

    def write(self, collection, name, wanted, manager, subresource=None, operation='Update', own=True):
        """Puts |wanted| in the place of what is there."""
        before = self.find(collection, name)
        wanted = copy.deepcopy(wanted)
        asked = wanted.setdefault('metadata', {}).get('resourceVersion')
        if asked and asked != before['metadata']['resourceVersion']:
            raise Refused(409, 'Conflict', f'Operation cannot be fulfilled on {called(collection, name)}: the object has been '
                                           'modified; please apply your changes to the latest version and try again',
                          details=details_of(collection, name))
        if wanted['metadata'].get('name', name) != name:
            raise Refused(400, 'BadRequest', 'the name of the object does not match the name on the URL')
        if collection.rsplit('/', 1)[1] in WITH_STATUS:
            for key in ('spec',) if subresource == 'status' else ('status',):
                wanted.pop(key, None)
                if key in before:
                    wanted[key] = copy.deepcopy(before[key])
        for key in ('name', 'namespace', 'uid', 'creationTimestamp', 'resourceVersion', 'managedFields'):
            wanted['metadata'].pop(key, None)
            if key in before['metadata']:
                wanted['metadata'][key] = before['metadata'][key]
        self.admit(collection, before, wanted, subresource)
        if collection.rsplit('/', 1)[1] in WITH_GENERATION:
            wanted['metadata']['generation'] = before['metadata']['generation'] + (wanted.get('spec') != before.get('spec'))
        for key in ('apiVersion', 'kind'):
            wanted.setdefault(key, before.get(key))
        if wanted == before:
            return before
        was, is_ = leaves(before), leaves(wanted)
        if own:
            self.own(collection, name, manager, operation, [p for p, v in is_.items() if was.get(p, self) != v],
                     [p for p in was if p not in is_])
        self.collections[collection][name] = wanted
        self.record(collection, name, 'MODIFIED', wanted, before)
        return wanted

    def apply(self, collection, name, body, manager, force, namespace=None, subresource=None):
        """Server-side apply. Returns the object and whether it was made."""
        if body.get('metadata', {}).get('managedFields'):
            raise Refused(400, 'BadRequest', 'metadata.managedFields must be nil')
        if name not in self.collections.get(collection, {}):
            if subresource:
                self.find(collection, name)
            body = merge(body, {'metadata': {'name': name}})
            return self.create(collection, body, manager, namespace, 'Apply'), True
        before = self.find(collection, name)
        owners = self.owners.setdefault((collection, name), {})
        mine = owners.setdefault((manager, 'Apply'), set())
        had = {key: set(paths) for key, paths in owners.items()}
        is_, wanted = leaves(before), leaves(body)
        others = {key: paths for key, paths in owners.items() if key != (manager, 'Apply')}
        conflicts = sorted((who[0], path) for who, paths in others.items() for path in paths
                           if path in wanted and is_.get(path) != wanted[path])
        if conflicts and not force:
            text = ', '.join(f'conflict with "{who}": .{".".join(map(str, path))}' for who, path in conflicts)
            raise Refused(409, 'Conflict', f'Apply failed with {len(conflicts)} conflicts: {text}')
        for who, path in conflicts:
            for paths in others.values():
                paths.discard(path)
        after = copy.deepcopy(before)
        for path in sorted(mine - set(wanted), key=is_item_key):
            if not any(path in paths for paths in others.values()):
                remove_leaf(after, path)
        for path, value in wanted.items():
            set_leaf(after, path, value)
        mine.clear()
        mine.update(wanted)
        version = body.get('metadata', {}).get('resourceVersion')
        after['metadata']['resourceVersion'] = version or before['metadata']['resourceVersion']
        try:
            return self.write(collection, name, after, manager, subresource, 'Apply', own=False), False
        except Refused:
            self.owners[(collection, name)] = had
            raise

    def delete(self, collection, name, preconditions=None):
        object_ = copy.deepcopy(self.find(collection, name))
        for key, value in (preconditions or {}).items():
            if object_['metadata'][key] != value:
                raise Refused(409, 'Conflict', f'Operation cannot be fulfilled on {called(collection, name)}: Precondition failed: '
                                               f'{key} in precondition: {value}, {key} in object meta: {object_["metadata"][key]}')
        self.admit(collection, object_, None, None)
        del self.collections[collection][name]
        self.owners.pop((collection, name), None)
        self.record(collection, name, 'DELETED', object_)
        return object_
