//! `apply`: creates or patches objects so that they match manifests.

mod force;
mod migrate;
mod overwrite;

use object::{Value, quote::quote};

use super::{
    ALL, Command, DRY_RUN, DryRun, FILES, SELECTOR, VALIDATE,
    create::{last_applied, while_creating},
    delete::propagation,
    prune::{self, AppliedObjects},
};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    merge::{LAST_APPLIED, three_way},
    print::{self, OutputFormat},
    record::{self, ChangeCause},
    resources::{Resource, escape},
    select::{BuilderOptions, Info},
    server::PatchType,
};

pub(crate) const COMMAND: Command = Command::new(
    "apply",
    &[
        FILES,
        SELECTOR,
        ALL,
        DRY_RUN,
        VALIDATE,
        record::FLAGS,
        print::FLAGS,
        &[
            Flag::bool("server-side"),
            Flag::bool("force-conflicts"),
            Flag::text("field-manager"),
            Flag::bool("prune"),
            Flag::new("prune-allowlist", FlagType::StringArray),
            Flag::text("cascade").default("background").bare("background"),
            Flag::bool("force"),
            Flag::new("grace-period", FlagType::Int32).default("-1"),
            Flag::new("timeout", FlagType::Duration),
            Flag::bool("wait"),
            Flag::bool("overwrite").default("true"),
            Flag::bool("openapi-patch").default("true"),
            Flag::text("subresource"),
        ],
    ],
    run,
)
.inner(&[
    Command::new(
        "view-last-applied",
        &[FILES, SELECTOR, ALL, &[Flag::text("output").short('o').default("yaml")]],
        view,
    ),
    Command::new(
        "edit-last-applied",
        &[
            FILES,
            print::FLAGS,
            &[
                Flag::bool("windows-line-endings"),
                Flag::text("field-manager").default("kubectl-client-side-apply"),
            ],
        ],
        edit,
    ),
    Command::new(
        "set-last-applied",
        &[FILES, DRY_RUN, print::FLAGS, &[Flag::bool("create-annotation")]],
        set,
    ),
]);

fn run(call: &Invocation<'_>) -> Result {
    if !call.args().is_empty() {
        return Err(call.usage(format!("Unexpected args: [{}]", call.args().join(" "))));
    }
    let dry_run = DryRun::of(call)?;
    let server_side = call.flags.is_true("server-side");
    if call.flags.is_true("force-conflicts") && !server_side {
        return Err(CommandError::error("--force-conflicts only works with --server-side"));
    }
    if dry_run == DryRun::Client && server_side {
        return Err(CommandError::error(
            "--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)",
        ));
    }
    if call.flags.is_true("all") && !call.flags.text("selector").is_empty() {
        return Err(CommandError::error("cannot set --all and --selector at the same time"));
    }
    if !call.flags.text("subresource").is_empty() && !server_side {
        return Err(CommandError::error("--subresource can only be specified for --server-side"));
    }
    if call.flags.is_true("prune")
        && call.flags.text("selector").is_empty()
        && !call.flags.is_true("all")
    {
        return Err(CommandError::error(
            "all resources selected for prune without explicitly passing --all. To prune all resources, pass the --all flag. If you did not mean to prune all resources, specify a label selector",
        ));
    }
    check(call, dry_run)?;
    let allowed = if call.flags.is_true("prune") { prune::resources(call)? } else { Vec::new() };
    if !call.has_files() {
        return Err(CommandError::error("must specify one of -f and -k"));
    }
    let output = OutputFormat::of(call, false)?;
    let (mut infos, mut fails) = call.select(&[], BuilderOptions::default())?;
    if infos.is_empty() && fails.is_empty() {
        return Err(CommandError::error("no objects passed to apply"));
    }
    let several = infos.len() > 1;
    let (mut shown, mut seen) = (Vec::new(), AppliedObjects::default());
    let record = ChangeCause::of(call);
    for info in &mut infos {
        record.annotate(&mut info.object);
        let info = &*info;
        let applied = if server_side {
            apply_server_side(call, info, dry_run)
        } else {
            apply_client_side(call, info, dry_run)
        };
        if let Ok((object, _)) = &applied {
            seen.note(info, object);
        }
        match applied {
            Ok((object, done)) if output.is_human() || matches!(output, OutputFormat::Name) => {
                output.print(call, &object, &format!("{done}{}", dry_run.suffix()))?;
            }
            Ok((object, _)) => shown.push(object),
            Err(fail) => fails.push(fail),
        }
    }
    if several && shown.len() > 1 {
        let mut list = print::list(shown);
        list["metadata"] = Value::object();
        output.print(call, &list, "")?;
    } else if let Some(object) = shown.first() {
        output.print(call, object, "")?;
    }
    CommandError::collect(fails)?;
    if call.flags.is_true("prune") {
        prune_all(call, &allowed, &seen, dry_run, &output)?;
    }
    Ok(())
}

