// SPDX-License-Identifier: Apache-2.0
// What a container runtime makes of our CDI specifications: the CDI library of Debian (the same that containerd, CRI-O and podman
// are built with) loads a folder and injects devices into the description of a container, which is printed as JSON. Nothing runs.
//
// Usage:
//
//	cdi-inject FOLDER [NAME]...
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/container-orchestrated-devices/container-device-interface/pkg/cdi"
	oci "github.com/opencontainers/runtime-spec/specs-go"
)

type answer struct {
	Devices      []string            `json:"devices"`      // all that are known
	FileErrors   map[string][]string `json:"file_errors"`  // by path
	Unresolvable []string            `json:"unresolvable"` // of those asked for
	Error        string              `json:"error"`
	Container    *oci.Spec           `json:"container"`
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: cdi-inject FOLDER [NAME]...")
		os.Exit(2)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(os.Args[1]), cdi.WithAutoRefresh(false))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	result := answer{Devices: cache.ListDevices(), FileErrors: map[string][]string{}}
	for path, errors := range cache.GetErrors() {
		for _, one := range errors {
			result.FileErrors[path] = append(result.FileErrors[path], one.Error())
		}
	}
	result.Container = &oci.Spec{Process: &oci.Process{Env: []string{"NVIDIA_VISIBLE_DEVICES=all", "HOME=/",
		"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=80G", "CUDA_MPS_PIPE_DIRECTORY=/tmp/none"}}}
	if names := os.Args[2:]; len(names) > 0 {
		result.Unresolvable, err = cache.InjectDevices(result.Container, names...)
		if err != nil {
			result.Error = err.Error()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
