// Judges a bundle with the validators of Operator Framework's own library, as `operator-sdk bundle validate` does with all of its
// optional ones. Prints one line for each finding; exits with 1 when one of them is an error.
//
//	go run -C hack/judge . ../../bundle
package main

import (
	"fmt"
	"os"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: judge BUNDLE-FOLDER")
		os.Exit(2)
	}
	bundle, err := manifests.GetBundleFromDir(os.Args[1])
	if err != nil {
		fmt.Fprintf(os.Stderr, "judge: cannot read the bundle in %s: %v\n", os.Args[1], err)
		os.Exit(2)
	}
	judges := interfaces.Validators{
		validation.ClusterServiceVersionValidator,
		validation.CustomResourceDefinitionValidator,
		validation.BundleValidator,
		validation.OperatorHubV2Validator,
		validation.StandardCapabilitiesValidator,
		validation.StandardCategoriesValidator,
		validation.AlphaDeprecatedAPIsValidator,
		validation.GoodPracticesValidator,
	}
	failed := false
	for _, result := range judges.Validate(bundle.ObjectsToValidate()...) {
		for _, finding := range result.Warnings {
			fmt.Printf("warning: %s: %s\n", result.Name, finding.Detail)
		}
		for _, finding := range result.Errors {
			failed = true
			fmt.Printf("error: %s: %s\n", result.Name, finding.Detail)
		}
	}
	if failed {
		os.Exit(1)
	}
}
