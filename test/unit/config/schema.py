# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of the configuration file: legal by its own meta-schema, and of one mind with the agent about sample files.

Usage: schema.py HELPER   (schema_helper.c)
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(f"skipped: {error}; scripts/bootstrap installs it")
    sys.exit(77)  # skipped, to meson

UUID = "4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"

GOOD = [
    "",
    "version: v1",
    "version: ''",
    "flags: {migStrategy: mixed, failOnInitError: no, mpsRoot: 5, useNodeFeatureAPI: null}",
    "flags: {plugin: {deviceListStrategy: [envvar, cdi-cri], passDeviceSpecs: true, nvidiaCTKPath: /x}}",
    "flags: {plugin: {deviceListStrategy: volume-mounts, sharedDevicesAllocationPolicy: packed}}",
    "flags: {plugin: {deviceListStrategy: []}}",
    *(f"flags: {{gfd: {{sleepInterval: {value}}}}}" for value in ("0", "5", "5s", "1m30s", ".5h", "infinite", "3µs")),
    "resources: {gpus: [{pattern: '*', name: gpu}], mig: [{pattern: 1g.5gb, name: nvidia.com/mig-1g.5gb}]}",
    "imex: {channelIDs: [0], required: true}",
    "imex: {channelIDs: []}",
    "health: {xids: {79: ignore, 43: unhealthy, 31: null}, recover: false, pendingRowRemap: unhealthy}",
    f"dra: {{enabled: true, driverName: a.b, devices: [0, GPU-{UUID}], whole: false, mps: true, timeSlicing: true, slots: 1, "
    "defaults: {memory: 1Gi, threadPercentage: 100, clients: 60}, memory: 64Gi, memoryReserve: auto, hostOverhead: {gpu: {memoryPerPod: 1Gi}, shared: {milliCpuPerPod: 100}}, fallback: shares, oneForm: whole, shares: 60, "
    "unenforced: condition, unhealthy: NoExecute}",
    "dra: {devices: all, defaults: null}",
    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}, mps: null}",
    "sharing: {mps: {provisioning: declared, maxThreads: 50, maxMemory: 10Gi, declaredOvercommit: false, "
    "resources: [{name: gpu, replicas: 2}]}}",
    "sharing: {mps: {provisioning: half, placement: same-gpu, resources: [{name: gpu, rename: a.b, replicas: 50000}]}}",
    "sharing: {mps: {provisioning: sm, scope: individual, maxPerRequest: 2, resources: [{name: gpu, replicas: 2, sms: 8}]}}",
    "sharing: {mps: {provisioning: half, daemonScope: resource, placement: prefer-same-gpu, guard: terminate, "
    "tier: verified, resources: [{name: gpu, replicas: 2}]}}",
    *(f"sharing: {{mps: {{provisioning: half, memoryReserve: {value}, resources: [{{name: gpu, replicas: 2}}]}}}}"
      for value in ("auto", "null", "0", "512", "'512'", "512Mi", "512MiB", "1Gi", "1GiB")),
    *(f"sharing: {{mps: {{guard: {value}, resources: [{{name: gpu, replicas: 2}}]}}}}" for value in ("off", "'off'")),
    "sharing: {timeSlicing: {scope: individual, placement: same-gpu, maxPerRequest: 2, resources: "
    "[{name: gpu, replicas: 2}]}}",
    f"sharing: {{mps: {{resources: [{{name: gpu, replicas: 2, devices: [0, '1', '0:1', GPU-{UUID}]}}]}}}}",
    f"sharing: {{mps: {{resources: [{{name: gpu, replicas: 2, devices: [MIG-{UUID}, MIG-GPU-{UUID}/1/0]}}]}}}}",
    "sharing: {mps: {resources: [{name: gpu, replicas: 2, devices: 3, placement: distinct}]}}",
    "sharing: {mps: {resources: [{name: gpu, replicas: 2, devices: all}]}}",
]