fn check(call: &Invocation<'_>, dry_run: DryRun) -> Result {
    if call.flags.is_true("force") && dry_run == DryRun::Server {
        return Err(CommandError::error("--dry-run=server cannot be used with --force"));
    }
    if call.flags.is_true("force") && call.flags.is_true("server-side") {
        return Err(CommandError::error("--force cannot be used with --server-side"));
    }
    if call.flags.is_true("force") && call.flags.is_true("prune") {
        return Err(CommandError::error("--force cannot be used with --prune"));
    }
    if call.flags.int("grace-period") == 0 && !call.flags.is_true("force") {
        return Err(CommandError::error("--grace-period=0 can only be used with --force"));
    }
    Ok(())
}

/// The DeleteOptions for `--cascade` and `--grace-period`.
fn deletion(call: &Invocation<'_>, dry_run: DryRun) -> Result<Value> {
    let mut options = Value::object();
    options["propagationPolicy"] = propagation(call)?.into();
    if call.flags.int("grace-period") >= 0 {
        options["gracePeriodSeconds"] = call.flags.int("grace-period").into();
    }
    if dry_run == DryRun::Server {
        options["dryRun"] = ["All"].into_iter().collect();
    }
    Ok(options)
}

fn prune_all(
    call: &Invocation<'_>,
    allowed: &[Resource],
    seen: &AppliedObjects,
    dry_run: DryRun,
    output: &OutputFormat,
) -> Result {
    let options = deletion(call, dry_run)?;
    for info in prune::candidates(call, allowed, seen)? {
        if dry_run != DryRun::Client {
            call.server()?.delete(&info.path(), &options)?;
        }
        output.print(call, &info.object, &format!("pruned{}", dry_run.suffix()))?;
    }
    Ok(())
}

fn apply_server_side(
    call: &Invocation<'_>,
    info: &Info,
    dry_run: DryRun,
) -> Result<(Value, &'static str)> {
    let manager = match call.flags.text("field-manager") {
        "" => "kubectl",
        given => given,
    };
    let mut query = format!("?fieldManager={}", escape(manager));
    if dry_run == DryRun::Server {
        query += "&dryRun=All";
    }
    query += &format!("&fieldValidation={}", super::validation(call)?);
    query += &format!("&force={}", call.flags.is_true("force-conflicts"));
    if info.name.is_empty() {
        return Err(CommandError::error(format!(
            "error when retrieving current configuration of:\n{}\nfrom server for: {}: resource name may not be empty",
            describe(info),
            quote(&info.source)
        )));
    }
    let sub = match call.flags.text("subresource") {
        "" => String::new(),
        sub => format!("/{sub}"),
    };
    let object = call.server()?.patch(&(info.path() + &sub + &query), PatchType::Apply, &info.object).map_err(|fail| match &fail {
        CommandError::Server { status, .. } if status.has_reason("Conflict") => {
            let says = format!(
                "Apply failed with {}\nPlease review the fields above--they currently have other managers. Here\nare the ways you can resolve this warning:\n* If you intend to manage all of these fields, please re-run the apply\n  command with the `--force-conflicts` flag.\n* If you do not intend to manage all of the fields, please edit your\n  manifest to remove references to the fields that should keep their\n  current managers.\n* You may co-own fields by updating your manifest to match the existing\n  value; in this case, you'll become the manager if the other manager(s)\n  stop managing the field (remove it from their configuration).\nSee https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts",
                conflicts(status)
            );
            CommandError::error(says)
        }
        _ => fail,
    })?;
    let mut object = object;
    let moved = migrate::migrate(call, info, object.clone(), manager, &query);
    match moved {
        Ok((moved, false)) => object = moved,
        Ok((_, true)) => {
            object = call.server()?.patch(&(info.path() + &query), PatchType::Apply, &info.object)?;
        }
        Err(fail) => call.print_err(&format!(
            "Warning: server rejected managed fields migration to Server-Side Apply. This is non-fatal and will be retried next time you apply. Error: {}",
            fail.message()
        )),
    }
    Ok((object, "serverside-applied"))
}

