// SPDX-License-Identifier: Apache-2.0
// Renders a Helm chart as Helm 3 does, with what Helm is made of: Go's text/template, sprig and gojsonschema, from Debian's packages.
// For charts without dependencies and post-renderers; hooks are rendered like everything else. Nothing is sent anywhere, and `lookup` finds
// what -existing names, nothing else, as with `helm template`. docs/install.md does not need it: whoever has Helm uses Helm.
//
// Usage:
//
//	helm-render [-name NAME] [-namespace NAMESPACE] [-values FILE]... [-upgrade] [-kubernetes MINOR] [-existing KIND/NAMESPACE/NAME]... CHART
//
// Prints one JSON object: for each template that is not empty its name and its text, NOTES.txt among them, and the values after merging.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

type list []string

func (l *list) String() string       { return strings.Join(*l, ",") }
func (l *list) Set(one string) error { *l = append(*l, one); return nil }

// merge puts over onto under as Helm does: tables are merged, everything else is replaced, null takes a key away.
func merge(under, over map[string]interface{}) map[string]interface{} {
	result := map[string]interface{}{}
	for key, value := range under {
		result[key] = value
	}
	for key, value := range over {
		if value == nil {
			delete(result, key)
			continue
		}
		below, isTable := result[key].(map[string]interface{})
		if above, alsoTable := value.(map[string]interface{}); isTable && alsoTable {
			result[key] = merge(below, above)
		} else {
			result[key] = value
		}
	}
	return result
}

func run() error {
	var files, existing list
	name := flag.String("name", "warpshare", "name of the release")
	namespace := flag.String("namespace", "warpshare", "namespace of the release")
	upgrade := flag.Bool("upgrade", false, "as `helm upgrade`, not `helm install`")
	minor := flag.Int("kubernetes", 34, "minor version of the cluster: 34 for 1.34")
	flag.Var(&files, "values", "file of values; may be repeated")
	flag.Var(&existing, "existing", "object that is in the cluster already; may be repeated")
	flag.Parse()
	if flag.NArg() != 1 {
		return fmt.Errorf("usage: helm-render [OPTION]... CHART")
	}
	chart, err := loadChart(flag.Arg(0))
	if err != nil {
		return err
	}
	given := map[string]interface{}{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		one := map[string]interface{}{}
		if err := yaml.Unmarshal(text, &one); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for key, value := range one { // between files null is a value; it takes away from the chart's own only
			below, isTable := given[key].(map[string]interface{})
			if above, alsoTable := value.(map[string]interface{}); isTable && alsoTable {
				value = merge(below, above)
			}
			given[key] = value
		}
	}
	values := merge(chart.values, given)
	if err := chart.validate(values); err != nil {
		return err
	}
	texts, err := chart.render(values, release{*name, *namespace, *upgrade, existing, *minor})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]interface{}{"templates": texts, "values": values})
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
