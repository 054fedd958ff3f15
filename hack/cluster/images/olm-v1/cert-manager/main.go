// cert-manager runs those of cert-manager's controllers that OLM v1 needs, for itself and for bundles with webhooks, in one program: issuers that
// sign themselves or by an authority in a Secret, Certificates, and their authorities in what refers to them. cert-manager's own commands are Go
// modules that are not published.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/cert-manager/cert-manager/pkg/acme/accounts"
	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/metrics"
	"golang.org/x/sync/errgroup"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	log := klog.Background()
	ctrl.SetLogger(log)
	group, ctx := errgroup.WithContext(ctrl.SetupSignalHandler())
	if err := start(ctx, group); err != nil {
		fail(err)
	}
	if err := group.Wait(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "cert-manager:", err)
	os.Exit(1)
}

func start(ctx context.Context, group *errgroup.Group) error {
	if err := startControllers(ctx, group); err != nil {
		return err
	}
	return startInjector(ctx, group)
}

// Each of them registers itself when its package is imported.
func startControllers(ctx context.Context, group *errgroup.Group) error {
	real := clock.RealClock{}
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		KubernetesAPIQPS:   50,
		KubernetesAPIBurst: 100,
		Clock:              real,
		Metrics:            metrics.New(klog.Background(), real),
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		ACMEOptions:        controller.ACMEOptions{AccountRegistry: accounts.NewDefaultRegistry()},
	})
	if err != nil {
		return err
	}
	for name, construct := range controller.Known() {
		it, err := construct(factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		group.Go(func() error { return it.Run(1, ctx) })
	}
	// The informers that they asked for
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return nil
}

func startInjector(ctx context.Context, group *errgroup.Group) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetes.AddToScheme, apiextensions.AddToScheme, certmanager.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	options := cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
			cainjector.CustomResourceDefinitionName:       true,
		},
	}
	if err := cainjector.RegisterAllInjectors(ctx, manager, options); err != nil {
		return err
	}
	group.Go(func() error { return manager.Start(ctx) })
	return nil
}
