package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
)

// election lets one candidate win a lease, and another take it over when the first steps down.
func election(ctx context.Context, c *cluster) error {
	for _, name := range []string{"first", "second"} {
		ctx, cancel := context.WithCancel(ctx)
		won := make(chan struct{})
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, c.namespace, "leader",
			c.typed.CoreV1(), c.typed.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name})
		if err != nil {
			return err
		}
		candidate, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 500 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(won) }, OnStoppedLeading: func() {}},
		})
		if err != nil {
			return err
		}
		done := make(chan struct{})
		go func() { candidate.Run(ctx); close(done) }()
		<-won
		lease, err := c.typed.CoordinationV1().Leases(c.namespace).Get(ctx, "leader", metav1.GetOptions{})
		cancel()
		<-done
		if err != nil || *lease.Spec.HolderIdentity != name {
			return fmt.Errorf("%s leads by %v: %w", name, lease, err)
		}
	}
	return nil
}

// containers runs a pod and reaches into it in every way.
func containers(ctx context.Context, c *cluster) error {
	pods := c.typed.CoreV1().Pods(c.namespace)
	_, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "hello"},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "first", Image: "tiphys.local/hello:1", Command: []string{"/tiphys", "help"}}},
			Containers:     []corev1.Container{{Name: "main", Image: "tiphys.local/hello:1"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, "hello", metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning, err
	})
	if err != nil {
		return fmt.Errorf("the pod does not run: %w", err)
	}
	log, err := pods.GetLogs("hello", &corev1.PodLogOptions{Container: "first"}).DoRaw(ctx)
	if err != nil || !bytes.Contains(log, []byte("kubectl")) {
		return fmt.Errorf("the log is %q: %w", log, err)
	}
	exec := c.typed.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.namespace).Name("hello").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Stdout: true, Stderr: true, Command: []string{"/tiphys", "hello", "--fetch", "http://127.0.0.1/"}}, scheme.ParameterCodec)
	websocket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", exec.URL().String())
	if err != nil {
		return err
	}
	older, err := remotecommand.NewSPDYExecutor(c.config, "POST", exec.URL())
	if err != nil {
		return err
	}
	for name, executor := range map[string]remotecommand.Executor{"WebSocket": websocket, "SPDY": older} {
		var said, complained bytes.Buffer
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &said, Stderr: &complained})
		if err != nil || !strings.Contains(said.String(), "hello") {
			return fmt.Errorf("exec by %s: %w, %q %q", name, err, said.String(), complained.String())
		}
	}
	if err := forward(ctx, c); err != nil {
		return fmt.Errorf("a forwarded port: %w", err)
	}
	return pods.Delete(ctx, "hello", metav1.DeleteOptions{})
}

func forward(ctx context.Context, c *cluster) error {
	url := c.typed.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.namespace).Name("hello").SubResource("portforward").URL()
	older, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return err
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(url, c.config)
	if err != nil {
		return err
	}
	for name, dialer := range map[string]httpstream.Dialer{"WebSocket": tunnel, "SPDY": spdy.NewDialer(upgrader, &http.Client{Transport: older}, "POST", url)} {
		ready, stop := make(chan struct{}), make(chan struct{})
		forwarder, err := portforward.New(dialer, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
		if err != nil {
			return err
		}
		failed := make(chan error, 1)
		go func() { failed <- forwarder.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-failed:
			return fmt.Errorf("%s: %w", name, err)
		}
		ports, err := forwarder.GetPorts()
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://127.0.0.1:%d/", ports[0].Local), nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		close(stop)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		answer.Body.Close()
		if err := check(answer.StatusCode == http.StatusOK, "%s: %s", name, answer.Status); err != nil {
			return err
		}
	}
	return nil
}
