//! `/statusz`: what this process is, for people.

use std::sync::Arc;

use object::Time;
use server::{Handle, Handling, Request, Server, plain_reply};

#[derive(Debug)]
pub(super) struct About {
    /// Since when it runs, in seconds since 1970.
    pub(super) since: i64,
}

impl Handle for About {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, _: Request) -> Handling<'a> {
        Box::pin(async move {
            let up = server.registry.clock().now() - self.since;
            let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
            let version = server.config.version.trim_start_matches('v');
            let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
            Ok(plain_reply(format!(
                "\n\napiserver statusz\nWarning: This endpoint is not meant to be machine parseable, \
                 has no formatting compatibility guarantees and is for debugging purposes only.\n\n\
                 Started= {}\nUp= {hours} hr {minutes:02} min {seconds:02} sec\n\
                 Binary version= {version}\nEmulation version= {minor}\n\
                 Paths= /healthz /livez /metrics /readyz /statusz /version\n",
                Time::text(self.since)
            )))
        })
    }
}