fn conflicts(status: &object::Status) -> String {
    let message = status.message();
    message.strip_prefix("Apply failed with ").unwrap_or(message).to_owned()
}

fn apply_client_side(
    call: &Invocation<'_>,
    info: &Info,
    dry_run: DryRun,
) -> Result<(Value, &'static str)> {
    let mut query = format!(
        "?fieldManager={}",
        match call.flags.text("field-manager") {
            "" => "kubectl-client-side-apply".to_owned(),
            given => escape(given),
        }
    );
    if dry_run == DryRun::Server {
        query += "&dryRun=All";
    }
    query += &format!("&fieldValidation={}", super::validation(call)?);
    let mut modified = info.object.clone();
    let annotation = last_applied(&modified, true);
    modified["metadata"]["annotations"][LAST_APPLIED] = annotation.as_str().into();
    named(info)?;
    let current = match call.server()?.get(&info.path()) {
        Ok(current) => current,
        Err(fail) if fail.is_not_found() => {
            if dry_run == DryRun::Client {
                return Ok((modified, "created"));
            }
            let path = info.resource.path(&info.namespace, "") + &query;
            let made = call
                .server()?
                .create(&path, &modified)
                .map_err(|fail| while_creating(fail, &info.source))?;
            return Ok((made, "created"));
        }
        Err(fail) => {
            let what = format!(
                "error when retrieving current configuration of:\n{}\nfrom server for: {}",
                describe(info),
                quote(&info.source)
            );
            return Err(fail.with_action(what));
        }
    };
    let last = current["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap_or_default();
    if last.is_empty() {
        call.print_err(&format!(
            "Warning: resource {}/{} is missing the {LAST_APPLIED} annotation which is required by kubectl apply. kubectl apply should only be used on resources created declaratively by either kubectl create --save-config or kubectl apply. The missing annotation will be patched automatically.",
            info.resource.plural, info.name
        ));
    }
    let (patch, kind) = patch_of(&modified, &current)?;
    if !call.flags.is_true("overwrite") {
        overwrite::check(&patch, &modified, &current, info)?;
    }
    if patch.entries().len() == 0 {
        return Ok((current, "unchanged"));
    }
    if dry_run == DryRun::Client {
        let mut patched = current;
        match kind {
            PatchType::Strategic => crate::merge::strategic(&mut patched, &patch)?,
            _ => crate::merge::merge_patch(&mut patched, &patch),
        }
        return Ok((patched, "configured"));
    }
    let mut sent = call.server()?.patch(&(info.path() + &query), kind, &patch);
    let mut tried = patch;
    if call.flags.is_true("force") && sent.as_ref().is_err_and(force::is_recreatable) {
        sent = force::delete_and_create(call, info, &modified, &current, &query);
        tried = modified;
    }
    let patched = sent.map_err(|fail| match &fail {
        CommandError::Server { status, .. } if status.has_reason("Invalid") => fail,
        _ => {
            let json = print::json::compact(&tried);
            fail.with_action(format!(
                "error when applying patch:\n{json}\nto:\n{}\nfor: {}",
                describe(info),
                quote(&info.source)
            ))
        }
    })?;
    Ok((patched, "configured"))
}

/// Fails if the object has no name.
fn named(info: &Info) -> Result<()> {
    if !info.name.is_empty() {
        return Ok(());
    }
    let generated = &info.object["metadata"]["generateName"];
    Err(CommandError::error(match generated.as_str() {
        None => format!(
            "error when retrieving current configuration of:\n{}\nfrom server for: {}: resource name may not be empty",
            describe(info),
            quote(&info.source)
        ),
        Some(generated) => format!("from {generated}: cannot use generate name with apply"),
    }))
}

/// The patch that turns `current` into `modified`, and its type.
pub(super) fn patch_of(modified: &Value, current: &Value) -> Result<(Value, PatchType)> {
    three_way(&original(current), modified, current)
}

/// The last applied configuration; null if there is none.
fn original(current: &Value) -> Value {
    let last = current["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap_or_default();
    object::from_json(last.as_bytes()).unwrap_or_default()
}

fn describe(info: &Info) -> String {
    format!(
        "Resource: {}, GroupVersionKind: {}\nName: {}, Namespace: {}",
        quote(&info.resource.gvr()),
        quote(&info.resource.gvk()),
        quote(&info.name),
        quote(&info.namespace)
    )
}

fn view(call: &Invocation<'_>) -> Result {
    let format = call.flags.text("output");
    if !matches!(format, "json" | "yaml" | "wide") {
        return Err(call.usage(format!(
            "Unexpected -o output mode: {format}, the flag 'output' must be one of yaml|json"
        )));
    }
    let infos = call.select_all_ok(
        call.args(),
        BuilderOptions {
            fetch: true,
            default_namespace: true,
            all_by_default: true,
            ..BuilderOptions::default()
        },
    )?;
    for info in infos {
        let last =
            info.object["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap_or_default();
        if last.is_empty() {
            continue;
        }
        let tree = object::from_json(last.as_bytes())
            .map_err(|error| CommandError::error(error.to_string()))?;
        call.print(&match format {
            "json" => indent_two(&tree),
            _ => object::yaml::to_yaml(&tree),
        });
    }
    Ok(())
}

fn indent_two(tree: &Value) -> String {
    let text = print::json::indented(tree);
    let halve = |line: &str| {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        format!("{}{}\n", " ".repeat(spaces / 2), &line[spaces..])
    };
    text.lines().map(halve).collect()
}

fn edit(call: &Invocation<'_>) -> Result {
    let output = OutputFormat::of(call, false)?;
    let how = BuilderOptions { fetch: true, default_namespace: true, ..BuilderOptions::default() };
    let infos = call.select_all_ok(call.args(), how)?;
    for info in infos {
        let last =
            info.object["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap_or_default();
        if last.is_empty() {
            return Err(CommandError::error(
                "no last-applied-configuration annotation found on resources, to create the annotation, use command `kubectl apply set-last-applied --create-annotation`",
            ));
        }
        let tree = object::from_json(last.as_bytes())
            .map_err(|error| CommandError::error(error.to_string()))?;
        let Some(edited) = super::edit::edited(call, &tree)? else { continue };
        let mut patch = Value::object();
        patch["metadata"]["annotations"][LAST_APPLIED] =
            (print::json::compact(&edited) + "\n").into();
        let query = format!("?fieldManager={}", escape(call.flags.text("field-manager")));
        let object = call.server()?.patch(&(info.path() + &query), PatchType::Merge, &patch)?;
        output.print(call, &object, "edited")?;
    }
    Ok(())
}

fn set(call: &Invocation<'_>) -> Result {
    let dry_run = DryRun::of(call)?;
    let output = OutputFormat::of(call, false)?;
    let (infos, fails) = call.select(&[], BuilderOptions::default())?;
    CommandError::collect(fails)?;
    for info in infos {
        let current = call.server()?.get(&info.path())?;
        let there = !current["metadata"]["annotations"][LAST_APPLIED].is_null();
        if !there && !call.flags.is_true("create-annotation") {
            return Err(CommandError::error(format!(
                "no last-applied-configuration annotation found on resource: {}, to create the annotation, run the command with --create-annotation",
                info.name
            )));
        }
        let mut patch = Value::object();
        patch["metadata"]["annotations"][LAST_APPLIED] =
            last_applied(&info.object, false).as_str().into();
        let mut object = current;
        if dry_run != DryRun::Client {
            let query = if dry_run == DryRun::Server { "?dryRun=All" } else { "" };
            object = call.server()?.patch(&(info.path() + query), PatchType::Merge, &patch)?;
        }
        output.print(call, &object, &format!("configured{}", dry_run.suffix()))?;
    }
    Ok(())
}
