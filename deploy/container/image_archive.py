# SPDX-License-Identifier: Apache-2.0
"""An OCI archive: read, for those who say something of an image; and written, for it and for what is said of it."""
import hashlib
import io
import json
import tarfile

CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
NAME = "org.opencontainers.image.ref.name"


def encode(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def add(archive, name, epoch, data=None, **fields):
    """One entry of a tar; |fields| are those of TarInfo."""
    entry = tarfile.TarInfo(name)
    entry.mtime = epoch
    entry.mode = 0o644
    for key, value in fields.items():
        setattr(entry, key, value)
    if data is not None:
        entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data) if data is not None else None)


class Blobs:
    """The contents of an image, by digest."""

    def __init__(self):
        self.contents = {}

    def put(self, data, media_type, **more):
        digest = hashlib.sha256(data).hexdigest()
        self.contents[digest] = data
        return {"mediaType": media_type, "digest": "sha256:" + digest, "size": len(data), **more}

    def write(self, path, epoch, top, **files):
        """The archive whose index names |top|; |files| are other files in it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        with tarfile.open(partial, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            add(archive, "oci-layout", epoch, encode({"imageLayoutVersion": "1.0.0"}))
            add(archive, "index.json", epoch, encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": top}))
            for name, data in files.items():
                add(archive, name, epoch, data)
            for digest in sorted(self.contents):
                add(archive, "blobs/sha256/" + digest, epoch, self.contents[digest])
        partial.replace(path)


class Archive:
    """version: the image's; digests: of what a registry knows it by: the index of several platforms, and each platform's manifest."""

    def __init__(self, path):
        with tarfile.open(path) as archive:
            self.files = {one.name: archive.extractfile(one).read() for one in archive.getmembers() if one.isfile()}
        self.top = json.loads(self.files["index.json"])["manifests"]
        self.version = self.top[0]["annotations"][NAME]
        self.digests = []
        for one in self.top:
            self.digests.append(one["digest"][7:])
            if one["mediaType"] == INDEX:
                self.digests += [below["digest"][7:] for below in self.json(one)["manifests"]]

    def blob(self, descriptor):
        """Its bytes, which are those of its digest."""
        data = self.files["blobs/sha256/" + descriptor["digest"][7:]]
        if hashlib.sha256(data).hexdigest() != descriptor["digest"][7:]:
            raise ValueError(f"the blob {descriptor['digest']} has other bytes")
        return data

    def json(self, descriptor):
        return json.loads(self.blob(descriptor))
