// SPDX-License-Identifier: Apache-2.0
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

type chart struct {
	metadata map[string]interface{} // as templates see it: keys begin with an upper-case letter
	values   map[string]interface{}
	schema   []byte
	files    map[string][]byte // all but templates, by path; what .Files has
	sources  map[string]string // templates, by path
}

func loadChart(folder string) (*chart, error) {
	result := &chart{metadata: map[string]interface{}{}, values: map[string]interface{}{},
		files: map[string][]byte{}, sources: map[string]string{}}
	err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(name, "templates/"):
			result.sources[name] = string(text)
		case name == "values.schema.json":
			result.schema = text
		case name == "Chart.yaml":
			fields := map[string]interface{}{}
			if err := yaml.UnmarshalStrict(text, &fields); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			for key, value := range fields {
				result.metadata[strings.ToUpper(key[:1])+key[1:]] = value
			}
		case name == "values.yaml":
			if err := yaml.UnmarshalStrict(text, &result.values); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		default:
			result.files[name] = text
		}
		return nil
	})
	if err == nil && result.metadata["Name"] == nil {
		err = fmt.Errorf("%s: Chart.yaml is missing, or has no name", folder)
	}
	return result, err
}

func (c *chart) validate(values map[string]interface{}) error {
	if c.schema == nil {
		return nil
	}
	result, err := gojsonschema.Validate(gojsonschema.NewBytesLoader(c.schema), gojsonschema.NewGoLoader(values))
	if err != nil {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	if result.Valid() {
		return nil
	}
	lines := []string{"values don't meet the specifications of the schema:"}
	for _, one := range result.Errors() {
		lines = append(lines, "- "+one.String())
	}
	sort.Strings(lines[1:])
	return fmt.Errorf("%s", strings.Join(lines, "\n"))
}
