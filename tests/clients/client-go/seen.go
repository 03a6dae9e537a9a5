package main

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// seen is what an informer told, in order.
type seen chan event

type event struct {
	what   string // added, updated, deleted
	object metav1.Object
}

// watch lets an informer tell what it sees of one object, and waits until it has seen all there is.
func watch(ctx context.Context, informer cache.SharedIndexInformer, name string) (seen, error) {
	events := make(seen, 100)
	tell := func(what string, object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if about, err := meta.Accessor(object); err == nil && about.GetName() == name {
			events <- event{what, about}
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell("added", object) },
		UpdateFunc: func(_, object any) { tell("updated", object) },
		DeleteFunc: func(object any) { tell("deleted", object) },
	})
	if err != nil {
		return nil, err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.New("the informer never saw all there is")
	}
	return events, nil
}

// expect is the object of the next event, which has to be a certain one.
func (events seen) expect(ctx context.Context, what string) (metav1.Object, error) {
	select {
	case next := <-events:
		return next.object, check(next.what == what, "%s, not %s: %v", next.what, what, next.object)
	case <-ctx.Done():
		return nil, fmt.Errorf("never %s: %w", what, ctx.Err())
	}
}
