package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
)

// builtIn follows a ConfigMap from its creation to its end through an informer.
func builtIn(ctx context.Context, c *cluster) error {
	factory := informers.NewSharedInformerFactoryWithOptions(c.typed, 0, informers.WithNamespace(c.namespace))
	informer := factory.Core().V1().ConfigMaps()
	events, err := watch(ctx, informer.Informer(), "one")
	if err != nil {
		return err
	}
	maps := c.typed.CoreV1().ConfigMaps(c.namespace)
	see := func(what, a string) error {
		object, err := events.expect(ctx, what)
		if err != nil {
			return err
		}
		value := object.(*corev1.ConfigMap).Data["a"]
		return check(value == a, "%s, and a is %q, not %q", what, value, a)
	}

	made, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "one"}, Data: map[string]string{"a": "1", "b": "2"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := see("added", "1"); err != nil {
		return err
	}
	made.Data["a"] = "updated"
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := see("updated", "updated"); err != nil {
		return err
	}
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("updated from an old state: %v", err)
	}
	patches := []struct {
		kind  types.PatchType
		patch string
		a     string
	}{
		{types.MergePatchType, `{"data": {"a": "merged", "b": null}}`, "merged"},
		{types.StrategicMergePatchType, `{"data": {"a": "strategic"}, "metadata": {"finalizers": ["example.com/a"]}}`, "strategic"},
		{types.JSONPatchType, `[{"op": "test", "path": "/data/a", "value": "strategic"},
			{"op": "replace", "path": "/data/a", "value": "json"}, {"op": "remove", "path": "/metadata/finalizers"}]`, "json"},
	}
	for _, p := range patches {
		if _, err := maps.Patch(ctx, "one", p.kind, []byte(p.patch), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s: %w", p.kind, err)
		}
		if err := see("updated", p.a); err != nil {
			return err
		}
	}
	apply := applyv1.ConfigMap("one", c.namespace).WithData(map[string]string{"a": "applied"})
	if _, err := maps.Apply(ctx, apply, metav1.ApplyOptions{FieldManager: "client-go"}); !apierrors.IsConflict(err) {
		return fmt.Errorf("applied over another manager: %v", err)
	}
	if _, err := maps.Apply(ctx, apply, metav1.ApplyOptions{FieldManager: "client-go", Force: true}); err != nil {
		return err
	}
	if err := see("updated", "applied"); err != nil {
		return err
	}
	cached, err := informer.Lister().ConfigMaps(c.namespace).Get("one")
	if err := check(err == nil && cached.Data["a"] == "applied", "the cache holds %v (%v)", cached, err); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := see("deleted", "applied"); err != nil {
		return err
	}
	_, err = maps.Get(ctx, "one", metav1.GetOptions{})
	return check(apierrors.IsNotFound(err), "still there: %v", err)
}

// lists reads pages and metadata, and deletes many at once.
func lists(ctx context.Context, c *cluster) error {
	maps := c.typed.CoreV1().ConfigMaps(c.namespace)
	for number := range 5 {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("page-", number), Labels: map[string]string{"page": "yes"}}}
		if _, err := maps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	options := metav1.ListOptions{LabelSelector: "page=yes", Limit: 2}
	var names []string
	for {
		page, err := maps.List(ctx, options)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
		if options.Continue = page.Continue; page.Continue == "" {
			break
		}
	}
	if err := check(fmt.Sprint(names) == "[page-0 page-1 page-2 page-3 page-4]", "pages: %v", names); err != nil {
		return err
	}
	selected := metav1.ListOptions{LabelSelector: "page=yes"}
	known := c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(c.namespace)
	if list, err := known.List(ctx, selected); err != nil || len(list.Items) != 5 {
		return fmt.Errorf("metadata of five: %v, %w", list, err)
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, selected); err != nil {
		return err
	}
	left, err := maps.List(ctx, selected)
	if err != nil {
		return err
	}
	return check(len(left.Items) == 0, "left: %v", left.Items)
}
