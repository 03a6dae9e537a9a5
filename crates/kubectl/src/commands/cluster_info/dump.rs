//! `cluster-info dump`: prints objects and logs for debugging a cluster.

use std::path::Path;

use object::{Value, yaml};

use crate::{
    commands::{ALL_NAMESPACES, Command},
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    print::{self, OutputFormat, json},
    select::go_io_error,
};

pub(super) const COMMAND: Command = Command::new(
    "dump",
    &[
        ALL_NAMESPACES,
        print::FLAGS,
        &[
            Flag::text("output-directory"),
            Flag::new("namespaces", FlagType::StringSlice),
            Flag::new("pod-running-timeout", FlagType::Duration).default("20s"),
        ],
    ],
    run,
);

/// The lists of a namespace: file name, API path and resource.
const LISTS: &[(&str, &str, &str)] = &[
    ("events", "/api/v1", "events"),
    ("replication-controllers", "/api/v1", "replicationcontrollers"),
    ("services", "/api/v1", "services"),
    ("daemonsets", "/apis/apps/v1", "daemonsets"),
    ("deployments", "/apis/apps/v1", "deployments"),
    ("replicasets", "/apis/apps/v1", "replicasets"),
    ("pods", "/api/v1", "pods"),
];

fn run(call: &Invocation<'_>) -> Result {
    let output = OutputFormat::of(call, false)?;
    let ending = match output {
        OutputFormat::Yaml | OutputFormat::Kyaml => "yaml",
        _ => "json",
    };
    let mut lists = DumpWriter { call, output: &output, count: 0 };
    lists.put(&format!("nodes.{ending}"), &call.server()?.get("/api/v1/nodes")?)?;
    for namespace in namespaces(call)? {
        let mut pods = Value::Null;
        for (name, root, plural) in LISTS {
            let list = call.server()?.get(&format!("{root}/namespaces/{namespace}/{plural}"))?;
            lists.put(&format!("{namespace}/{name}.{ending}"), &list)?;
            pods = list;
        }
        for pod in pods["items"].items() {
            logs(call, &namespace, pod)?;
        }
    }
    let folder = call.flags.text("output-directory");
    if !folder.is_empty() && folder != "-" {
        call.print(&format!("Cluster info dumped to {folder}\n"));
    }
    Ok(())
}

fn namespaces(call: &Invocation<'_>) -> Result<Vec<String>> {
    if call.flags.is_true("all-namespaces") {
        let list = call.server()?.get("/api/v1/namespaces")?;
        let names = list["items"].items().iter().filter_map(|one| one["metadata"]["name"].as_str());
        return Ok(names.map(str::to_owned).collect());
    }
    let given = call.flags.all("namespaces");
    if given.is_empty() {
        return Ok(vec!["kube-system".to_owned(), call.namespace()?]);
    }
    Ok(given.to_vec())
}

fn logs(call: &Invocation<'_>, namespace: &str, pod: &Value) -> Result {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let containers: Vec<&str> = ["initContainers", "containers"]
        .iter()
        .flat_map(|field| pod["spec"][*field].items())
        .filter_map(|container| container["name"].as_str())
        .collect();
    let mut text = String::new();
    for container in containers {
        text +=
            &format!("==== START logs for container {container} of pod {namespace}/{name} ====\n");
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/log?container={container}");
        let read = call.server()?.stream(&path, |bytes| {
            text += &String::from_utf8_lossy(bytes);
            Ok(true)
        });
        if let Err(fail) = read {
            text += &format!("Request log error: {}\n", fail.message());
        }
        text +=
            &format!("==== END logs for container {container} of pod {namespace}/{name} ====\n");
    }
    write(call, &format!("{namespace}/{name}/logs.txt"), &text)
}

/// Prints or writes the lists, one after the other.
struct DumpWriter<'a> {
    call: &'a Invocation<'a>,
    output: &'a OutputFormat,
    count: usize,
}

impl DumpWriter<'_> {
    /// Writes one list. As upstream, empty `items` are printed as null.
    fn put(&mut self, file: &str, list: &Value) -> Result {
        let mut list = list.clone();
        if list["items"].items().is_empty() {
            *list.get_mut("items") = Value::Null;
        } else if !self.call.flags.is_true("show-managed-fields") {
            for item in crate::workload::items_mut(&mut list["items"]) {
                item["metadata"].remove("managedFields");
            }
        }
        self.count += 1;
        let text = match self.output {
            OutputFormat::Yaml if self.count > 1 => format!("---\n{}", yaml::to_yaml(&list)),
            OutputFormat::Yaml => yaml::to_yaml(&list),
            OutputFormat::Kyaml => print::kyaml::declared(&list),
            OutputFormat::Human { .. } | OutputFormat::Json => json::declared(&list) + "\n",
            output => return output.print(self.call, &list, ""),
        };
        write(self.call, file, &text)
    }
}

fn write(call: &Invocation<'_>, file: &str, text: &str) -> Result {
    let folder = call.flags.text("output-directory");
    if folder.is_empty() || folder == "-" {
        call.print(text);
        return Ok(());
    }
    let path = Path::new(folder).join(file);
    let failed = |error: std::io::Error| {
        CommandError::error(format!("{}: {}", path.display(), go_io_error(&error)))
    };
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above).map_err(failed)?;
    }
    std::fs::write(&path, text).map_err(failed)
}
