// SPDX-License-Identifier: Apache-2.0
package main

import (
	"encoding/json"
	"fmt"
	"path"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type release struct {
	name, namespace string
	upgrade         bool
	existing        []string // KIND/NAMESPACE/NAME
	kubernetes      int      // 1.x
}

// What templates find under .Files.
type fileSet map[string][]byte

func (f fileSet) Get(name string) string      { return string(f[name]) }
func (f fileSet) GetBytes(name string) []byte { return f[name] }
func (f fileSet) Lines(name string) []string {
	return strings.Split(strings.TrimSuffix(string(f[name]), "\n"), "\n")
}
func (f fileSet) Glob(pattern string) fileSet {
	result := fileSet{}
	for name, text := range f {
		if matches, _ := path.Match(pattern, name); matches {
			result[name] = text
		}
	}
	return result
}
func (f fileSet) AsConfig() string {
	result := map[string]string{}
	for name, text := range f {
		result[path.Base(name)] = string(text)
	}
	return toYAML(result)
}

// .Capabilities.APIVersions: like `helm template`, which knows no cluster, but with the kind that the chart asks for.
type versionSet []string

func (v versionSet) Has(version string) bool {
	for _, one := range v {
		if one == version {
			return true
		}
	}
	return false
}

type kubeVersion struct{ Version, Major, Minor string }

func (k kubeVersion) String() string     { return k.Version }
func (k kubeVersion) GitVersion() string { return k.Version }

func toYAML(value interface{}) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		return "" // as Helm: a template cannot fail for it
	}
	return strings.TrimSuffix(string(text), "\n")
}

func toJSON(value interface{}) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

func fromTable(text string) map[string]interface{} {
	result := map[string]interface{}{}
	if err := yaml.Unmarshal([]byte(text), &result); err != nil {
		result["Error"] = err.Error()
	}
	return result
}

func fromArray(text string) []interface{} {
	result := []interface{}{}
	if err := yaml.Unmarshal([]byte(text), &result); err != nil {
		return []interface{}{err.Error()}
	}
	return result
}

func require(message string, value interface{}) (interface{}, error) {
	if text, isText := value.(string); value == nil || isText && text == "" {
		return nil, fmt.Errorf("%s", message)
	}
	return value, nil
}

const depthMax = 1000 // of include within include, as in Helm

func execute(from *template.Template, name string, data interface{}) (string, error) {
	var result strings.Builder
	err := from.ExecuteTemplate(&result, name, data)
	return strings.ReplaceAll(result.String(), "<no value>", ""), err
}

func functions(root *template.Template, existing []string) template.FuncMap {
	depth := map[string]int{}
	result := sprig.TxtFuncMap()
	delete(result, "env")
	delete(result, "expandenv")
	for name, function := range map[string]interface{}{
		"toYaml": toYAML, "toJson": toJSON,
		"fromYaml": fromTable, "fromJson": fromTable, "fromYamlArray": fromArray, "fromJsonArray": fromArray,
		"required": require,
		"lookup": func(version, kind, namespace, name string) map[string]interface{} {
			for _, one := range existing {
				if one == kind+"/"+namespace+"/"+name {
					return map[string]interface{}{"apiVersion": version, "kind": kind}
				}
			}
			return map[string]interface{}{}
		},
		"include": func(name string, data interface{}) (string, error) {
			if depth[name]++; depth[name] > depthMax {
				return "", fmt.Errorf("%s includes itself without end", name)
			}
			defer func() { depth[name]-- }()
			return execute(root, name, data)
		},
		"tpl": func(text string, data interface{}) (string, error) {
			within, err := root.Clone()
			if err != nil {
				return "", err
			}
			if _, err = within.New("tpl").Parse(text); err != nil {
				return "", err
			}
			return execute(within, "tpl", data)
		},
	} {
		result[name] = function
	}
	return result
}

// The text of each template by its path; partials (_*) and what comes out empty are not there.
func (c *chart) render(values map[string]interface{}, of release) (map[string]string, error) {
	root := template.New("chart").Option("missingkey=zero")
	root.Funcs(functions(root, of.existing))
	names := []string{}
	for name, text := range c.sources {
		if _, err := root.New(name).Parse(text); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	// Helm's order, which decides what a chart is refused for: what lies deeper first, and names from z to a.
	sort.Slice(names, func(i, j int) bool {
		if one, other := strings.Count(names[i], "/"), strings.Count(names[j], "/"); one != other {
			return one > other
		}
		return names[i] > names[j]
	})
	texts := map[string]string{}
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		text, err := execute(root, name, map[string]interface{}{
			"Values": values, "Chart": c.metadata, "Files": fileSet(c.files), "Subcharts": map[string]interface{}{},
			"Release": map[string]interface{}{"Name": of.name, "Namespace": of.namespace, "Service": "Helm", "Revision": 1,
				"IsInstall": !of.upgrade, "IsUpgrade": of.upgrade},
			"Capabilities": map[string]interface{}{"KubeVersion": kubeVersion{fmt.Sprintf("v1.%d.0", of.kubernetes), "1", fmt.Sprint(of.kubernetes)},
				"APIVersions": versionSet{"v1", "apps/v1", "rbac.authorization.k8s.io/v1"}},
			"Template": map[string]interface{}{"Name": name, "BasePath": "templates"},
		})
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(text) != "" {
			texts[name] = text
		}
	}
	return texts, nil
}
