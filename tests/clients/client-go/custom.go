package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic/dynamicinformer"
)

const definition = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "boats.GROUP"},
"spec": {"group": "GROUP", "scope": "Namespaced", "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
 "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
  "schema": {"openAPIV3Schema": {"type": "object", "properties": {
   "spec": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "oars": {"type": "integer", "maximum": 8, "default": 2}}},
   "status": {"type": "object", "properties": {"afloat": {"type": "boolean"}}}}}}}]}}`

// custom follows an object of a custom kind through a dynamic informer.
func custom(ctx context.Context, c *cluster) error {
	group := c.namespace + ".example.com"
	definitions := c.dynamic.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	object, err := read(strings.ReplaceAll(definition, "GROUP", group))
	if err != nil {
		return err
	}
	if _, err := definitions.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return err
	}
	defer definitions.Delete(context.WithoutCancel(ctx), object.GetName(), metav1.DeleteOptions{})
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		found, err := c.typed.Discovery().ServerResourcesForGroupVersion(group + "/v1")
		return err == nil && len(found.APIResources) == 2, nil
	})
	if err != nil {
		return fmt.Errorf("the kind never appeared: %w", err)
	}
	return boats(ctx, c, schema.GroupVersionResource{Group: group, Version: "v1", Resource: "boats"})
}

func boats(ctx context.Context, c *cluster, resource schema.GroupVersionResource) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.dynamic, 0, c.namespace, nil)
	events, err := watch(ctx, factory.ForResource(resource).Informer(), "argo")
	if err != nil {
		return err
	}
	see := func(what string, oars int64) error {
		object, err := events.expect(ctx, what)
		if err != nil {
			return err
		}
		has, _, _ := unstructured.NestedInt64(object.(*unstructured.Unstructured).Object, "spec", "oars")
		return check(has == oars, "%s with %d oars, not %d", what, has, oars)
	}
	api := c.dynamic.Resource(resource).Namespace(c.namespace)
	boat, err := read(fmt.Sprintf(`{"apiVersion": "%s/v1", "kind": "Boat", "metadata": {"name": "argo"}, "spec": {"name": "Argo"}}`, resource.Group))
	if err != nil {
		return err
	}
	if _, err := api.Create(ctx, boat, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := see("added", 2); err != nil {
		return err
	}
	patch := func(kind types.PatchType, patch string, subresources ...string) error {
		_, err := api.Patch(ctx, "argo", kind, []byte(patch), metav1.PatchOptions{}, subresources...)
		return err
	}
	if err := patch(types.MergePatchType, `{"spec": {"oars": 9}}`); !apierrors.IsInvalid(err) {
		return fmt.Errorf("more oars than the schema allows: %v", err)
	}
	if err := patch(types.StrategicMergePatchType, `{"spec": {"oars": 3}}`); !apierrors.IsUnsupportedMediaType(err) {
		return fmt.Errorf("a strategic patch: %v", err)
	}
	if err := patch(types.MergePatchType, `{"spec": {"oars": 3}}`); err != nil {
		return err
	}
	if err := see("updated", 3); err != nil {
		return err
	}
	if err := patch(types.JSONPatchType, `[{"op": "replace", "path": "/spec/oars", "value": 4}]`); err != nil {
		return err
	}
	if err := see("updated", 4); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(boat.Object, int64(5), "spec", "oars"); err != nil {
		return err
	}
	if _, err := api.Apply(ctx, "argo", boat, metav1.ApplyOptions{FieldManager: "client-go", Force: true}); err != nil {
		return err
	}
	if err := see("updated", 5); err != nil {
		return err
	}
	if err := patch(types.MergePatchType, `{"status": {"afloat": true}, "spec": {"oars": 1}}`, "status"); err != nil {
		return err
	}
	if err := see("updated", 5); err != nil {
		return err
	}
	if err := api.Delete(ctx, "argo", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return see("deleted", 5)
}

func read(text string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	return object, json.Unmarshal([]byte(text), &object.Object)
}