# What the agent refuses, or reads with a warning; to the schema, both is wrong.
BAD = [
    "[]",
    "version: v2",
    "verson: v1",
    "flags: {migStrategy: multiple}",
    "flags: {failOnInitError: 1}",
    "flags: {plugin: {deviceListStrategy: cdi}}",
    "flags: {plugin: {deviceListStrategy: [cdi]}}",
    "flags: {plugin: {deviceListStrategy: 'envvar,cdi-cri'}}",
    "flags: {plugin: {mpsRoot: /x}}",
    *(f"flags: {{gfd: {{sleepInterval: {value}}}}}" for value in ("5 s", "forever", "''", "true")),
    "resources: {gpus: [{pattern: '*'}]}",
    "resources: {gpus: [{pattern: '*', name: example.com/gpu}]}",
    "resources: {gpus: [{pattern: '*', name: GPU}]}",
    "imex: {channelIDs: [2]}",
    "imex: {channelIDs: 0}",
    "health: {xids: {all: ignore}}",
    "health: {xids: {79: fatal}}",
    "health: {xids: {0: ignore}}",
    "health: {recover: maybe}",
    *(f"dra: {{{text}}}" for text in ("enabled: 1", "drivers: a", "whole: 2", "slots: 0", "shares: 61", "fallback: all", "oneForm: mps",
                                     "unenforced: true", "memory: 1.5Gi", "memoryReserve: 1.5Gi", "defaults: {threadPercentage: 101}",
                                     "defaults: {clients: 0}", "hostOverhead: {shared: {memoryPerPod: 1.5Gi}}", "hostOverhead: {vgpu: {}}", "defaults: {sms: 8}")),
    "sharing: {timeSlicing: {}}",
    "sharing: {timeSlicing: {resources: []}}",
    "sharing: {timeSlicing: {resources: [{name: gpu}]}}",
    "sharing: {timeSlicing: {resources: [{replicas: 2}]}}",
    "sharing: {timeSlicing: {resources: [{name: null, replicas: 2}]}}",
    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 0}]}}",
    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 50001}]}}",
    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: '2'}]}}",
    "sharing: {timeSlicing: {provisioning: half, resources: [{name: gpu, replicas: 2}]}}",
    "sharing: {timeSlicing: {guard: report, resources: [{name: gpu, replicas: 2}]}}",
    *(f"sharing: {{mps: {{provisioning: half, {key}: {value}, resources: [{{name: gpu, replicas: 2}}]}}}}"
      for key, value in (("scope", "gpu"), ("daemonScope", "host"), ("guard", "kill"), ("tier", "best"),
                         ("maxPerRequest", "0"), ("maxPerRequest", "50001"), ("placement", "same_gpu"),
                         ("memoryReserve", "-1"), ("memoryReserve", "1.5Gi"), ("memoryReserve", "512MB"),
                         ("memoryReserve", "1048577"), ("memoryReserve", "true"))),
    "sharing: {mps: {provisioning: sm, resources: [{name: gpu, replicas: 2, sms: 0}]}}",
    *(f"sharing: {{mps: {{resources: [{{name: gpu, replicas: 2, devices: {value}}}]}}}}"
      for value in ("0", "-1", "513", "[]", "[-1]", "some", "['0:']", "[GPU-UUID]", f"[MIG-GPU-{UUID}]", "{}")),
]


def examples(path):
    """The YAML blocks of a document that are whole configurations."""
    for block in re.findall(r"```yaml\n(.*?)```", path.read_text(encoding="utf-8"), re.S):
        if block.startswith("version: v1\n"):
            yield block


def opinion(helper, text):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        return subprocess.run([helper, file.name], capture_output=True, text=True, check=False)


def main():
    helper = sys.argv[1]
    schema = json.loads(subprocess.run([helper], capture_output=True, text=True, check=True).stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    documents = list(examples(pathlib.Path(__file__).resolve().parents[3] / "docs" / "configuration.md"))
    assert documents, "docs/configuration.md has no example"
    faults = 0
    for text, is_good in [(t, True) for t in GOOD + documents] + [(t, False) for t in BAD]:
        agent = opinion(helper, text)
        # Through JSON, as in the agent: keys are text there.
        errors = list(validator.iter_errors(json.loads(json.dumps(yaml.safe_load(text)))))
        if (agent.returncode == 0) != is_good or (not errors) != is_good:
            faults += 1
            print(f"{text}\n  should be {'good' if is_good else 'bad'}\n  agent: {agent.returncode} {agent.stderr.strip()}")
            print(f"  schema: {[e.message for e in errors]}")
    print(f"{len(GOOD) + len(documents) + len(BAD)} samples, {faults} wrong")
    return 1 if faults else 0


sys.exit(main())
