# SPDX-License-Identifier: Apache-2.0
# One word a task; Meson does the work. `make help` lists them.

BUILD := build
PYTHON := /usr/bin/python3
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 600
SOAK_ARGS ?=
DEMO_ARGS ?=
IMAGE_ARGS ?=
DIST_ARGS ?=
GPU_ARGS ?=

.DEFAULT_GOAL := all
.PHONY: all run image check release-check unit plain asan valgrind fuzz coverage soak cluster bench fmt lint manifests picture site dist clean help bootstrap gpu

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 15

bootstrap: ## install what building and testing need (Debian 12), or say what is missing
	@scripts/bootstrap

$(BUILD)/main/build.ninja: | bootstrap
	@meson setup $(BUILD)/main >/dev/null

all: $(BUILD)/main/build.ninja ## build, into build/main
	@ninja -C $(BUILD)/main

# Whoever only wants to see it installs a fifth of the packages: what the tests need is left out, unless they were built before.
RUN := $(if $(wildcard $(BUILD)/main/build.ninja),main,run)

$(BUILD)/run/build.ninja:
	@scripts/bootstrap --build
	@meson setup -Dtests=false $(BUILD)/run >/dev/null

run: $(BUILD)/$(RUN)/build.ninja ## the main job: a simulated node, three pods, a GPU that fails and comes back
	@ninja -C $(BUILD)/$(RUN) $$(test -t 1 || echo --quiet)
	@$(BUILD)/$(RUN)/src/cmd/warpshare demo $(DEMO_ARGS)

image: bootstrap ## the container image, without a container engine: an OCI archive in build/image
	@deploy/container/build $(IMAGE_ARGS)

check: bootstrap ## what a change must pass: unit and end-to-end tests, fuzz targets, lint; of what takes long, what changed
	@tools/check

release-check: bootstrap ## what a release must pass: all of that, changed or not, and two hours of soak
	@tools/release-check --full

unit: $(BUILD)/main/build.ninja ## the unit tests of the plain build, in less than a minute: for every edit
	@meson test -C $(BUILD)/main --print-errorlogs --suite unit --num-processes $$((2 * $$(nproc)))

plain: bootstrap ## what make check runs in the release build: unit tests, what surrounds the programs, what is measured
	@tools/check plain

asan: bootstrap ## unit and end-to-end tests under address and undefined behaviour sanitizers
	@tools/check asan

valgrind: $(BUILD)/main/build.ninja ## the soak test under valgrind: 10,000 allocations, 100 restarts of kubelet
	@meson test -C $(BUILD)/main --print-errorlogs soak/valgrind

fuzz: bootstrap ## each fuzz target for FUZZ_SECONDS (60)
	@tools/fuzz $(FUZZ_SECONDS)

coverage: bootstrap ## what unit tests and fuzz targets run of each layer, as a table
	@tools/coverage

soak: $(BUILD)/main/build.ninja ## random work and faults at once for SOAK_SECONDS (600): docs/soak.md
	@meson test -C $(BUILD)/main --verbose --timeout-multiplier 0 --test-args "--seed random --seconds $(SOAK_SECONDS) $(SOAK_ARGS)" soak/everything

cluster: $(BUILD)/main/build.ninja ## the suite for a real cluster, that of WARPSHARE_CLUSTER_KUBECONFIG: docs/cluster-tests.md
	@meson test -C $(BUILD)/main --verbose --timeout-multiplier 0 cluster/everything

bench: bootstrap ## the budgets: every figure, and the command that made it
	@bench/run

gpu: all ## on a machine with a GPU: what docs/hardware-notes.md expects is tried, report in build/gpu (GPU_ARGS="--write-notes")
	@tools/gpu $(GPU_ARGS)

fmt: ## format every C file
	@git ls-files '*.[ch]' | xargs clang-format-14 -i

lint: $(BUILD)/main/build.ninja ## layers, formatting, shell scripts, clang-tidy of what changed
	@tools/lint

manifests: bootstrap all ## deploy/manifests, from the Helm chart, and the chart's dashboards and schema of configurations
	@$(BUILD)/main/src/cmd/warpshare agent --print-schema >deploy/helm/warpshare/files/config.schema.json
	@tools/dashboards
	@tools/manifests

picture: all ## docs/pictures: the demonstration, for the README, warpshare top, and the dashboard in Chromium
	@mkdir -p docs/pictures
	@$(BUILD)/main/src/cmd/warpshare demo --color always >$(BUILD)/main/demo.txt
	@tools/picture "What make run shows on a node with simulated GPUs" <$(BUILD)/main/demo.txt >docs/pictures/demo.svg
	@tools/top-picture $(BUILD)/main/src/cmd/warpshare >docs/pictures/top.svg
	@test/browser/pictures.py $(BUILD)/main/src/cmd/warpshare

site: ## the manual as one site with a search, into build/site
	@tools/site

dist: ## the archives of this commit: source and chart, into build/dist
	@tools/dist $(DIST_ARGS)

clean: ## remove build/
	@rm -rf $(BUILD)
