// client-go against a cluster: informers see what is created, patched in every way and deleted, of built-in and custom kinds;
// a leader is elected; a command runs in a container. The one argument is how built-in objects travel: json or protobuf.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// cluster is the clients of one run, and the namespace that is its own.
type cluster struct {
	config    *rest.Config
	typed     kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	namespace string
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
	fmt.Println("client-go: passed,", os.Args[1])
}

func run(ctx context.Context, form string) error {
	c, err := connect(form)
	if err != nil {
		return err
	}
	namespaces := c.typed.CoreV1().Namespaces()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	if _, err := namespaces.Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	defer namespaces.Delete(context.WithoutCancel(ctx), c.namespace, metav1.DeleteOptions{})

	stories := []struct {
		about string
		tell  func(context.Context, *cluster) error
	}{
		{"informers", builtIn},
		{"lists", lists},
		{"a custom kind", custom},
		{"leader election", election},
		{"containers", containers},
	}
	for _, story := range stories {
		within, cancel := context.WithCancel(ctx) // with the story end its informers
		err := story.tell(within, c)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", story.about, err)
		}
	}
	return nil
}

func connect(form string) (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	c := &cluster{config: config, namespace: "client-go-" + form}
	typed := rest.CopyConfig(config)
	if form == "protobuf" {
		typed.ContentType = "application/vnd.kubernetes.protobuf"
		typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	}
	if c.typed, err = kubernetes.NewForConfig(typed); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	c.metadata, err = metadata.NewForConfig(config)
	return c, err
}

// check is an error that says what was seen unless ok.
func check(ok bool, format string, seen ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, seen...)
}
