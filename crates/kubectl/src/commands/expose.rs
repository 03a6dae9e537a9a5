//! `expose`: creates a Service for an existing workload.

mod service;

use super::{Command, DRY_RUN, DryRun, FIELD_MANAGER, FILES, write_query};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    print::{self, OutputFormat},
    record::{self, ChangeCause},
    select::BuilderOptions,
};

pub(crate) const COMMAND: Command = Command::new(
    "expose",
    &[
        FILES,
        DRY_RUN,
        FIELD_MANAGER,
        record::FLAGS,
        print::FLAGS,
        &[
            Flag::text("port"),
            Flag::text("target-port"),
            Flag::text("protocol"),
            Flag::text("name"),
            Flag::text("type"),
            Flag::text("selector"),
            Flag::text("labels").short('l'),
            Flag::text("external-ip"),
            Flag::text("load-balancer-ip"),
            Flag::text("cluster-ip"),
            Flag::text("session-affinity"),
            Flag::text("overrides"),
            Flag::text("override-type").default("merge"),
            Flag::bool("save-config"),
        ],
    ],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    let dry_run = DryRun::of(call)?;
    let output = OutputFormat::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-expose")?;
    // `--selector` is the Service's selector, and does not select objects.
    let (infos, mut fails) = call.select_plain(
        call.args(),
        BuilderOptions { fetch: !call.has_files(), ..BuilderOptions::default() },
    )?;
    let mut generator = service::Generator::new(call);
    for info in infos {
        let mut made = match generator.service(&info) {
            Ok(service) => service,
            Err(fail) => {
                fails.push(fail);
                continue;
            }
        };
        ChangeCause::of(call).annotate(&mut made);
        if dry_run != DryRun::Client {
            if call.flags.is_true("save-config") {
                super::create::annotate_declared(&mut made);
            }
            let path = format!("/api/v1/namespaces/{}/services{query}", info.namespace);
            match call.server()?.post(&path, &made) {
                Ok(service) => made = service,
                Err(fail) => {
                    fails.push(fail);
                    continue;
                }
            }
        }
        if dry_run == DryRun::Client {
            output.print_declared(call, &made, &format!("exposed{}", dry_run.suffix()))?;
        } else {
            output.print(call, &made, &format!("exposed{}", dry_run.suffix()))?;
        }
    }
    CommandError::collect(fails)
}
