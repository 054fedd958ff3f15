// Bundle-judge judges OLM bundles with the validators that upstream ships, as a reference for ours:
//
//	bundle-judge [--whole] [--optional NAME,...|all] DIR...
//
// It prints one line of JSON for each folder and exits with 0 whatever it found, 2 when it is called wrongly.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	apierrors "github.com/operator-framework/api/pkg/validation/errors"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/install"
	"github.com/operator-framework/operator-registry/pkg/lib/bundle"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"github.com/sirupsen/logrus"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// multiarch pulls images with the program "docker" that PATH leads to, so it is asked by its name alone.
const multiarch = "multiarch"

var optional = map[string]interfaces.Validator{
	multiarch:               validation.MultipleArchitecturesValidator,
	"operatorhubv2":         validation.OperatorHubV2Validator,
	"standardcapabilities":  validation.StandardCapabilitiesValidator,
	"standardcategories":    validation.StandardCategoriesValidator,
	"alpha-deprecated-apis": validation.AlphaDeprecatedAPIsValidator,
	"good-practices":        validation.GoodPracticesValidator,
	"community":             validation.CommunityOperatorValidator,
	"object":                validation.ObjectValidator,
}

type finding struct {
	By     string `json:"by"`
	Level  string `json:"level"`
	Type   string `json:"type"`
	Field  string `json:"field"`
	Value  string `json:"value"`
	Detail string `json:"detail"`
}

type verdict struct {
	Folder  string    `json:"folder"`
	Results []finding `json:"results"`
}

func main() {
	// A validator reports some of its own troubles with fmt.Println.
	lines := json.NewEncoder(os.Stdout)
	lines.SetEscapeHTML(false)
	os.Stdout = os.Stderr
	logrus.SetOutput(io.Discard)

	whole := flag.Bool("whole", false, "load the whole folder, as operator-verify does, so that channels and package are known; operator-sdk loads only the manifests")
	names := flag.String("optional", "", "optional validators to run: all but multiarch (all), or some of "+strings.Join(slices.Sorted(maps.Keys(optional)), ","))
	flag.Parse()
	chosen, err := choose(*names)
	if err == nil && flag.NArg() == 0 {
		err = errors.New("no folder is given")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bundle-judge: %v\n", err)
		os.Exit(2)
	}
	for _, folder := range flag.Args() {
		if err := lines.Encode(judge(folder, *whole, chosen)); err != nil {
			fmt.Fprintf(os.Stderr, "bundle-judge: %v\n", err)
			os.Exit(1)
		}
	}
}

func choose(names string) ([]string, error) {
	switch names {
	case "":
		return nil, nil
	case "all":
		all := slices.Sorted(maps.Keys(optional))
		return slices.DeleteFunc(all, func(name string) bool { return name == multiarch }), nil
	}
	chosen := strings.Split(names, ",")
	for _, name := range chosen {
		if optional[name] == nil {
			return nil, fmt.Errorf("there is no optional validator %q", name)
		}
	}
	return chosen, nil
}

func judge(folder string, whole bool, chosen []string) verdict {
	v := verdict{Folder: folder, Results: []finding{}}
	inside := filepath.Join(folder, manifestsFolder(folder))
	registryJudge := bundle.NewImageValidator(nil, silent())
	v.ask("format", func() []finding { return fromError("format", registryJudge.ValidateBundleFormat(folder)) })
	v.ask("content", func() []finding { return fromError("content", registryJudge.ValidateBundleContent(inside)) })

	if whole {
		inside = folder
	}
	var loaded *manifests.Bundle
	v.ask("load", func() []finding {
		b, err := manifests.GetBundleFromDir(inside)
		loaded = b
		return fromError("load", err)
	})
	if loaded == nil {
		return v
	}
	// The objects once, while operator-sdk gives the untyped ones twice: only "object" would notice, which it does not offer.
	objects := append(loaded.ObjectsToValidate(), map[string]string{})
	v.apply("csv", validation.ClusterServiceVersionValidator, objects)
	v.apply("crd", validation.CustomResourceDefinitionValidator, objects)
	v.apply("bundle", validation.BundleValidator, objects)
	for _, name := range chosen {
		v.apply(name, optional[name], objects)
	}
	v.ask("olm", func() []finding { return installable(loaded.CSV) })
	return v
}

// manifestsFolder is where the annotations say that the manifests are, as operator-sdk takes it.
func manifestsFolder(folder string) string {
	file := bundle.AnnotationMetadata{}
	// What is wrong with the file is for "format" to say.
	_ = registry.DecodeFile(filepath.Join(folder, bundle.MetadataDir, bundle.AnnotationsFile), &file)
	if named, found := file.Annotations[bundle.ManifestsLabel]; found {
		return named
	}
	return bundle.ManifestsDir
}

// installable asks what OLM asks about the CSV alone before it installs it.
func installable(csv *v1alpha1.ClusterServiceVersion) (found []finding) {
	_, err := v1alpha1.NewInstallModeSet(csv.Spec.InstallModes)
	found = fromError("olm", err)
	for _, webhook := range csv.Spec.WebhookDefinitions {
		found = append(found, fromError("olm", install.ValidWebhookRules(webhook.Rules))...)
	}
	return found
}

func (v *verdict) apply(by string, validator interfaces.Validator, objects []any) {
	v.ask(by, func() (found []finding) {
		for _, result := range validator.Validate(objects...) {
			for _, err := range slices.Concat(result.Errors, result.Warnings) {
				found = append(found, fromFinding(by, err))
			}
		}
		return found
	})
}

// ask adds what a judge finds. Some of them panic on a bundle that lacks something, which must not silence the others.
func (v *verdict) ask(by string, judge func() []finding) {
	defer func() {
		if panicked := recover(); panicked != nil {
			v.Results = append(v.Results, finding{By: "panic", Level: "error", Type: by, Detail: fmt.Sprint(panicked)})
		}
	}()
	found := judge()
	// Several of them walk maps.
	slices.SortStableFunc(found, func(a, b finding) int {
		return strings.Compare(fmt.Sprintf("%q", a), fmt.Sprintf("%q", b))
	})
	v.Results = append(v.Results, found...)
}

func fromError(by string, err error) (found []finding) {
	var several utilerrors.Aggregate
	var validations bundle.ValidationError
	var one apierrors.Error
	switch {
	case err == nil:
	case errors.As(err, &validations):
		for _, err := range validations.Errors {
			found = append(found, fromError(by, err)...)
		}
	case errors.As(err, &several):
		for _, err := range several.Errors() {
			found = append(found, fromError(by, err)...)
		}
	case errors.As(err, &one):
		found = append(found, fromFinding(by, one))
	default:
		found = append(found, finding{By: by, Level: "error", Detail: err.Error()})
	}
	return found
}

func fromFinding(by string, err apierrors.Error) finding {
	value := ""
	if err.BadValue != nil {
		value = fmt.Sprint(err.BadValue)
	}
	return finding{by, strings.ToLower(string(err.Level)), string(err.Type), err.Field, value, err.Detail}
}

func silent() *logrus.Entry {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	return logrus.NewEntry(logger)
}
