"""The Python client against a cluster: built-in and custom objects are created, watched, patched in every way and deleted; a
command runs in a container."""
import time
from contextlib import contextmanager

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward, stream

NAMESPACE = "python"
GROUP = "python.example.com"
PATIENCE = 120
FORMS = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@contextmanager
def refused(code, reason):
    """What is done inside must be answered with this error."""
    try:
        yield
    except ApiException as error:
        assert error.status == code and f'"reason":"{reason}"' in error.body.replace(" ", ""), error
    else:
        raise AssertionError(f"not refused with {code} {reason}")


class Seen:
    """The changes of one object that a watch tells from now on, one after the other."""

    def __init__(self, name, list_objects, *place):
        only = {"field_selector": f"metadata.name={name}"}
        now = list_objects(*place, **only)
        version = now["metadata"]["resourceVersion"] if isinstance(now, dict) else now.metadata.resource_version
        self.events = watch.Watch().stream(list_objects, *place, **only, resource_version=version, timeout_seconds=PATIENCE)

    def next(self, what, is_so=lambda raw: True):
        event = next(self.events)
        assert event["type"] == what and is_so(event["raw_object"]), event


def until(what, is_so):
    """Asks until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.2)


def built_in(core):
    seen = Seen("one", core.list_namespaced_config_map, NAMESPACE)

    def patch(form, body, **options):
        return core.patch_namespaced_config_map("one", NAMESPACE, body, _content_type=FORMS[form], **options)

    def has(value):
        return lambda raw: raw["data"]["a"] == value

    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="one"), data={"a": "1", "b": "2"})
    made = core.create_namespaced_config_map(NAMESPACE, body)
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo, made
    seen.next("ADDED", has("1"))
    with refused(409, "AlreadyExists"):
        core.create_namespaced_config_map(NAMESPACE, body)
    made.data["a"] = "replaced"
    core.replace_namespaced_config_map("one", NAMESPACE, made)
    seen.next("MODIFIED", has("replaced"))
    with refused(409, "Conflict"):
        core.replace_namespaced_config_map("one", NAMESPACE, made)

    assert "b" not in patch("merge", {"data": {"a": "merged", "b": None}}).data
    seen.next("MODIFIED", has("merged"))
    patch("strategic", {"data": {"a": "strategic"}, "metadata": {"finalizers": ["example.com/a"]}})
    seen.next("MODIFIED", has("strategic"))
    patch("json", [
        {"op": "test", "path": "/data/a", "value": "strategic"},
        {"op": "replace", "path": "/data/a", "value": "json"},
        {"op": "remove", "path": "/metadata/finalizers"},
    ])
    seen.next("MODIFIED", has("json"))
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "applied"}}
    with refused(409, "Conflict"):
        patch("apply", applied, field_manager="python")
    patch("apply", applied, field_manager="python", force=True)
    seen.next("MODIFIED", has("applied"))
    core.delete_namespaced_config_map("one", NAMESPACE)
    seen.next("DELETED", has("applied"))
    with refused(404, "NotFound"):
        core.read_namespaced_config_map("one", NAMESPACE)


def lists(core):
    for number in range(5):
        metadata = client.V1ObjectMeta(name=f"page-{number}", labels={"page": "yes"})
        core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=metadata))
    names, token = [], None
    while token != "":
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="page=yes", limit=2, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue or ""
    assert names == [f"page-{number}" for number in range(5)], names
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="page=yes")
    assert not core.list_namespaced_config_map(NAMESPACE, label_selector="page=yes").items


def definition():
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "oars": {"type": "integer", "maximum": 8, "default": 2}}},
        "status": {"type": "object", "properties": {"afloat": {"type": "boolean"}}},
    }}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "boats", "singular": "boat", "kind": "Boat"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"boats.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}}


def custom(api):
    definitions = client.ApiextensionsV1Api(api)
    definitions.create_custom_resource_definition(definition())
    try:
        conditions = lambda: definitions.read_custom_resource_definition(f"boats.{GROUP}").status.conditions or []
        until("established", lambda: any(c.type == "Established" and c.status == "True" for c in conditions()))
        boats(api)
    finally:
        definitions.delete_custom_resource_definition(f"boats.{GROUP}")


def boats(api):
    place = (GROUP, "v1", NAMESPACE, "boats")
    objects = client.CustomObjectsApi(api)
    seen = Seen("argo", objects.list_namespaced_custom_object, *place)

    def patch(form, body, **options):
        return objects.patch_namespaced_custom_object(*place, "argo", body, _content_type=FORMS[form], **options)

    def oars(count):
        return lambda raw: raw["spec"]["oars"] == count

    boat = {"apiVersion": f"{GROUP}/v1", "kind": "Boat", "metadata": {"name": "argo"}, "spec": {"name": "Argo"}}
    objects.create_namespaced_custom_object(*place, boat)
    seen.next("ADDED", oars(2))
    with refused(422, "Invalid"):
        patch("merge", {"spec": {"oars": 9}})
    with refused(415, "UnsupportedMediaType"):
        patch("strategic", {"spec": {"oars": 3}})
    patch("merge", {"spec": {"oars": 3}})
    seen.next("MODIFIED", oars(3))
    patch("json", [{"op": "replace", "path": "/spec/oars", "value": 4}])
    seen.next("MODIFIED", oars(4))
    patch("apply", {**boat, "spec": {"name": "Argo", "oars": 5}}, field_manager="python", force=True)
    seen.next("MODIFIED", oars(5))
    objects.patch_namespaced_custom_object_status(*place, "argo", {"status": {"afloat": True}, "spec": {"oars": 1}})
    seen.next("MODIFIED", lambda raw: raw["status"]["afloat"] and raw["spec"]["oars"] == 5)

    found = dynamic.DynamicClient(api).resources.get(api_version=f"{GROUP}/v1", kind="Boat")
    assert found.get(name="argo", namespace=NAMESPACE).spec.oars == 5
    found.delete(name="argo", namespace=NAMESPACE)
    seen.next("DELETED", oars(5))


def containers(core):
    image = "tiphys.local/hello:1"
    core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": "hello"}, "spec": {
        "initContainers": [{"name": "first", "image": image, "command": ["/tiphys", "help"]}],
        "containers": [{"name": "main", "image": image}],
    }})
    until("Running", lambda: core.read_namespaced_pod("hello", NAMESPACE).status.phase == "Running")
    assert "kubectl" in core.read_namespaced_pod_log("hello", NAMESPACE, container="first")
    command = ["/tiphys", "hello", "--fetch", "http://127.0.0.1/"]
    said = stream(core.connect_get_namespaced_pod_exec, "hello", NAMESPACE, command=command, stdout=True, stderr=True)
    assert "hello" in said, said

    forward = portforward(core.connect_get_namespaced_pod_portforward, "hello", NAMESPACE, ports="80")
    socket = forward.socket(80)
    socket.settimeout(PATIENCE)
    socket.sendall(b"GET / HTTP/1.1\r\nHost: hello\r\nConnection: close\r\n\r\n")
    page = b""
    while piece := socket.recv(4096):
        page += piece
    assert page.startswith(b"HTTP/1.1 200") and forward.error(80) is None, page
    core.delete_namespaced_pod("hello", NAMESPACE)


def main():
    config.load_kube_config()
    api = client.ApiClient()
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    try:
        built_in(core)
        lists(core)
        custom(api)
        containers(core)
    finally:
        core.delete_namespace(NAMESPACE)
    print("python: passed")


main()
